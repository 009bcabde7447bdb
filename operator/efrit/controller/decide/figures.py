"""The figures in an instance's status: what they are, and when the next ones may be written.

Figures change with every request. They are written at most every `stats_every`; once work has ended they are written
early, so that what a person reads after it is true. Early writes are few: `EARLY_WRITES` in as many times
`stats_every`, however short and frequent the work is. Where many instances work, they are written in turn
(`store/figures_pace.py`).
"""

from __future__ import annotations

from datetime import datetime, timedelta

from efrit.api.instance import QUEUE_HEALTHY, InstanceStatus, QueueStatus
from efrit.controller.model.pauses import pause_end, pause_remaining
from efrit.controller.model.snapshots import InstanceSnapshot

EARLY_WRITES = 3
"""Early writes that may follow on each other; after that, one for each `stats_every`."""
MAX_WRITES = 30
WRITES_WITHIN = timedelta(seconds=60)
"""So many statuses of one instance are written in this time, whatever changes: an Emacs may end once a second."""
LONGEST_TURN = timedelta(minutes=10)
"""A turn that is so far away comes from a clock that was set back since."""
TURN_KEPT = timedelta(minutes=1)
"""How long after its turn an instance may use it."""
THROTTLED_FIELDS = ("queue", "last_activity_time")


def queue_status(snapshot: InstanceSnapshot) -> QueueStatus | None:
    """Return the figures of the queue, None while no bridge reports them."""
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
        # Ages in tenths: a finer figure would differ every time.
        oldest_pending_seconds=round(stats.oldest_pending_seconds, 1),
    )


def differ_alone(new: InstanceStatus, old: InstanceStatus) -> bool:
    """Return whether nothing but figures is new: they can wait, everything else is written at once."""
    return _without_figures(new) == _without_figures(old)


def due(snapshot: InstanceSnapshot, now: datetime) -> datetime | None:
    """Return when new figures may be written, None for at once."""
    written, config = snapshot.facts.stats_written, snapshot.config
    if written is None:
        return None
    regular = pause_end(written, config.stats_every, now)
    if snapshot.facts.work_ended is None or not _all_work_ended(snapshot):
        return regular
    early = pause_end(snapshot.facts.work_ended, config.settled_after, now)
    if len(snapshot.facts.early_writes) >= EARLY_WRITES:
        early = max(
            early, pause_end(snapshot.facts.early_writes[-EARLY_WRITES], EARLY_WRITES * config.stats_every, now)
        )
    return min(regular, early)


def turn_remaining(snapshot: InstanceSnapshot, now: datetime) -> timedelta | None:
    """Return how long until the turn of its figures; zero or less for now, None where it has to take a turn first."""
    turn = snapshot.facts.figures_turn
    if turn is None or not is_kept(turn, now):
        return None if snapshot.figures_wait else timedelta(0)
    return turn - now


def is_kept(turn: datetime | None, now: datetime) -> bool:
    """Return whether an instance has a turn that it may still use."""
    return turn is not None and -TURN_KEPT <= turn - now <= LONGEST_TURN


def pause(snapshot: InstanceSnapshot, now: datetime) -> timedelta:
    """Return how long no status may be written because many were; zero or less for at once."""
    if len(snapshot.facts.status_writes) < MAX_WRITES:
        return timedelta(0)
    return pause_remaining(snapshot.facts.status_writes[-MAX_WRITES], WRITES_WITHIN, now)


def _without_figures(status: InstanceStatus) -> InstanceStatus:
    """Return the status without figures."""
    conditions = tuple(condition for condition in status.conditions if condition.type != QUEUE_HEALTHY)
    return status.model_copy(update={"conditions": conditions, **dict.fromkeys(THROTTLED_FIELDS)})


def _all_work_ended(snapshot: InstanceSnapshot) -> bool:
    """Return whether all work has ended and the figures say so, while those in the status do not."""
    new, old = queue_status(snapshot), snapshot.instance.status.queue
    return (
        new is not None
        and new != old
        and (new.pending, new.processing) == (0, 0)
        and snapshot.open_requests + snapshot.active_plans == 0
    )
