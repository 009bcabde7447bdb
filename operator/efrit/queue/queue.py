"""The queue as one object: submit, look, cancel, acknowledge; and the loop that keeps the index true.

Where the parts meet: decisions on the event loop, everything that touches the disk on the worker thread.
Knows nothing of HTTP, processes or Kubernetes.
"""

import asyncio
import logging
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from efrit.errors import (
    InvalidRequest,
    NoSpace,
    NotAnswered,
    QueueFull,
    QueueNotReady,
    RequestConflict,
    RequestNotFound,
    RequestTooLarge,
    StorageError,
)
from efrit.protocol import (
    Digest,
    Reason,
    Request,
    RequestId,
    RequestState,
    RequestView,
    canonical_json,
    from_epoch,
    id_of_request_file,
    id_of_response_file,
    request_file,
    response_file,
)
from efrit.queue.answers import Answer, read_answer
from efrit.queue.archive import MAX_REQUEST_FILE, Sessions, acknowledge, prune_sessions, tidy
from efrit.queue.cancel import (
    decline,
    decline_without_request,
    finish_in_place,
    order_stop,
    orders,
    withdraw,
    withdraw_in_place,
)
from efrit.queue.durable import Disk, is_full, naming_failures
from efrit.queue.journal import ClaimJournal
from efrit.queue.layout import Area, withdrawn_file
from efrit.queue.observe import (
    MAX_METADATA_BYTES,
    Differences,
    Known,
    RequestFacts,
    Sighting,
    archived_facts,
    look,
    scan,
)
from efrit.queue.recover import identity, recover
from efrit.queue.retention import ArchiveLimits
from efrit.queue.state import Entry, Index, StopOrder, kept_bytes_of, packed_metadata
from efrit.queue.submit import IdTaken, Submission, commit, submission
from efrit.queue.totals import Totals, load_totals, save_totals
from efrit.queue.upkeep import Upkeep
from efrit.queue.watch import Touched, Watcher
from efrit.queue.work_log_tailer import WorkLogTailer
from efrit.queue.worker import GroupCommit, Worker

log = logging.getLogger(__name__)

SCAN_BUSY_SECONDS = 1.0
SCAN_IDLE_SECONDS = 10.0
SCAN_BLIND_SECONDS = 0.1
_LOOK_AT_ONCE = 64
SESSIONS_AT_ONCE = 16


@dataclass(frozen=True)
class QueueLimits:
    """What the queue accepts (counts, bytes of content) and keeps in archive/ (seconds, requests, bytes).

    `max_kept_bytes` bounds the memory of all requests that are not acknowledged. It has room for the highest
    `max_pending` of an EfritInstance, each request with as much metadata as is allowed. `session_seconds` is how long
    a session stays after its last use even on a full volume.
    """

    max_pending: int = 1000
    max_request_bytes: int = 65536
    archive_seconds: float = 86400
    archive_requests: int = 10_000
    archive_bytes: int = 512 << 20
    max_kept_bytes: int = 32 << 20
    session_seconds: float = 3600


Listener = Callable[[RequestView], None]
"""Told of every change of state but acknowledgement, with the answer, but for the long parts of a long one."""


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
        self.index = Index(self.limits.max_kept_bytes)
        self.totals = Totals()
        self.queue_id = ""
        self.on_change = on_change
        self.on_heartbeat = on_heartbeat
        self.disk = disk or Disk(root)
        self._worker = Worker()
        self._watch = watcher or Watcher(self.disk.root)
        self._journal = ClaimJournal(self.disk)
        kept = ArchiveLimits(self.limits.archive_seconds, self.limits.archive_requests, self.limits.archive_bytes)
        self.upkeep = Upkeep(self.disk, kept, self.index.__contains__)
        self._to_be_acknowledged: set[RequestId] = set()
        self.work_logs = WorkLogTailer(self.disk, self._worker, self.index, lambda view: self.on_change(view))
        self._watch.on_log = self.work_logs.touched
        self._submissions = GroupCommit[Submission](self._worker, self._commit)
        self._being_stored: dict[RequestId, asyncio.Event] = {}
        self._saved_totals = Totals()
        self._recovered = False
        self._open = False
        self._tidied_at = time.monotonic()
        self._compact_not_before = 0.0
        #: Monotonic time of the last completed round of `run`: the proof of life /healthz asks for.
        self.beat = time.monotonic()

    @property
    def is_open(self) -> bool:
        """Whether requests are taken."""
        return self._open

    async def open(self) -> None:
        """Open, recover and scan the directory. Raises `StorageError`, `QueueNotReady`; may be called again then."""
        if not self._recovered:
            await self._worker.run(self._open_blocking)
            self._watch.open()
            # The lock is kept even if the scan fails: what the scan has counted until then is not counted twice.
            self._recovered = True
        try:
            with naming_failures(f"read the queue {self.disk.root}"):
                await self._scan()
                stop_orders = await self._worker.run(orders, self.disk)
        except StorageError as error:
            self.upkeep.failed(error)
            raise
        for rid, reason in stop_orders.items():
            if (entry := self.index.get(rid)) is not None and not entry.state.final:
                entry.stop = StopOrder(reason, time.monotonic())
        self._open = True
        self.beat = time.monotonic()

    def _open_blocking(self) -> None:
        self.disk.open()
        try:
            with naming_failures("recover the queue"):
                self.upkeep.open()
                # A bridge that is started again on a full volume must come up, or nobody makes room on it.
                self.queue_id = self.upkeep.with_room(identity, self.disk, reserve=True)
                recovered = self.upkeep.with_room(recover, self.disk, from_epoch(time.time()), reserve=True)
                self.upkeep.with_room(self._journal.open, reserve=True)
                self.totals = self._saved_totals = load_totals(self.disk)
        except BaseException:
            self.upkeep.close()
            self.disk.close()
            raise
        if recovered:
            log.info("recovered %d files an earlier bridge left behind", recovered)

    async def close(self) -> None:
        """Stop taking requests and release the directory. Requests being stored are stored first."""
        self._open = False
        self._watch.close()
        try:
            await self._save_totals()
        except StorageError as error:
            log.warning("the totals were not stored: %s", error)
        self._worker.close()
        self.upkeep.close()
        self.disk.close()

    # The loop

    async def run(self) -> None:
        """Keep the index current until cancelled. Raises `QueueBroken` when the directory is lost."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._watch.run(), name="inotify")
            group.create_task(self._look_forever(), name="index")
            group.create_task(self._keep_up_forever(), name="upkeep")
            group.create_task(self.work_logs.run(), name="work-logs")

    async def _look_forever(self) -> None:
        next_scan = time.monotonic()
        while True:
            now = time.monotonic()
            touched = await self._watch.wait(max(0.0, next_scan - now))
            try:
                if touched.everything or time.monotonic() >= next_scan:  # gate: bridge-rescan
                    await self._scan()
                    await self._save_totals()
                    next_scan = time.monotonic() + self._scan_interval()
                else:
                    await self._settle(touched)
                    next_scan = min(next_scan, time.monotonic() + self._scan_interval())
            except (StorageError, OSError) as error:
                self._failed(error, "could not look at the queue")
                next_scan = time.monotonic() + SCAN_BUSY_SECONDS
            if touched.heartbeat or not self._watch.working:
                self.on_heartbeat()
            self.beat = time.monotonic()

    def _scan_interval(self) -> float:
        if not self._watch.working:
            return SCAN_BLIND_SECONDS
        idle = min(SCAN_IDLE_SECONDS, self._sweep_seconds())
        return SCAN_BUSY_SECONDS if self.index.open_count else idle

    def _sweep_seconds(self) -> float:
        """Return the interval of sweeps: a minute at most, and a quarter of the time that files are kept."""
        return max(1.0, min(60.0, self.limits.archive_seconds / 4))

    async def _scan(self) -> None:
        differences = await self._worker.run(self._scan_blocking, self.index.known())
        await self._look(differences.ids, differences.names)
        self._notice_attempts(time.monotonic())
        self.work_logs.check_running()

    def _scan_blocking(self, known: dict[RequestId, Known]) -> Differences:
        self.disk.check_alive()
        self._journal.read_new()
        return scan(self.disk, known)

    async def _settle(self, touched: Touched) -> None:
        ids: set[RequestId] = set()
        foreign: list[str] = []
        for area, name in touched.names:
            rid = id_of_response_file(name) if area is Area.RESPONSES else id_of_request_file(name)
            entry = None if rid is None else self.index.get(rid)
            if area is Area.REQUESTS and entry is not None and _waits_as(entry, name):
                continue
            # A foreign file's name need not say its id, and its content may still be being written.
            is_foreign = area is Area.REQUESTS and (entry is None or entry.request_name != name)
            if is_foreign and name.endswith(".json"):
                foreign.append(name)
            elif rid is not None:
                ids.add(rid)
        await self._look(tuple(ids), tuple(foreign))

    async def _look(self, ids: Sequence[RequestId], names: Sequence[str] = ()) -> None:
        """Look at a few requests at a time: all their responses together may be large."""
        for start in range(0, len(ids), _LOOK_AT_ONCE):
            chosen = ids[start : start + _LOOK_AT_ONCE]
            known = {rid: item for rid in chosen for item in self.index.known(rid).values()}
            self._take_in(await self._worker.run(self._look_blocking, known, chosen, ()))
        for start in range(0, len(names), _LOOK_AT_ONCE):
            known = self.index.known()
            some = names[start : start + _LOOK_AT_ONCE]
            self._take_in(await self._worker.run(self._look_blocking, known, (), some))

    def _look_blocking(
        self, known: dict[RequestId, Known], ids: Sequence[RequestId], names: Sequence[str]
    ) -> list[Sighting]:
        sightings = look(self.disk, known, ids, names)
        self._journal.read_new()
        return sightings

    def _take_in(self, sightings: Sequence[Sighting]) -> None:
        now, monotonic = time.time(), time.monotonic()
        for sighting in sightings:
            entry = self.index.apply(sighting, now=now, monotonic=monotonic)
            if entry is None or entry.id not in self.index:
                continue
            entry.attempt = max(entry.attempt, self._journal.attempt(entry.id))
            if entry.state is RequestState.RUNNING:
                # The claim is written just after the file has moved; a run is an attempt either way.
                entry.attempt = max(entry.attempt, 1)
            response = None
            if sighting.answer is not None:
                response = sighting.answer.response
                # Until it is open, what lies in responses/ may have been counted by an earlier bridge.
                if self._open or sighting.answer.written_ns > self._saved_totals.as_of_ns:
                    self.totals = self.totals.counting(response, sighting.answer.written_ns)
            if entry.durable:
                self.on_change(entry.view(response))
            if entry.state.final:
                self.work_logs.notify(entry.id)
        self._notice_attempts(monotonic)

    def _notice_attempts(self, monotonic: float) -> None:
        """Read new attempts from the journal: a retry may leave processing/ and come back between two looks."""
        for entry in self.index.running():
            attempt = self._journal.attempt(entry.id)
            if attempt > entry.attempt:
                entry.attempt, entry.running_since, entry.stop = attempt, monotonic, None
                self.on_change(entry.view())

    # Upkeep

    async def _keep_up_forever(self) -> None:
        while True:
            while await self._worker.run(self.upkeep.tick):
                pass
            try:
                await self._tidy_if_due()
                await self._prune_sessions_if_short()
            except (StorageError, OSError) as error:
                self._failed(error, "could not tidy the queue")
            await self._compact_journal_if_due()
            await asyncio.sleep(self._upkeep_interval())

    def _upkeep_interval(self) -> float:
        if self.index.open_count or not self.upkeep.settled:
            return SCAN_BUSY_SECONDS
        return min(SCAN_IDLE_SECONDS, self._sweep_seconds())

    def _failed(self, error: Exception, action: str) -> None:
        """Note that the volume failed, and log it if that is new."""
        log.log(logging.ERROR if self.upkeep.settled else logging.DEBUG, "%s: %s", action, error)
        self.upkeep.failed(error)

    def emacs_says(self, problem: str | None) -> None:
        """Note why Emacs cannot write to the queue; None means that it can."""
        self.upkeep.emacs_says(problem)

    async def _tidy_if_due(self) -> None:
        now = time.monotonic()
        if now - self._tidied_at < self._sweep_seconds():
            return
        self._tidied_at = now
        for rid in await self._worker.run(self._tidy_blocking, self._open_sessions()):
            self._forget(rid)

    def _open_sessions(self) -> Sessions:
        """Return which sessions open requests may continue."""
        under_way = [entry for entry in self.index if entry.is_session and not entry.state.final]
        return Sessions(
            continued=frozenset(name for entry in under_way for name in entry.sessions()),
            since=min((entry.queued_at for entry in under_way), default=math.inf),
        )

    async def _prune_sessions_if_short(self) -> None:
        if self.upkeep.exhausted:
            await self._worker.run(
                self._prune_sessions_blocking, self._open_sessions(), frozenset(self.index.known())
            )

    def _prune_sessions_blocking(self, sessions: Sessions, known: frozenset[RequestId]) -> None:
        deleted = prune_sessions(
            self.disk,
            before=time.time() - min(self.limits.session_seconds, self.limits.archive_seconds),
            most=SESSIONS_AT_ONCE,
            kept=sessions,
            is_known=known.__contains__,
        )
        if deleted:
            log.warning("the queue's volume is nearly full: deleted the %d sessions left alone longest", deleted)

    def _tidy_blocking(self, sessions: Sessions) -> tuple[RequestId, ...]:
        now = time.time()
        swept = tidy(
            self.disk,
            before=now - self.limits.archive_seconds,
            is_live=self.index.__contains__,
            sessions=sessions,
            ours=self._to_be_acknowledged,
        )
        for rid in swept.retired:
            self.upkeep.retention.archived(rid, now)
        return swept.retired

    async def _compact_journal_if_due(self) -> None:
        now = time.monotonic()
        if now < self._compact_not_before or not self._journal.due(self.index.open_count):
            return
        try:
            await self._worker.run(self._compact_blocking, self.index.known())
        except OSError as error:
            # The journal is whole; on a volume that fails this need not be tried every second.
            self._compact_not_before = now + self._sweep_seconds()
            self._failed(error, "could not compact claims.log")

    def _compact_blocking(self, known: dict[RequestId, Known]) -> None:
        self.upkeep.with_room(self._journal.compact, known)

    async def _save_totals(self) -> None:
        totals = self.totals
        if totals == self._saved_totals:
            return
        with naming_failures("store the totals"):
            await self._worker.run(save_totals, self.disk, totals)
        self._saved_totals = totals

    def _forget(self, rid: RequestId) -> None:
        self.index.remove(rid)
        self._journal.forget(rid)
        self.work_logs.forget(rid)

    # Submitting

    async def submit(self, request: Request) -> tuple[RequestView, bool]:
        """Store `request`; the flag says whether it is new. When this returns, the request survives a crash.

        Raises `RequestTooLarge`, `RequestConflict`, `QueueFull`, `NoSpace`, `StorageError`, `QueueNotReady`.
        """
        self._require_open()
        self._check_size(request)
        digest = request.digest()
        while (stored := self._being_stored.get(request.id)) is not None:
            await stored.wait()
        entry = self.index.get(request.id)
        if entry is not None:
            return await self._submitted_before(request.id, digest), False
        self._check_room(request)
        return await self._store(request, digest)

    def _check_room(self, request: Request) -> None:
        if self.index.open_count >= self.limits.max_pending:
            raise QueueFull(
                f"{self.index.open_count} requests wait or run, {self.limits.max_pending} are allowed (maxPending); "
                "try again later"
            )
        kept = self.index.kept_bytes + kept_bytes_of(packed_metadata(request.metadata))
        if kept > self.limits.max_kept_bytes:  # gate: kept-bytes
            raise QueueFull(
                f"{len(self.index)} requests are not acknowledged and use the {self.limits.max_kept_bytes} bytes of "
                "memory that the bridge has for them; acknowledge answers, send less metadata, or try again later"
            )

    def _check_size(self, request: Request) -> None:
        size = len(request.content.encode())
        if size > self.limits.max_request_bytes:
            raise RequestTooLarge(
                f"the content of {request.id} has {size} bytes, {self.limits.max_request_bytes} are allowed"
            )
        # It is kept in memory for as long as the request is not acknowledged.
        size = len(canonical_json(request.metadata))
        if size > MAX_METADATA_BYTES:
            raise RequestTooLarge(f"the metadata of {request.id} has {size} bytes, {MAX_METADATA_BYTES} are allowed")

    async def _store(self, request: Request, digest: Digest) -> tuple[RequestView, bool]:
        entry = Entry(
            request.id,
            RequestState.QUEUED,
            time.time(),
            request_file(request.id),
            durable=False,
            timeout=request.options.timeout,
            is_session=request.type.is_session,
            continues=None if request.options.session is None else request.options.session.id,
            digest=digest,
            metadata=packed_metadata(request.metadata),
        )
        # Known before it is visible: Emacs may have answered it before the directory sync is done.
        self.index.add(entry)
        stored = self._being_stored[request.id] = asyncio.Event()
        task = asyncio.ensure_future(self._finish_storing(request, entry))
        task.add_done_callback(lambda _: self._stored(request.id, stored))
        try:
            # Shielded: a client that hangs up must not leave the entry half-made.
            await asyncio.shield(task)
        except IdTaken:
            await self._look([request.id])
            return await self._submitted_before(request.id, digest), False
        return entry.view(), True

    def _stored(self, rid: RequestId, stored: asyncio.Event) -> None:
        self._being_stored.pop(rid, None)
        stored.set()

    async def _finish_storing(self, request: Request, entry: Entry) -> None:
        try:
            await self._submissions.add(submission(request))
        except Exception:
            self.index.remove(entry.id)
            # If it could not be taken back, or was there before us, the look finds it.
            self._watch.touch(Area.REQUESTS, entry.request_name)
            self._watch.touch(Area.PROCESSING, entry.request_name)
            raise
        entry.durable = True
        if entry.state is RequestState.ANSWERED:
            self.on_change(await self.view(entry.id))
        else:
            self.on_change(entry.view())

    def _commit(self, batch: Sequence[Submission]) -> list[Exception | None]:
        results = commit(self.disk, batch)
        refused = [place for place, result in enumerate(results) if isinstance(result, NoSpace)]
        if refused and self.upkeep.make_room(reserve=False):
            again = commit(self.disk, [batch[place] for place in refused])
            for place, result in zip(refused, again, strict=True):
                results[place] = result
        for result in results:
            if isinstance(result, StorageError):
                self.upkeep.failed(result)
        return results

    async def _submitted_before(self, rid: RequestId, digest: Digest) -> RequestView:
        entry = self.index.get(rid)
        stored_digest = entry.digest if entry is not None else None
        if stored_digest is None:
            stored_digest = await self._worker.run(self._stored_digest, rid, entry)
            if entry is not None:
                entry.digest = stored_digest
        # An answer whose request is gone cannot be compared; running it twice would be worse.
        if stored_digest is not None and stored_digest != digest:  # gate: digest-of-resubmitted
            raise RequestConflict(f"{rid} was submitted before with other content; choose another id")
        with naming_failures(f"sync requests/ for {rid}"):
            # An earlier attempt may have failed at just this step.
            await self._worker.run(self.disk.sync_dir, Area.REQUESTS)  # gate: fsync-resubmitted
        return await self.view(rid)

    def _stored_digest(self, rid: RequestId, entry: Entry | None) -> Digest | None:
        name = request_file(rid)
        places = [(Area.PROCESSING, name), (Area.ARCHIVE, name), (Area.TMP, withdrawn_file(rid))]
        places.insert(0, (Area.REQUESTS, entry.request_name if entry else name))
        for area, file in places:
            data = self.disk.read(area, file, limit=MAX_REQUEST_FILE)
            if data is not None:
                try:
                    return Request.parse(data).digest()
                except InvalidRequest:
                    return ""
        return None

    # Looking

    async def view(self, rid: RequestId, *, response: bool = True) -> RequestView:
        """Return one request, with its response if there is one. Raises `RequestNotFound`, `StorageError`."""
        self._require_open()
        entry = self.index.get(rid)
        if entry is not None and entry.state is not RequestState.ANSWERED:
            return entry.view()
        if entry is not None and not response:
            return entry.view()
        area = Area.RESPONSES if entry is not None else Area.ARCHIVE
        with naming_failures(f"read the answer to {rid}"):
            answer = await self._worker.run(read_answer, self.disk, area, rid)
            if entry is None and answer is not None:
                facts = await self._worker.run(archived_facts, self.disk, rid)
                return _archived(answer, facts)
        if entry is not None and answer is not None:
            return entry.view(answer.response)
        if entry is not None:
            # It left responses/ while we looked: acknowledged by somebody, or removed.
            self.index.remove(rid)
            return await self.view(rid)
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
        self._require_open()
        entry = self.index.get(rid)
        if entry is not None and entry.state is not RequestState.ANSWERED:
            raise NotAnswered(f"{rid} is {entry.state}: there is no answer to acknowledge yet")
        with naming_failures(f"archive the answer to {rid}"):
            archived = await self._worker.run(self._acknowledge_blocking, rid)
        self._forget(rid)
        if not archived:
            raise RequestNotFound(f"no answer to {rid} is here or in the archive")

    def _acknowledge_blocking(self, rid: RequestId) -> bool:
        archived = self.upkeep.with_room(acknowledge, self.disk, rid, reserve=True)
        if archived:
            self.upkeep.retention.archived(rid, time.time())
        return archived

    async def cancel(self, rid: RequestId, *, running: bool = True) -> RequestView:
        """Answer a pending request `Cancelled`; with `running`, order a running one to stop. A response stays.

        Raises `RequestNotFound`, `NoSpace`, `StorageError`.
        """
        self._require_open()
        while (stored := self._being_stored.get(rid)) is not None:
            await stored.wait()
        entry = self.index.get(rid)
        if entry is None or entry.state is RequestState.ANSWERED:
            return await self.view(rid)
        if entry.state is RequestState.QUEUED and await self._withdraw(entry):
            return await self.view(rid)
        if running:  # gate: cancel-only-waiting
            await self.stop(entry, Reason.CANCELLED)
        return await self.view(rid)

    async def decline(self, request: Request, *, running: bool = True) -> RequestView:
        """Cancel `request`, even before it is submitted: submitted later, it is found cancelled and does not run.

        Raises `NoSpace`, `StorageError`.
        """
        self._require_open()
        while (stored := self._being_stored.get(request.id)) is not None:
            await stored.wait()
        if self.index.get(request.id) is None:
            with naming_failures(f"cancel {request.id}"):
                await self._worker.run(self._decline_blocking, request)
            await self._look([request.id])
        return await self.cancel(request.id, running=running)

    def _decline_blocking(self, request: Request) -> None:
        now = from_epoch(time.time())
        try:
            self.upkeep.with_room(decline, self.disk, submission(request), now)
        except OSError as error:
            if not is_full(error):
                raise
            self.upkeep.with_room(decline_without_request, self.disk, request.id, now, reserve=True)

    async def _withdraw(self, entry: Entry) -> bool:
        entry.withdrawing = True
        try:
            with naming_failures(f"cancel {entry.id}"):
                done = await self._worker.run(self._withdraw_blocking, entry.id, entry.request_name)
            if done:
                await self._look([entry.id])
        finally:
            # What was taken back and could not be answered is not gone: the next cancel finishes it.
            entry.withdrawing = await self._worker.run(self._is_withdrawn, entry.id)
        return done

    def _is_withdrawn(self, rid: RequestId) -> bool:
        return self.disk.whatever_is(Area.TMP, withdrawn_file(rid)) is not None

    def _withdraw_blocking(self, rid: RequestId, name: str) -> bool:
        now = from_epoch(time.time())
        try:
            return self.upkeep.with_room(withdraw, self.disk, rid, name, now)
        except OSError as error:
            if not is_full(error):
                raise
            if self.disk.whatever_is(Area.RESPONSES, response_file(rid)) is not None:
                # It is answered; what is left of the request is archived with the acknowledgement.
                return True
        if not withdraw_in_place(self.disk, rid, name, now):  # gate: withdraw-in-place
            return False
        self.upkeep.with_room(finish_in_place, self.disk, rid, reserve=True)
        return True

    async def stop(self, entry: Entry, reason: Reason) -> None:
        """Write a stop order where Emacs looks for it; the supervisor interrupts Emacs."""
        with naming_failures(f"order {entry.id} to stop"):
            await self._worker.run(self._order_blocking, entry.id, reason)
        if entry.stop is None:
            entry.stop = StopOrder(reason, time.monotonic())

    def _order_blocking(self, rid: RequestId, reason: Reason) -> None:
        self.upkeep.with_room(order_stop, self.disk, rid, reason, reserve=True)  # gate: stop-reserve

    def _require_open(self) -> None:
        if not self._open:
            raise QueueNotReady(f"the queue {self.disk.root} is not open; try again")


def _waits_as(entry: Entry, name: str) -> bool:
    """Return whether news of `name` in requests/ is only the echo of our own submission."""
    return entry.state is RequestState.QUEUED and entry.request_name == name and entry.digest is not None


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
