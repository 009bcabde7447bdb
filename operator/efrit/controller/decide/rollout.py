"""When a changed pod template may replace a running pod, and what the condition `Updated` says meanwhile.

A change is applied at once where nothing can be running. Otherwise it waits until figures of this very pod, heard by
this process, show that nothing runs; after `max_hold` new requests are held back until that is so. Few instances are
updated at a time, and a release that its first instances do not survive is not rolled out further.

The status comes first: `Updated` is Unknown before the template is applied, so that whoever leads next counts the
instance among those being updated. From then on nothing new is handed to it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from efrit.api import Condition, ConditionStatus, InstanceReason, UpdateReason, condition_of
from efrit.api.instance import READY, UPDATED
from efrit.controller.decide.readiness import not_taken_up, readiness
from efrit.controller.manifests import Children
from efrit.controller.model import names
from efrit.controller.model.pauses import pause_remaining
from efrit.controller.model.rollout import RolloutView, UpdateCause, UpdateSlot
from efrit.controller.model.snapshots import InstanceSnapshot
from efrit.controller.model.views import StatefulSetView

UP_TO_DATE = "The pod template is up to date."
REPLACED = "The pod is being replaced by one with the current template."
WAITING = frozenset({UpdateReason.HELD, UpdateReason.QUEUED, UpdateReason.STOPPED, UpdateReason.REFUSED})
MAX_FIRST = 2
"""Instances that get a release which none has survived yet, at most one of each namespace: of two namespaces, so that
one tenant's work or broken instance does not decide for all."""
RETRY_QUEUED = timedelta(seconds=30)
"""A slot that becomes free is announced to those that wait: this is for announcements that were missed."""


@dataclass(frozen=True, slots=True)
class Update:
    """What is decided about the pod template of an instance."""

    status: ConditionStatus
    reason: UpdateReason
    message: str
    apply: bool = False
    """Whether the StatefulSet may be applied with the wanted template."""
    reserve: UpdateCause | None = None
    """The cause of an update that begins now: the status says so first."""
    started: datetime | None = None
    """When the update of a running pod began, for the StatefulSet."""
    trial: bool = False
    requeue_after: timedelta | None = None


def decide_update(
    snapshot: InstanceSnapshot, children: Children, replicas: int, now: datetime, *, refused: bool = False
) -> Update:
    """Return whether the wanted pod template may be applied now, and what to say of it.

    `refused`: the API server has just refused an object of this spec, and it is too early to try again.
    Creating, suspending and resuming an instance replaces no running pod: the template is taken at once.
    """
    current = snapshot.statefulset
    if current is None or replicas == 0 or current.replicas != replicas:
        return Update(ConditionStatus.TRUE, UpdateReason.UP_TO_DATE, UP_TO_DATE, apply=True)
    if current.template_hash == children.template_digest:
        return _progress(snapshot, current, now)
    if refused:
        message = "The API server refused the changed pod template or another object: see the condition Ready."
        return Update(ConditionStatus.FALSE, UpdateReason.REFUSED, message)
    return _change(snapshot, current, children, now)


def _progress(snapshot: InstanceSnapshot, current: StatefulSetView, now: datetime) -> Update:
    """Follow an update whose template is applied, until the new pod was Ready once."""
    started, reported, pod = current.update_started, _updated_condition(snapshot), snapshot.pod
    has_template = pod is not None and pod.template_hash == current.template_hash
    is_ready = has_template and readiness(snapshot, now).reason == InstanceReason.READY
    # A change that was taken back while it waited leaves the update before it as it was.
    was_ready = reported is not None and (reported.status == ConditionStatus.TRUE or reported.reason in WAITING)
    unchanged = Update(
        ConditionStatus.TRUE,
        UpdateReason.UP_TO_DATE,
        UP_TO_DATE,
        apply=True,
        started=started,
        trial=current.update_trial,
    )
    if started is None or is_ready or was_ready:
        return unchanged
    deadline = snapshot.config.rollout.progress_deadline
    # In this order: no time that somebody has written overflows.
    remaining = deadline - (now - started)
    if remaining <= timedelta(0):
        message = (
            f"The instance did not become Ready within {_seconds(deadline)} s after its pod template changed: "
            f"see the condition Ready.{not_taken_up(snapshot)}"
        )
        return replace(unchanged, status=ConditionStatus.FALSE, reason=UpdateReason.FAILED, message=message)
    until_late = snapshot.config.explain_after - (now - started)
    is_late = until_late <= timedelta(0)
    return replace(
        unchanged,
        status=ConditionStatus.UNKNOWN,
        reason=UpdateReason.UPDATING,
        message=f"{REPLACED}{not_taken_up(snapshot)}" if is_late else REPLACED,
        requeue_after=remaining if is_late or current.taken_up else min(remaining, until_late),
    )


def _change(snapshot: InstanceSnapshot, current: StatefulSetView, children: Children, now: datetime) -> Update:
    """Decide about a template that differs from the one applied."""
    cause = _cause(current, children)
    pod, reported, limits = snapshot.pod, _updated_condition(snapshot), snapshot.config.rollout
    absent = pod is None or pod.deleting
    if _broken(snapshot) or (absent and cause == UpdateCause.SPEC):
        # What was in doubt stays in doubt until the instance is Ready.
        at_once = Update(ConditionStatus.TRUE, UpdateReason.UP_TO_DATE, UP_TO_DATE, apply=True)
        if not _failed_trial(current, reported):
            return at_once
        return replace(
            at_once,
            status=ConditionStatus.UNKNOWN,
            reason=UpdateReason.UPDATING,
            message=REPLACED,
            started=current.update_started,
            trial=True,
        )
    stopped = _stop_reason(snapshot) if cause == UpdateCause.RELEASE else None  # gate: release-stopped
    if stopped is not None:
        return Update(ConditionStatus.FALSE, UpdateReason.STOPPED, stopped, requeue_after=RETRY_QUEUED)
    held_since = (
        reported.last_transition_time if reported is not None and reported.status == ConditionStatus.FALSE else now
    )
    overdue = pause_remaining(held_since, limits.max_hold, now)
    silence = _silence_remaining(snapshot, now)
    idle = absent or _proven_idle(snapshot) or (not snapshot.available and silence <= timedelta(0))
    if reported is not None and (reported.status, reported.reason) == (
        ConditionStatus.UNKNOWN,
        UpdateReason.DRAINING.value,
    ):
        if idle:
            trial = cause == UpdateCause.RELEASE and _was_ready(snapshot)
            return _draining(apply=True, started=now, trial=trial)
        return _draining(requeue_after=RETRY_QUEUED)
    held = snapshot.claimed and not absent
    if (held or not idle) and overdue > timedelta(0):
        waits = max(timedelta(seconds=1), min(overdue, silence) if not snapshot.available else overdue)
        return Update(ConditionStatus.FALSE, UpdateReason.HELD, _hold_reason(snapshot), requeue_after=waits)
    limit_reached = _reached_limit(snapshot, cause, now)
    if limit_reached is not None:
        return Update(ConditionStatus.FALSE, UpdateReason.QUEUED, limit_reached, requeue_after=RETRY_QUEUED)
    return _draining(reserve=cause)


def _draining(
    *,
    apply: bool = False,
    reserve: UpdateCause | None = None,
    started: datetime | None = None,
    trial: bool = False,
    requeue_after: timedelta | None = None,
) -> Update:
    message = "The changed pod template is applied when no request runs; new requests wait until then."
    return Update(
        ConditionStatus.UNKNOWN,
        UpdateReason.DRAINING,
        message,
        apply=apply,
        reserve=reserve,
        started=started,
        trial=trial,
        requeue_after=requeue_after,
    )


def _updated_condition(snapshot: InstanceSnapshot) -> Condition | None:
    return condition_of(snapshot.instance.status.conditions, UPDATED)


def _cause(current: StatefulSetView, children: Children) -> UpdateCause:
    """Return who changed the template; of one that an older operator applied, the installation did."""
    same = current.spec_hash is None or current.spec_hash == children.spec_digest
    return UpdateCause.RELEASE if same else UpdateCause.SPEC


def _broken(snapshot: InstanceSnapshot) -> bool:
    """Return whether the pod exists and Emacs cannot run in it: it crashes, or waits for an image or a node."""
    pod, stats = snapshot.pod, snapshot.bridge.stats
    if pod is None or pod.deleting:
        return False
    if snapshot.available and stats is not None and stats.emacs.alive:  # gate: bridge-sees-emacs
        # The kubelet reports a container that has started some time later.
        return False
    if pod.phase in ("Succeeded", "Failed"):
        return True
    return not any(container.name == names.EMACS_CONTAINER and container.running for container in pod.containers)


def _proven_idle(snapshot: InstanceSnapshot) -> bool:
    """Return whether figures of this pod, heard by this process, show that nothing runs and nothing is about to."""
    stats = snapshot.bridge.stats
    if not snapshot.available or stats is None:
        return False  # gate: figures-of-pod
    if not snapshot.listed:
        # One that is recorded on its ephemeral queue may be handed over any moment, and is not known yet.
        return False  # gate: listed-before-update
    return stats.processing == 0 and stats.pending == 0 and snapshot.unfinished == 0  # gate: proven-idle


def nothing_runs(snapshot: InstanceSnapshot) -> bool:
    """Return whether replacing the pod now interrupts no request."""
    pod = snapshot.pod
    return pod is None or pod.deleting or _broken(snapshot) or _proven_idle(snapshot)


def _silence_remaining(snapshot: InstanceSnapshot, now: datetime) -> timedelta:
    """Return how long the bridge may still be silent before the change is applied without its figures."""
    started = snapshot.pod.started if snapshot.pod else None
    moments = (snapshot.bridge.lost_since, snapshot.controller_started, started)
    since = max((moment for moment in moments if moment is not None), default=now)
    # In this order: no time that somebody has written overflows.
    return snapshot.config.rollout.max_hold - (now - since)


def _was_ready(snapshot: InstanceSnapshot) -> bool:
    ready = condition_of(snapshot.instance.status.conditions, READY)
    deleting = snapshot.pod is not None and snapshot.pod.deleting
    return deleting or (ready is not None and ready.status == ConditionStatus.TRUE)


def _failed_trial(current: StatefulSetView, reported: Condition | None) -> bool:
    return current.update_trial and (reported is None or reported.status != ConditionStatus.TRUE)


def _hold_reason(snapshot: InstanceSnapshot) -> str:
    if not snapshot.available:
        return "The changed pod template waits: the bridge of the pod has not said yet whether a request runs."
    if snapshot.claimed:
        return "The changed pod template waits for the end of the EfritClaim that has the instance."
    return "The changed pod template waits for the running requests to end."


def _stop_reason(snapshot: InstanceSnapshot) -> str | None:
    """Say why the current release is not rolled out to this instance, None where it may be.

    A failure stops its own namespace. It stops every other only while no instance has survived the update, or once
    instances of two namespaces have not: what one tenant does to its instances must not hold up all others.
    """
    view: RolloutView = snapshot.rollout
    own = snapshot.instance.key
    failed = [failed_instance for failed_instance in view.failed if failed_instance != own]
    nearby = next((name for namespace, name in failed if namespace == own[0]), None)
    deadline = _seconds(snapshot.config.rollout.progress_deadline)
    if nearby is not None:
        return (
            f"The update is stopped: EfritInstance {nearby} did not become Ready within {deadline} s after it. "
            "It goes on when that instance is Ready, or with another release of the operator."
        )
    if failed and (view.succeeded == 0 or len({namespace for namespace, _ in failed}) > 1):
        return (
            f"The update is stopped: instances of other namespaces did not become Ready within {deadline} s after "
            "it. It goes on when they are Ready, or with another release of the operator."
        )
    return None


def _reached_limit(snapshot: InstanceSnapshot, cause: UpdateCause, now: datetime) -> str | None:
    """Say which bound is reached, None where one more instance may be updated."""
    limits, (namespace, name) = snapshot.config.rollout, snapshot.instance.key
    active_slots = [
        slot
        for slot in snapshot.rollout.slots
        if (slot.namespace, slot.name) != (namespace, name)
        and _counts_towards_limit(slot, limits.progress_deadline, now)
    ]
    nearby = sum(1 for slot in active_slots if slot.namespace == namespace)
    if nearby >= limits.max_concurrent_per_namespace:
        return "The changed pod template waits: other instances of the namespace are being updated."
    if cause != UpdateCause.RELEASE:
        return None
    releases = [slot.namespace for slot in active_slots if slot.cause == UpdateCause.RELEASE]
    if len(releases) >= limits.max_concurrent:
        return "The changed pod template waits: other instances are being updated."
    untried = snapshot.rollout.succeeded == 0  # gate: release-trial
    if untried and (namespace in releases or len(releases) >= MAX_FIRST):
        return "The changed pod template waits: the first instances with the new release are not Ready yet."
    return None


def _counts_towards_limit(slot: UpdateSlot, deadline: timedelta, now: datetime) -> bool:
    """Return whether an update still keeps others waiting: endless work must not, nor a status that nobody writes.

    A time well in the future was written by somebody else.
    """
    return abs(now - slot.since) < (deadline if slot.draining else 2 * deadline)


def _seconds(duration: timedelta) -> int:
    return round(duration.total_seconds())
