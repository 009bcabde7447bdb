"""An event loop in a thread of its own, for a program without asyncio: or with one that runs, as a notebook has.

The one place of the client that has a thread: a loop that runs already cannot be waited in.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import wait
from contextlib import ExitStack, aclosing
from functools import partial
from typing import ParamSpec, TypeVar

from anyio.from_thread import start_blocking_portal

P = ParamSpec("P")
T = TypeVar("T")

_BUFFERED_ITEMS = 16
"""How many items of an iteration are fetched before they are asked for."""
_HEED_SECONDS = 1.0
"""After how long Ctrl-C is heeded at the latest."""


class EventLoop:
    """Runs coroutines for callers in any other thread. The thread ends with `stop`, or with the program."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._portal = self._stack.enter_context(start_blocking_portal(name="efrit-client"))
        self._thread: int = self._portal.call(threading.get_ident)

    def run(self, function: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs) -> T:
        """Return what the coroutine function returns. An exception in the caller, as Ctrl-C, cancels it."""
        future = self._portal.start_task_soon(partial(function, *args, **kwargs))
        try:
            # Python heeds a signal that comes right before a wait begins when that is over.
            while not wait((future,), _HEED_SECONDS).done:
                pass
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def iterate(self, items: AsyncIterator[T]) -> Iterator[T]:
        """Yield the items, made in the loop by one task, which ends with this generator."""
        queue: asyncio.Queue[list[T] | BaseException] = self._portal.call(partial(asyncio.Queue, _BUFFERED_ITEMS))
        future = self._portal.start_task_soon(_fill, queue, items)
        try:
            while item := self.run(queue.get):
                if isinstance(item, BaseException):
                    raise item
                yield from item
        finally:
            future.cancel()

    def stop(self, last: Callable[[], Awaitable[None]]) -> None:
        """Run `last`, cancel what is still under way, and end the thread."""
        if threading.get_ident() == self._thread:
            # Collected as garbage by this very thread, which cannot wait for itself.
            self._portal.start_task_soon(self._portal.stop, True)
            return
        try:
            self._portal.call(last)
        finally:
            self._portal.call(self._portal.stop, True)
            self._stack.close()


async def _fill(queue: asyncio.Queue[list[T] | BaseException], items: AsyncIterator[T]) -> None:
    try:
        async with aclosing(items):  # type: ignore[type-var]
            async for item in items:
                await queue.put([item])
    except Exception as error:  # noqa: BLE001 - raised again in the thread of the caller
        await queue.put(error)
    else:
        await queue.put([])
