"""The one thread that touches the disk, and the group commit on top of it.

A thread because fsync blocks and has no async form. One, because steps on one queue then never overlap,
and because callers that arrive while a batch is being synced form the next batch: under a burst many
requests share one directory sync.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Sequence
from functools import partial
from queue import SimpleQueue
from typing import Any, Generic, NamedTuple, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


class _Job(NamedTuple):
    loop: asyncio.AbstractEventLoop
    deliver: Callable[[Any, BaseException | None], None]
    function: Callable[..., Any]
    arguments: tuple[object, ...]


class Worker:
    """Runs blocking functions one after the other, off the event loop.

    What asyncio's executor does besides, a second future and locks for each call, takes longer than most of them.
    """

    def __init__(self) -> None:
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._closed = False

    async def run(self, function: Callable[..., Result], *args: object) -> Result:
        """Return the function's result, or raise its exception. A cancelled caller does not stop the function."""
        outcome: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self.hand_over(partial(_deliver, outcome), function, *args)
        return await outcome

    def hand_over(
        self, deliver: Callable[[Any, BaseException | None], None], function: Callable[..., object], *args: object
    ) -> None:
        """Have the function run; its result, or its exception, is handed to `deliver` in the loop that runs now."""
        if self._closed:
            raise RuntimeError("the disk thread has ended")
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="efrit-disk", daemon=True)
            self._thread.start()
        self._jobs.put(_Job(asyncio.get_running_loop(), deliver, function, args))

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            self._carry_out(job)
            # Nothing of it is kept while there is nothing to do.
            del job

    def _carry_out(self, job: _Job) -> None:
        result, error = None, None
        try:
            result = job.function(*job.arguments)
        except BaseException as raised:  # noqa: BLE001 - handed to who waits
            error = raised
        # Nobody waits where the loop has ended.
        with contextlib.suppress(RuntimeError):
            job.loop.call_soon_threadsafe(job.deliver, result, error)

    def close(self) -> None:
        """Wait for what is running, and for what was to run before this."""
        self._closed = True
        if self._thread is not None:
            self._jobs.put(None)
            self._thread.join()


def _deliver(outcome: asyncio.Future[Any], result: object, error: BaseException | None) -> None:
    if outcome.done():
        return
    if error is None:
        outcome.set_result(result)
    else:
        outcome.set_exception(error)


class GroupCommit(Generic[Item]):
    """Collects items while the worker is busy and hands it all of them at once.

    `commit` gets 1 to `limit` items and returns one entry for each: None, or the exception to raise.
    """

    def __init__(
        self,
        worker: Worker,
        commit: Callable[[Sequence[Item]], Sequence[Exception | None]],
        *,
        limit: int = 64,
    ) -> None:
        self._worker = worker
        self._commit = commit
        self._limit = limit
        self._waiting: list[tuple[Item, asyncio.Future[None]]] = []
        self._busy = False

    async def add(self, item: Item) -> None:
        """Return when the batch with `item` is on the disk. Raises what `commit` reported for it.

        The write goes on even if the client that asked for it has gone.
        """
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()
        self._waiting.append((item, done))
        if not self._busy:
            self._busy = True
            # What is added in the same turn of the loop goes along.
            loop.call_soon(self._begin)
        await done

    def _begin(self) -> None:
        batch = self._waiting[: self._limit]
        del self._waiting[: self._limit]
        try:
            self._worker.hand_over(partial(self._finish, batch), self._commit, [item for item, _ in batch])
        except RuntimeError as error:
            self._finish(batch, None, error)

    def _finish(
        self,
        batch: Sequence[tuple[Item, asyncio.Future[None]]],
        results: Sequence[Exception | None] | None,
        error: BaseException | None,
    ) -> None:
        for (_, done), result in zip(batch, (error,) * len(batch) if results is None else results, strict=True):
            _deliver(done, None, result)
        if self._waiting:
            self._begin()
        else:
            self._busy = False
