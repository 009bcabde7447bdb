"""An event of one event loop that is set at once, or within a time in which more may come that is done then, too."""

from __future__ import annotations

import asyncio


class AutoResetEvent:
    """One task waits, many set it, and a wait resets it. Set while nobody waits, it wakes who waits next."""

    def __init__(self) -> None:
        self._is_set = False
        self._waiter: asyncio.Future[None] | None = None
        self._later: asyncio.TimerHandle | None = None

    def set(self) -> None:
        """Wake who waits, now."""
        self._cancel_later()
        self._is_set = True
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def set_within(self, seconds: float) -> None:
        """Wake who waits in so many seconds, or when it is to be set anyway before that."""
        loop = asyncio.get_running_loop()
        if self._is_set or (self._later is not None and self._later.when() <= loop.time() + seconds):
            return
        self._cancel_later()
        self._later = loop.call_later(seconds, self.set)

    def _cancel_later(self) -> None:
        if self._later is not None:
            self._later.cancel()
            self._later = None

    async def wait(self, seconds: float | None = None) -> bool:
        """Wait until it is set, and reset it; return False where it was not set within `seconds`."""
        if not self._is_set:
            loop = asyncio.get_running_loop()
            waiter = self._waiter = loop.create_future()
            timer = None if seconds is None else loop.call_later(seconds, _end, waiter)
            try:
                await waiter
            finally:
                self._waiter = None
                if timer is not None:
                    timer.cancel()
        was_set, self._is_set = self._is_set, False
        return was_set


def _end(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
