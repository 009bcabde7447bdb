"""What wakes one task of an event loop: at once, or within a time in which more may come that is done then, too."""

from __future__ import annotations

import asyncio


class Bell:
    """One task waits, many ring. Rung while nobody waits, it is heard by who waits next. For one event loop."""

    def __init__(self) -> None:
        self._rung = False
        self._waiter: asyncio.Future[None] | None = None
        self._later: asyncio.TimerHandle | None = None

    def ring(self) -> None:
        """Wake who waits, now."""
        self._hush()
        self._rung = True
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def ring_within(self, seconds: float) -> None:
        """Wake who waits in so many seconds, or when it is to ring anyway before that."""
        loop = asyncio.get_running_loop()
        if self._rung or (self._later is not None and self._later.when() <= loop.time() + seconds):
            return
        self._hush()
        self._later = loop.call_later(seconds, self.ring)

    def _hush(self) -> None:
        if self._later is not None:
            self._later.cancel()
            self._later = None

    async def heard(self, seconds: float | None = None) -> bool:
        """Wait until it rings; return False where it did not within `seconds`. A later ring is heard next time."""
        if not self._rung:
            loop = asyncio.get_running_loop()
            waiter = self._waiter = loop.create_future()
            timer = None if seconds is None else loop.call_later(seconds, _end, waiter)
            try:
                await waiter
            finally:
                self._waiter = None
                if timer is not None:
                    timer.cancel()
        rung, self._rung = self._rung, False
        return rung


def _end(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
