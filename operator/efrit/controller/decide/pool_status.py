"""What the status of a pool says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta

from efrit.api import ConditionStatus, PoolReason, PoolStatus, condition_of, with_condition
from efrit.api.pool import (
    AVAILABLE,
    BACKLOGGED,
    MAX_FLOW_CHARS,
    MAX_REVISIONS,
    PROGRESSING,
    SCALING_ACTIVE,
    SCALING_LIMITED,
    LastScale,
    PoolFlow,
    PoolRevisionMembers,
    UpdateType,
)
from efrit.controller.decide.condition_state import ConditionState
from efrit.controller.decide.pool_revision import failed_member
from efrit.controller.decide.pool_scaling import Scaling
from efrit.controller.decide.status_limits import with_stop
from efrit.controller.model.actions import Action, PatchStatus, RequeueAfter
from efrit.controller.model.names import POOL_LABEL
from efrit.controller.model.pauses import pause_remaining
from efrit.controller.model.pools import MemberView, PoolSnapshot

FIGURES_EVERY = timedelta(seconds=5)
"""Counts that change while members work are written at most this often."""
ANY_EVERY = timedelta(seconds=1)
"""What else changes is written at once, and then at most this often."""
BACKLOGGED_AFTER = timedelta(seconds=2)
"""A request that waits for less does not make the pool Backlogged: each one waits for a moment."""
CHANGE_REFUSAL = (
    "Change what refuses it, such as a ResourceQuota, LimitRange or admission policy of the namespace, or ask for "
    "less in spec.template. The operator tries again."
)
NOT_LIMITED = ConditionState(
    ConditionStatus.FALSE, PoolReason.WITHIN_BOUNDS, "spec.replicas sets the number of members."
)
FIGURES = ("idle", "busy", "pending", "oldest_pending_time", "flows")


def pool_status(
    snapshot: PoolSnapshot, sized: Scaling, create: int, draining: frozenset[str], now: datetime
) -> list[Action]:
    """Return the write of the status where it is due, or when it will be."""
    pool = snapshot.pool
    old, new = pool.status, _status(snapshot, sized, create, draining, now)
    later = _requeue_for_backlog(snapshot, now)
    if new == old:
        return later
    if snapshot.status_written is not None:
        only_figures = old.model_copy(update={name: getattr(new, name) for name in FIGURES}) == new
        pause = FIGURES_EVERY if only_figures else ANY_EVERY
        left = pause_remaining(snapshot.status_written, pause, now)
        if left:  # gate: pool-status-pause
            return [*later, RequeueAfter(left)]
    meta = pool.metadata
    return [*later, PatchStatus("EfritPool", pool.key, meta.uid, meta.resource_version, new.to_wire(), old.to_wire())]


def _status(
    snapshot: PoolSnapshot, sized: Scaling, create: int, draining: frozenset[str], now: datetime
) -> PoolStatus:
    pool = snapshot.pool
    members = [member for member in snapshot.members if not member.deleting]
    staying = [member for member in members if member.name not in draining]
    serving = [member for member in staying if member.ready]
    conditions = pool.status.conditions
    for kind, state in (
        (AVAILABLE, _available(snapshot, sized.wanted, len(serving))),
        (PROGRESSING, _progressing(snapshot, create, len(members) - len(staying), now)),
        (BACKLOGGED, _backlogged(snapshot, now)),
        (SCALING_ACTIVE, _scaling_active(sized)),
        (SCALING_LIMITED, sized.limited or NOT_LIMITED),
    ):
        conditions = with_condition(
            conditions,
            kind,
            state.status,
            state.reason.value,
            state.message,
            generation=pool.metadata.generation,
            now=now,
        )
    return PoolStatus(
        observed_generation=pool.metadata.generation,
        desired_replicas=sized.wanted,
        last_scale=_last_scale(snapshot, sized, now),
        selector=f"{POOL_LABEL}={pool.metadata.name}",
        replicas=len(staying),
        ready=len(serving),
        idle=sum(not member.has_work for member in serving),
        busy=sum(member.has_work for member in members),
        draining=len(members) - len(staying),
        suspended=sum(member.asleep for member in staying),
        pending=snapshot.pending,
        oldest_pending_time=snapshot.oldest_pending,
        flows=tuple(
            PoolFlow(name=name[:MAX_FLOW_CHARS], running=running, pending=waiting)
            for name, running, waiting in snapshot.flows
        ),
        revision=snapshot.revision,
        updated=sum(member.revision == snapshot.revision for member in staying),
        updated_ready=sum(member.revision == snapshot.revision for member in serving),
        revisions=_revisions(snapshot, members, serving),
        conditions=conditions,
    )


def _revisions(
    snapshot: PoolSnapshot, members: Sequence[MemberView], serving: Sequence[MemberView]
) -> tuple[PoolRevisionMembers, ...]:
    """Return how many members have which template; of very many templates those with the most members."""
    counts = Counter(filter(None, (member.revision for member in members)))
    ready = Counter(filter(None, (member.revision for member in serving)))
    ordered = sorted(counts, key=lambda revision: (revision != snapshot.revision, -counts[revision], revision))
    return tuple(
        PoolRevisionMembers(revision=revision, replicas=counts[revision], ready=ready[revision])
        for revision in ordered[:MAX_REVISIONS]
    )


def _last_scale(snapshot: PoolSnapshot, sized: Scaling, now: datetime) -> LastScale | None:
    old = snapshot.pool.status
    before = old.desired_replicas
    if sized.recommendation is None or before is None or before == sized.wanted:
        return old.last_scale
    # A status that had to wait reports a change that was decided earlier.
    cause = snapshot.scale_cause if sized.wanted == snapshot.desired else sized.reason
    return LastScale.model_validate({"from": before, "to": sized.wanted, "reason": cause, "time": now})


def _scaling_active(sized: Scaling) -> ConditionState:
    if sized.recommendation is None:
        message = "spec.replicas sets the number of members."
        return ConditionState(ConditionStatus.FALSE, PoolReason.REPLICAS_GIVEN, message)
    message = "spec.autoscaling decides the number of members."
    return ConditionState(ConditionStatus.TRUE, PoolReason.AUTOSCALING, message)


def _available(snapshot: PoolSnapshot, wanted: int, serving: int) -> ConditionState:
    if wanted == 0 and snapshot.pool.spec.autoscaling is not None:
        message = "No member is needed: the next request starts one."
        return ConditionState(ConditionStatus.TRUE, PoolReason.SCALED_TO_ZERO, message)
    if wanted == 0:
        message = "spec.replicas is 0: requests of the pool wait until it is larger."
        return ConditionState(ConditionStatus.FALSE, PoolReason.SCALED_TO_ZERO, message)
    asleep = any(member.asleep for member in snapshot.members)
    if serving or asleep:
        return ConditionState(ConditionStatus.TRUE, PoolReason.MEMBER_READY, "At least one member takes requests.")
    return ConditionState(ConditionStatus.FALSE, PoolReason.NO_MEMBER_READY, "No member is Ready yet.")


def _progressing(snapshot: PoolSnapshot, create: int, draining: int, now: datetime) -> ConditionState:
    refusal, template = snapshot.refusal, snapshot.template
    if snapshot.has_too_many:
        message = (
            f"More than {len(snapshot.members)} EfritInstances have this pool as their owner: somebody else creates "
            "some. Only so many count, and the surplus without work is deleted; no further one is made. Install the "
            "chart with admissionPolicy.enabled, so that the operator alone makes members."
        )
        return ConditionState(ConditionStatus.FALSE, PoolReason.TOO_MANY_MEMBERS, message)
    if template is None:
        message = "spec.template is larger than 128 KiB of JSON: shorten it."
        return ConditionState(ConditionStatus.FALSE, PoolReason.MEMBER_REFUSED, message)
    if refusal is not None and create:
        message = f"The API server refuses the next member: {refusal.sentence}"
        return ConditionState(ConditionStatus.FALSE, PoolReason.MEMBER_REFUSED, message)
    refused = next((member for member in snapshot.members if member.refused), None)
    if refused is not None:
        message = f"EfritInstance {refused.name} gets no pod: {with_stop(str(refused.refused))} {CHANGE_REFUSAL}"
        return ConditionState(ConditionStatus.FALSE, PoolReason.MEMBER_REFUSED, message)
    failed, strategy = failed_member(snapshot, now), snapshot.pool.spec.update_strategy
    if failed is not None:
        message = (
            f"EfritInstance {failed.name}, which has the current template, is not Ready within "
            f"{strategy.progress_deadline_seconds} s (updateStrategy.progressDeadlineSeconds): "
            f"{failed.ready_message} No further one is made; members of the former template stay. "
            f"{_way_back(snapshot)}"
        )
        return ConditionState(ConditionStatus.FALSE, PoolReason.REVISION_FAILED, message)
    outdated = any(member.revision != snapshot.revision for member in snapshot.members)
    if outdated and strategy.type == UpdateType.ROLLING_UPDATE:
        message = "Members are replaced by ones of the current template."
        return ConditionState(ConditionStatus.TRUE, PoolReason.UPDATING, message)
    if create or any(not member.ready and not member.asleep for member in snapshot.members):
        return ConditionState(ConditionStatus.TRUE, PoolReason.CREATING, "Members are being created.")
    if draining:
        message = "Surplus members are deleted once they have no work."
        return ConditionState(ConditionStatus.TRUE, PoolReason.REMOVING, message)
    message = "All members exist and have the current template."
    if outdated:
        message = f"All members exist; updateStrategy.type {strategy.type} keeps those of a former template."
    return ConditionState(ConditionStatus.TRUE, PoolReason.MEMBERS_UNCHANGED, message)


def _way_back(snapshot: PoolSnapshot) -> str:
    """Return what to do about a template with which a member does not become Ready."""
    meta = snapshot.pool.metadata
    if any(revision.digest != snapshot.revision for revision in snapshot.history or ()):
        undo = f"`efrit rollout undo -n {meta.namespace} {meta.name}`"
        return f"Correct spec.template, or restore the template before it: {undo}."
    return "Correct spec.template, or apply the former one."


def _waits_long(snapshot: PoolSnapshot, now: datetime) -> bool:
    oldest = snapshot.oldest_pending
    return oldest is not None and now - oldest >= BACKLOGGED_AFTER  # gate: backlogged-after


def _backlogged(snapshot: PoolSnapshot, now: datetime) -> ConditionState:
    before = condition_of(snapshot.pool.status.conditions, BACKLOGGED)
    goes_on = before is not None and before.status == ConditionStatus.TRUE
    if snapshot.pending and (goes_on or _waits_long(snapshot, now)):
        message = "Requests wait for a member with room for them."
        return ConditionState(ConditionStatus.TRUE, PoolReason.REQUESTS_WAITING, message)
    message = f"No request of the pool has waited for {BACKLOGGED_AFTER.seconds} s for a member."
    return ConditionState(ConditionStatus.FALSE, PoolReason.REQUESTS_PLACED, message)


def _requeue_for_backlog(snapshot: PoolSnapshot, now: datetime) -> list[Action]:
    """Return when to reconcile again, as the oldest request that waits will have waited for long by then."""
    oldest = snapshot.oldest_pending
    if not snapshot.pending or oldest is None or _waits_long(snapshot, now):
        return []
    return [RequeueAfter(oldest + BACKLOGGED_AFTER - now)]
