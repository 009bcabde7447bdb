"""Decides about a pool: which members to create, which get no more requests, which are deleted, and what to say.

A member that has work drains before it is deleted. The members of an older template are replaced as
spec.updateStrategy says: where the new template does not become Ready, the old ones stay.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from efrit.api.pool import UpdateType
from efrit.controller.decide.pool_disruption import disruption_budget
from efrit.controller.decide.pool_history import pool_history
from efrit.controller.decide.pool_revision import drain_is_over, failed_member, next_moment, stands_in
from efrit.controller.decide.pool_scaling import Scaling, scaling
from efrit.controller.decide.pool_status import pool_status
from efrit.controller.manifests.pool_member import pool_member
from efrit.controller.model.actions import (
    Action,
    CreateMember,
    Drain,
    RemoveInstance,
    RequeueAfter,
    Scale,
)
from efrit.controller.model.keys import Key
from efrit.controller.model.pools import MemberView, PoolSnapshot

CREATED_AT_ONCE = 16
"""In one reconciliation; others have their turn before the next."""
AT_ONCE = timedelta(0)
REFILL_PAUSE = timedelta(seconds=1)
"""After a claim has taken a member, or one has come back, few others are started for so long, or none."""
START_SECONDS = 2
"""A member that is started is not Ready before."""
REFILLED_AT_ONCE = 2
"""Members that are started at a time while claims take others and some are left."""
SLOW_CLAIMS = 2
"""So many claims a second leave the API server room for the start of members."""
FAST_CLAIMS = 10
"""No start of members keeps up with so many claims a second: it would have those wait that get one that is there."""
AMPLE_SHARE = 4
"""While fewer come, none is started as long as more than one in so many of those wanted has no work."""
FAST_AMPLE_SECONDS = 0.25
"""While more come, none is started as long as those without work last for so many seconds."""


@dataclass(frozen=True, slots=True)
class Sizing:
    """Which members there are to be."""

    create: int
    drain: tuple[MemberView, ...]
    """Those that get no more requests and are deleted once they have no work."""


def decide_pool(snapshot: PoolSnapshot, now: datetime) -> list[Action]:
    """Return what to do about a pool."""
    pool = snapshot.pool
    if pool.metadata.deletion_timestamp is not None:
        return []
    sized = scaling(snapshot, now)
    sizing = size(snapshot, sized.wanted, now)
    actions: list[Action] = _scale(snapshot, sized)
    draining = frozenset(member.name for member in sizing.drain)
    if not snapshot.listed:  # gate: pool-listed
        # Which members have work is not known yet.
        return [*actions, *_create(snapshot, sizing.create, now)]
    if draining != snapshot.draining:
        actions.append(Drain(pool.key, pool.metadata.uid, draining))
    actions += _create(snapshot, sizing.create, now)
    actions += disruption_budget(snapshot, now)
    actions += pool_status(snapshot, sized, sizing.create, draining, now)
    moment = next_moment(snapshot, sizing.drain, now)
    if moment is not None:
        actions.append(RequeueAfter(moment))
    # Where one turns out to have work, the rest of the decision does not stand.
    for member in sizing.drain:
        actions += _take_out(snapshot, member, now)
    # Last: nothing waits until the templates that are kept are read.
    return [*actions, *pool_history(snapshot, now)]


def _scale(snapshot: PoolSnapshot, sized: Scaling) -> list[Action]:
    """Return what is to be remembered of the scaling."""
    pool, needed = snapshot.pool, sized.recommendation
    if needed is None:
        return []
    reason = sized.limited.reason.value if sized.limited is not None else ""
    scale = Scale(pool.key, pool.metadata.uid, needed.members, sized.wanted, snapshot.desired, reason, sized.reason)
    return [scale, RequeueAfter(sized.requeue_after)] if sized.requeue_after is not None else [scale]


def size(snapshot: PoolSnapshot, wanted: int, now: datetime) -> Sizing:
    """Return which members to create and which to take out where so many are wanted."""
    members = [member for member in snapshot.members if not member.deleting]
    strategy = snapshot.pool.spec.update_strategy
    if strategy.type != UpdateType.ROLLING_UPDATE:
        return _without_replacing(snapshot, members, wanted, now)
    current = [member for member in members if member.revision == snapshot.revision]
    outdated = [member for member in members if member.revision != snapshot.revision]
    extra = _expendable(snapshot, current, now)[: max(0, len(current) - wanted)]
    staying = [member for member in current if member not in extra]
    stopped = failed_member(snapshot, now) is not None
    surge, unavailable = (0, 0) if stopped else (strategy.max_surge, strategy.max_unavailable)
    # The old template serves until the new one does.
    served = sum(stands_in(snapshot, member, now) for member in staying)
    kept = max(0, wanted - unavailable - served) if snapshot.template is not None else wanted  # gate: pool-floor
    serving = [member for member in outdated if member.serves or member.has_work]
    useless = [member for member in outdated if member not in serving]
    replaced = _expendable(snapshot, serving, now)[: max(0, len(serving) - kept)] + useless
    room = wanted + surge - len(members)
    create = max(0, min(wanted - len(staying), room)) if snapshot.template is not None else 0
    return Sizing(create, (*extra, *replaced))


def _without_replacing(snapshot: PoolSnapshot, members: Sequence[MemberView], wanted: int, now: datetime) -> Sizing:
    """Return the members to create and to take out where none is replaced for its template."""
    drain = tuple(_expendable(snapshot, members, now)[: max(0, len(members) - wanted)])
    create = max(0, wanted - len(members)) if snapshot.template is not None else 0
    return Sizing(create, drain)


def _expendable(snapshot: PoolSnapshot, members: Sequence[MemberView], now: datetime) -> list[MemberView]:
    """Return members in the order in which they are taken out.

    First those that serve nobody, then those that drain already, those with the least work, and the youngest.
    """
    by_template = snapshot.pool.spec.update_strategy.type == UpdateType.ON_REPLENISH
    youngest = sorted(
        members, key=lambda member: (member.created is not None, member.created, member.name), reverse=True
    )
    return sorted(
        youngest,
        key=lambda member: (
            stands_in(snapshot, member, now),
            member.name not in snapshot.draining,
            member.has_work,
            by_template and member.revision == snapshot.revision,
            member.plans,
            member.load,
        ),
    )


def _take_out(snapshot: PoolSnapshot, member: MemberView, now: datetime) -> list[Action]:
    """Return the deletion of a member that has no work; one that has is deleted once it had the time it may take."""
    key: Key = (snapshot.pool.key[0], member.name)
    if member.has_work and not drain_is_over(snapshot, member, now):  # gate: member-drain-deadline
        return []
    only_idle = not member.has_work  # gate: member-only-idle
    return [RemoveInstance(key, member.uid, member.resource_version, only_idle)]


def _create(snapshot: PoolSnapshot, count: int, now: datetime) -> list[Action]:
    if count == 0 or snapshot.template is None:
        return []
    if snapshot.has_too_many:  # gate: too-many-members
        # One more would not count either, and the next one would follow.
        return []
    refusal = snapshot.refusal
    if refusal is not None and (remaining := refusal.remaining(now)):
        return [RequeueAfter(remaining)]
    ends = _refill_pause(snapshot, now)
    if ends is not None:
        count = _not_coming_back(snapshot, count, now)
        starting = sum(not (member.serves or member.deleting) for member in snapshot.members)
        at_once = _started_at_once(snapshot, count, _recent_claims(snapshot, now))
        count = min(count, CREATED_AT_ONCE, max(0, at_once - starting))
    manifest = pool_member(snapshot.pool, snapshot.template, snapshot.revision)
    create = CreateMember(snapshot.pool.key, snapshot.pool.metadata.uid, manifest)
    actions: list[Action] = [create] * min(count, CREATED_AT_ONCE)
    if ends is not None:
        return [*actions, RequeueAfter(ends - now)]
    return [*actions, RequeueAfter(AT_ONCE)] if count > CREATED_AT_ONCE else actions


def _refill_pause(snapshot: PoolSnapshot, now: datetime) -> datetime | None:
    """Return until when few members are started at a time, None where as many as are wanted may be.

    To start a member takes a hundred times what a claim does: whoever claims one that is there, or that comes back
    from another claim, does not wait for the start of others.
    """
    moved = max((*snapshot.claims_taken[-1:], *snapshot.claims_returned[-1:]), default=None)
    if moved is None or not moved <= now < moved + REFILL_PAUSE:
        return None
    return moved + REFILL_PAUSE if _idle(snapshot) or not snapshot.pending else None  # gate: refill-pause


def _not_coming_back(snapshot: PoolSnapshot, missing: int, now: datetime) -> int:
    """Return how many of so many missing members are to be started: those that come back from claims are not.

    As many as came back within the last second come back within the next, before one that is started now is Ready;
    where some did, all that were taken within it are expected to. For claims that have to wait for longer than a
    start takes others are started; claims that come while a member has no work do not wait for one.
    """
    since = now - REFILL_PAUSE
    returned = sum(moment > since for moment in snapshot.claims_returned)
    taken = sum(moment > since for moment in snapshot.claims_taken)
    back = snapshot.returning + (max(returned, taken) if returned else 0)
    waiting = 0 if _idle(snapshot) else snapshot.claims
    return min(missing, max(0, missing - back, waiting - START_SECONDS * back))  # gate: coming-back


def _recent_claims(snapshot: PoolSnapshot, now: datetime) -> int:
    """Return how many claims have taken a member within a second, or wait for one."""
    return sum(taken > now - REFILL_PAUSE for taken in snapshot.claims_taken) + snapshot.claims


def _idle(snapshot: PoolSnapshot) -> int:
    return sum(member.ready and not member.has_work and not member.deleting for member in snapshot.members)


def _started_at_once(snapshot: PoolSnapshot, missing: int, claims: int) -> int:
    """Return how many members are started at a time while so many claims a second come.

    missing: how many there are to be beside those that there are.
    """
    idle = _idle(snapshot)
    if not idle:
        return max(REFILLED_AT_ONCE, snapshot.claims)
    if claims <= SLOW_CLAIMS:
        # Those that were taken just now may come back as soon.
        return min(REFILLED_AT_ONCE, max(0, missing - claims))  # gate: slow-claims
    ample = (len(snapshot.members) + missing) / AMPLE_SHARE
    if claims >= FAST_CLAIMS:
        ample = claims * FAST_AMPLE_SECONDS  # gate: fast-claims
    return 0 if idle > ample else REFILLED_AT_ONCE
