"""Time on the wire: RFC 3339 in UTC with a `Z`, to the millisecond. Pure; reads no clock."""

from datetime import UTC, datetime

_FIRST = datetime.min.replace(tzinfo=UTC)
_LAST = datetime.max.replace(tzinfo=UTC)


def as_utc(moment: datetime) -> datetime:
    """Return `moment` in UTC; one without a zone is taken to be UTC already.

    Raises `ValueError` outside years 1 to 9999.
    """
    if moment.tzinfo is UTC:
        return moment
    if moment.tzinfo is None:
        return moment.replace(tzinfo=UTC)
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        raise ValueError("in UTC it must lie within the years 1 to 9999") from None


def parse_time(text: str | None) -> datetime | None:
    """Return the time that a text in RFC 3339 gives, in UTC; None without a text, or where it is no time of ours.

    Kubernetes takes the year 0, and whoever may write a status may write that.
    """
    try:
        return as_utc(datetime.fromisoformat(text)) if text else None
    except ValueError:
        return None  # gate: unreadable-time


def rfc3339(moment: datetime) -> str:
    """Return `moment` as `2026-01-31T09:30:00.250Z`."""
    return as_utc(moment).isoformat(timespec="milliseconds")[:-6] + "Z"


def from_epoch(seconds: float) -> datetime:
    """Return `seconds` since 1970 as a datetime in UTC, or the nearest one: a file may carry any time."""
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        return _LAST if seconds > 0 else _FIRST


def rounded_to_wire(moment: datetime) -> datetime:
    """Return `moment` in UTC to the millisecond, so that it is equal after it was written and read."""
    utc = as_utc(moment)
    beyond = utc.microsecond % 1000
    return utc.replace(microsecond=utc.microsecond - beyond) if beyond else utc
