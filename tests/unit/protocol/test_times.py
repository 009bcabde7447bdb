"""protocol/times.py: what is read and written of a time."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from efrit.protocol.times import parse_time, rfc3339

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize("text", [None, ""])
def test_a_time_that_is_not_there_is_none(text: str | None) -> None:
    assert parse_time(text) is None


@pytest.mark.parametrize("text", ["2026-03-01T12:00:00Z", "2026-03-01T12:00:00.000Z", "2026-03-01T13:00:00+01:00"])
def test_a_time_is_read_in_utc(text: str) -> None:
    parsed = parse_time(text)

    assert parsed == NOON
    assert parsed.tzinfo is UTC
    assert parse_time(rfc3339(NOON)) == NOON


@pytest.mark.parametrize("text", ["yesterday", "0000-01-01T00:00:00Z", "9999-12-31T23:59:59-12:00"])
def test_what_is_no_time_of_ours_is_none(text: str) -> None:
    assert parse_time(text) is None
