"""Which members of a pool an eviction is to leave alone, and when its PodDisruptionBudget is written for it.

An eviction lets what runs end within the pod's own time, and what waits moves to another member. So only those are
guarded that may need longer: with a request for some time, with a plan, held by an exclusive claim.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from efrit.api.pool import DisruptionBudget
from efrit.controller.manifests.disruption_budget import build_disruption_budget, build_released_budget
from efrit.controller.model.actions import (
    Action,
    ApplyDisruptionBudget,
    Record,
    ReleaseDisruptionBudget,
    RequeueAfter,
)
from efrit.controller.model.keys import Key
from efrit.controller.model.pauses import pause_remaining
from efrit.controller.model.pools import MemberView, PoolSnapshot

GUARDED_AFTER = timedelta(seconds=2)
"""A request that a member has had for so long is worth a write."""
WRITTEN_EVERY = timedelta(seconds=5)
"""The budget of a pool is written at most this often."""


def disruption_budget(snapshot: PoolSnapshot, now: datetime) -> list[Action]:
    """Return the write of the budget where it is due, or when it will be.

    Without one, what an earlier spec or process has written comes to select nothing; none is created for that.
    """
    wanted = snapshot.pool.spec.disruption_budget == DisruptionBudget.BUSY_MEMBERS
    waits = list(_waits(snapshot, now)) if wanted else []
    guarded = _guarded(snapshot, now) if wanted else set()
    actions: list[Action] = [RequeueAfter(min(waits))] if waits else []
    budget = build_disruption_budget(snapshot.pool, guarded)
    if budget == snapshot.budget:  # gate: budget-unchanged
        return actions
    due = _due(snapshot, now)
    if due > timedelta(0):
        return [*actions, RequeueAfter(due)]
    pool = snapshot.pool
    if snapshot.budget_refusal is not None:
        sentence = snapshot.budget_refusal.sentence
        message = f"Evictions do not wait for busy members: the PodDisruptionBudget cannot be written. {sentence}"
        uid, reason = pool.metadata.uid, "DisruptionBudgetRefused"
        actions.append(Record("EfritPool", pool.key, uid, "Warning", reason, message))
    return [*actions, ApplyDisruptionBudget(pool.key, pool.metadata.uid, budget, create=wanted)]


def release_budget(pool: Key, uid: str) -> list[Action]:
    """Return what becomes of the budget of a pool that is gone: with `--cascade=orphan` it would stay for ever."""
    return [ReleaseDisruptionBudget(pool, uid, build_released_budget(pool, uid))]


def _guarded(snapshot: PoolSnapshot, now: datetime) -> set[str]:
    busy = {member.name for member in snapshot.members if _is_guarded(member, now)}
    return busy | set(snapshot.claimed)  # gate: budget-claimed


def _is_guarded(member: MemberView, now: datetime) -> bool:
    since = member.working_since
    # gate: budget-busy
    return since is not None and not member.deleting and not pause_remaining(since, GUARDED_AFTER, now)


def _waits(snapshot: PoolSnapshot, now: datetime) -> Iterator[timedelta]:
    """Yield how long it takes until each member with newer work is guarded."""
    for member in snapshot.members:
        if member.working_since is not None and not member.deleting and not _is_guarded(member, now):
            yield pause_remaining(member.working_since, GUARDED_AFTER, now)


def _due(snapshot: PoolSnapshot, now: datetime) -> timedelta:
    """Return how long the budget may not be written because it just was, or because it was refused."""
    refusal, written = snapshot.budget_refusal, snapshot.budget_written
    waits = [timedelta(0)]
    if refusal is not None:
        waits.append(refusal.remaining(now))
    if written is not None:
        waits.append(pause_remaining(written, WRITTEN_EVERY, now))  # gate: budget-rate
    return max(waits)
