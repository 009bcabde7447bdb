"""The index: every request that is not acknowledged, by id, in memory. No I/O; clocks are parameters.

Built from a scan at start and kept by sightings afterwards. It may be a moment behind the
directories, never ahead of them.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from efrit.protocol import (
    Digest,
    Progress,
    RequestId,
    RequestReason,
    RequestState,
    Response,
    canonical_json,
    from_epoch,
    request_file,
)
from efrit.protocol.view import RequestView
from efrit.queue.observe import IndexedRequest, Sighting

ENTRY_BYTES = 2048
"""What an entry is counted as without its metadata, in bytes: more than any takes, with its share of a scan."""
# One scan may miss a file that moves backwards (a retry) between two directories; two do not.
_SCANS_TO_BELIEVE_GONE = 2


@dataclass(frozen=True)
class StopOrder:
    """Somebody wants a running request to end. `since` is monotonic seconds."""

    reason: RequestReason
    since: float


@dataclass(slots=True)
class Entry:
    """One request. Epoch seconds but for `running_since` (monotonic, when we first saw it run).

    `metadata` is JSON: parsed, the same 4 KiB take up to 110 KiB of memory.

    `is_session`: a chat or command; `continues` is the session that it continues. `progress` is the last in the first
    `log_bytes` of its work log.
    """

    id: RequestId
    state: RequestState
    queued_at: float
    request_name: str
    durable: bool = True
    withdrawing: bool = False
    started_at: float | None = None
    running_since: float | None = None
    timeout: float | None = None
    is_session: bool = False
    continues: str | None = None
    attempt: int = 0
    digest: Digest | None = None
    metadata: bytes | None = None
    response_bytes: int | None = None
    stop: StopOrder | None = None
    progress: Progress | None = None
    log_bytes: int = 0
    missing: int = 0

    def view(self, response: Response | None = None) -> RequestView:
        """Return the request as the bridge reports it."""
        return RequestView(
            id=self.id,
            state=self.state,
            attempt=self.attempt,
            queued_time=from_epoch(self.queued_at),
            started_time=None if self.started_at is None else from_epoch(self.started_at),
            response=response,
            response_bytes=self.response_bytes,
            metadata=None if self.metadata is None else json.loads(self.metadata),
            progress=self.progress,
        )

    def sessions(self) -> Iterator[str]:
        """Yield the ids of sessions that may belong to the request."""
        yield self.id
        for session in (self.continues, None if self.progress is None else self.progress.session):
            if session is not None:
                yield session


def packed_metadata(metadata: dict[str, Any] | None) -> bytes | None:
    """Return `metadata` as an entry keeps it."""
    return None if metadata is None else canonical_json(metadata)


def kept_bytes_of(metadata: bytes | None) -> int:
    """Return how many bytes of memory an entry with this metadata is counted as."""
    return ENTRY_BYTES + len(metadata or b"")


class Index:
    """Entries by id, with counts by state. `max_bytes` bounds what is kept of requests nobody has admitted, too."""

    def __init__(self, max_bytes: int | None = None) -> None:
        self._max_bytes = max_bytes
        #: Memory of all entries, as `kept_bytes_of` counts it.
        self.kept_bytes = 0
        self._entries: dict[RequestId, Entry] = {}
        self._counts = dict.fromkeys(RequestState, 0)

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Entry]:
        return iter(list(self._entries.values()))

    def __contains__(self, rid: RequestId) -> bool:
        return rid in self._entries

    def get(self, rid: RequestId) -> Entry | None:
        """Return the entry, or None if unknown or acknowledged."""
        return self._entries.get(rid)

    def count(self, state: RequestState) -> int:
        """Return how many requests are in `state`."""
        return self._counts[state]

    @property
    def open_count(self) -> int:
        """How many have no answer yet."""
        return self._counts[RequestState.QUEUED] + self._counts[RequestState.RUNNING]

    def indexed(self, rid: RequestId | None = None) -> dict[RequestId, IndexedRequest]:
        """Return what `observe` needs to know: of all durable entries, or of `rid` alone."""
        chosen = self._entries.values() if rid is None else filter(None, [self._entries.get(rid)])
        return {entry.id: IndexedRequest(entry.state, entry.request_name) for entry in chosen}

    def add(self, entry: Entry) -> None:
        """Add a new request."""
        self._entries[entry.id] = entry
        self._counts[entry.state] += 1
        self.kept_bytes += kept_bytes_of(entry.metadata)

    def remove(self, rid: RequestId) -> Entry | None:
        """Remove a request: acknowledged, gone, or never stored."""
        entry = self._entries.pop(rid, None)
        if entry is not None:
            self._counts[entry.state] -= 1
            self.kept_bytes -= kept_bytes_of(entry.metadata)
        return entry

    def oldest_queued(self) -> float | None:
        """Return when the oldest pending request was queued, in epoch seconds."""
        return min(
            (entry.queued_at for entry in self._entries.values() if entry.state is RequestState.QUEUED),
            default=None,
        )

    def running(self) -> list[Entry]:
        """Return the entries in processing/: at most one eval, except around a crash, and the sessions under way."""
        if not self._counts[RequestState.RUNNING]:
            return []
        return [entry for entry in self if entry.state is RequestState.RUNNING]

    def apply(self, sighting: Sighting, *, now: float, monotonic: float) -> Entry | None:
        """Apply a sighting; return the entry if its state changed (it may be removed by then), else None."""
        entry = self._entries.get(sighting.id)
        if sighting.state is None:
            return None if entry is None else self._not_found(entry)
        if entry is None:
            queued_at = sighting.queued_at if sighting.queued_at is not None else now
            entry = Entry(sighting.id, RequestState.QUEUED, queued_at, sighting.request_name)
            if sighting.facts is not None:
                entry.timeout, entry.metadata = sighting.facts.timeout, self._bounded(sighting.facts.metadata)
                entry.is_session, entry.continues = sighting.facts.is_session, sighting.facts.continues
            self.add(entry)
        elif entry.state is sighting.state or entry.state.final:
            entry.missing = 0
            return None
        self._move(entry, sighting, now=now, monotonic=monotonic)
        return entry

    def give_back(self, entry: Entry) -> None:
        """Take in that a request was taken off the disk before it began: it is kept until that is acknowledged."""
        self._counts[entry.state] -= 1
        self._counts[RequestState.ANSWERED] += 1
        entry.state = RequestState.ANSWERED
        entry.running_since = entry.started_at = entry.stop = None
        entry.attempt = 0

    def _bounded(self, metadata: dict[str, Any] | None) -> bytes | None:
        """Return `metadata` as it is kept; None where there is no memory left for it."""
        packed = packed_metadata(metadata)
        over = self._max_bytes is not None and self.kept_bytes + kept_bytes_of(packed) > self._max_bytes
        return None if over else packed

    def _move(self, entry: Entry, sighting: Sighting, *, now: float, monotonic: float) -> None:
        assert sighting.state is not None  # noqa: S101 - apply() has dealt with it
        self._counts[entry.state] -= 1
        self._counts[sighting.state] += 1
        entry.state = sighting.state
        entry.missing = 0
        if sighting.state is RequestState.QUEUED:
            # A retry is in requests/ under its canonical name.
            entry.request_name = sighting.request_name or request_file(entry.id)
            entry.running_since = entry.started_at = None
        elif sighting.state is RequestState.RUNNING:
            entry.started_at, entry.running_since = now, monotonic
        elif sighting.answer is not None:
            response = sighting.answer.response
            entry.response_bytes = sighting.answer.size
            entry.attempt = max(entry.attempt, response.attempt)
            entry.running_since = entry.stop = None
            if response.started is not None:
                entry.started_at = response.started.timestamp()

    def _not_found(self, entry: Entry) -> Entry | None:
        if not entry.durable or entry.withdrawing:
            return None
        entry.missing += 1
        if entry.missing < _SCANS_TO_BELIEVE_GONE:
            return None
        self.remove(entry.id)
        return entry
