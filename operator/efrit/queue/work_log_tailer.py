"""The work logs of a queue: reports the progress of requests, and lets readers follow a log as it grows.

inotify says which log grew; a check of running requests once a second finds what it missed. Progress
is reported once a second at most, however fast a log grows.
"""

import asyncio
import contextlib
import logging
import math
import time
from collections.abc import Callable

from efrit.protocol import RequestId, RequestState
from efrit.protocol.view import RequestView
from efrit.queue.durable import Disk, naming_failures
from efrit.queue.layout import id_of_progress_file
from efrit.queue.state import Index
from efrit.queue.work_log import Line, last_progress, read_lines, resume_offset
from efrit.queue.worker import Worker

log = logging.getLogger(__name__)

REPORT_SECONDS = 1.0


class WorkLogTailer:
    """Reports growing logs, and reads their lines. `run` in a task; one event loop."""

    def __init__(self, disk: Disk, worker: Worker, index: Index, on_change: Callable[[RequestView], None]) -> None:
        self._disk = disk
        self._worker = worker
        self._index = index
        self._on_change = on_change
        #: The least time between two reports of one request.
        self.report_seconds = REPORT_SECONDS
        self._grown: set[RequestId] = set()
        self._reported_at: dict[RequestId, float] = {}
        self._grown_event = asyncio.Event()
        self._change_events: dict[RequestId, asyncio.Event] = {}

    # Called by the queue

    def touched(self, name: str) -> None:
        """Record that a file of progress/ changed."""
        rid = id_of_progress_file(name)
        if rid is not None:
            self.notify(rid)
            self._mark_grown(rid)

    def check_running(self) -> None:
        """Have the logs of all running sessions read."""
        for entry in self._index.running():
            if entry.is_session:
                self._mark_grown(entry.id)

    def notify(self, rid: RequestId) -> None:
        """Wake the readers of `rid`'s log: it grew, or the request is finished."""
        event = self._change_events.pop(rid, None)
        if event is not None:
            event.set()

    def notify_all(self) -> None:
        """Wake the readers of every log."""
        for rid in list(self._change_events):
            self.notify(rid)

    def forget(self, rid: RequestId) -> None:
        """Drop what is remembered of a finished request."""
        self.notify(rid)
        self._grown.discard(rid)
        self._reported_at.pop(rid, None)

    # Called by readers

    def change_event(self, rid: RequestId) -> asyncio.Event:
        """Return an event that is set at the next change of `rid`'s log.

        Take it before the read that such a change would make outdated. The log of a finished request changes no
        more: its event is nobody's to set, and not kept.
        """
        entry = self._index.get(rid)
        if entry is None or entry.state.final:  # gate: finished-log
            return asyncio.Event()
        return self._change_events.setdefault(rid, asyncio.Event())

    async def resume_offset(self, rid: RequestId, offset: int) -> int:
        """Return where a reader at `offset` goes on. Raises `StorageError`."""
        with naming_failures(f"read the work log of {rid}"):
            return await self._worker.run(resume_offset, self._disk, rid, offset)

    async def lines(self, rid: RequestId, offset: int) -> tuple[list[Line], int]:
        """Return some lines from `offset` on, and the offset behind them. Raises `StorageError`."""
        with naming_failures(f"read the work log of {rid}"):
            return await self._worker.run(read_lines, self._disk, rid, offset)

    # The loop

    async def run(self) -> None:
        """Report the progress of requests until cancelled."""
        while True:
            now = time.monotonic()
            due = [rid for rid in self._grown if now - self._reported_at.get(rid, -math.inf) >= self.report_seconds]
            for rid in due:
                self._grown.discard(rid)
                if self._is_running(rid):
                    self._reported_at[rid] = now
                    await self._report(rid)
            await self._pause()

    async def _pause(self) -> None:
        due = min((self._reported_at.get(rid, 0.0) + self.report_seconds for rid in self._grown), default=None)
        seconds = None if due is None else max(0.01, due - time.monotonic())
        self._grown_event.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._grown_event.wait()

    def _mark_grown(self, rid: RequestId) -> None:
        if rid not in self._grown and self._is_running(rid):
            self._grown.add(rid)
            self._grown_event.set()

    def _is_running(self, rid: RequestId) -> bool:
        entry = self._index.get(rid)
        return entry is not None and entry.state is RequestState.RUNNING

    async def _report(self, rid: RequestId) -> None:
        entry = self._index.get(rid)
        if entry is None:
            return
        try:
            progress, entry.log_bytes = await self._worker.run(last_progress, self._disk, rid, entry.log_bytes)
        except OSError as error:
            # The next read makes up for it.
            log.warning("the work log of %s cannot be read: %s", rid, error)
            return
        # It may have been answered while we read: then there is nothing left to report.
        if progress is not None and progress != entry.progress and self._is_running(rid):
            entry.progress = progress
            self._on_change(entry.view())
