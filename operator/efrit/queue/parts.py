"""What the duties of one queue share: the disk and the thread for it, the index, the journal, the upkeep."""

import logging
from collections.abc import Callable
from pathlib import Path

from efrit.protocol import RequestId
from efrit.protocol.view import RequestView
from efrit.queue.durable import Disk
from efrit.queue.journal import ClaimJournal
from efrit.queue.limits import QueueLimits
from efrit.queue.retention import ArchiveLimits
from efrit.queue.state import Index
from efrit.queue.upkeep import Upkeep
from efrit.queue.watch import Watcher
from efrit.queue.work_log_tailer import WorkLogTailer
from efrit.queue.worker import Worker

log = logging.getLogger(__name__)

BUSY_SECONDS = 1.0
IDLE_SECONDS = 10.0

Listener = Callable[[RequestView], None]
"""Gets every change of state but acknowledgement, with the answer, but for the long parts of a long one."""


class QueueParts:
    """The parts of one queue: decisions are made on the event loop, `worker` does what touches the disk."""

    def __init__(
        self, root: Path, limits: QueueLimits, disk: Disk | None, watcher: Watcher | None, on_change: Listener
    ) -> None:
        self.limits = limits
        self.on_change = on_change
        #: The intervals of scans and of upkeep: while a request is open, and at most while none is.
        self.busy_seconds, self.longest_idle_seconds = BUSY_SECONDS, IDLE_SECONDS
        self.shortest_sweep_seconds = BUSY_SECONDS
        self.disk = disk or Disk(root)
        self.worker = Worker()
        self.watch = watcher or Watcher(self.disk.root)
        self.index = Index(limits.max_kept_bytes)
        self.journal = ClaimJournal(self.disk)
        archive_limits = ArchiveLimits(limits.archive_seconds, limits.archive_requests, limits.archive_bytes)
        self.upkeep = Upkeep(self.disk, archive_limits, self.index.__contains__)
        self.work_logs = WorkLogTailer(self.disk, self.worker, self.index, lambda view: self.on_change(view))
        self.watch.on_log = self.work_logs.touched

    @property
    def sweep_seconds(self) -> float:
        """The interval of sweeps: a quarter of the time that files are kept, between a second and a minute."""
        return max(self.shortest_sweep_seconds, min(60.0, self.limits.archive_seconds / 4))

    @property
    def idle_seconds(self) -> float:
        """The interval of scans and of upkeep while no request is open."""
        return min(self.longest_idle_seconds, self.sweep_seconds)

    def failed(self, error: Exception, action: str) -> None:
        """Note that the volume failed, and log it if that is new."""
        log.log(logging.ERROR if self.upkeep.is_healthy else logging.DEBUG, "%s: %s", action, error)
        self.upkeep.failed(error)

    def forget(self, rid: RequestId) -> None:
        """Drop all that memory keeps of a request."""
        self.index.remove(rid)
        self.journal.forget(rid)
        self.work_logs.forget(rid)
