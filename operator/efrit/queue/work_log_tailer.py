"""The work logs of a queue: tells how far requests have come, and lets readers follow a log as it grows.

inotify says which log grew, a look every second at those of running requests makes up for what it did not say. How
far a request has come is told once a second at most, however fast its log grows.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable

from efrit.protocol import RequestId, RequestState, RequestView
from efrit.queue.durable import Disk, naming_failures
from efrit.queue.layout import id_of_progress_file
from efrit.queue.state import Index
from efrit.queue.work_log import Line, beginning, last_progress, read_lines
from efrit.queue.worker import Worker

log = logging.getLogger(__name__)

TELL_SECONDS = 1.0


class WorkLogs:
    """News of the logs, and their lines. `run` in a task; one event loop."""

    def __init__(self, disk: Disk, worker: Worker, index: Index, on_change: Callable[[RequestView], None]) -> None:
        self._disk = disk
        self._worker = worker
        self._index = index
        self._on_change = on_change
        self._grown: set[RequestId] = set()
        self._told: dict[RequestId, float] = {}
        self._news = asyncio.Event()
        self._bells: dict[RequestId, asyncio.Event] = {}

    # What the queue tells

    def touched(self, name: str) -> None:
        """Record that a file of progress/ changed."""
        rid = id_of_progress_file(name)
        if rid is not None:
            self.ring(rid)
            self._look(rid)

    def look_at_running(self) -> None:
        """Have the logs of all running sessions read."""
        for entry in self._index.running():
            if entry.is_session:
                self._look(entry.id)

    def ring(self, rid: RequestId) -> None:
        """Wake the readers of `rid`'s log: it grew, or the request is finished."""
        bell = self._bells.pop(rid, None)
        if bell is not None:
            bell.set()

    def ring_all(self) -> None:
        """Wake the readers of every log."""
        for rid in list(self._bells):
            self.ring(rid)

    def forget(self, rid: RequestId) -> None:
        """Drop what is remembered of a finished request."""
        self.ring(rid)
        self._grown.discard(rid)
        self._told.pop(rid, None)

    # What readers ask for

    def bell(self, rid: RequestId) -> asyncio.Event:
        """Return an event that is set at the next change of `rid`'s log.

        Take it before the read that such a change would make outdated.
        """
        return self._bells.setdefault(rid, asyncio.Event())

    async def beginning(self, rid: RequestId, offset: int) -> int:
        """Return where a reader at `offset` goes on. Raises `StorageError`."""
        with naming_failures(f"read the work log of {rid}"):
            return await self._worker.run(beginning, self._disk, rid, offset)

    async def lines(self, rid: RequestId, offset: int) -> tuple[list[Line], int]:
        """Return some lines from `offset` on, and the offset behind them. Raises `StorageError`."""
        with naming_failures(f"read the work log of {rid}"):
            return await self._worker.run(read_lines, self._disk, rid, offset)

    # The loop

    async def run(self) -> None:
        """Report the progress of requests until cancelled."""
        while True:
            now = time.monotonic()
            for rid in [rid for rid in self._grown if now - self._told.get(rid, -TELL_SECONDS) >= TELL_SECONDS]:
                self._grown.discard(rid)
                if self._is_running(rid):
                    self._told[rid] = now
                    await self._tell(rid)
            await self._pause()

    async def _pause(self) -> None:
        due = min((self._told.get(rid, 0.0) + TELL_SECONDS for rid in self._grown), default=None)
        seconds = None if due is None else max(0.01, due - time.monotonic())
        self._news.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._news.wait()

    def _look(self, rid: RequestId) -> None:
        if rid not in self._grown and self._is_running(rid):
            self._grown.add(rid)
            self._news.set()

    def _is_running(self, rid: RequestId) -> bool:
        entry = self._index.get(rid)
        return entry is not None and entry.state is RequestState.RUNNING

    async def _tell(self, rid: RequestId) -> None:
        entry = self._index.get(rid)
        if entry is None:
            return
        try:
            progress, entry.log_bytes = await self._worker.run(last_progress, self._disk, rid, entry.log_bytes)
        except OSError as error:
            # The next look makes up for it.
            log.warning("the work log of %s cannot be read: %s", rid, error)
            return
        # It may have been answered while we read: then there is nothing to be told any more.
        if progress is not None and progress != entry.progress and self._is_running(rid):
            entry.progress = progress
            self._on_change(entry.view())
