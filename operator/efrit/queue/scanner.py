"""Keeps the index of a queue true: looks at what inotify names, and from time to time at every name."""

import contextlib
import time
from collections.abc import Callable, Sequence

from efrit.errors import StorageError
from efrit.protocol import RequestId, RequestState, id_of_request_file, id_of_response_file
from efrit.queue.durable import naming_failures
from efrit.queue.layout import Area
from efrit.queue.observe import Differences, IndexedRequest, Sighting, locate_requests, scan
from efrit.queue.parts import QueueParts
from efrit.queue.state import Entry
from efrit.queue.totals import Totals, load_totals, save_totals
from efrit.queue.watch import Touched

BLIND_SECONDS = 0.1
"""Between two scans while inotify does not work."""
MAX_REFRESHED_AT_ONCE = 64


class Scanner:
    """Looks at the files of a queue. `load_totals` first, on the disk thread; then `run` in a task."""

    def __init__(self, parts: QueueParts, on_heartbeat: Callable[[], None]) -> None:
        self._parts = parts
        self.on_heartbeat = on_heartbeat
        self.totals = self._saved_totals = Totals()
        #: False while the queue opens: what lies in responses/ may have been counted by an earlier bridge.
        self.counts_every_answer = False
        #: Monotonic time of the last completed round.
        self.beat = time.monotonic()

    def load_totals(self) -> None:
        """Read the totals that an earlier bridge stored."""
        self.totals = self._saved_totals = load_totals(self._parts.disk)

    async def save_totals(self) -> None:
        """Store the totals if they have changed. Raises `StorageError`."""
        totals = self.totals
        if totals == self._saved_totals:
            return
        with naming_failures("store the totals"):
            await self._parts.worker.run(save_totals, self._parts.disk, totals)
        self._saved_totals = totals

    def save_totals_before_archiving(self) -> None:
        """Store the totals if they have changed, on the disk thread: a later bridge counts no answer of the archive.

        They are figures: a volume that does not take them keeps no answer from being archived.
        """
        totals = self.totals
        if totals != self._saved_totals:
            with contextlib.suppress(OSError):
                save_totals(self._parts.disk, totals)
                self._saved_totals = totals

    async def run(self) -> None:
        """Keep the index current until cancelled."""
        next_scan = time.monotonic()
        while True:
            now = time.monotonic()
            touched = await self._parts.watch.wait(max(0.0, next_scan - now))
            try:
                if touched.everything or time.monotonic() >= next_scan:  # gate: bridge-rescan
                    await self.scan()
                    await self.save_totals()
                    next_scan = time.monotonic() + self._scan_interval()
                else:
                    await self._refresh_touched(touched)
                    next_scan = min(next_scan, time.monotonic() + self._scan_interval())
            except (StorageError, OSError) as error:
                self._parts.failed(error, "could not look at the queue")
                next_scan = time.monotonic() + self._parts.busy_seconds
            if touched.heartbeat or not self._parts.watch.working:
                self.on_heartbeat()
            self.beat = time.monotonic()

    def _scan_interval(self) -> float:
        if not self._parts.watch.working:
            return BLIND_SECONDS
        return self._parts.busy_seconds if self._parts.index.open_count else self._parts.idle_seconds

    async def scan(self) -> None:
        """Look at every name in the directories. Raises `StorageError`, `OSError`."""
        differences = await self._parts.worker.run(self._scan_blocking, self._parts.index.indexed())
        await self.refresh(differences.ids, differences.names)
        self._notice_attempts(time.monotonic())
        self._parts.work_logs.check_running()

    def _scan_blocking(self, indexed: dict[RequestId, IndexedRequest]) -> Differences:
        self._parts.disk.check_alive()
        self._parts.journal.read_new()
        return scan(self._parts.disk, indexed)

    async def _refresh_touched(self, touched: Touched) -> None:
        ids: set[RequestId] = set()
        foreign: list[str] = []
        for area, name in touched.names:
            rid = id_of_response_file(name) if area is Area.RESPONSES else id_of_request_file(name)
            entry = None if rid is None else self._parts.index.get(rid)
            if area is Area.REQUESTS and entry is not None and _is_unchanged_submission(entry, name):
                continue
            # A foreign file's name need not say its id, and its content may still be being written.
            is_foreign = area is Area.REQUESTS and (entry is None or entry.request_name != name)
            if is_foreign and name.endswith(".json"):
                foreign.append(name)
            elif rid is not None:
                ids.add(rid)
        await self.refresh(tuple(ids), tuple(foreign))

    async def refresh(self, ids: Sequence[RequestId], names: Sequence[str] = ()) -> None:
        """Look at some requests, a few at a time: all their responses together may be large."""
        for start in range(0, len(ids), MAX_REFRESHED_AT_ONCE):
            chosen = ids[start : start + MAX_REFRESHED_AT_ONCE]
            indexed = {rid: item for rid in chosen for item in self._parts.index.indexed(rid).values()}
            self._apply_sightings(await self._parts.worker.run(self._locate_blocking, indexed, chosen, ()))
        for start in range(0, len(names), MAX_REFRESHED_AT_ONCE):
            indexed = self._parts.index.indexed()
            batch = names[start : start + MAX_REFRESHED_AT_ONCE]
            self._apply_sightings(await self._parts.worker.run(self._locate_blocking, indexed, (), batch))

    def _locate_blocking(
        self, indexed: dict[RequestId, IndexedRequest], ids: Sequence[RequestId], names: Sequence[str]
    ) -> list[Sighting]:
        sightings = locate_requests(self._parts.disk, indexed, ids, names)
        self._parts.journal.read_new()
        return sightings

    def _apply_sightings(self, sightings: Sequence[Sighting]) -> None:
        now, monotonic = time.time(), time.monotonic()
        for sighting in sightings:
            entry = self._parts.index.apply(sighting, now=now, monotonic=monotonic)
            if entry is None or entry.id not in self._parts.index:
                continue
            entry.attempt = max(entry.attempt, self._parts.journal.attempt(entry.id))
            if entry.state is RequestState.RUNNING:
                # The claim is written just after the file has moved; a run is an attempt either way.
                entry.attempt = max(entry.attempt, 1)
            response = None
            if sighting.answer is not None:
                response = sighting.answer.response
                if self.counts_every_answer or sighting.answer.written_ns > self._saved_totals.as_of_ns:
                    self.totals = self.totals.with_response(response, sighting.answer.written_ns)
            if entry.durable:
                self._parts.on_change(entry.view(response))
            if entry.state.final:
                self._parts.work_logs.notify(entry.id)
        self._notice_attempts(monotonic)

    def _notice_attempts(self, monotonic: float) -> None:
        """Read new attempts from the journal: a retry may leave processing/ and come back between two scans."""
        for entry in self._parts.index.running():
            attempt = self._parts.journal.attempt(entry.id)
            if attempt > entry.attempt:
                entry.attempt, entry.running_since, entry.stop = attempt, monotonic, None
                self._parts.on_change(entry.view())


def _is_unchanged_submission(entry: Entry, name: str) -> bool:
    """Return whether an event for `name` in requests/ was caused by our own submission."""
    return entry.state is RequestState.QUEUED and entry.request_name == name and entry.digest is not None
