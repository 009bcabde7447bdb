"""Keeps room on the queue's volume, and knows when there is none: prunes the archive, holds a reserve, probes.

Blocking functions for the disk thread, but for those that only note what others have seen.
"""

import errno
import logging
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from efrit.protocol import RequestId
from efrit.queue.durable import Disk, is_full, temporary_name
from efrit.queue.layout import Area
from efrit.queue.reserve import FILE_BYTES, Reserve
from efrit.queue.retention import BATCH, ArchiveLimits, Retention
from efrit.queue.space import Space

log = logging.getLogger(__name__)

Result = TypeVar("Result")

TRIES = 4
"""How often one step asks for more room."""
WALK_SECONDS = 3600.0
"""Between two walks over the archive, for what others put there."""
LASTING_SECONDS = 3.0
"""How long a volume must have failed before that counts, unless it is full: one failed step is tried again."""


@dataclass(frozen=True)
class DiskFailure:
    """Why the queue cannot take work: the volume is `full`, or fails. `since` in epoch seconds."""

    full: bool
    message: str
    since: float


class Upkeep:
    """The volume of one queue. `is_live` says whether an id is open or not acknowledged yet."""

    def __init__(
        self,
        disk: Disk,
        limits: ArchiveLimits,
        is_live: Callable[[RequestId], bool],
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._disk = disk
        self._clock = clock
        self._limits = limits
        self.retention = Retention(disk, limits, is_live)
        self.reserve = Reserve(disk)
        #: What was left of the volume at the last check.
        self.space: Space | None = None
        self._ours: DiskFailure | None = None
        self._of_emacs: DiskFailure | None = None
        self._walk_due = 0.0

    @property
    def failure(self) -> DiskFailure | None:
        """Why the volume takes no work; None: it does."""
        now = self._clock()
        for failure in (self._ours, self._of_emacs):
            if failure is not None and (failure.full or not failure.since <= now < failure.since + LASTING_SECONDS):
                return failure
        return None

    @property
    def short(self) -> bool:
        """Whether little is left of the volume, so that what can be spared is deleted before its time."""
        full = self.failure is not None and self.failure.full
        return full or (self.space is not None and self.space.low)

    @property
    def exhausted(self) -> bool:
        """Whether the volume is short of space and the archive has nothing left to delete for it."""
        return self.short and self.retention.complete and not self.retention.due(self._clock(), BATCH)

    @property
    def is_healthy(self) -> bool:
        """Whether nothing has failed that is not known to work again."""
        return self._ours is None and self._of_emacs is None

    # What others have seen

    def failed(self, error: Exception) -> None:
        """Note that a step failed on the volume; the next `tick` finds out whether it still does."""
        self._ours = _continued_failure(self._ours, DiskFailure(is_full(error), str(error), self._clock()))

    def report_emacs_problem(self, problem: str | None) -> None:
        """Note why Emacs cannot write to the queue; None means that it can."""
        if problem is None:
            self._of_emacs = None
            return
        full = any(os.strerror(number) in problem for number in (errno.ENOSPC, errno.EDQUOT))
        self._of_emacs = _continued_failure(self._of_emacs, DiskFailure(full, f"Emacs: {problem}", self._clock()))

    # On the disk thread

    def open(self) -> None:
        """Open the reserve."""
        self.reserve.open()

    def close(self) -> None:
        """Close the archive."""
        self.retention.close()

    def retry_with_space(self, function: Callable[..., Result], *args: object, reserve: bool = False) -> Result:
        """Return the function's result. While the volume is full, prune the archive first, then give up a `reserve`.

        Raises what the function raises.
        """
        for remaining_tries in reversed(range(TRIES)):
            try:
                return function(*args)
            except Exception as error:
                if not is_full(error):
                    raise
                if not remaining_tries or not self.free_space(reserve=reserve):
                    self.failed(error)
                    raise
        raise AssertionError  # pragma: no cover

    def free_space(self, *, reserve: bool) -> bool:
        """Delete some of the archive, or a file of the reserve; return False if there is nothing to delete."""
        now = self._clock()
        while not self.retention.complete:
            self.retention.walk(now)
        return self.retention.prune(now, BATCH) > 0 or (reserve and self.reserve.release_one())

    def tick(self) -> bool:
        """Do one step of the due upkeep; return True if there is more to do at once."""
        try:
            return self._step(self._clock())
        except OSError as error:
            if self._ours is None:
                log.error("the queue's volume: %s", error)
            self.failed(error)
            return False

    def _step(self, now: float) -> bool:
        more = False
        # A clock that was set back does not put it off for longer.
        if now >= self._walk_due or self._walk_due > now + WALK_SECONDS or not self.retention.complete:
            more = not self.retention.walk(now)
            if not more:
                self._walk_due = now + max(1.0, min(WALK_SECONDS, self._limits.seconds / 4))
        self.space = self._disk.space()
        extra = BATCH if self.short and self.retention.complete else 0
        if self.retention.due(now, extra) and self.retention.prune(now, extra):
            return True
        if not more:
            self._maintain_reserve()
        return more

    def _maintain_reserve(self) -> None:
        failure = self._of_emacs
        if failure is not None and failure.full:
            # Half of it is for answers that Emacs holds back, the rest for orders to stop.
            if len(self.reserve) > self.reserve.size // 2:
                self.reserve.release_one()
            return
        if self._ours is None and self.reserve.is_whole and self.space is not None and not self.space.none:
            return
        self.reserve.refill()
        if self._ours is None and self.space is not None and not self.space.none:
            return
        name = temporary_name()
        try:
            self._disk.sync_file(self._disk.create(Area.TMP, name, bytes(FILE_BYTES)))
        finally:
            self._disk.remove(Area.TMP, name)
        if self._ours is not None:
            log.info("the queue's volume takes files again")
        self._ours = None


def _continued_failure(earlier: DiskFailure | None, failure: DiskFailure) -> DiskFailure:
    """Return the failure with the time and text it had first, while it is of one kind."""
    return earlier if earlier is not None and earlier.full == failure.full else failure
