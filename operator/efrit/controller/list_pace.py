"""Keeps lists that nobody waits for from being felt by who does: a pause after each page, in proportion to its time.

A sweep of 50,000 finished requests is two seconds of an API server's processor and one of the controller's. Without
pauses an answer that comes meanwhile waits for both. With them a sweep has a share of the time; where API server and
controller are busy its pages take longer, and so do its pauses. First lists, which all else waits for, have none.
"""

from __future__ import annotations

import asyncio

SHARE = 0.1
"""Of the time, that pages may take."""
HURRIED_SHARE = 0.5
"""The same, once the sweep has taken `UNHURRIED_SECONDS`."""
UNHURRIED_SECONDS = 120.0
"""The rest of a list can be read for five minutes: by then the API server's store may be compacted."""
MAX_PAUSE_SECONDS = 2.0
PAGE_OBJECTS = 200
"""In a page, at most: 10 ms of the API server. Each page has a cost of its own, that of some 100 objects."""


def pause_after(took: float, elapsed: float) -> float:
    """Return how many seconds to pause after a page that took so many, so many after the sweep began."""
    share = SHARE if elapsed < UNHURRIED_SECONDS else HURRIED_SHARE
    return min(took * (1 / share - 1), MAX_PAUSE_SECONDS)


class ListPace:
    """The pace of one sweep."""

    page_objects = PAGE_OBJECTS

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._began = self._loop.time()

    async def page_read(self, took: float) -> None:
        """Pause after a page, which was read and taken in within so many seconds."""
        await asyncio.sleep(pause_after(took, self._loop.time() - self._began))  # gate: sweep-pause
