"""A schedule is a function of its seed: the same on every machine, and it can be read."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache

import pytest

from tests.cluster.paths import REPOSITORY
from tests.support.faults.generators import node
from tests.support.faults.generators.light import FIXED, RARE, generate
from tests.support.faults.schedule import Op, Schedule, Theme, Trigger
from tests.support.faults.workload import Kind, RequestSpec

LEADER_BEGAN_ANEW = Trigger(300.0, noted=("SIGSTOP controller is over", "is started again"))
SEEDS = range(300)


@cache
def schedules() -> list[Schedule]:
    """Return those of all seeds: made by the fork that runs these tests, not by the process that collects for all."""
    return [generate(seed) for seed in SEEDS]


@cache
def every() -> list[Schedule]:
    return schedules() + [node.generate(seed) for seed in SEEDS]


def test_the_same_seed_is_the_same_schedule_in_another_process() -> None:
    module = "tests.support.faults.generators.light"
    code = f"from {module} import generate; [print(generate(seed).describe()) for seed in range(60)]"
    env = {**os.environ, "PYTHONHASHSEED": "7"}
    printed = subprocess.run([sys.executable, "-c", code], env=env, cwd=REPOSITORY, capture_output=True, check=True)
    assert printed.stdout.decode() == "".join(f"{schedule.describe()}\n" for schedule in schedules()[:60])


def test_different_seeds_are_different_schedules() -> None:
    bodies = {schedule.describe().partition("\n")[2] for schedule in schedules()}
    assert len(bodies) == len(schedules())


@pytest.mark.parametrize("theme", Theme)
def test_every_theme_comes_up(theme: Theme) -> None:
    assert any(schedule.theme is theme for schedule in every())


@pytest.mark.parametrize("op", Op)
def test_every_operation_comes_up(op: Op) -> None:
    assert any(step.op is op for schedule in every() for step in schedule.steps)


@pytest.mark.parametrize("kind", Kind)
def test_every_kind_of_request_comes_up(kind: Kind) -> None:
    assert any(request.kind is kind for schedule in schedules() for request in schedule.requests)


def test_what_a_user_suspends_a_user_resumes() -> None:
    for schedule in [*every(), generate(400_082)]:
        user_steps = [(step.target, step.op) for step in schedule.steps if step.op in (Op.SUSPEND, Op.RESUME)]
        for target in {target for target, _ in user_steps}:
            ops = [op for name, op in user_steps if name == target]
            assert ops == [Op.SUSPEND, Op.RESUME], f"{schedule.theme}-{schedule.seed}"


def test_seeds_that_take_minutes_are_rare_and_known() -> None:
    long = [schedule.seed for schedule in schedules() if any(step.seconds > 60 for step in schedule.steps)]
    assert long == [seed for seed in SEEDS if seed % 100 in RARE]


def markers(schedule: Schedule) -> list[str]:
    return [request.marker for request in schedule.requests]


def test_no_two_requests_share_a_marker() -> None:
    named = [marker for schedule in schedules() for marker in markers(schedule)]
    assert len(named) == len(set(named))


def test_every_request_may_end_somehow_and_what_is_cancelled_also_so() -> None:
    for schedule in schedules():
        for request in schedule.requests:
            reasons = {end.reason for end in request.ends()}
            assert reasons
            assert not request.cancelled or "Cancelled" in reasons


def test_each_attempt_of_what_ends_emacs_may_be_the_cancelled_one() -> None:
    request = RequestSpec("r", "s0w0", Kind.DIE, at=0.0, instance="one", attempts=2, cancelled=True)
    assert [end.runs for end in request.ends() if end.reason == "Cancelled"] == [(0, 1, 2)]


def test_a_pool_is_big_enough_in_the_end_for_what_waits() -> None:
    for schedule in schedules():
        sizes = [step.detail for step in schedule.steps if step.op is Op.SCALE]
        assert not sizes or int(sizes[-1]) > 0, schedule.describe()


def test_urgent_requests_of_some_pools_take_the_place_of_others() -> None:
    for some in (schedules(), [generate(seed) for seed in FIXED]):
        pools = [schedule for schedule in some if schedule.pool is not None and schedule.pool.preempts]
        assert pools
        for schedule in pools:
            requests = [request for request in schedule.requests if request.pool]
            least = min(request.priority for request in requests if request.attempts > 1)
            assert max(request.priority for request in requests) > least, schedule.describe()


def test_every_claim_of_a_schedule_is_ended_by_its_holder() -> None:
    for schedule in schedules():
        ended = {step.target for step in schedule.steps if step.op in (Op.RELEASE, Op.DELETE_CLAIM)}
        assert {claim.name for claim in schedule.claims} == ended


def test_the_fixed_seeds_have_a_pool_of_each_kind() -> None:
    pools = [pool for seed in FIXED if (pool := generate(seed).pool) is not None]
    assert {pool.ephemeral_queue for pool in pools} == {True, False}
    assert {pool.autoscaled for pool in pools} == {True, False}


@pytest.mark.parametrize(
    ("events", "due"),
    [
        ([], False),
        (["SIGSTOP controller", "efrit-operator-a is started again"], False),
        (["efrit-operator-a is started again", "SIGSTOP controller is over"], False),
        (["SIGSTOP controller is over", "SIGKILL Emacs"], False),
        (["SIGSTOP controller is over", "SIGKILL Emacs", "efrit-operator-a is started again"], True),
    ],
)
def test_a_step_that_follows_events_is_due_once_all_were_noted_in_their_order(events: list[str], due: bool) -> None:
    # However many are final by then.
    assert LEADER_BEGAN_ANEW.is_due(20.0, (), 1000, events) is due
