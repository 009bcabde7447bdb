"""How much is left of a pause between two tries, by a clock that may be set back meanwhile. Pure: no clock."""

from __future__ import annotations

from datetime import datetime, timedelta

OVER = timedelta(0)


def pause_end(since: datetime, pause: timedelta, now: datetime) -> datetime:
    """Return when a pause ends, or has ended, that began at `since`: now, if it began in the future.

    The clock was set back then: the pause would be as much longer, though it were asked about again and again.
    """
    # Nothing is added to a time in the future: somebody may have written the last one there is.
    return since + pause if since <= now else now  # gate: pause-set-back


def pause_remaining(since: datetime, pause: timedelta, now: datetime) -> timedelta:
    """Return how long a pause lasts that began at `since`: zero once it is over, or if it began in the future."""
    return max(OVER, pause_end(since, pause, now) - now)
