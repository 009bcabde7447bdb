"""The queue as one object: open, submit, view, acknowledge, cancel, close.

Knows nothing of HTTP, processes or Kubernetes.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from efrit.errors import EfritError, NotAnswered, QueueNotReady, RequestNotFound, StorageError
from efrit.protocol import Request, RequestId, RequestReason, RequestState, from_epoch
from efrit.protocol.view import RequestView
from efrit.queue.answers import Answer, read_answer
from efrit.queue.archive import acknowledge
from efrit.queue.cancel import orders
from efrit.queue.cancellations import Cancellations
from efrit.queue.durable import Disk, naming_failures
from efrit.queue.give_back import GivenBack, is_answer_awaited
from efrit.queue.housekeeping import Housekeeping
from efrit.queue.layout import Area
from efrit.queue.limits import QueueLimits
from efrit.queue.observe import RequestFacts, archived_facts
from efrit.queue.parts import Listener, QueueParts
from efrit.queue.recover import identity, recover
from efrit.queue.scanner import Scanner
from efrit.queue.state import Entry, StopOrder
from efrit.queue.submissions import Submissions
from efrit.queue.totals import Totals
from efrit.queue.watch import Watcher

log = logging.getLogger(__name__)


class DurableQueue:
    """One queue directory. `open`, then `run` in a task, `close` at the end; one event loop."""

    def __init__(
        self,
        root: Path,
        limits: QueueLimits | None = None,
        *,
        disk: Disk | None = None,
        watcher: Watcher | None = None,
        on_change: Listener = lambda view: None,
        on_heartbeat: Callable[[], None] = lambda: None,
    ) -> None:
        self.limits = limits or QueueLimits()
        self.queue_id = ""
        self.parts = parts = QueueParts(root, self.limits, disk, watcher, on_change)
        self.disk, self.index, self.upkeep, self.work_logs = parts.disk, parts.index, parts.upkeep, parts.work_logs
        self.scanner = Scanner(parts, on_heartbeat)
        self.housekeeping = Housekeeping(parts)
        # Not `view`: what is stored while the queue closes is not to be reported as refused.
        self._submissions = Submissions(parts, self.scanner.refresh, self._view)
        self._cancellations = Cancellations(parts, self.scanner.refresh, self.view, self._submissions.until_stored)
        self._given_back = GivenBack(parts, self.scanner.scan)
        self._recovered = False
        self._open = self._ends = False

    @property
    def is_open(self) -> bool:
        """Whether requests are taken."""
        return self._open

    @property
    def totals(self) -> Totals:
        """The counts of answers over the life of the volume."""
        return self.scanner.totals

    async def open(self) -> None:
        """Open, recover and scan the directory. Raises `StorageError`, `QueueNotReady`; may be called again then."""
        if not self._recovered:
            await self.parts.worker.run(self._open_blocking)
            self.parts.watch.open()
            # The lock is kept even if the scan fails: what the scan has counted until then is not counted twice.
            self._recovered = True
        try:
            with naming_failures(f"read the queue {self.disk.root}"):
                await self.scanner.scan()
                stop_orders = await self.parts.worker.run(orders, self.disk)
        except StorageError as error:
            self.upkeep.failed(error)
            raise
        for rid, reason in stop_orders.items():
            if (entry := self.index.get(rid)) is not None and not entry.state.final:
                entry.stop = StopOrder(reason, time.monotonic())
        self._open = self.scanner.counts_every_answer = True
        self.scanner.beat = time.monotonic()

    def _open_blocking(self) -> None:
        self.disk.open()
        try:
            with naming_failures("recover the queue"):
                self.upkeep.open()
                # A bridge that is started again on a full volume must come up, or nobody makes room on it.
                self.queue_id = self.upkeep.retry_with_space(identity, self.disk, reserve=True)
                recovered = self.upkeep.retry_with_space(recover, self.disk, from_epoch(time.time()), reserve=True)
                self.upkeep.retry_with_space(self.parts.journal.open, reserve=True)
                self.scanner.load_totals()
        except BaseException:
            self.upkeep.close()
            self.disk.close()
            raise
        if recovered:
            log.info("recovered %d files an earlier bridge left behind", recovered)

    async def close(self) -> None:
        """Stop taking requests and release the directory. Requests being stored are stored first."""
        self._open = False
        self.parts.watch.close()
        try:
            await self.scanner.save_totals()
        except StorageError as error:
            log.warning("the totals were not stored: %s", error)
        self.parts.worker.close()
        self.upkeep.close()
        self.disk.close()

    async def run(self) -> None:
        """Keep the index current until cancelled. Raises `QueueBroken` when the directory is lost."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.parts.watch.run(), name="inotify")
            group.create_task(self.scanner.run(), name="index")
            group.create_task(self.housekeeping.run(), name="upkeep")
            group.create_task(self.work_logs.run(), name="work-logs")

    def report_emacs_problem(self, problem: str | None) -> None:
        """Note why Emacs cannot write to the queue; None means that it can."""
        self.upkeep.report_emacs_problem(problem)

    # Submitting

    async def submit(self, request: Request) -> tuple[RequestView, bool]:
        """Store `request`; the flag says whether it is new. When this returns, the request survives a crash.

        Raises `RequestTooLarge`, `RequestConflict`, `QueueFull`, `NoSpace`, `StorageError`, `QueueNotReady`.
        """
        self._require_open()
        if self._ends:  # gate: ends-with-pod
            raise QueueNotReady("the queue ends with its pod; hand the request over when there is another pod")
        return await self._submissions.submit(request)

    async def give_back(self) -> int:
        """Take nothing more, and give back what never began; return how much. Emacs must have ended.

        Raises `StorageError`, `QueueNotReady`.
        """
        self._require_open()
        self._ends = True
        await self._submissions.until_all_stored()
        return await self._given_back.collect()

    @property
    def awaits_acknowledgement(self) -> bool:
        """Whether there is an answer, or a request that was given back, that nobody has acknowledged."""
        return self.index.count(RequestState.ANSWERED) > 0 and any(map(is_answer_awaited, self.index))

    # Looking

    async def view(self, rid: RequestId, *, response: bool = True) -> RequestView:
        """Return one request, with its response if there is one. Raises `RequestNotFound`, `StorageError`."""
        self._require_open()
        return await self._view(rid, response=response)

    async def _view(self, rid: RequestId, *, response: bool = True) -> RequestView:
        entry = self.index.get(rid)
        if entry is not None and entry.state is not RequestState.ANSWERED:
            return entry.view()
        if entry is not None and not response:
            return entry.view()
        if entry is not None and (given_back := self._given_back.view(entry)) is not None:
            return given_back
        area = Area.RESPONSES if entry is not None else Area.ARCHIVE
        with naming_failures(f"read the answer to {rid}"):
            answer = await self.parts.worker.run(read_answer, self.disk, area, rid)
            if entry is None and answer is not None:
                facts = await self.parts.worker.run(archived_facts, self.disk, rid)
                return _archived(answer, facts)
        if entry is not None and answer is not None:
            return entry.view(answer.response)
        if entry is not None:
            # It left responses/ while we looked: acknowledged by somebody, or removed.
            self.index.remove(rid)
            return await self._view(rid)
        raise RequestNotFound(f"no request {rid} waits, runs, is answered or archived here")

    def views(self) -> Iterator[RequestView]:
        """Yield everything stored and not acknowledged, oldest first, without answers.

        One at a time: all of them could take more memory than there is.
        """
        entries = [entry for entry in self.index if entry.durable]
        return (entry.view() for entry in sorted(entries, key=lambda entry: entry.queued_at))

    # Ending

    async def acknowledge(self, rid: RequestId) -> None:
        """Archive the response. Repeating it is allowed. Raises `NotAnswered`, `RequestNotFound`, `StorageError`."""
        refusals = await self.acknowledge_all([rid])
        if rid in refusals:
            raise refusals[rid]

    async def acknowledge_all(self, rids: Sequence[RequestId]) -> dict[RequestId, EfritError]:
        """Archive several responses; return why those were not that were not, as `acknowledge` would raise it.

        Raises `QueueNotReady`.
        """
        self._require_open()
        refusals: dict[RequestId, EfritError] = {}
        on_disk: list[RequestId] = []
        for rid in dict.fromkeys(rids):
            entry = self.index.get(rid)
            if entry is not None and entry.state is not RequestState.ANSWERED:
                refusals[rid] = NotAnswered(f"{rid} is {entry.state}: there is no answer to acknowledge yet")
            elif self._given_back.acknowledge(rid):
                self.parts.forget(rid)
            else:
                on_disk.append(rid)
        if on_disk:
            refusals |= await self.parts.worker.run(self._acknowledge_blocking, on_disk)
        for rid in on_disk:
            if not isinstance(refusals.get(rid), StorageError):
                self.parts.forget(rid)
        return refusals

    def _acknowledge_blocking(self, rids: Sequence[RequestId]) -> dict[RequestId, EfritError]:
        self.scanner.save_totals_before_archiving()
        refusals: dict[RequestId, EfritError] = {}
        for rid in rids:
            try:
                with naming_failures(f"archive the answer to {rid}"):
                    archived = self.upkeep.retry_with_space(acknowledge, self.disk, rid, reserve=True)
            except EfritError as error:
                refusals[rid] = error
                continue
            if archived:
                self.upkeep.retention.record_archived(rid, time.time())
            else:
                refusals[rid] = RequestNotFound(f"no answer to {rid} is here or in the archive")
        return refusals

    async def cancel(self, rid: RequestId, *, running: bool = True) -> RequestView:
        """Answer a pending request `Cancelled`; with `running`, order a running one to stop. A response stays.

        Raises `RequestNotFound`, `NoSpace`, `StorageError`, `QueueNotReady`.
        """
        self._require_open()
        return await self._cancellations.cancel(rid, running=running)

    async def decline(self, request: Request, *, running: bool = True) -> RequestView:
        """Cancel `request`, even before it is submitted: submitted later, it is found cancelled and does not run.

        Raises `NoSpace`, `StorageError`, `QueueNotReady`.
        """
        self._require_open()
        return await self._cancellations.decline(request, running=running)

    async def stop(self, entry: Entry, reason: RequestReason) -> None:
        """Write a stop order where Emacs looks for it; the supervisor interrupts Emacs."""
        await self._cancellations.stop(entry, reason)

    def _require_open(self) -> None:
        if not self._open:
            raise QueueNotReady(f"the queue {self.disk.root} is not open; try again")


def _archived(answer: Answer, facts: RequestFacts) -> RequestView:
    response = answer.response
    return RequestView(
        id=response.id,
        state=RequestState.ACKNOWLEDGED,
        attempt=response.attempt,
        started_time=response.started,
        response=response,
        response_bytes=answer.size,
        metadata=facts.metadata,
    )
