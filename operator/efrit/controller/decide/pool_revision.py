"""How far the current template of a pool is: which members stand in for others, and which one has failed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta

from efrit.controller.model.pauses import pause_remaining
from efrit.controller.model.pools import MemberView, PoolSnapshot


def stands_in(snapshot: PoolSnapshot, member: MemberView, now: datetime) -> bool:
    """Return whether a member counts: it serves, and one of the current template has done so for long enough."""
    return member.serves and not _unsettled_for(snapshot, member, now)


def failed_member(snapshot: PoolSnapshot, now: datetime) -> MemberView | None:
    """Return a member for which the roll-out of the current template stops; None where there is none.

    One that was Ready and is no more, while all members have the template, is not the template's fault.
    """
    members = [member for member in snapshot.members if not member.deleting]
    current = [member for member in members if member.revision == snapshot.revision]
    if len(current) == len(members) and any(member.serves for member in current):
        return None
    return next((member for member in current if _is_past(_progress_deadline(snapshot, member), now)), None)


def drain_is_over(snapshot: PoolSnapshot, member: MemberView, now: datetime) -> bool:
    """Return whether a member that drains has had the time that it may take."""
    return _is_past(_drain_deadline(snapshot, member), now)


def next_moment(snapshot: PoolSnapshot, draining: Iterable[MemberView], now: datetime) -> timedelta | None:
    """Return when time alone changes what is decided, None where it does not."""
    moments = [moment - now for moment in _moments(snapshot, draining, now) if moment > now]
    return min(moments, default=None)


def _moments(snapshot: PoolSnapshot, draining: Iterable[MemberView], now: datetime) -> Iterator[datetime]:
    candidates = [_drain_deadline(snapshot, member) for member in draining]
    for member in snapshot.members:
        if member.revision == snapshot.revision and not member.deleting:
            candidates += [now + _unsettled_for(snapshot, member, now), _progress_deadline(snapshot, member)]
    return (moment for moment in candidates if moment is not None)


def _unsettled_for(snapshot: PoolSnapshot, member: MemberView, now: datetime) -> timedelta:
    """Return for how long a member of the current template is yet to be Ready until it counts; zero where it does."""
    seconds = snapshot.pool.spec.update_strategy.min_ready_seconds
    if not seconds or not member.ready or member.ready_changed is None or member.revision != snapshot.revision:
        return timedelta(0)
    return pause_remaining(member.ready_changed, timedelta(seconds=seconds), now)


def _progress_deadline(snapshot: PoolSnapshot, member: MemberView) -> datetime | None:
    """Return by when a member that is not Ready must be, None where it is or nothing is known."""
    since = max((moment for moment in (member.created, member.ready_changed) if moment is not None), default=None)
    if member.serves or since is None:
        return None
    return since + timedelta(seconds=snapshot.pool.spec.update_strategy.progress_deadline_seconds)


def _drain_deadline(snapshot: PoolSnapshot, member: MemberView) -> datetime | None:
    seconds, began = snapshot.pool.spec.update_strategy.drain_seconds, snapshot.drain_began.get(member.name)
    return began + timedelta(seconds=seconds) if seconds is not None and began is not None else None


def _is_past(moment: datetime | None, now: datetime) -> bool:
    return moment is not None and moment <= now
