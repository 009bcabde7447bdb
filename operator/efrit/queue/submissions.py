"""Takes requests into a queue: compares what is known, refuses what has no room, stores the rest together."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence

from efrit.errors import InvalidRequest, NoSpace, QueueFull, RequestConflict, RequestTooLarge, StorageError
from efrit.protocol import Digest, Request, RequestId, RequestState, canonical_json, request_file
from efrit.protocol.view import RequestView
from efrit.queue.archive import MAX_REQUEST_FILE
from efrit.queue.durable import naming_failures
from efrit.queue.layout import Area, withdrawn_file
from efrit.queue.observe import MAX_METADATA_BYTES
from efrit.queue.parts import QueueParts
from efrit.queue.state import Entry, kept_bytes_of, packed_metadata
from efrit.queue.submit import IdTaken, Submission, commit, submission
from efrit.queue.worker import GroupCommit


class Submissions:
    """The submissions of one queue: `refresh` updates its index, `view` reads one request with its answer."""

    def __init__(
        self,
        parts: QueueParts,
        refresh: Callable[[Sequence[RequestId]], Awaitable[None]],
        view: Callable[[RequestId], Awaitable[RequestView]],
    ) -> None:
        self._parts = parts
        self._refresh = refresh
        self._view = view
        self._batches = GroupCommit[Submission](parts.worker, self._commit)
        self._being_stored: dict[RequestId, asyncio.Event] = {}

    async def until_stored(self, rid: RequestId) -> None:
        """Return once no submission of `rid` is under way."""
        while (stored := self._being_stored.get(rid)) is not None:
            await stored.wait()

    async def until_all_stored(self) -> None:
        """Return once no submission is under way."""
        for rid in list(self._being_stored):
            await self.until_stored(rid)

    async def submit(self, request: Request) -> tuple[RequestView, bool]:
        """Store `request`; the flag says whether it is new. When this returns, the request survives a crash.

        Raises `RequestTooLarge`, `RequestConflict`, `QueueFull`, `NoSpace`, `StorageError`.
        """
        self._check_size(request)
        digest = request.digest()
        await self.until_stored(request.id)
        entry = self._parts.index.get(request.id)
        if entry is not None:
            return await self._submitted_before(request.id, digest), False
        self._check_capacity(request)
        return await self._store(request, digest)

    def _check_capacity(self, request: Request) -> None:
        index, limits = self._parts.index, self._parts.limits
        if index.open_count >= limits.max_pending:
            raise QueueFull(
                f"{index.open_count} requests wait or run, {limits.max_pending} are allowed (maxPending); "
                "try again later"
            )
        kept_bytes = index.kept_bytes + kept_bytes_of(packed_metadata(request.metadata))
        if kept_bytes > limits.max_kept_bytes:  # gate: kept-bytes
            raise QueueFull(
                f"{len(index)} requests are not acknowledged and use the {limits.max_kept_bytes} bytes of "
                "memory that the bridge has for them; acknowledge answers, send less metadata, or try again later"
            )

    def _check_size(self, request: Request) -> None:
        size = len(request.content.encode())
        if size > self._parts.limits.max_request_bytes:
            raise RequestTooLarge(
                f"the content of {request.id} has {size} bytes, {self._parts.limits.max_request_bytes} are allowed"
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
        self._parts.index.add(entry)
        stored = self._being_stored[request.id] = asyncio.Event()
        task = asyncio.ensure_future(self._finish_storing(request, entry))
        task.add_done_callback(lambda _: self._stored(request.id, stored))
        try:
            # Shielded: a client that hangs up must not leave the entry half-made.
            await asyncio.shield(task)
        except IdTaken:
            await self._refresh([request.id])
            return await self._submitted_before(request.id, digest), False
        return entry.view(), True

    def _stored(self, rid: RequestId, stored: asyncio.Event) -> None:
        self._being_stored.pop(rid, None)
        stored.set()

    async def _finish_storing(self, request: Request, entry: Entry) -> None:
        try:
            await self._batches.add(submission(request))
        except Exception:
            self._parts.index.remove(entry.id)
            # If it could not be taken back, or was there before us, the next scan finds it.
            self._parts.watch.touch(Area.REQUESTS, entry.request_name)
            self._parts.watch.touch(Area.PROCESSING, entry.request_name)
            raise
        entry.durable = True
        if entry.state is RequestState.ANSWERED:
            self._parts.on_change(await self._view(entry.id))
        else:
            self._parts.on_change(entry.view())

    def _commit(self, batch: Sequence[Submission]) -> list[Exception | None]:
        results = commit(self._parts.disk, batch)
        refused = [place for place, result in enumerate(results) if isinstance(result, NoSpace)]
        if refused and self._parts.upkeep.free_space(reserve=False):
            results_of_retry = commit(self._parts.disk, [batch[place] for place in refused])
            for place, result in zip(refused, results_of_retry, strict=True):
                results[place] = result
        for result in results:
            if isinstance(result, StorageError):
                self._parts.upkeep.failed(result)
        return results

    async def _submitted_before(self, rid: RequestId, digest: Digest) -> RequestView:
        entry = self._parts.index.get(rid)
        stored_digest = entry.digest if entry is not None else None
        if stored_digest is None:
            stored_digest = await self._parts.worker.run(self._stored_digest, rid, entry)
            if entry is not None:
                entry.digest = stored_digest
        # An answer whose request is gone cannot be compared; running it twice would be worse.
        if stored_digest is not None and stored_digest != digest:  # gate: digest-of-resubmitted
            raise RequestConflict(f"{rid} was submitted before with other content; choose another id")
        with naming_failures(f"sync requests/ for {rid}"):
            # An earlier attempt may have failed at just this step.
            await self._parts.worker.run(self._parts.disk.sync_dir, Area.REQUESTS)  # gate: fsync-resubmitted
        return await self._view(rid)

    def _stored_digest(self, rid: RequestId, entry: Entry | None) -> Digest | None:
        name = request_file(rid)
        places = [(Area.PROCESSING, name), (Area.ARCHIVE, name), (Area.TMP, withdrawn_file(rid))]
        places.insert(0, (Area.REQUESTS, entry.request_name if entry else name))
        for area, file in places:
            data = self._parts.disk.read(area, file, limit=MAX_REQUEST_FILE)
            if data is not None:
                try:
                    return Request.parse(data).digest()
                except InvalidRequest:
                    return ""
        return None
