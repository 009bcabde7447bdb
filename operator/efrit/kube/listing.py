"""Reads a collection page by page, each page within a bound of bytes, whatever the size of its objects.

A page that grows too long is given up and asked for again with fewer objects. The objects of a page are decoded one
at a time, so that a page costs its bytes and one object.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Protocol

import msgspec

from efrit.kube.loop_yield import LoopYield
from efrit.kube.nested_json import decoded

Json = dict[str, Any]

FIRST_PAGE = 50
"""Objects asked for at first, before it is known how large they are."""
LONGEST_PAGE = 500
PAGE_BYTES = 1 << 20
"""Of a page, as far as the size of its objects can be foreseen."""
MAX_PAGE_BYTES = 4 << 20
"""Of a page, but for a single object, which the API server bounds."""

FetchPage = Callable[[int, str | None, int | None], Awaitable[bytes | None]]
"""(limit, continue token, most bytes) -> the body of a page, None where it is longer than that."""


class Pace(Protocol):
    """How fast a list is read that nobody waits for."""

    @property
    def page_objects(self) -> int:
        """The most objects of a page."""

    async def page_read(self, took: float) -> None:
        """Return once more may be read, after a page that was read and taken in within so many seconds."""


class _PageMeta(msgspec.Struct, rename={"token": "continue", "version": "resourceVersion"}):
    token: str | None = None
    version: str = ""


class _Page(msgspec.Struct):
    metadata: _PageMeta = msgspec.field(default_factory=_PageMeta)
    # An empty list of metadata comes with null.
    items: list[msgspec.Raw] | None = None


class Listing:
    """The objects of a collection, to be iterated over once. `version` is known then: that to watch from."""

    def __init__(self, fetch: FetchPage, limit: int | None = None, pace: Pace | None = None) -> None:
        """limit: how many objects a page has, whatever their size; pace: of a list that nobody waits for."""
        self._fetch = fetch
        self._fixed = limit
        self._pace = pace
        self.version = ""

    async def __aiter__(self) -> AsyncIterator[Json]:
        limit, token, loop_yield = self._fixed or FIRST_PAGE, None, LoopYield()
        longest = LONGEST_PAGE if self._pace is None else self._pace.page_objects
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            data = await self._fetch(limit, token, MAX_PAGE_BYTES if limit > 1 else None)
            if data is None:
                limit = max(1, limit // 4)
                continue
            page: _Page = await decoded(data, _Page)
            size, token = len(data), page.metadata.token
            self.version = page.metadata.version
            items = page.items or []
            # The objects refer to the page's bytes.
            del data, page
            count = len(items)
            items.reverse()
            while items:
                yield await decoded(items.pop())
                await loop_yield.tick()
            if self._pace is not None:
                await self._pace.page_read(loop.time() - began)
            if not token:
                return
            limit = self._fixed or min(longest, next_limit(limit, count, size))


def next_limit(limit: int, count: int, size: int) -> int:
    """Return how many objects to ask for, where the last page had `count` of `limit` and so many bytes.

    Grows step by step: the next objects may be larger.
    """
    fitting = PAGE_BYTES * max(count, 1) // max(size, 1)
    return max(1, min(fitting, 4 * limit, LONGEST_PAGE))
