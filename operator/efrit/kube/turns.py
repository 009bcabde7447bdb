"""Gives others their turn on the event loop while many objects are taken in.

What has arrived already is read without waiting: a page of a list, or all that a watch has to tell of a burst. Taking
in an object costs up to a millisecond, and whoever else has something to do would wait for all of them.
"""

from __future__ import annotations

import asyncio

AT_A_TIME = 8
"""Objects that are taken in before others have their turn."""


class Turns:
    """Counts the objects of one list or one watch."""

    def __init__(self) -> None:
        self._taken = 0

    async def taken(self) -> None:
        """Count an object, and let others have their turn when it is theirs."""
        self._taken += 1
        if self._taken % AT_A_TIME == 0:  # gate: turns
            await asyncio.sleep(0)
