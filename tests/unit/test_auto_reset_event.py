"""An event that wakes a task at once, soon, or not at all."""

from __future__ import annotations

import asyncio

import pytest

from efrit.auto_reset_event import AutoResetEvent
from tests.support.timeout import TIMEOUT

LONG = 3600.0


async def test_it_wakes_once_who_waits_then_or_next() -> None:
    event = AutoResetEvent()
    event.set()
    event.set()
    assert await event.wait(LONG)
    assert not await event.wait(0.001)
    waiting = asyncio.create_task(event.wait())
    await asyncio.sleep(0)
    event.set()
    assert await asyncio.wait_for(waiting, TIMEOUT)


@pytest.mark.parametrize("seconds", [(0.001, LONG), (LONG, 0.001), (0.001,)])
async def test_it_is_set_within_the_time(seconds: tuple[float, ...]) -> None:
    event = AutoResetEvent()
    for each in seconds:
        event.set_within(each)
    assert await asyncio.wait_for(event.wait(), TIMEOUT)


async def test_one_that_is_set_now_is_not_set_later_as_well() -> None:
    event = AutoResetEvent()
    event.set_within(0.001)
    event.set()
    assert await event.wait(LONG)
    assert not await event.wait(0.05)


async def test_one_who_no_longer_waits_leaves_it_set_for_the_next() -> None:
    event = AutoResetEvent()
    waiting = asyncio.create_task(event.wait())
    await asyncio.sleep(0)
    event.set()
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert await event.wait(LONG)
