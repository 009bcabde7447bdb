"""Time on the wire: RFC 3339 in UTC with a `Z`, to the millisecond. Pure; reads no clock."""

from datetime import UTC, datetime
from typing import Annotated

from pydantic import AfterValidator, PlainSerializer


def as_utc(moment: datetime) -> datetime:
    """`moment` in UTC; one without a zone is taken to be UTC already."""
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def rfc3339(moment: datetime) -> str:
    """`2026-01-31T09:30:00.250Z`."""
    return as_utc(moment).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def from_epoch(seconds: float) -> datetime:
    """UTC datetime of `seconds` since 1970."""
    return datetime.fromtimestamp(seconds, UTC)


Timestamp = Annotated[datetime, AfterValidator(as_utc), PlainSerializer(rfc3339, return_type=str, when_used="json")]
"""A moment as a model field: aware, UTC, written by `rfc3339`."""
