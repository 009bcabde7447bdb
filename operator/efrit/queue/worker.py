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
from queue import SimpleQueue
from typing import Any, Generic, NamedTuple, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


class _Job(NamedTuple):
    loop: asyncio.AbstractEventLoop
    outcome: asyncio.Future[Any]
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
        if self._closed:
            raise RuntimeError("the disk thread has ended")
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="efrit-disk", daemon=True)
            self._thread.start()
        loop = asyncio.get_running_loop()
        outcome: asyncio.Future[Result] = loop.create_future()
        self._jobs.put(_Job(loop, outcome, function, args))
        return await outcome

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
            job.loop.call_soon_threadsafe(_deliver, job.outcome, result, error)

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
        self._task: asyncio.Task[None] | None = None

    async def add(self, item: Item) -> None:
        """Return when the batch with `item` is on the disk. Raises what `commit` reported for it."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, done))
        if self._task is None:
            self._task = asyncio.create_task(self._work(), name="group-commit")
        # Shielded: the write goes on even if the client that asked for it has gone.
        await asyncio.shield(done)

    async def _work(self) -> None:
        try:
            while self._waiting:
                batch = self._waiting[: self._limit]
                del self._waiting[: self._limit]
                try:
                    results = await self._worker.run(self._commit, [item for item, _ in batch])
                except Exception as error:  # noqa: BLE001 - handed to every caller of the batch
                    results = [error] * len(batch)
                for (_, done), result in zip(batch, results, strict=True):
                    if done.cancelled():
                        continue
                    if result is None:
                        done.set_result(None)
                    else:
                        done.set_exception(result)
        finally:
            self._task = None
