"""Decides about a pool: which members to create, which get no more requests, which are deleted, and what to say.

A member that has work is never deleted: it drains first. The members of an older template are replaced one after the
other, by one more than are wanted: where the new template does not become Ready, the old ones stay.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from efrit.controller.decide.pool_scaling import Scaling, scaling
from efrit.controller.decide.pool_status import pool_status
from efrit.controller.manifests.pool_member import pool_member
from efrit.controller.model.actions import (
    Action,
    ConfirmIdle,
    CreateMember,
    Delete,
    Drain,
    PauseHandover,
    RequeueAfter,
    Scale,
)
from efrit.controller.model.keys import Key
from efrit.controller.model.pools import MemberView, PoolSnapshot

MAX_SURGE = 1
"""Members beyond those wanted while the template of others is replaced."""
CREATED_AT_ONCE = 16
"""In one reconciliation; others have their turn before the next."""
AT_ONCE = timedelta(0)


@dataclass(frozen=True, slots=True)
class Sizing:
    """Which members there are to be."""

    create: int
    drain: tuple[MemberView, ...]
    """Those that get no more requests and are deleted once they have no work."""
    staying: int
    """Members that are there and stay."""
    outdated: int
    """Members of an older template that are there."""


def decide_pool(snapshot: PoolSnapshot, now: datetime) -> list[Action]:
    """Return what to do about a pool."""
    pool = snapshot.pool
    if pool.metadata.deletion_timestamp is not None:
        return []
    sized = scaling(snapshot, now)
    sizing = size(snapshot, sized.wanted)
    actions: list[Action] = _scale(snapshot, sized)
    draining = frozenset(member.name for member in sizing.drain)
    if not snapshot.listed:  # gate: pool-listed
        # Which members have work is not known yet.
        return [*actions, *_create(snapshot, sizing.create, now)]
    if draining != snapshot.draining:
        actions.append(Drain(pool.key, pool.metadata.uid, draining))
    actions += _create(snapshot, sizing.create, now)
    actions += pool_status(snapshot, sized, sizing.create, draining, now)
    # Last: where one turns out to have work, the rest of the decision does not stand.
    actions += [action for member in sizing.drain if not member.has_work for action in _delete(pool.key[0], member)]
    return actions


def _scale(snapshot: PoolSnapshot, sized: Scaling) -> list[Action]:
    """Return what is to be remembered of the scaling."""
    pool, needed = snapshot.pool, sized.recommendation
    if needed is None:
        return []
    scale = Scale(pool.key, pool.metadata.uid, needed.members, sized.wanted)
    return [scale, RequeueAfter(sized.requeue_after)] if sized.requeue_after is not None else [scale]


def size(snapshot: PoolSnapshot, wanted: int) -> Sizing:
    """Return which members to create and which to take out where so many are wanted."""
    members = [member for member in snapshot.members if not member.deleting]
    current = [member for member in members if member.revision == snapshot.revision]
    outdated = [member for member in members if member.revision != snapshot.revision]
    extra = _expendable(current, snapshot.draining)[: max(0, len(current) - wanted)]
    # The old template serves until the new one does.
    served = sum(member.serves for member in current) - sum(member.serves for member in extra)
    kept = max(0, wanted - served) if snapshot.template is not None else wanted
    serving = [member for member in outdated if member.serves or member.has_work]
    useless = [member for member in outdated if member not in serving]
    replaced = _expendable(serving, snapshot.draining)[: max(0, len(serving) - kept)] + useless
    missing = wanted - (len(current) - len(extra))
    room = wanted + MAX_SURGE - len(members)
    create = max(0, min(missing, room)) if snapshot.template is not None else 0
    drain = (*extra, *replaced)
    return Sizing(create, drain, len(members) - len(drain), len(outdated))


def _expendable(members: Sequence[MemberView], draining: frozenset[str]) -> list[MemberView]:
    """Return members in the order in which they are taken out.

    First those that drain already, then those that serve nobody, those with the least work, and the youngest.
    """
    youngest = sorted(
        members, key=lambda member: (member.created is not None, member.created, member.name), reverse=True
    )
    return sorted(
        youngest,
        key=lambda member: (member.name not in draining, member.serves, member.plans, member.load),
    )


def _delete(namespace: str, member: MemberView) -> list[Action]:
    """Return the deletion of a member: no request is handed to it any more, and none may have come since."""
    key: Key = (namespace, member.name)
    return [
        PauseHandover(key),  # gate: member-pause
        ConfirmIdle(key),  # gate: member-confirm-idle
        Delete("EfritInstance", key, member.uid, member.resource_version),
    ]


def _create(snapshot: PoolSnapshot, count: int, now: datetime) -> list[Action]:
    if count == 0 or snapshot.template is None:
        return []
    refusal = snapshot.refusal
    if refusal is not None and refusal.until > now:
        return [RequeueAfter(refusal.until - now)]
    manifest = pool_member(snapshot.pool, snapshot.template, snapshot.revision)
    create = CreateMember(snapshot.pool.key, snapshot.pool.metadata.uid, manifest)
    actions: list[Action] = [create] * min(count, CREATED_AT_ONCE)
    return [*actions, RequeueAfter(AT_ONCE)] if count > CREATED_AT_ONCE else actions
