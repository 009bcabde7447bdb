"""What to do next about one instance: its children, its bridge connection, its idleness, its status."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from typing import Any

from efrit.api import (
    Condition,
    ConditionStatus,
    EfritInstance,
    InstanceReason,
    InstanceStatus,
    UpdateReason,
    condition_of,
    with_condition,
)
from efrit.api.instance import (
    EMACS_RESPONSIVE,
    MAX_CONDITIONS,
    MODEL_READY,
    QUEUE_HEALTHY,
    READY,
    SELF_CHECK_PASSED,
    SUSPENDED,
    UPDATED,
    InstancePhase,
)
from efrit.controller.decide import figures, handover
from efrit.controller.decide.child_presence import missing_claims, observed_claims, secret_due, terminating_claims
from efrit.controller.decide.condition_state import ConditionState
from efrit.controller.decide.explanation import explanation
from efrit.controller.decide.idle import Idleness, idleness, last_activity, suspension_reason
from efrit.controller.decide.model_key import model_health
from efrit.controller.decide.queue_health import health
from efrit.controller.decide.readiness import (
    NOT_CREATED,
    NOT_MOUNTED,
    Finding,
    deletion_finding,
    first_heartbeat_remaining,
    readiness,
    termination_remaining,
)
from efrit.controller.decide.rollout import Update, decide_update, nothing_runs
from efrit.controller.decide.self_check import new_restart, restart_sentence, self_check_health
from efrit.controller.manifests import Children, Identity, build
from efrit.controller.manifests.pod_network_policy import build_pod_network_policy
from efrit.controller.model.actions import (
    Action,
    ApplyChildren,
    ApplySecret,
    ConfirmClaims,
    ConnectBridge,
    DisconnectBridge,
    IsolatePod,
    KeepChildren,
    PatchStatus,
    PauseHandover,
    Record,
    RemoveInstance,
    RequeueAfter,
    ReserveUpdate,
    ResumeHandover,
    StopPod,
    TakeFiguresTurn,
)
from efrit.controller.model.keys import Key
from efrit.controller.model.pauses import pause_remaining
from efrit.controller.model.snapshots import InstanceSnapshot
from efrit.log_format import escaped
from efrit.protocol.view import Stats

MAX_VERSION = 64
RETRY_REFUSED = timedelta(seconds=30)

WARNED = {
    InstanceReason.CHILD_REFUSED,
    InstanceReason.IMAGE_PULL_FAILED,
    InstanceReason.CONFIG_MISSING,
    InstanceReason.CLAIM_TERMINATING,
    InstanceReason.VOLUME_PENDING,
    InstanceReason.UNSCHEDULABLE,
    InstanceReason.CRASH_LOOPING,
    InstanceReason.NODE_LOST,
    InstanceReason.BRIDGE_UNREACHABLE,
    InstanceReason.BRIDGE_UNRESPONSIVE,
    InstanceReason.NOT_RESPONDING,
    InstanceReason.SELF_CHECK_FAILED,
    InstanceReason.DISK_FULL,
    InstanceReason.DISK_FAILING,
}
NO_DIGITS = str.maketrans("", "", "0123456789")
EMACS_RESTARTED = "EmacsRestarted"
"""Reason of the event for a restart because of the self-check."""

EXPLAINABLE = {InstanceReason.CREATING, InstanceReason.STARTING, InstanceReason.VOLUME_PENDING}


def decide_instance(
    snapshot: InstanceSnapshot, identity: Identity, now: datetime, *, early: bool = False
) -> list[Action]:
    """Return the next actions for an instance; an empty list waits for the next event.

    early: whether it is served before the others of its namespace are known.
    """
    instance = snapshot.instance
    if instance.metadata.deletion_timestamp is not None:
        return _while_deleted(snapshot, now)
    idle = idleness(snapshot, now)
    if idle.delete:
        return _delete_idle(instance)
    actions: list[Action] = []
    why_suspended = suspension_reason(snapshot, idle)
    if why_suspended is not None and snapshot.pod is not None and not snapshot.facts.handover_paused:
        actions.append(PauseHandover(instance.key))
    replicas = 0 if why_suspended else 1
    children = build(instance, snapshot.config, identity, replicas, now)
    update, applying = _children(snapshot, children, replicas, now)
    if early and update.reserve is not None:
        # Whose turn it is depends on all others: it is decided about again once they are known.
        return []  # gate: early-update
    actions += applying
    if why_suspended is None and snapshot.facts.handover_paused:
        actions.append(ResumeHandover(instance.key))
    actions += _connection(snapshot)
    finding = _finding(snapshot, why_suspended, now)
    if finding.reason in EXPLAINABLE or _rests_on_events(finding):
        actions += explanation(snapshot, now)
    actions += _status(snapshot, finding, update, why_suspended, idle, now)
    if idle.requeue_after is not None:
        actions.append(RequeueAfter(idle.requeue_after))
    check = handover.close_check(snapshot)
    if check is not None:
        actions.append(RequeueAfter(check))
    terminates = termination_remaining(snapshot, now)
    if terminates is not None and terminates > timedelta(0):
        actions.append(RequeueAfter(terminates))
    first_heartbeat = first_heartbeat_remaining(snapshot, now)
    if first_heartbeat:
        actions.append(RequeueAfter(first_heartbeat))
    return actions


def _while_deleted(snapshot: InstanceSnapshot, now: datetime) -> list[Action]:
    """Return what is done for an instance that is being deleted: its last answers come in, its status says so."""
    instance = snapshot.instance
    meta, old, finding = instance.metadata, instance.status, deletion_finding(snapshot, now)
    conditions = with_condition(
        old.conditions,
        READY,
        ConditionStatus.FALSE,
        finding.reason.value,
        escaped(finding.message),
        generation=meta.generation,
        now=now,
        most=MAX_CONDITIONS,
    )
    new = old.model_copy(update={"phase": InstancePhase.NOT_READY, "conditions": conditions})
    actions = _connection(snapshot)  # gate: deleting-connected
    if new != old:
        actions.append(
            PatchStatus("EfritInstance", instance.key, meta.uid, meta.resource_version, new.to_wire(), old.to_wire())
        )
    terminates = termination_remaining(snapshot, now)
    if terminates is not None and terminates > timedelta(0):
        actions.append(RequeueAfter(terminates))
    return actions


def decide_absent(key: Key) -> list[Action]:
    """Return what to do where an instance is known no more: its children go with it."""
    return [DisconnectBridge(key)]


def _delete_idle(instance: EfritInstance) -> list[Action]:
    meta = instance.metadata
    return [
        RemoveInstance(instance.key, meta.uid, meta.resource_version),
        _event(instance, "Normal", "IdleDeleted", "Deleted after spec.idle.deleteAfterSeconds without work."),
    ]


def _children(
    snapshot: InstanceSnapshot, children: Children, replicas: int, now: datetime
) -> tuple[Update, list[Action]]:
    """Return what is decided about the pod template, and what to apply.

    All but the StatefulSet never waits, except for a claim that is being deleted: that is not applied, and no pod is
    started on it.
    """
    if snapshot.too_large:  # gate: template-too-large
        update = decide_update(snapshot, children, replicas, now, refused=True)
        return update, [*_kept(snapshot, children, replicas), RequeueAfter(RETRY_REFUSED)]
    wait = _refusal_remaining(snapshot, now)
    update = decide_update(snapshot, children, replicas, now, refused=wait is not None)
    terminating = terminating_claims(snapshot)
    manifests: list[Mapping[str, Any]] = []
    are_applied = _are_applied(snapshot, children, claims_are_going=bool(terminating))
    if snapshot.facts.resync or not are_applied:
        manifests += [
            manifest for manifest in children.others if not _is_claim(manifest, terminating)
        ]  # gate: claim-adopted
    current = snapshot.statefulset
    starts = replicas > 0 and (current is None or current.replicas == 0)
    waits_for_claims = starts and bool(terminating)
    if not waits_for_claims and _statefulset_due(snapshot, children, update, replicas):  # gate: claim-deleted
        manifests.append(children.statefulset_manifest(update.started, trial=update.trial))
    actions: list[Action] = []
    meta = snapshot.instance.metadata
    if starts and children.statefulset["kind"] in {manifest["kind"] for manifest in manifests} and wait is None:
        claims = observed_claims(snapshot)
        actions += [ConfirmClaims(snapshot.instance.key, claims)] if claims else []
    if update.reserve is not None:
        actions.append(ReserveUpdate(snapshot.instance.key, update.reserve))
    if wait is not None:
        actions.append(RequeueAfter(wait))
    elif manifests:
        applied = tuple(manifests)
        resync = snapshot.facts.resync and are_applied
        actions.append(
            ApplyChildren(snapshot.instance.key, meta.uid, meta.generation, applied, children.digest, resync)
        )
    secret = next(manifest for manifest in children.others if manifest["kind"] == "Secret")
    if wait is None and secret not in manifests and secret_due(snapshot):
        actions.append(ApplySecret(snapshot.instance.key, meta.uid, meta.generation, secret))
    if wait is None:
        actions += _isolation(snapshot)
    if update.requeue_after is not None:
        actions.append(RequeueAfter(update.requeue_after))
    return update, actions


def _isolation(snapshot: InstanceSnapshot) -> list[Action]:
    """Return what gives the pod a NetworkPolicy of its own."""
    pod, meta = snapshot.pod, snapshot.instance.metadata
    if pod is not None and pod.uid != snapshot.facts.isolated_pod:  # gate: isolate-pod
        policy = build_pod_network_policy(snapshot.instance, snapshot.config, pod.name, pod.uid)
        return [IsolatePod(snapshot.instance.key, meta.uid, meta.generation, pod.uid, policy)]
    return []


KEPT = ("ServiceAccount", "NetworkPolicy")


def _kept(snapshot: InstanceSnapshot, children: Children, replicas: int) -> list[Action]:
    """Return what keeps safe what there is of an instance of whose spec nothing is made.

    Its Secret goes on being renewed and its network stays closed, without the rules of a spec.network that is not
    known; its pod is stopped where it is to be suspended, and not started again.
    """
    current, meta, key = snapshot.statefulset, snapshot.instance.metadata, snapshot.instance.key
    if current is None:
        return _isolation(snapshot)
    actions: list[Action] = []
    if replicas == 0 and current.replicas != 0:
        actions.append(StopPod(key, meta.uid, meta.generation, current.name, current.uid))
    manifests = tuple(manifest for manifest in children.others if manifest["kind"] in KEPT)
    actions.append(KeepChildren(key, meta.uid, meta.generation, manifests))
    if secret_due(snapshot):
        secret = next(manifest for manifest in children.others if manifest["kind"] == "Secret")
        actions.append(ApplySecret(key, meta.uid, meta.generation, secret))
    return [*actions, *_isolation(snapshot)]


def _is_claim(manifest: Mapping[str, Any], names: Collection[str]) -> bool:
    return manifest["kind"] == "PersistentVolumeClaim" and manifest["metadata"]["name"] in names


def _are_applied(snapshot: InstanceSnapshot, children: Children, *, claims_are_going: bool) -> bool:
    """Return whether all children but the StatefulSet were applied as wanted, as far as they can be now.

    claims_are_going: the StatefulSet may be missing because it waits for claims that are being deleted.
    """
    if snapshot.facts.child_missing or missing_claims(snapshot):
        return False
    current = snapshot.statefulset
    applied_digests = (snapshot.facts.applied_digest, current.children_hash if current is not None else None)
    return (
        (current is not None or claims_are_going)
        and children.digest in applied_digests
        and _children_accepted(snapshot)
    )


def _statefulset_due(snapshot: InstanceSnapshot, children: Children, update: Update, replicas: int) -> bool:
    """Return whether to apply the StatefulSet now."""
    current = snapshot.statefulset
    if current is None or current.replicas != replicas or current.template_hash != children.template_digest:
        return update.apply
    same = (
        current.statefulset_hash == children.statefulset_digest
        and current.children_hash == children.digest
        and current.spec_hash == children.spec_digest
        and _children_accepted(snapshot)
        and not snapshot.facts.resync
    )
    # It may take back what somebody else changed in the template, and so replace the pod.
    return not same and nothing_runs(snapshot)


def _children_accepted(snapshot: InstanceSnapshot) -> bool:
    """Return whether the children of this generation are known to be accepted.

    The StatefulSet comes last: of a spec that was refused and taken back, its hash says nothing about the others.
    """
    if snapshot.facts.refused is not None:
        return False
    generation, status = snapshot.instance.metadata.generation, snapshot.instance.status
    if snapshot.facts.applied_generation == generation:
        return True
    ready = condition_of(status.conditions, READY)
    refused_before = ready is not None and ready.reason == InstanceReason.CHILD_REFUSED.value
    return status.observed_generation == generation and not refused_before


def _refusal_remaining(snapshot: InstanceSnapshot, now: datetime) -> timedelta | None:
    """Return how long not to apply children that were just refused, or None where there is no reason to wait."""
    facts = snapshot.facts
    same_spec = facts.refused_generation == snapshot.instance.metadata.generation
    if facts.refused is None or facts.refused_time is None or not same_spec or facts.resync:
        return None
    return pause_remaining(facts.refused_time, RETRY_REFUSED, now) or None


def _connection(snapshot: InstanceSnapshot) -> list[Action]:
    pod = snapshot.pod
    if pod is None or pod.ip is None or pod.phase not in ("Pending", "Running"):
        return [DisconnectBridge(snapshot.instance.key)] if snapshot.bridge.pod_uid is not None else []
    # A stopping pod drains: its last answers come over the same stream.
    meta = snapshot.instance.metadata
    return [ConnectBridge(snapshot.instance.key, meta.uid, pod.uid, pod.ip, pod.bridge_port)]


def _finding(snapshot: InstanceSnapshot, why_suspended: InstanceReason | None, now: datetime) -> Finding:
    if why_suspended is not None and snapshot.facts.refused is None:
        return _suspension_finding(snapshot, why_suspended, now)
    return readiness(snapshot, now)


def _rests_on_events(finding: Finding) -> bool:
    """Return whether Kubernetes' events have said what is wrong, to this process or to one before."""
    return finding.message.startswith((NOT_CREATED, NOT_MOUNTED))


def _suspension_finding(snapshot: InstanceSnapshot, why_suspended: InstanceReason, now: datetime) -> Finding:
    remaining = termination_remaining(snapshot, now)
    if remaining is not None and remaining <= timedelta(0):
        # Suspending does not end the pod of a lost node either.
        return readiness(snapshot, now)
    if snapshot.pod is not None:
        return Finding(InstanceReason.SUSPENDING, "The pod is being stopped; running work may end first.")
    if why_suspended == InstanceReason.SUSPENDED_IDLE:
        return Finding(InstanceReason.SUSPENDED_IDLE, "Suspended for idleness: the next request wakes it.")
    return Finding(InstanceReason.SUSPENDED, "Suspended by spec.operatingMode: requests wait.")


def _requests_wait_for(new: InstanceStatus, old: InstanceStatus) -> bool:
    """Return whether requests wait for what the status is to say: each such write comes with a pod or a request."""
    wakes = bool(old.suspended_idle) and not new.suspended_idle
    return wakes or new.handover != old.handover  # gate: awaited-status


def _status(
    snapshot: InstanceSnapshot,
    finding: Finding,
    update: Update,
    why_suspended: InstanceReason | None,
    idle: Idleness,
    now: datetime,
) -> list[Action]:
    instance, old = snapshot.instance, snapshot.instance.status
    not_yet_heard = finding.reason == InstanceReason.STARTING and found_ready_before(snapshot)
    if not_yet_heard and update.reserve is None:
        return []
    new = _new_status(snapshot, finding, update, why_suspended, idle, now)
    if new == old:
        return []
    pause = figures.pause(snapshot, now)
    if pause > timedelta(0) and not _requests_wait_for(new, old):
        return [RequeueAfter(pause)]
    figures_alone = figures.differ_alone(new, old)
    if figures_alone:
        due = figures.due(snapshot, now)
        if due is not None and due > now:
            return [RequeueAfter(due - now)]
        remaining = figures.turn_remaining(snapshot, now)
        if remaining is None:
            return [TakeFiguresTurn(instance.key)]
        if remaining > timedelta(0):
            return [RequeueAfter(remaining)]
    meta = instance.metadata
    actions: list[Action] = [
        PatchStatus(
            "EfritInstance",
            instance.key,
            meta.uid,
            meta.resource_version,
            new.to_wire(),
            old.to_wire(),
            closes=new.handover != old.handover and handover.is_away(snapshot),
            figures_alone=figures_alone,
        )
    ]
    if _is_to_be_reported(condition_of(old.conditions, READY), condition_of(new.conditions, READY)):
        if finding.reason in WARNED:
            actions.append(_event(instance, "Warning", finding.reason.value, finding.message))
        elif finding.reason in (InstanceReason.READY, InstanceReason.SUSPENDED, InstanceReason.SUSPENDED_IDLE):
            actions.append(_event(instance, "Normal", finding.reason.value, finding.message))
    reported = condition_of(old.conditions, UPDATED)
    if update.reason == UpdateReason.FAILED and (reported is None or reported.reason != update.reason.value):
        actions.append(_event(instance, "Warning", update.reason.value, update.message))
    model = condition_of(new.conditions, MODEL_READY)
    if model is not None and model.status == ConditionStatus.FALSE:
        reported = condition_of(old.conditions, MODEL_READY)
        if reported is None or reported.reason != model.reason:
            actions.append(_event(instance, "Warning", model.reason, model.message))
    restart = new_restart(_running_pod_stats(snapshot), old)
    if restart is not None:
        actions.append(_event(instance, "Warning", EMACS_RESTARTED, restart_sentence(restart)))
    return actions


def _is_to_be_reported(before: Condition | None, after: Condition | None) -> bool:
    """Return whether an Event is to say why the instance is Ready or not: for another reason or refusal than before.

    Numbers do not make a refusal another one: what is used of a quota changes all the time.
    """
    if before is None or after is None or before.reason != after.reason:
        return True
    is_refusal = after.reason == InstanceReason.CHILD_REFUSED.value
    earlier, present = (condition.message.translate(NO_DIGITS) for condition in (before, after))
    return is_refusal and earlier != present  # gate: refused-anew


def _running_pod_stats(snapshot: InstanceSnapshot) -> Stats | None:
    """Return the figures of the running pod."""
    return snapshot.bridge.stats if snapshot.available else None


def found_ready_before(snapshot: InstanceSnapshot) -> bool:
    """Return whether an earlier controller found this pod ready and this one has not heard from it yet."""
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


def _new_status(
    snapshot: InstanceSnapshot,
    finding: Finding,
    update: Update,
    why_suspended: InstanceReason | None,
    idle: Idleness,
    now: datetime,
) -> InstanceStatus:
    old, generation = snapshot.instance.status, snapshot.instance.metadata.generation
    stats = _running_pod_stats(snapshot)
    ready = finding.reason == InstanceReason.READY
    is_suspended = why_suspended is not None and snapshot.pod is None
    true, false, unknown = ConditionStatus.TRUE, ConditionStatus.FALSE, ConditionStatus.UNKNOWN
    if stats is None or first_heartbeat_remaining(snapshot, now):
        responsive = ConditionState(unknown, InstanceReason.STARTING, "Emacs has not reported yet.")
    elif stats.emacs.alive and stats.emacs.responsive:
        responsive = ConditionState(true, InstanceReason.RESPONDING, "Emacs is responding.")
    elif stats.emacs.alive and stats.emacs.self_check_problem is not None:
        responsive = ConditionState(false, InstanceReason.SELF_CHECK_FAILED, "Emacs fails its self-check.")
    else:
        responsive = ConditionState(false, InstanceReason.NOT_RESPONDING, "Emacs is not responding.")
    if why_suspended is not None:
        suspended = ConditionState(
            true if is_suspended else false, *_suspension_finding(snapshot, why_suspended, now)
        )
    else:
        suspended = ConditionState(false, InstanceReason.RUNNING, "The instance is not suspended.")
    model = model_health(stats, snapshot.instance)
    # None leaves a condition as it is.
    states = {
        MODEL_READY: model,
        SELF_CHECK_PASSED: self_check_health(stats, old),
        READY: ConditionState(true if ready else false, finding.reason, finding.message),
        QUEUE_HEALTHY: health(stats, snapshot.instance),
        EMACS_RESPONSIVE: responsive,
        SUSPENDED: suspended,
        UPDATED: ConditionState(update.status, update.reason, update.message),
    }
    conditions = old.conditions
    if model is None:
        conditions = tuple(condition for condition in conditions if condition.type != MODEL_READY)
    for kind, state in states.items():
        if state is not None:
            status, reason, message = state
            text = escaped(message)  # gate: condition-text
            conditions = with_condition(
                conditions, kind, status, reason.value, text, generation=generation, now=now, most=MAX_CONDITIONS
            )
    if ready:
        phase = InstancePhase.READY
    elif finding.reason in (InstanceReason.SUSPENDED, InstanceReason.SUSPENDED_IDLE):
        phase = InstancePhase.SUSPENDED
    else:
        phase = InstancePhase.PENDING if finding.reason in _UNDER_WAY else InstancePhase.NOT_READY
    pod = snapshot.pod
    activity = last_activity(snapshot)
    return InstanceStatus(
        phase=phase,
        observed_generation=generation,
        conditions=conditions,
        queue=figures.queue_status(snapshot) or old.queue,
        pod_name=pod.name if pod else None,
        emacs_version=escaped((stats.emacs.version if stats else None) or "")[:MAX_VERSION] or old.emacs_version,
        image=pod.image if pod else old.image,
        start_time=pod.started if pod else None,
        last_activity_time=activity.replace(microsecond=0) if activity else None,
        suspended_idle=True if idle.suspended else None,
        handover=handover.next_handover(snapshot),
    )


_UNDER_WAY = {
    InstanceReason.CREATING,
    InstanceReason.STARTING,
    InstanceReason.ROLLING,
    InstanceReason.SUSPENDING,
    InstanceReason.CLAIM_TERMINATING,
    InstanceReason.VOLUME_PENDING,
}


def _event(instance: EfritInstance, kind: str, reason: str, message: str) -> Record:
    return Record(
        "EfritInstance",
        instance.key,
        instance.metadata.uid,
        "Warning" if kind == "Warning" else "Normal",
        reason,
        escaped(message),
    )
