"""Which instance gets a request that names none: the least loaded ready one."""

from __future__ import annotations

from collections.abc import Iterable

from efrit.api import InstanceReason, OperatingMode, condition_of
from efrit.api.instance import READY
from efrit.api.pool import PlacementStrategy
from efrit.controller.decide.queue_volume import disk_problem
from efrit.controller.model.snapshots import InstanceSnapshot, PoolPlace


def node_is_lost(instance: InstanceSnapshot) -> bool:
    """Return whether the instance is away because its node is lost, so that nobody knows when it comes back."""
    ready = condition_of(instance.instance.status.conditions, READY)
    return ready is not None and ready.reason == InstanceReason.NODE_LOST and not instance.available


def takes_requests(instance: InstanceSnapshot) -> bool:
    """Return whether a request may be bound to the instance now: its queue volume and its Emacs take work."""
    is_free = instance.accepts_requests and not instance.held_for_update and disk_problem(instance) is None
    return is_free and instance.bridge.takes_work  # gate: emacs-takes-work


def choose_member(members: Iterable[InstanceSnapshot], place: PoolPlace) -> InstanceSnapshot | None:
    """Return the member of a pool that gets the request; None while all that have room are for those ahead of it.

    One that sleeps is woken once those that are awake have no more room.
    """
    free = [member for member in members if member.load < place.max_load]
    if place.ahead < place.awake:
        free = [member for member in free if takes_requests(member)]
    elif place.ahead < place.awake + place.asleep:
        free = [member for member in free if sleeps(member)]
    else:
        free = []
    packed = place.strategy == PlacementStrategy.PACKED
    return min(
        free,
        key=lambda member: (-member.load if packed else member.load, member.instance.metadata.name),
        default=None,
    )


def sleeps(instance: InstanceSnapshot) -> bool:
    """Return whether an instance is suspended for idleness, so that work wakes it."""
    running = instance.instance.spec.operating_mode == OperatingMode.RUNNING
    return running and bool(instance.instance.status.suspended_idle)


def least_loaded(candidates: Iterable[InstanceSnapshot]) -> InstanceSnapshot | None:
    """Return the available instance with the fewest open requests, by name where equal; None if none is."""
    ready = [instance for instance in candidates if takes_requests(instance)]
    return min(ready, key=lambda instance: (instance.load, instance.instance.metadata.name), default=None)


def instance_to_wake(candidates: Iterable[InstanceSnapshot]) -> list[InstanceSnapshot]:
    """Return the one instance suspended for idleness that should be woken, if any."""
    asleep = [candidate for candidate in candidates if sleeps(candidate)]
    return sorted(asleep, key=lambda candidate: candidate.instance.metadata.name)[:1]
