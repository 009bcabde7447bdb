"""What administrators and clusters do beside work, one dense plan for each: every promise holds on what was seen.

The plans are written down here; those of `seeds_operations.py` vary the same faults.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.faults.generators.administration import IDLE_SECONDS, PLAIN, PROOF
from tests.support.faults.history import History
from tests.support.faults.light.cluster import Ground
from tests.support.faults.light.run import Stage
from tests.support.faults.run import play
from tests.support.faults.schedule import Do, FileFate, FileFault, Plan, Step, Theme, When
from tests.support.faults.timeline import report
from tests.support.faults.workload import InstancePlan, Kind, SuspendedPlan, Work

pytestmark = pytest.mark.timeout(600)

CONTROLLER = "operator-0"
NEVER = 600.0
"""The latest moment of what waits for something else to happen."""


@pytest.fixture(scope="module")
def ground() -> Iterator[Ground]:
    with Ground() as made:
        yield made


def work(name: str, kind: Kind = Kind.COUNT, at: float = 0.0, instance: str = "i1", seconds: float = 0.0) -> Work:
    return Work(name, f"w-{name}", kind, at, instance, seconds=seconds)


def held(ground: Ground, plan: Plan, tmp_path: Path) -> History:
    """Play a plan; what it breaks is shown with its timeline. Return what was seen."""
    verdict = play(Stage(ground, plan), tmp_path / "run")
    assert not verdict.violations, report(verdict.history, verdict.violations)
    return verdict.history


def test_work_and_plans_keep_instances_that_may_not_be_idle_so_long_over_restarts(
    ground: Ground, tmp_path: Path
) -> None:
    made = (
        PLAIN,
        InstancePlan("i1", delete_after=IDLE_SECONDS),
        InstancePlan("i2", suspend_after=IDLE_SECONDS, ephemeral_queue=True),
        InstancePlan("i3", delete_after=IDLE_SECONDS + 1),
    )
    asked = (
        work("long", Kind.SLEEP, 0.1, "i1", IDLE_SECONDS + 5),
        work("waits", Kind.COUNT, 0.3, "i1"),
        work("awake", Kind.SLEEP, 0.1, "i2", IDLE_SECONDS + 4),
        # After i3 was idle for longer than it may be, but for its plan.
        work("late", Kind.COUNT, IDLE_SECONDS + 6, "i3"),
    )
    steps = (
        Step(Do.KILL_BRIDGE, When(IDLE_SECONDS + 0.5), "i1"),
        Step(Do.KILL_CONTROLLER, When(IDLE_SECONDS + 1.0), CONTROLLER, 0.5),
        Step(Do.KILL_CONTROLLER, When(IDLE_SECONDS + 3.0), CONTROLLER),
    )
    plan = Plan(0, Theme.IDLE, made, asked, steps, plans=(SuspendedPlan("p1", "i3"),))
    history = held(ground, plan, tmp_path)
    assert not [each for each in history.objects if each.kind == "efritinstances" and each.event == "DELETED"]


def test_an_upgrade_and_a_changed_template_wait_for_work_that_outlasts_its_pod(
    ground: Ground, tmp_path: Path
) -> None:
    made = (InstancePlan("i1"), InstancePlan("i2", ephemeral_queue=True))
    asked = (
        work("long", Kind.SLEEP, 0.1, "i1", 8.0),
        work("other", Kind.SLEEP, 0.1, "i2", 8.0),
        *(work(f"later{number}", Kind.COUNT, 0.5 + 2 * number, f"i{1 + number % 2}") for number in range(4)),
    )
    steps = (
        Step(Do.CHANGE, When(1.0), "i2"),
        Step(Do.UPGRADE, When(NEVER, running="long"), CONTROLLER),
        Step(Do.STOP_BRIDGE, When(3.0), "i1", 2.0),
        Step(Do.KILL_CONTROLLER, When(5.0), CONTROLLER),
    )
    history = held(ground, Plan(1, Theme.ROLLOUT, made, asked, steps), tmp_path)
    assert {each.status["reason"] for each in history.versions if each.final} == {"Succeeded"}
    assert len([each for each in history.losses if each.held]) == 3


@pytest.mark.parametrize("fault", [Do.DELETE_TENANT, Do.FORBID_TENANT])
def test_a_namespace_that_goes_does_not_hold_up_another(ground: Ground, tmp_path: Path, fault: Do) -> None:
    asked = (
        work("before", Kind.SLEEP, 0.1, seconds=3.0),
        *(work(f"after{number}", Kind.COUNT, 4.0 + number / 2) for number in range(3)),
    )
    # The second controller finds it gone, or forbidden, when it starts.
    steps = (Step(fault, When(0.3)), Step(Do.KILL_CONTROLLER, When(2.5), CONTROLLER))
    history = held(ground, Plan(2, Theme.TENANTS, (InstancePlan("i1"),), asked, steps), tmp_path)
    assert history.suffered_until is not None


def test_who_waits_for_a_pod_or_its_statefulset_for_long_is_told_why(ground: Ground, tmp_path: Path) -> None:
    made = (InstancePlan("i1"), InstancePlan("i2", at=1.5))
    asked = (
        work("before"),
        work("kept", Kind.COUNT, 2.0, "i1"),
        work("refused", Kind.COUNT, 2.0, "i2"),
        replace(work("large", Kind.LARGE, 2.0, "i2"), size=50_000),
    )
    steps = (
        Step(Do.REFUSE, When(0.1), seconds=14.0, detail="statefulsets"),
        Step(Do.KEEP_POD, When(NEVER, answered=1), "i1", 13.0),
    )
    history = held(ground, Plan(3, Theme.TERMINATING, made, asked, steps), tmp_path)
    reasons = {each.reason for each in history.versions if each.name in ("kept", "refused") and not each.final}
    assert reasons - {""}


def test_full_and_hanging_volumes_lose_nothing(ground: Ground, tmp_path: Path) -> None:
    made = (InstancePlan("i1"), InstancePlan("i2", ephemeral_queue=True))
    asked = tuple(
        replace(work(f"r{number}", kind, number / 3, f"i{1 + number % 2}"), counter=PROOF, size=50_000)
        for number, kind in enumerate((Kind.COUNT, Kind.COUNT, Kind.LARGE, Kind.LARGE, Kind.ERROR, Kind.COUNT) * 2)
    )
    hang = FileFault(FileFate.HANG, "any", "fsync", "*", lasting=True)
    steps = (
        Step(Do.FILL, When(0.5), "i1", 1.5, detail="queue bytes"),
        Step(Do.FILE, When(0.8), "i2", 1.5, file=hang),
        Step(Do.FILL, When(2.4), "i1", 1.0, detail="queue inodes"),
        Step(Do.FILL, When(2.6), "i2", 1.0, detail="workspace bytes"),
        Step(Do.KILL_CONTROLLER, When(1.2), CONTROLLER),
    )
    history = held(ground, Plan(4, Theme.VOLUMES, made, asked, steps), tmp_path)
    assert history.hits["fill a volume of"] == 3
