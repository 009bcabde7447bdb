"""Whether an instance is idle, and what follows: suspension, deletion, or another decision later.

One value, made by `idleness` and passed whole. Nothing else decides about idleness; what is applied or deleted for it
is in instances.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from efrit.api import EfritInstance, InstanceReason, OperatingMode
from efrit.controller.model.instance_facts import InstanceFacts
from efrit.controller.model.snapshots import InstanceSnapshot


@dataclass(frozen=True, slots=True)
class Idleness:
    """What the idle rules of an instance ask for at one moment."""

    suspended: bool = False
    """Whether it has no pod for idleness: since before, or from now on."""
    delete: bool = False
    requeue_after: timedelta | None = None
    """When the next of its rules applies, if nothing happens until then."""


def idleness(snapshot: InstanceSnapshot, now: datetime) -> Idleness:
    """Return what idleness asks for.

    An instance with work is never idle. Otherwise nothing new is decided before this process knows all of its work:
    until then an instance that sleeps goes on sleeping, and one that runs goes on running.
    """
    rules, mode = snapshot.instance.spec.idle, snapshot.instance.spec.operating_mode
    if rules is None or has_work(snapshot):
        return Idleness()
    asleep = bool(snapshot.instance.status.suspended_idle) and rules.suspend_after_seconds is not None
    if not _work_is_known(snapshot):
        return Idleness(suspended=asleep)
    quiet = now - (_quiet_since(snapshot) or now)
    waits: list[timedelta] = []
    # A suspended plan goes on from its repository, which is on the volumes.
    if rules.delete_after_seconds is not None and snapshot.suspended_plans == 0:  # gate: suspended-plan
        remaining = timedelta(seconds=rules.delete_after_seconds) - quiet
        if remaining <= timedelta(0):
            return Idleness(suspended=asleep, delete=True)
        waits.append(remaining)
    if rules.suspend_after_seconds is not None and mode == OperatingMode.RUNNING and not asleep:
        remaining = timedelta(seconds=rules.suspend_after_seconds) - quiet
        if remaining <= timedelta(0):
            asleep = True
        else:
            waits.append(remaining)
    return Idleness(suspended=asleep, requeue_after=min(waits, default=None))


def suspension_reason(snapshot: InstanceSnapshot, idle: Idleness) -> InstanceReason | None:
    """Return why the instance has no pod, or is to have none; None where it is to run."""
    if snapshot.instance.spec.operating_mode == OperatingMode.SUSPENDED:
        return InstanceReason.SUSPENDED
    return InstanceReason.SUSPENDED_IDLE if idle.suspended else None


def has_work(snapshot: InstanceSnapshot) -> bool:
    """Return whether the instance has work: an open request, a plan that goes on, files in its queue.

    What is done in one that an exclusive claim has need not be a request: somebody may type into it.
    """
    stats = snapshot.bridge.stats
    queued = stats is not None and snapshot.available and (stats.processing > 0 or stats.pending > 0)
    return snapshot.claimed or snapshot.open_requests > 0 or snapshot.active_plans > 0 or queued


def _quiet_since(snapshot: InstanceSnapshot) -> datetime | None:
    """Return since when the instance has nothing to do: it is not idle while it starts, however long that takes.

    Only the first time that its pod is Ready counts: one whose Ready comes and goes would never be idle.
    """
    moments = (last_activity(snapshot), snapshot.facts.first_ready)
    return max((moment for moment in moments if moment is not None), default=None)


def last_activity(snapshot: InstanceSnapshot) -> datetime | None:
    """Return when the instance last had work; its creation counts, too."""
    return last_activity_of(snapshot.instance, snapshot.facts)


def last_activity_of(instance: EfritInstance, facts: InstanceFacts) -> datetime | None:
    """Return when an instance last had work, by its status and what this process knows."""
    latest = facts.last_activity
    # Each claim has this done for all idle members of a pool.
    for moment in (instance.status.last_activity_time, instance.metadata.creation_timestamp):
        if moment is not None and (latest is None or moment > latest):
            latest = moment
    return latest


def _work_is_known(snapshot: InstanceSnapshot) -> bool:
    """Return whether this process knows all work the instance may have.

    Open requests and plans are known once all were listed. What runs in a pod is known from its own bridge, or
    because nothing of it runs.
    """
    pod = snapshot.pod
    return snapshot.listed and (pod is None or snapshot.available or not pod.may_run)  # gate: idle-known
