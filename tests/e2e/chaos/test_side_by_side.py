"""Leaders change, pods are deleted and evicted, instances change, a namespace goes, side by side; one is cut off."""

from __future__ import annotations

import pytest

from tests.e2e.chaos.conftest import ExecuteAll, RecordedRun
from tests.e2e.chaos.schedules import DRAIN_SECONDS, durable, ephemeral, schedule, steady, step, step_once_noted
from tests.support.faults.schedule import Op, Schedule, Step, Trigger
from tests.support.faults.workload import InstanceSpec

pytestmark = pytest.mark.alone

FROZEN_SECONDS = 18.0
"""Longer than a lease (15 s), shorter than what the kubelet's liveness probe suffers (30 s)."""


def led() -> Schedule:
    """Its leader is frozen beyond its lease, thawed, and once it has begun anew, all are upgraded under load."""
    early = (*steady("a", 10, seconds=0.3), *steady("b", 40, seconds=0.3, span=24.0))
    late = steady("i", 20, seconds=0.3, span=10.0, after=Op.ROLL_CONTROLLER)
    return schedule(
        [ephemeral()],
        (*early, *late),
        step(Op.STOP_CONTROLLER, 4, "leader", FROZEN_SECONDS),
        # An upgrade before would replace its pod: the one that takes over answers many meanwhile.
        step_once_noted(Op.ROLL_CONTROLLER, f"{Op.STOP_CONTROLLER.value} is over", "is started again"),
    )


def removed() -> Schedule:
    return schedule(
        [durable(), ephemeral("two")],
        (*steady("c", 20, span=8.0), *steady("d", 12, instance="two", span=8.0)),
        step(Op.EVICT_POD, 4, "one"),
        step(Op.FORCE_POD, 20, "one"),
        step(Op.DELETE_POD, 8, "two"),
    )


def partitioned() -> Schedule:
    return schedule(
        [ephemeral()],
        steady("e", 16, seconds=3.0, span=1.0),
        # Few and slow: by then all have been handed over, however busy the machine is. Who is cut off gets no more.
        Step(Op.CUT_BRIDGE, Trigger(120, answered=8), "one", 12.0),
        # None becomes final before it is back.
        Step(Op.KILL_EMACS, Trigger(120, answered=12), "one"),
    )


def rearranged() -> Schedule:
    return schedule(
        [durable()],
        steady("f", 30, span=10.0),
        step(Op.CHANGE, 4, "one"),
        Step(Op.SUSPEND, Trigger(7.0), "one"),
        Step(Op.RESUME, Trigger(14.0), "one"),
    )


def vanishing() -> Schedule:
    return schedule(
        [InstanceSpec("one", drain_seconds=DRAIN_SECONDS), ephemeral("two")],
        (*steady("g", 16, seconds=0.5, span=1.0), *steady("h", 16, instance="two", span=6.0)),
        step(Op.DELETE_NAMESPACE, 6),
    )


@pytest.fixture(scope="module")
def runs(execute_all: ExecuteAll) -> dict[str, RecordedRun]:
    schedules = [led(), removed(), rearranged(), vanishing()]
    names = ("led", "removed", "rearranged", "vanishing")
    return dict(zip(names, execute_all(*schedules, controllers=2), strict=True))


@pytest.fixture(scope="module")
def partitioned_run(execute_all: ExecuteAll) -> RecordedRun:
    """Execute it by itself: a leader that another run freezes would not hand over what is to run meanwhile."""
    (run,) = execute_all(partitioned(), controllers=2)
    return run


def test_a_leader_that_was_frozen_beyond_its_lease_does_nothing_twice(runs: dict[str, RecordedRun]) -> None:
    run = runs["led"]
    run.check()
    assert run.reasons().get("Interrupted", 0) == 0
    assert run.began_between(run.first_noted(Op.ROLL_CONTROLLER.value), run.history.ended_at) > 0


def test_a_leader_that_was_frozen_beyond_its_lease_ends_and_begins_anew(runs: dict[str, RecordedRun]) -> None:
    run = runs["led"]
    names = [note.event.removeprefix("it is ") for note in run.history.notes if note.event.startswith("it is efrit")]
    assert run.first_noted(f"{names[0]} is started again") > run.first_noted(f"{Op.STOP_CONTROLLER.value} is over")


def test_pods_that_are_evicted_or_deleted_lose_nothing(runs: dict[str, RecordedRun]) -> None:
    runs["removed"].check()


def test_a_bridge_that_is_cut_off_goes_on_and_its_answers_are_stored_when_it_is_back(
    partitioned_run: RecordedRun,
) -> None:
    run = partitioned_run
    run.check()
    cut, healed = run.fault_span(Op.CUT_BRIDGE)
    stored = {request.marker: final.at for request, final in run.finals()}
    # What a controller had received before may still be stored.
    meanwhile = [execution.marker for execution in run.history.ran if cut < execution.written < healed]
    assert meanwhile, run.diagnostics()
    assert not [marker for marker in meanwhile if stored[marker] < healed], "it was not cut off"


def test_an_instance_that_is_changed_suspended_and_resumed_loses_nothing(runs: dict[str, RecordedRun]) -> None:
    runs["rearranged"].check()


def test_a_namespace_that_is_deleted_while_work_runs_goes_and_nothing_in_it_runs_twice(
    runs: dict[str, RecordedRun],
) -> None:
    runs["vanishing"].check()
