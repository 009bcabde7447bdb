"""The connections of an event loop that ends."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Mapping

from aiohttp import web

ROUNDS_TO_END, MAX_ROUNDS = 20, 1000
"""Of the event loop: without a connection, until there will be none; and with those that others still know."""


async def stop_serving(runner: web.BaseRunner) -> None:
    """Clean up a runner at a moment at which no connection is between being accepted and having a transport."""
    await all_accepted()
    await runner.cleanup()


async def all_accepted() -> None:
    """Return when each accepted connection has a transport: asyncio leaves it open if its server is closed before.

    What is closed right after, in the same step, accepts no further one.
    """
    # No public name leads to them.
    while any(  # noqa: ASYNC110 - only the loop itself goes on
        getattr(coroutine, "__name__", "") == "_accept_connection2"
        and inspect.getcoroutinestate(coroutine) == inspect.CORO_CREATED
        for task in asyncio.all_tasks()
        if inspect.iscoroutine(coroutine := task.get_coro())
    ):
        await asyncio.sleep(0)


async def abort_all(loop: asyncio.AbstractEventLoop) -> None:
    """Close what is still open. TLS would wait for the other side's goodbye, longer than this loop lives."""
    # No public name leads to connections that no request has come over, or that wait for that goodbye.
    transports: Mapping[int, asyncio.Transport] = getattr(loop, "_transports", {})
    # Aborting is done by a callback of the loop's next round; who was accepted last has no transport before.
    without = 0
    for _ in range(MAX_ROUNDS):
        without = 0 if _abort(transports) else without + 1
        if without == ROUNDS_TO_END:
            return
        await asyncio.sleep(0)


def _abort(transports: Mapping[int, asyncio.Transport]) -> bool:
    """Abort what is open; return whether there is any transport yet."""
    there = list(transports.values())
    for transport in there:
        if not transport.is_closing():
            transport.abort()
    return bool(there)
