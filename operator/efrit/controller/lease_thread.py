"""The lease in a thread of its own, so that a busy loop does not lose it. The only thread that no library asks for.

A flood of events, a long list or a large plan may keep the controller's loop from its timers for seconds; the renewal
must not wait for that. The thread has its own loop and its own connection, and shares two moments with the rest:
until when the lease is sure, and when the main loop last moved. A main loop that does not move is not to keep the
lease for ever: once it has stood still for as long as a lease lasts, it is renewed no more. A process that has died
is given as long, and one that stands still can do as little.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any, Protocol

from efrit.controller.lease import Lease

log = logging.getLogger(__name__)

BEAT_SECONDS = 0.5
"""How often the main loop records that it runs."""


class Connection(Protocol):
    """What the lease is kept over."""

    async def close(self) -> None:
        """Close it."""


class LeaseThread:
    """Holds a lease in a thread; every method is for the main loop. Close it in the end."""

    def __init__(
        self,
        connect: Callable[[Callable[[], bool]], Awaitable[tuple[Lease, Connection]]],
        seconds: float,
        end: Callable[[int], None] = os._exit,
    ) -> None:
        """Hold the lease that `connect` makes in the thread; its argument: whether the main loop is responsive.

        seconds: how long a lease lasts. end: ends the process at once.
        """
        self._connect = connect
        self._seconds = seconds
        self._end = end
        self._main: asyncio.AbstractEventLoop | None = None
        self._last_beat = time.monotonic()
        self._lease: Lease | None = None
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._holding: asyncio.Task[None] | None = None
        self._closing: asyncio.Event | None = None
        self._connection: Connection | None = None
        self._stopped = False
        self.stands_by = asyncio.Event()
        """Set once another was seen to hold the lease."""
        self._gone: asyncio.Future[None] | None = None

    @property
    def held(self) -> bool:
        """Whether nobody else can hold the lease at this moment."""
        return self._lease is not None and self._lease.held

    async def hold(self, lead: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Wait for the lease, run `lead` on this loop while it is held; return once it is lost and `lead` is over."""
        self._main = asyncio.get_running_loop()
        over: asyncio.Future[None] = self._main.create_future()
        self._gone = self._main.create_future()
        beating = asyncio.create_task(self._beat(), name="lease beat")
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run(lead, over)), name="lease", daemon=True)
        self._last_beat = time.monotonic()
        self._thread.start()
        try:
            await asyncio.shield(over)
        except asyncio.CancelledError:
            self._stopped = True
            self._in_thread(lambda: self._holding and self._holding.cancel())
            with suppress(asyncio.CancelledError):
                await over
            raise
        finally:
            beating.cancel()

    async def release(self) -> None:
        """Give the lease back if this process holds it, and end the thread."""
        if self._thread is None or self._loop is None or self._gone is None:
            return
        if self._lease is not None:
            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self._lease.release(), self._loop))
        if self._closing is not None:
            self._in_thread(self._closing.set)
        await self._gone
        self._thread.join()

    async def _beat(self) -> None:
        while True:
            self._last_beat = time.monotonic()
            if self._lease is not None and self._lease.stands_by:
                self.stands_by.set()
            await asyncio.sleep(BEAT_SECONDS)

    def _is_responsive(self) -> bool:
        """Return whether the main loop has run within the time that a lease lasts."""
        return time.monotonic() - self._last_beat < self._seconds  # gate: main-loop-responsive

    def _in_thread(self, step: Callable[[], object]) -> None:
        if self._loop is not None:
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(step)

    # In the thread.

    async def _run(self, lead: Callable[[], Coroutine[Any, Any, None]], over: asyncio.Future[None]) -> None:
        self._closing = asyncio.Event()
        self._holding = asyncio.create_task(self._hold(lead))
        self._loop = asyncio.get_running_loop()
        if self._stopped:
            # Before there was a loop to report to.
            self._holding.cancel()
        await asyncio.wait({self._holding})
        error = None if self._holding.cancelled() else self._holding.exception()
        assert self._main is not None  # noqa: S101 - set before the thread starts
        assert self._gone is not None  # noqa: S101 - set before the thread starts
        self._main.call_soon_threadsafe(_settle, over, error)
        await self._closing.wait()
        if self._connection is not None:
            await self._connection.close()
        self._main.call_soon_threadsafe(_settle, self._gone, None)

    async def _hold(self, lead: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._lease, self._connection = await self._connect(self._is_responsive)
        await self._lease.hold(lambda: self._lead_on_main(lead))

    async def _lead_on_main(self, lead: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run `lead` on the main loop until it ends; cancelled, cancel it there and wait for its end."""
        here, ended = asyncio.get_running_loop(), asyncio.Event()
        main, tasks = self._main, list[asyncio.Task[None]]()
        assert main is not None  # noqa: S101 - set before the thread starts

        def begin() -> None:
            task = asyncio.ensure_future(lead())
            tasks.append(task)
            task.add_done_callback(report)

        def report(done: asyncio.Task[None]) -> None:
            # An error is kept by whoever leads: nobody else asks for it.
            _ = done.cancelled() or done.exception()
            with suppress(RuntimeError):
                here.call_soon_threadsafe(ended.set)

        def stop() -> None:
            for task in tasks:
                task.cancel()

        main.call_soon_threadsafe(begin)
        try:
            await ended.wait()
        except asyncio.CancelledError:
            main.call_soon_threadsafe(stop)
            await self._end_of_work(ended)
            raise

    async def _end_of_work(self, ended: asyncio.Event) -> None:
        """Wait for the end of the work; a main loop that stands still cannot end it, nor the process."""
        try:
            async with asyncio.timeout(self._seconds):
                await ended.wait()
        except TimeoutError:
            log.critical("the controller stops: the lease is lost, and its work does not end")
            logging.shutdown()
            self._end(1)


def _settle(over: asyncio.Future[None], error: BaseException | None) -> None:
    if over.done():
        return
    if error is None:
        over.set_result(None)
    else:
        over.set_exception(error)
