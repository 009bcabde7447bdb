"""Which templates of a pool are kept to go back to: the current one, those that members have, and some former ones.

As with a StatefulSet each is a ControllerRevision. A template that comes back gets its own again, with a new number.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from efrit.api_group import LARGEST_REVISION
from efrit.controller.manifests.pool_history import build_revision
from efrit.controller.model.actions import Action, KeepRevision, ReadHistory, Record, RemoveRevision, RequeueAfter
from efrit.controller.model.pools import PoolRevision, PoolSnapshot

REMOVED_AT_ONCE = 16
"""In one reconciliation; others have their turn before the next."""


def pool_history(snapshot: PoolSnapshot, now: datetime) -> list[Action]:
    """Return what is to be read, kept and removed."""
    pool, refusal = snapshot.pool, snapshot.history_refusal
    if refusal is not None and (remaining := refusal.remaining(now)):
        return [RequeueAfter(remaining)]  # gate: history-refused
    uid = pool.metadata.uid
    if snapshot.history is None:
        actions: list[Action] = [ReadHistory(pool.key, uid)]
        if refusal is not None and refusal.is_reported:  # gate: history-reported
            message = f"The template cannot be kept to go back to it: {refusal.sentence}"
            actions.append(Record("EfritPool", pool.key, uid, "Warning", "HistoryRefused", message))
        return actions
    return [*_keep(snapshot, snapshot.history), *_remove(snapshot, snapshot.history)]


def _keep(snapshot: PoolSnapshot, history: tuple[PoolRevision, ...]) -> list[Action]:
    """Return the write of the current template, unless it is the last one already."""
    pool, template = snapshot.pool, snapshot.template
    if template is None:
        return []
    former = next((revision for revision in history if revision.digest == snapshot.revision), None)
    others = [revision.number for revision in history if revision is not former]
    # Somebody has given one the largest: the next would not be taken for the pool's.
    before = max((number for number in others if number < LARGEST_REVISION), default=0)  # gate: largest-revision
    if former is not None and former.number > before:  # gate: revision-kept
        return []
    manifest = build_revision(pool, template, snapshot.revision, before + 1)
    return [KeepRevision(pool.key, pool.metadata.uid, snapshot.revision, manifest, former)]


def _remove(snapshot: PoolSnapshot, history: tuple[PoolRevision, ...]) -> list[Action]:
    """Return the removal of the oldest templates beyond those that may be kept, never of one in use."""
    pool = snapshot.pool
    of_members = {member.revision for member in snapshot.members} | snapshot.claimed_revisions
    used = {snapshot.revision, *of_members}  # gate: revision-used
    former = sorted(
        (revision for revision in history if revision.digest not in used), key=lambda revision: revision.number
    )
    surplus = former[: max(0, len(former) - pool.spec.revision_history_limit)]
    actions: list[Action] = [
        RemoveRevision(pool.key, pool.metadata.uid, revision) for revision in surplus[:REMOVED_AT_ONCE]
    ]
    return [*actions, RequeueAfter(timedelta(0))] if len(surplus) > REMOVED_AT_ONCE else actions
