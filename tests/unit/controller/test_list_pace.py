"""list_pace.py: the share of the time that sweeps have, on virtual time."""

from __future__ import annotations

import json

import pytest

from efrit.controller.list_pace import (
    HURRIED_SHARE,
    MAX_PAUSE_SECONDS,
    PAGE_OBJECTS,
    SHARE,
    UNHURRIED_SECONDS,
    ListPace,
    pause_after,
)
from efrit.kube.listing import Listing
from tests.unit.controller.virtual_time import burn, now

pytestmark = pytest.mark.virtual_time

COMPACTED_SECONDS = 300.0
"""The rest of a list can be read for so long."""


class Busy:
    """An API server that takes so many seconds for each object of a page."""

    def __init__(self, count: int, seconds: float) -> None:
        self._count = count
        self._seconds = seconds
        self.pages: list[tuple[int, float, float]] = []
        """Of each page how many objects were asked for, when, and when it was answered."""

    async def fetch(self, limit: int, token: str | None, max_bytes: int | None) -> bytes:
        del max_bytes
        first, began = int(token or 0), now()
        last = min(first + limit, self._count)
        burn(self._seconds * (last - first))
        self.pages.append((limit, began, now()))
        meta = {"continue": str(last)} if last < self._count else {}
        return json.dumps({"metadata": meta, "items": [{"n": number} for number in range(first, last)]}).encode()

    async def read(self, pace: ListPace | None) -> int:
        return len([obj async for obj in Listing(self.fetch, pace=pace)])


@pytest.mark.parametrize(
    ("took", "elapsed", "pause"),
    [
        (0.0, 0.0, 0.0),
        (0.01, 0.0, 0.09),
        (0.1, 5.0, 0.9),
        (30.0, 5.0, MAX_PAUSE_SECONDS),
        (0.1, UNHURRIED_SECONDS, 0.1),
        (30.0, UNHURRIED_SECONDS, MAX_PAUSE_SECONDS),
    ],
)
def test_a_pause_is_a_multiple_of_what_the_page_took(took: float, elapsed: float, pause: float) -> None:
    assert pause_after(took, elapsed) == pytest.approx(pause)


async def test_a_sweep_of_fifty_thousand_takes_its_share_of_the_time_and_no_long_page() -> None:
    api = Busy(50_000, 0.00005)

    assert await api.read(ListPace()) == 50_000

    spent = sum(ended - began for _, began, ended in api.pages)
    assert spent == pytest.approx(2.5)
    assert now() == pytest.approx(spent / SHARE)
    assert max(limit for limit, _, _ in api.pages) == PAGE_OBJECTS
    assert max(ended - began for _, began, ended in api.pages) <= 0.0101


async def test_between_two_lists_of_a_sweep_there_is_a_pause_as_well() -> None:
    pace, first, second = ListPace(), Busy(100, 0.001), Busy(100, 0.001)

    await first.read(pace)
    await second.read(pace)

    assert second.pages[0][1] - first.pages[-1][2] == pytest.approx(0.05 * (1 / SHARE - 1))


async def test_where_all_is_slow_a_sweep_hurries_before_its_list_can_be_read_no_more() -> None:
    api = Busy(200_000, 0.0005)

    assert await api.read(ListPace()) == 200_000

    hurried = [(began, ended) for _, began, ended in api.pages if ended >= UNHURRIED_SECONDS]
    spent = sum(ended - began for began, ended in hurried)
    assert now() - hurried[0][0] == pytest.approx(spent / HURRIED_SHARE, rel=0.01)
    assert now() < COMPACTED_SECONDS


async def test_a_list_that_is_waited_for_has_no_pauses_and_long_pages() -> None:
    api = Busy(5_000, 0.00005)

    assert await api.read(None) == 5_000

    assert now() == pytest.approx(0.25)
    assert max(limit for limit, _, _ in api.pages) > PAGE_OBJECTS
