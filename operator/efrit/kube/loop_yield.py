"""Yields the event loop to other tasks while many objects are read.

What has arrived already is read without waiting: a page of a list, or all that a watch has of a burst. Taking
in an object costs up to a millisecond, and all other tasks would wait for them.
"""

from __future__ import annotations

import asyncio

ITEMS_PER_TURN = 8
"""Objects that are read before other tasks run."""


class LoopYield:
    """Counts the objects of one list or one watch."""

    def __init__(self) -> None:
        self._count = 0

    async def tick(self) -> None:
        """Count an object, and let other tasks run after every `ITEMS_PER_TURN` objects."""
        self._count += 1
        if self._count % ITEMS_PER_TURN == 0:  # gate: turns
            await asyncio.sleep(0)
