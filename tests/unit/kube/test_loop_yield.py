"""kube/loop_yield.py: what is known to have arrived is taken in a few objects at a time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, cast

import aiohttp
import pytest

from efrit.kube.listing import Listing
from efrit.kube.loop_yield import ITEMS_PER_TURN
from efrit.kube.watch import follow_events
from tests.unit.kube.test_listing import Collection
from tests.unit.kube.test_watch import BODY, Response

COUNT = 400


def listed() -> AsyncIterator[Any]:
    return aiter(Listing(Collection([10] * COUNT).fetch, COUNT))


def followed() -> AsyncIterator[Any]:
    return follow_events(cast("aiohttp.ClientResponse", Response(BODY * (COUNT // 2))))


@pytest.mark.parametrize("objects", [listed(), followed()], ids=["page", "watch"])
async def test_others_have_their_turn_after_a_few_objects(objects: AsyncIterator[Any]) -> None:
    counts = list[int]()

    async def somebody_else() -> None:
        while True:
            counts.append(0)
            await asyncio.sleep(0)

    other = asyncio.create_task(somebody_else())
    await asyncio.sleep(0)
    async for _ in objects:
        counts[-1] += 1
    other.cancel()

    assert sum(counts) == COUNT
    assert max(counts) == ITEMS_PER_TURN
