"""The one thread that touches the disk, and the group commit on top of it.

A thread because fsync blocks and has no async form. One, because steps on one queue then never overlap,
and because callers that arrive while a batch is being synced form the next batch: under a burst many
requests share one directory sync.
"""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


class Worker:
    """Runs blocking functions one after the other, off the event loop."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="efrit-disk")

    async def run(self, function: Callable[..., Result], *args: object) -> Result:
        """Return the function's result, or raise its exception. A cancelled caller does not stop the function."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, function, *args)

    def close(self) -> None:
        """Wait for what is running."""
        self._pool.shutdown(wait=True)


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
