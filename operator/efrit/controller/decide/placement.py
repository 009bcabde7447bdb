"""Which instance gets a request that names none: the least loaded ready one."""

from __future__ import annotations

from collections.abc import Iterable

from efrit.api import InstanceReason, OperatingMode, condition_of
from efrit.api.instance import READY
from efrit.controller.decide.queue_volume import disk_problem
from efrit.controller.model.snapshots import InstanceSnapshot


def node_is_lost(instance: InstanceSnapshot) -> bool:
    """Return whether the instance is away because its node is lost, so that nobody knows when it comes back."""
    ready = condition_of(instance.instance.status.conditions, READY)
    return ready is not None and ready.reason == InstanceReason.NODE_LOST and not instance.available


def least_loaded(candidates: Iterable[InstanceSnapshot]) -> InstanceSnapshot | None:
    """Return the available instance with the fewest open requests, by name where equal; None if none is.

    One whose queue volume takes no work is not available.
    """
    ready = [
        candidate
        for candidate in candidates
        if candidate.accepts_requests and not candidate.held_for_update and disk_problem(candidate) is None
    ]
    return min(ready, key=lambda candidate: (candidate.load, candidate.instance.metadata.name), default=None)


def instance_to_wake(candidates: Iterable[InstanceSnapshot]) -> list[InstanceSnapshot]:
    """Return the one instance suspended for idleness that should be woken, if any."""
    asleep = [
        candidate
        for candidate in candidates
        if candidate.instance.spec.operating_mode == OperatingMode.RUNNING
        and candidate.instance.status.suspended_idle
    ]
    return sorted(asleep, key=lambda candidate: candidate.instance.metadata.name)[:1]
