"""retry.py: a call is repeated while the API server is away, which the log says ever less often."""

from __future__ import annotations

import logging
from itertools import pairwise

import pytest

from efrit.controller.retry import (
    FIRST_WARNING_PAUSE_SECONDS,
    LAST_BACKOFF_SECONDS,
    LONGEST_WARNING_PAUSE_SECONDS,
    Outage,
    retry_while_unavailable,
)
from efrit.errors import ApiForbidden, ApiUnavailable
from tests.unit.controller.virtual_time import now

pytestmark = pytest.mark.virtual_time

DAY = 86_400.0


class Away:
    """An API server that is away for so many seconds; notes when it was asked."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.asked: list[float] = []

    async def ask(self) -> str:
        self.asked.append(now())
        if now() < self._seconds:
            raise ApiUnavailable("GET /pods: 503: away")
        return "there"


async def test_it_is_asked_again_soon_for_as_long_as_it_is_away() -> None:
    away = Away(DAY)

    assert await retry_while_unavailable(away.ask) == "there"

    assert away.asked[1] < 1
    pauses = [later - earlier for earlier, later in pairwise(away.asked)]
    assert max(pauses) <= 1.25 * LAST_BACKOFF_SECONDS


async def test_the_log_has_the_beginning_the_end_and_ever_less_in_between(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    await retry_while_unavailable(Away(FIRST_WARNING_PAUSE_SECONDS / 2).ask)

    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]
    assert all("GET /pods: 503: away" in record.getMessage() for record in caplog.records)
    assert caplog.messages[0].startswith("the API server is unavailable, next attempt in 0.2 s: ")
    assert caplog.messages[1].startswith("the API server is available again after ")

    caplog.clear()
    away = Away(now() + DAY)
    await retry_while_unavailable(away.ask)
    lines = len(caplog.records)
    assert DAY / LONGEST_WARNING_PAUSE_SECONDS <= lines <= DAY / LONGEST_WARNING_PAUSE_SECONDS + 10
    assert lines < len(away.asked) / 100


async def test_what_is_there_at_once_is_not_worth_a_line(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    await retry_while_unavailable(Away(0).ask)

    assert not caplog.records


async def test_a_refusal_is_not_repeated() -> None:
    async def refused() -> None:
        raise ApiForbidden("403: pods are forbidden")

    with pytest.raises(ApiForbidden):
        await retry_while_unavailable(refused)


def test_calls_that_fail_and_succeed_by_turns_fill_no_log() -> None:
    outage, lines = Outage(), 0
    for second in range(int(DAY)):
        if second % 2:
            lines += outage.ended(second) is not None
        else:
            lines += outage.failed(ApiUnavailable("503: away"), second)

    assert DAY / LONGEST_WARNING_PAUSE_SECONDS <= lines <= 2 * DAY / FIRST_WARNING_PAUSE_SECONDS


def test_an_outage_after_a_while_is_logged_at_once_and_again_after_the_first_pause() -> None:
    outage, failure = Outage(), ApiUnavailable("503: away")
    for second in range(int(3 * LONGEST_WARNING_PAUSE_SECONDS)):
        outage.failed(failure, second)
    assert outage.ended(3 * LONGEST_WARNING_PAUSE_SECONDS) == (3 * LONGEST_WARNING_PAUSE_SECONDS, failure)

    assert outage.failed(failure, DAY)
    assert not outage.failed(failure, DAY + FIRST_WARNING_PAUSE_SECONDS - 1)
    assert outage.failed(failure, DAY + FIRST_WARNING_PAUSE_SECONDS)
    assert outage.ended(DAY + 100) == (100, failure)
    assert outage.ended(DAY + 101) is None
