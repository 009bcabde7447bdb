"""A queue volume that is full or fails: reported for the instance and what waits; other instances are preferred."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from efrit.api import EfritInstance, InstanceReason
from efrit.controller.decide.placement import least_loaded
from efrit.controller.decide.queue_health import health
from efrit.controller.decide.readiness import readiness
from efrit.controller.decide.requests import decide_request
from efrit.controller.model.actions import CancelWork, RequeueAfter, Submit
from efrit.controller.model.snapshots import InstanceSnapshot
from efrit.protocol.view import DiskProblem, DiskStats
from tests.support.factory import (
    NOW,
    condition,
    connected,
    instance,
    of_kind,
    ready,
    request,
    seconds,
    snapshot,
    stats,
    written,
)

FULL = DiskStats(total_bytes=1 << 30, total_inodes=65536, free_bytes=1 << 29, problem=DiskProblem.FULL)
FAILING = DiskStats(problem=DiskProblem.FAILING, message="could not write request a: Input/output error")
CLAIM = "The queue volume (PersistentVolumeClaim efrit-alpha-queue)"
SEEN = NOW + seconds(2)


def with_disk(disk: DiskStats, efrit_instance: EfritInstance | None = None, name: str = "alpha") -> InstanceSnapshot:
    return ready(efrit_instance or instance(name), bridge=connected(bridge_stats=stats(disk=disk)))


@pytest.mark.parametrize(
    ("disk", "spec", "reason", "words"),
    [
        (FULL, {}, "DiskFull", f"{CLAIM} is full, no inodes are left. Requests wait until there is room: incr"),
        (structs.replace(FULL, free_bytes=0, free_inodes=100), {}, "DiskFull", "no space is left"),
        (FULL, {"queue": {"ephemeral": True}}, "DiskFull", "The ephemeral queue volume of the pod is full"),
        (FULL, {"queue": {"existingClaim": "mine"}}, "DiskFull", "(PersistentVolumeClaim mine) is full"),
        (FAILING, {}, "DiskFailing", f"{CLAIM} fails: could not write request a: Input/output error."),
    ],
)
def test_an_instance_whose_queue_volume_takes_no_work_is_neither_ready_nor_healthy(
    disk: DiskStats, spec: dict[str, Any], reason: str, words: str
) -> None:
    instance_snapshot = with_disk(disk, instance(spec=spec))
    finding = readiness(instance_snapshot, NOW)
    queue_health = health(instance_snapshot.bridge.stats, instance_snapshot.instance)

    assert (finding.reason.value, queue_health.status.value, queue_health.reason.value) == (reason, "False", reason)
    assert words in finding.message
    assert words in queue_health.message


def test_a_volume_with_room_is_no_trouble_nor_is_a_bridge_that_reports_nothing_of_it() -> None:
    free = structs.replace(FULL, problem=None)
    assert readiness(with_disk(free), NOW).reason == InstanceReason.READY
    assert readiness(ready(), NOW).reason == InstanceReason.READY


def test_a_request_waits_for_the_volume_and_says_so() -> None:
    actions = decide_request(snapshot(target=with_disk(FULL)), SEEN)

    assert not of_kind(actions, Submit)
    status, reason, message = condition(written(actions), "Complete")
    assert (status, reason) == ("False", "InstanceNotReady")
    assert message.startswith(f"EfritInstance alpha takes no requests: {CLAIM} is full")
    assert of_kind(actions, RequeueAfter)


@pytest.mark.parametrize(("spec", "after"), [({"cancel": True}, 0), ({"queueTimeoutSeconds": 60}, 61)])
def test_cancel_and_queue_timeout_reach_a_bridge_whose_volume_is_full(spec: dict[str, Any], after: int) -> None:
    actions = decide_request(snapshot(request(**spec), target=with_disk(FULL)), NOW + seconds(after))

    assert of_kind(actions, CancelWork)


def test_work_that_may_go_anywhere_goes_where_there_is_room() -> None:
    full, free = with_disk(FULL, name="alpha"), ready(instance("beta"), open_requests=5)

    assert least_loaded([full, free]) == free
    assert least_loaded([full]) is None
