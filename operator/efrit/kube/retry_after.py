"""Times in the head of an answer: Retry-After, which is a number of seconds or a date, and Date (RFC 9110)."""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import lru_cache


def retry_after_seconds(value: object, date: str | None = None) -> float | None:
    """Return the seconds to wait; None where the value makes no sense or is not in the future.

    `date` is the Date header of the same answer: a date counts by that clock, or else by the clock of this machine.
    """
    text = str(value)
    try:
        seconds = float(text)
    except ValueError:
        until, now = http_date(text), http_date(date or "") or datetime.now(UTC)
        seconds = (until - now).total_seconds() if until is not None else 0.0
    return seconds if 0 < seconds < float("inf") else None


# Many answers say the same second.
@lru_cache(maxsize=16)
def http_date(text: str) -> datetime | None:
    """Return the moment of an HTTP date, None for what is none."""
    try:
        moment = parsedate_to_datetime(text)
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        return None
