"""A bell: what wakes a task at once, soon, or not at all."""

from __future__ import annotations

import asyncio

import pytest

from efrit.bell import Bell
from tests.support.timeout import TIMEOUT

LONG = 3600.0


async def test_a_ring_is_heard_once_by_who_waits_then_or_next() -> None:
    bell = Bell()
    bell.ring()
    bell.ring()
    assert await bell.heard(LONG)
    assert not await bell.heard(0.001)
    waiting = asyncio.create_task(bell.heard())
    await asyncio.sleep(0)
    bell.ring()
    assert await asyncio.wait_for(waiting, TIMEOUT)


@pytest.mark.parametrize("seconds", [(0.001, LONG), (LONG, 0.001), (0.001,)])
async def test_it_rings_within_the_time(seconds: tuple[float, ...]) -> None:
    bell = Bell()
    for each in seconds:
        bell.ring_within(each)
    assert await asyncio.wait_for(bell.heard(), TIMEOUT)


async def test_what_rings_now_takes_with_it_what_was_to_ring_later() -> None:
    bell = Bell()
    bell.ring_within(0.001)
    bell.ring()
    assert await bell.heard(LONG)
    assert not await bell.heard(0.05)


async def test_one_who_no_longer_waits_leaves_the_ring_to_the_next() -> None:
    bell = Bell()
    waiting = asyncio.create_task(bell.heard())
    await asyncio.sleep(0)
    bell.ring()
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert await bell.heard(LONG)
