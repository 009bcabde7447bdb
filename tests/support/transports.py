"""The connections of an event loop that ends."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

ROUNDS_TO_END, MAX_ROUNDS = 20, 1000
"""Of the event loop: without a connection, until there will be none; and with those that others still know."""


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
