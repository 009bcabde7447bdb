"""What to do next about one instance: its children, its bridge connection, its idleness, its status."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from efrit.api import (
    ConditionStatus,
    EfritInstance,
    InstanceReason,
    InstanceStatus,
    OperatingMode,
    UpdateReason,
    condition_of,
    with_condition,
)
from efrit.api.instance import (
    EMACS_RESPONSIVE,
    QUEUE_HEALTHY,
    READY,
    SUSPENDED,
    UPDATED,
    InstancePhase,
    QueueStatus,
)
from efrit.controller.decide.actions import (
    Action,
    ApplyChildren,
    ConnectBridge,
    Delete,
    DisconnectBridge,
    Explain,
    LookAgain,
    PatchStatus,
    Record,
    ReserveUpdate,
)
from efrit.controller.decide.children import Children, Identity, build
from efrit.controller.decide.queue_health import health
from efrit.controller.decide.readiness import Finding, readiness
from efrit.controller.decide.rollout import Update, decide_update, nothing_runs
from efrit.controller.decide.views import InstanceSnapshot

RETRY_REFUSED = timedelta(seconds=30)
RETRY_EXPLAIN = timedelta(seconds=5)
THROTTLED_FIELDS = ("queue", "last_activity_time")

WARNED = {
    InstanceReason.CHILD_REFUSED,
    InstanceReason.IMAGE_PULL_FAILED,
    InstanceReason.CONFIG_MISSING,
    InstanceReason.VOLUME_PENDING,
    InstanceReason.UNSCHEDULABLE,
    InstanceReason.CRASH_LOOPING,
    InstanceReason.BRIDGE_UNREACHABLE,
    InstanceReason.NOT_RESPONDING,
}
EXPLAINABLE = {InstanceReason.CREATING, InstanceReason.STARTING, InstanceReason.VOLUME_PENDING}


def suspension(snapshot: InstanceSnapshot) -> InstanceReason | None:
    """Return why the instance is to be suspended, or None where it is to run."""
    if snapshot.instance.spec.operating_mode == OperatingMode.SUSPENDED:
        return InstanceReason.SUSPENDED
    idle = snapshot.instance.spec.idle
    may_sleep = idle is not None and idle.suspend_after_seconds is not None
    if may_sleep and snapshot.instance.status.suspended_idle and snapshot.open_requests == 0:
        return InstanceReason.SUSPENDED_IDLE
    return None


def decide_instance(snapshot: InstanceSnapshot, identity: Identity, now: datetime) -> list[Action]:
    """Return the next actions for an instance; an empty list waits for the next event."""
    instance = snapshot.instance
    if instance.metadata.deletion_timestamp is not None:
        return []
    idle = _idle_state(snapshot, now)
    if idle.delete:
        meta = instance.metadata
        return [
            _event(instance, "Normal", "IdleDeleted", "Deleted after spec.idle.deleteAfterSeconds without work."),
            Delete("EfritInstance", instance.key, meta.uid),
        ]
    actions: list[Action] = []
    why_suspended = suspension(snapshot)
    if why_suspended is None and idle.suspend:
        why_suspended = InstanceReason.SUSPENDED_IDLE
    replicas = 0 if why_suspended else 1
    children = build(instance, snapshot.config, identity, replicas, now)
    update, applying = _children(snapshot, children, replicas, now)
    actions += applying
    actions += _connection(snapshot)
    finding = _finding(snapshot, why_suspended, now)
    actions += _explanation(snapshot, finding, now)
    actions += _status(snapshot, finding, update, why_suspended, idle.suspended, now)
    if idle.look_again is not None:
        actions.append(LookAgain(idle.look_again))
    return actions


class _Idle:
    """What idleness asks for."""

    def __init__(
        self, *, suspend: bool = False, delete: bool = False, suspended: bool, look_again: timedelta | None = None
    ) -> None:
        self.suspend = suspend
        self.delete = delete
        self.suspended = suspended or suspend
        self.look_again = look_again


def _idle_state(snapshot: InstanceSnapshot, now: datetime) -> _Idle:
    instance = snapshot.instance
    idle = instance.spec.idle
    busy = snapshot.open_requests > 0 or _working(snapshot)
    if idle is None or busy:
        return _Idle(suspended=False)
    asleep = bool(instance.status.suspended_idle) and idle.suspend_after_seconds is not None
    since = _last_activity(snapshot) or now
    quiet = now - since
    waits: list[timedelta] = []
    delete_after = idle.delete_after_seconds
    if delete_after is not None:
        if quiet >= timedelta(seconds=delete_after):
            return _Idle(delete=True, suspended=asleep)
        waits.append(timedelta(seconds=delete_after) - quiet)
    suspend = False
    if idle.suspend_after_seconds is not None and instance.spec.operating_mode == OperatingMode.RUNNING:
        left = timedelta(seconds=idle.suspend_after_seconds) - quiet
        suspend = left <= timedelta(0)
        if not suspend:
            waits.append(left)
    return _Idle(suspend=suspend, suspended=asleep, look_again=min(waits, default=None))


def _working(snapshot: InstanceSnapshot) -> bool:
    stats = snapshot.bridge.stats
    return stats is not None and snapshot.available and (stats.processing > 0 or stats.pending > 0)


def _last_activity(snapshot: InstanceSnapshot) -> datetime | None:
    known = (
        snapshot.last_activity,
        snapshot.instance.status.last_activity_time,
        snapshot.instance.metadata.creation_timestamp,
    )
    return max((moment for moment in known if moment is not None), default=None)


def _children(
    snapshot: InstanceSnapshot, children: Children, replicas: int, now: datetime
) -> tuple[Update, list[Action]]:
    """Return what is decided about the pod template, and what to apply; all but the StatefulSet never waits."""
    wait = _refusal_stands_for(snapshot, now)
    update = decide_update(snapshot, children, replicas, now, refused=wait is not None)
    manifests: list[Mapping[str, Any]] = []
    if not _others_applied(snapshot, children):
        manifests += children.others
    if _statefulset_due(snapshot, children, update, replicas):
        manifests.append(children.statefulset_manifest(update.started, trial=update.trial))
    actions: list[Action] = []
    if update.reserve is not None:
        actions.append(ReserveUpdate(snapshot.instance.key, update.reserve))
    if wait is not None:
        actions.append(LookAgain(wait))
    elif manifests:
        meta = snapshot.instance.metadata
        actions.append(ApplyChildren(snapshot.instance.key, meta.generation, tuple(manifests), children.digest))
    if update.look_again is not None:
        actions.append(LookAgain(update.look_again))
    return update, actions


def _others_applied(snapshot: InstanceSnapshot, children: Children) -> bool:
    """Whether all children but the StatefulSet are known to be as wanted."""
    current = snapshot.statefulset
    known = (snapshot.applied_digest, current.children_hash if current is not None else None)
    return current is not None and children.digest in known and _accepted(snapshot) and not snapshot.resync


def _statefulset_due(snapshot: InstanceSnapshot, children: Children, update: Update, replicas: int) -> bool:
    """Whether to apply the StatefulSet now."""
    current = snapshot.statefulset
    if current is None or current.replicas != replicas or current.template_hash != children.template_digest:
        return update.apply
    same = (
        current.statefulset_hash == children.statefulset_digest
        and current.children_hash == children.digest
        and current.spec_hash == children.spec_digest
        and _accepted(snapshot)
        and not snapshot.resync
    )
    # It may take back what somebody else changed in the template, and so replace the pod.
    return not same and nothing_runs(snapshot)


def _accepted(snapshot: InstanceSnapshot) -> bool:
    """Whether the children of this generation are known to be accepted.

    The StatefulSet comes last: of a spec that was refused and taken back, its hash tells nothing about the others.
    """
    if snapshot.refused is not None:
        return False
    generation, status = snapshot.instance.metadata.generation, snapshot.instance.status
    if snapshot.applied_generation == generation:
        return True
    told = condition_of(status.conditions, READY)
    refused_before = told is not None and told.reason == InstanceReason.CHILD_REFUSED.value
    return status.observed_generation == generation and not refused_before


def _refusal_stands_for(snapshot: InstanceSnapshot, now: datetime) -> timedelta | None:
    """Return how long not to apply children that were just refused, or None where there is no reason to wait."""
    same_spec = snapshot.refused_generation == snapshot.instance.metadata.generation
    if snapshot.refused is None or snapshot.refused_time is None or not same_spec or snapshot.resync:
        return None
    left = snapshot.refused_time + RETRY_REFUSED - now
    return left if left > timedelta(0) else None


def _connection(snapshot: InstanceSnapshot) -> list[Action]:
    pod = snapshot.pod
    if pod is None or pod.ip is None or pod.phase not in ("Pending", "Running"):
        return [DisconnectBridge(snapshot.instance.key)] if snapshot.bridge.pod_uid is not None else []
    # A stopping pod drains: its last answers come over the same stream.
    meta = snapshot.instance.metadata
    return [ConnectBridge(snapshot.instance.key, meta.uid, pod.uid, pod.ip, pod.bridge_port)]


def _finding(snapshot: InstanceSnapshot, why_suspended: InstanceReason | None, now: datetime) -> Finding:
    if why_suspended is not None and snapshot.refused is None:
        return _rest(snapshot, why_suspended)
    return readiness(snapshot, now)


def _rest(snapshot: InstanceSnapshot, why_suspended: InstanceReason) -> Finding:
    if snapshot.pod is not None:
        return Finding(InstanceReason.SUSPENDING, "The pod is being stopped; running work may end first.")
    if why_suspended == InstanceReason.SUSPENDED_IDLE:
        return Finding(InstanceReason.SUSPENDED_IDLE, "Suspended for idleness: the next request wakes it.")
    return Finding(InstanceReason.SUSPENDED, "Suspended by spec.operatingMode: requests wait.")


def _explanation(snapshot: InstanceSnapshot, finding: Finding, now: datetime) -> list[Action]:
    if finding.reason not in EXPLAINABLE:
        return []
    began = snapshot.pod.created if snapshot.pod else snapshot.instance.metadata.creation_timestamp
    age = now - (began or now)
    if age < snapshot.config.explain_after:
        return [LookAgain(snapshot.config.explain_after - age)]
    return [Explain(snapshot.instance.key), LookAgain(RETRY_EXPLAIN)]


def _status(
    snapshot: InstanceSnapshot,
    finding: Finding,
    update: Update,
    why_suspended: InstanceReason | None,
    suspended_idle: bool,
    now: datetime,
) -> list[Action]:
    instance, old = snapshot.instance, snapshot.instance.status
    unheard = finding.reason == InstanceReason.STARTING and _found_ready_before(snapshot)
    if unheard and update.reserve is None:
        return []
    new = _new_status(snapshot, finding, update, why_suspended, suspended_idle, now)
    if new == old:
        return []
    throttled = _quiet(new) == _quiet(old)
    if throttled and snapshot.stats_written is not None:
        left = snapshot.stats_written + snapshot.config.stats_every - now
        if left > timedelta(0):
            return [LookAgain(left)]
    meta = instance.metadata
    actions: list[Action] = [
        PatchStatus("EfritInstance", instance.key, meta.uid, meta.resource_version, new.to_wire(), old.to_wire())
    ]
    before = condition_of(old.conditions, READY)
    if before is None or before.reason != finding.reason.value:
        if finding.reason in WARNED:
            actions.append(_event(instance, "Warning", finding.reason.value, finding.message))
        elif finding.reason in (InstanceReason.READY, InstanceReason.SUSPENDED, InstanceReason.SUSPENDED_IDLE):
            actions.append(_event(instance, "Normal", finding.reason.value, finding.message))
    told = condition_of(old.conditions, UPDATED)
    if update.reason == UpdateReason.FAILED and (told is None or told.reason != update.reason.value):
        actions.append(_event(instance, "Warning", update.reason.value, update.message))
    return actions


def _found_ready_before(snapshot: InstanceSnapshot) -> bool:
    """Whether an earlier controller found this pod ready, and this one has not heard from it yet, good or bad."""
    old, pod, bridge = snapshot.instance.status, snapshot.pod, snapshot.bridge
    before = condition_of(old.conditions, READY)
    return (
        before is not None
        and before.status == ConditionStatus.TRUE
        and pod is not None
        and not pod.deleting
        and (old.pod_name, old.start_time) == (pod.name, pod.started)
        and not bridge.connected
        and bridge.problem is None
    )


def _quiet(status: InstanceStatus) -> InstanceStatus:
    """Return the status without what is written at most every so often."""
    lasting = tuple(each for each in status.conditions if each.type != QUEUE_HEALTHY)
    return status.model_copy(update={"conditions": lasting, **dict.fromkeys(THROTTLED_FIELDS)})


def _new_status(
    snapshot: InstanceSnapshot,
    finding: Finding,
    update: Update,
    why_suspended: InstanceReason | None,
    suspended_idle: bool,
    now: datetime,
) -> InstanceStatus:
    old, generation = snapshot.instance.status, snapshot.instance.metadata.generation
    stats = snapshot.bridge.stats if snapshot.available else None
    ready = finding.reason == InstanceReason.READY
    is_suspended = why_suspended is not None and snapshot.pod is None
    true, false, unknown = ConditionStatus.TRUE, ConditionStatus.FALSE, ConditionStatus.UNKNOWN
    if stats is None:
        responsive = (unknown, InstanceReason.STARTING, "Emacs has not been heard of yet.")
    elif stats.emacs.alive and stats.emacs.responsive:
        responsive = (true, InstanceReason.RESPONDING, "Emacs gives signs of life.")
    else:
        responsive = (false, InstanceReason.NOT_RESPONDING, "Emacs gives no sign of life.")
    if why_suspended is not None:
        suspended = (true if is_suspended else false, *_rest(snapshot, why_suspended))
    else:
        suspended = (false, InstanceReason.RUNNING, "The instance is to run.")
    queue = health(stats, snapshot.instance.spec.queue.max_pending)
    conditions = old.conditions
    for kind, (status, reason, message) in {
        READY: (true if ready else false, finding.reason, finding.message),
        QUEUE_HEALTHY: (queue.status, queue.reason, queue.message),
        EMACS_RESPONSIVE: responsive,
        SUSPENDED: suspended,
        UPDATED: (update.status, update.reason, update.message),
    }.items():
        conditions = with_condition(conditions, kind, status, reason.value, message, generation=generation, now=now)
    if ready:
        phase = InstancePhase.READY
    elif finding.reason in (InstanceReason.SUSPENDED, InstanceReason.SUSPENDED_IDLE):
        phase = InstancePhase.SUSPENDED
    else:
        phase = InstancePhase.PENDING if finding.reason in _UNDER_WAY else InstancePhase.NOT_READY
    pod = snapshot.pod
    activity = _last_activity(snapshot)
    return InstanceStatus(
        phase=phase,
        observed_generation=generation,
        conditions=conditions,
        queue=_queue_status(snapshot) or old.queue,
        pod_name=pod.name if pod else None,
        emacs_version=(stats.emacs.version if stats else None) or old.emacs_version,
        image=pod.image if pod else old.image,
        start_time=pod.started if pod else None,
        last_activity_time=activity.replace(microsecond=0) if activity else None,
        suspended_idle=True if suspended_idle else None,
    )


_UNDER_WAY = {
    InstanceReason.CREATING,
    InstanceReason.STARTING,
    InstanceReason.ROLLING,
    InstanceReason.SUSPENDING,
    InstanceReason.VOLUME_PENDING,
}


def _queue_status(snapshot: InstanceSnapshot) -> QueueStatus | None:
    stats = snapshot.bridge.stats
    if stats is None or not snapshot.available:
        return None
    return QueueStatus(
        pending=stats.pending,
        processing=stats.processing,
        processed=stats.processed,
        succeeded=stats.succeeded,
        failed=stats.failed,
        interrupted=stats.interrupted,
        average_processing_seconds=round(stats.average_processing_seconds, 3),
        # Ages in tenths: a finer figure would differ at every look.
        oldest_pending_seconds=round(stats.oldest_pending_seconds, 1),
    )


def _event(instance: EfritInstance, kind: str, reason: str, message: str) -> Record:
    return Record(
        "EfritInstance",
        instance.key,
        instance.metadata.uid,
        "Warning" if kind == "Warning" else "Normal",
        reason,
        message,
    )
