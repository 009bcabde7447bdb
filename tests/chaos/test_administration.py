"""What administrators and clusters do beside a workload, one dense schedule for each: every promise holds.

The schedules are written down here; those of the generators vary the same faults.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.faults.generators.administration import IDLE_SECONDS, PLAIN, PROOF
from tests.support.faults.history import History
from tests.support.faults.light.cluster import LightCluster
from tests.support.faults.light.run import LightRun
from tests.support.faults.run import execute
from tests.support.faults.schedule import FileEffect, FileFault, Op, Schedule, Step, Theme, Trigger
from tests.support.faults.timeline import report
from tests.support.faults.workload import InstanceSpec, Kind, RequestSpec, SuspendedPlanSpec

CONTROLLER = "operator-0"
NEVER = 600.0
"""The latest moment of a step that waits for its trigger."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[LightCluster]:
    with LightCluster() as cluster:
        yield cluster


def request(
    name: str, kind: Kind = Kind.COUNT, at: float = 0.0, instance: str = "i1", seconds: float = 0.0
) -> RequestSpec:
    return RequestSpec(name, f"w-{name}", kind, at, instance, seconds=seconds)


def run_and_check(cluster: LightCluster, schedule: Schedule, tmp_path: Path) -> History:
    """Execute a schedule, and show violations with their timeline. Return the history."""
    verdict = execute(LightRun(cluster, schedule), tmp_path / "run")
    assert not verdict.violations, report(verdict.history, verdict.violations)
    return verdict.history


def test_work_and_plans_keep_instances_that_may_not_be_idle_so_long_over_restarts(
    cluster: LightCluster, tmp_path: Path
) -> None:
    instances = (
        PLAIN,
        InstanceSpec("i1", delete_after=IDLE_SECONDS),
        InstanceSpec("i2", suspend_after=IDLE_SECONDS, ephemeral_queue=True),
        InstanceSpec("i3", delete_after=IDLE_SECONDS + 1),
    )
    requests = (
        request("long", Kind.SLEEP, 0.1, "i1", IDLE_SECONDS + 5),
        request("waits", Kind.COUNT, 0.3, "i1"),
        request("awake", Kind.SLEEP, 0.1, "i2", IDLE_SECONDS + 4),
        # After i3 was idle for longer than it may be, but for its plan.
        request("late", Kind.COUNT, IDLE_SECONDS + 6, "i3"),
    )
    steps = (
        Step(Op.KILL_BRIDGE, Trigger(IDLE_SECONDS + 0.5), "i1"),
        Step(Op.KILL_CONTROLLER, Trigger(IDLE_SECONDS + 1.0), CONTROLLER, 0.5),
        Step(Op.KILL_CONTROLLER, Trigger(IDLE_SECONDS + 3.0), CONTROLLER),
    )
    schedule = Schedule(0, Theme.IDLE, instances, requests, steps, plans=(SuspendedPlanSpec("p1", "i3"),))
    history = run_and_check(cluster, schedule, tmp_path)
    deleted = {
        version.name: version.at
        for version in history.objects
        if version.kind == "efritinstances" and version.event == "DELETED"
    }
    # Of the others the first may be idle for long enough before a busy machine comes to the end.
    assert "i3" not in deleted
    worked = [version.at for version in history.versions if version.final and version.name in ("long", "waits")]
    assert deleted.get("i1", NEVER) > max(worked)


def test_an_upgrade_and_a_changed_template_wait_for_work_that_outlasts_its_pod(
    cluster: LightCluster, tmp_path: Path
) -> None:
    instances = (InstanceSpec("i1"), InstanceSpec("i2", ephemeral_queue=True))
    requests = (
        request("long", Kind.SLEEP, 0.1, "i1", 8.0),
        request("other", Kind.SLEEP, 0.1, "i2", 8.0),
        *(request(f"later{number}", Kind.COUNT, 0.5 + 2 * number, f"i{1 + number % 2}") for number in range(4)),
    )
    steps = (
        Step(Op.CHANGE, Trigger(1.0), "i2"),
        Step(Op.UPGRADE, Trigger(NEVER, running="long"), CONTROLLER),
        Step(Op.STOP_BRIDGE, Trigger(3.0), "i1", 2.0),
        Step(Op.KILL_CONTROLLER, Trigger(5.0), CONTROLLER),
    )
    history = run_and_check(cluster, Schedule(1, Theme.ROLLOUT, instances, requests, steps), tmp_path)
    # A short one may be cut off in a pod that is being replaced, on a busy machine, which the checker allows.
    ends = {version.name: version.status["reason"] for version in history.versions if version.final}
    assert (ends["long"], ends["other"]) == ("Succeeded", "Succeeded")
    assert len([loss for loss in history.losses if loss.held_back]) == 3


@pytest.mark.parametrize("fault", [Op.DELETE_TENANT, Op.FORBID_TENANT])
def test_a_namespace_that_goes_does_not_hold_up_another(cluster: LightCluster, tmp_path: Path, fault: Op) -> None:
    requests = (
        request("before", Kind.SLEEP, 0.1, seconds=3.0),
        *(request(f"after{number}", Kind.COUNT, 4.0 + number / 2) for number in range(3)),
    )
    # The second controller finds it gone, or forbidden, when it starts.
    steps = (Step(fault, Trigger(0.3)), Step(Op.KILL_CONTROLLER, Trigger(2.5), CONTROLLER))
    history = run_and_check(cluster, Schedule(2, Theme.TENANTS, (InstanceSpec("i1"),), requests, steps), tmp_path)
    assert history.tenant_fault_until is not None


def test_a_long_wait_for_a_pod_or_its_statefulset_is_reported_with_the_reason(
    cluster: LightCluster, tmp_path: Path
) -> None:
    instances = (InstanceSpec("i1"), InstanceSpec("i2", at=1.5))
    requests = (
        request("before"),
        request("kept", Kind.COUNT, 2.0, "i1"),
        request("refused", Kind.COUNT, 2.0, "i2"),
        replace(request("large", Kind.LARGE, 2.0, "i2"), size=50_000),
    )
    steps = (
        Step(Op.REFUSE, Trigger(0.1), seconds=14.0, detail="statefulsets"),
        Step(Op.KEEP_POD, Trigger(NEVER, answered=1), "i1", 13.0),
    )
    history = run_and_check(cluster, Schedule(3, Theme.TERMINATING, instances, requests, steps), tmp_path)
    reasons = {
        version.reason for version in history.versions if version.name in ("kept", "refused") and not version.final
    }
    assert reasons - {""}


def test_full_and_hanging_volumes_lose_nothing(cluster: LightCluster, tmp_path: Path) -> None:
    instances = (InstanceSpec("i1"), InstanceSpec("i2", ephemeral_queue=True))
    requests = tuple(
        replace(request(f"r{number}", kind, number / 3, f"i{1 + number % 2}"), counter=PROOF, size=50_000)
        for number, kind in enumerate((Kind.COUNT, Kind.COUNT, Kind.LARGE, Kind.LARGE, Kind.ERROR, Kind.COUNT) * 2)
    )
    hang = FileFault(FileEffect.HANG, "any", "fsync", "*", lasting=True)
    steps = (
        Step(Op.FILL, Trigger(0.5), "i1", 1.5, detail="queue bytes"),
        Step(Op.FILE, Trigger(0.8), "i2", 1.5, file=hang),
        Step(Op.FILL, Trigger(2.4), "i1", 1.0, detail="queue inodes"),
        # It takes a pod.
        Step(Op.FILL, Trigger(NEVER, running="r1"), "i2", 1.0, detail="workspace bytes"),
        Step(Op.KILL_CONTROLLER, Trigger(1.2), CONTROLLER),
    )
    history = run_and_check(cluster, Schedule(4, Theme.VOLUMES, instances, requests, steps), tmp_path)
    assert history.hits["fill a volume of"] == 3
