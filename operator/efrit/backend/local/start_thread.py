"""A start of Emacs beside an event loop: who is cancelled waits no longer for it than it takes to give it up."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


async def start_in_thread(start: Callable[[Callable[[], bool]], T]) -> T:
    """Return what `start` returns, called in another thread with a function that says whether to give up."""
    abandoned = threading.Event()
    running = asyncio.get_running_loop().run_in_executor(None, start, abandoned.is_set)
    try:
        await asyncio.wait({running})
    except asyncio.CancelledError:
        abandoned.set()
        # Nobody is left who could be told how it ended.
        running.add_done_callback(lambda future: future.cancelled() or future.exception())
        # What it uses may be closed next.
        await asyncio.wait({running})
        raise
    return running.result()
