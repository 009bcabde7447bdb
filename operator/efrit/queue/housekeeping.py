"""Keeps a queue in order while it runs: sweeps, deletes old sessions when room is short, compacts the journal."""

import asyncio
import logging
import math
import time

from efrit.errors import StorageError
from efrit.protocol import RequestId
from efrit.queue.archive import Sessions, prune_sessions, tidy
from efrit.queue.observe import IndexedRequest
from efrit.queue.parts import QueueParts
from efrit.queue.put_aside import delete_put_aside

log = logging.getLogger(__name__)

SESSIONS_AT_ONCE = 16
PUT_ASIDE_ROUNDS = 50
"""Turns of the disk thread that one sweep takes for what was put aside."""


class Housekeeping:
    """What is done in a queue beside its requests. `run` in a task."""

    def __init__(self, parts: QueueParts) -> None:
        self._parts = parts
        self._to_be_acknowledged: set[RequestId] = set()
        self._tidied_at = time.monotonic()
        self._compact_not_before = 0.0

    async def run(self) -> None:
        """Keep the queue in order until cancelled."""
        while True:
            while await self._parts.worker.run(self._parts.upkeep.tick):
                pass
            try:
                await self._tidy_if_due()
                await self.prune_sessions_if_short()
            except (StorageError, OSError) as error:
                self._parts.failed(error, "could not tidy the queue")
            await self._compact_journal_if_due()
            await asyncio.sleep(self._upkeep_interval())

    def _upkeep_interval(self) -> float:
        if self._parts.index.open_count or not self._parts.upkeep.is_healthy:
            return self._parts.busy_seconds
        return self._parts.idle_seconds

    async def _tidy_if_due(self) -> None:
        now = time.monotonic()
        if now - self._tidied_at < self._parts.sweep_seconds:
            return
        self._tidied_at = now
        for rid in await self._parts.worker.run(self._tidy_blocking, self._open_sessions()):
            self._parts.forget(rid)
        before = time.time() - self._parts.limits.archive_seconds
        for _ in range(PUT_ASIDE_ROUNDS):
            if not await self._parts.worker.run(delete_put_aside, self._parts.disk, before):
                break

    def _open_sessions(self) -> Sessions:
        """Return which sessions open requests may continue."""
        under_way = [entry for entry in self._parts.index if entry.is_session and not entry.state.final]
        return Sessions(
            continued=frozenset(name for entry in under_way for name in entry.sessions()),
            since=min((entry.queued_at for entry in under_way), default=math.inf),
        )

    async def prune_sessions_if_short(self) -> None:
        """Delete sessions left alone if the volume has no room and the archive nothing to give."""
        if self._parts.upkeep.exhausted:
            await self._parts.worker.run(
                self._prune_sessions_blocking, self._open_sessions(), frozenset(self._parts.index.indexed())
            )

    def _prune_sessions_blocking(self, sessions: Sessions, request_ids: frozenset[RequestId]) -> None:
        deleted = prune_sessions(
            self._parts.disk,
            before=time.time() - min(self._parts.limits.session_seconds, self._parts.limits.archive_seconds),
            limit=SESSIONS_AT_ONCE,
            sessions=sessions,
            is_known=request_ids.__contains__,
        )
        if deleted:
            log.warning("the queue's volume is nearly full: deleted the %d sessions left alone longest", deleted)

    def _tidy_blocking(self, sessions: Sessions) -> tuple[RequestId, ...]:
        now = time.time()
        swept = tidy(
            self._parts.disk,
            before=now - self._parts.limits.archive_seconds,
            is_live=self._parts.index.__contains__,
            sessions=sessions,
            ours=self._to_be_acknowledged,
        )
        for rid in swept.retired:
            self._parts.upkeep.retention.record_archived(rid, now)
        return swept.retired

    async def _compact_journal_if_due(self) -> None:
        now = time.monotonic()
        if now < self._compact_not_before or not self._parts.journal.due(self._parts.index.open_count):
            return
        try:
            await self._parts.worker.run(self._compact_blocking, self._parts.index.indexed())
        except OSError as error:
            # The journal is whole; on a volume that fails this need not be tried every second.
            self._compact_not_before = now + self._parts.sweep_seconds
            self._parts.failed(error, "could not compact claims.log")

    def _compact_blocking(self, indexed: dict[RequestId, IndexedRequest]) -> None:
        self._parts.upkeep.retry_with_space(self._parts.journal.compact, indexed)
