"""How long the archive is kept: by age, count and bytes, and less long on a volume that fills up.

An index in memory says what is oldest, so that a sweep looks at the files it deletes and at no others. It is built by
a walk over the directory, in slices, and kept up by acknowledgements; a later walk finds what others put there.
Blocking functions for the disk thread.
"""

import heapq
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from efrit.protocol import RequestId, id_of_request_file, id_of_response_file, request_file, response_file
from efrit.queue.archive import delete_archived
from efrit.queue.durable import Disk
from efrit.queue.layout import Area, id_of_log_file, log_file

SLICE = 512
"""Names looked at in one step of a walk: a few milliseconds of the disk thread."""
BATCH = 128
"""Requests deleted in one step."""
KEEP_SECONDS = 60.0
"""What was archived less long ago stays even on a full volume: a hand-over sent twice must still find its answer."""


@dataclass(frozen=True)
class ArchiveLimits:
    """How long (seconds) and how much (requests, bytes of their files) is kept in archive/."""

    seconds: float
    requests: int
    bytes: int


@dataclass(frozen=True, slots=True)
class _Item:
    """The files of one request: when the newest was put there (epoch seconds), and the bytes of all of them.

    `present` has a bit for each of `_names` that is there: the names themselves would be most of the index.
    """

    changed: float
    size: int
    present: int


class ArchiveIndex:
    """What the archive holds, oldest first. Keys are request ids, or names of files that belong to no request."""

    def __init__(self) -> None:
        self._items: dict[str, _Item] = {}
        self._heap: list[tuple[float, str]] = []
        #: Bytes of all files in it.
        self.size = 0

    def __len__(self) -> int:
        return len(self._items)

    def holds(self, key: str, name: str) -> bool:
        """Return whether this file is counted already."""
        item = self._items.get(key)
        return item is not None and name in _present(key, item)

    def put(self, key: str, item: _Item) -> None:
        """Insert `item`, replacing an earlier one of the key."""
        self.drop(key)
        self._items[key] = item
        self.size += item.size
        heapq.heappush(self._heap, (item.changed, key))
        # Outdated entries stay until they come up, but never more of them than current ones.
        if len(self._heap) > 2 * len(self._items) + SLICE:
            self._heap = [(entry.changed, key) for key, entry in self._items.items()]
            heapq.heapify(self._heap)

    def drop(self, key: str) -> None:
        """Drop an entry, if there is one."""
        item = self._items.pop(key, None)
        if item is not None:
            self.size -= item.size

    def oldest(self) -> tuple[str, float] | None:
        """Return the key and time of the oldest entry."""
        while self._heap:
            changed, key = self._heap[0]
            item = self._items.get(key)
            if item is not None and item.changed == changed:
                return key, changed
            heapq.heappop(self._heap)
        return None


class Retention:
    """The archive of one queue. `is_live` says whether an id is open or not acknowledged yet."""

    def __init__(self, disk: Disk, limits: ArchiveLimits, is_live: Callable[[RequestId], bool]) -> None:
        self._disk = disk
        self._limits = limits
        self._is_live = is_live
        self._walk: Iterator[os.DirEntry[str]] | None = None
        self.index = ArchiveIndex()
        #: Whether one walk is done: before that the oldest known need not be the oldest there is.
        self.complete = False

    def record_archived(self, rid: RequestId, now: float) -> None:
        """Record that the files of a request were moved to archive/. `now` in epoch seconds."""
        item = self._measure(rid, now)
        if item is not None:
            self.index.put(rid, item)

    def walk(self, now: float, limit: int = SLICE) -> bool:
        """Look at the next `limit` names of archive/; return True at the end of a walk; the next call begins anew."""
        if self._walk is None:
            self._walk = self._disk.entries(Area.ARCHIVE)
        for count, entry in enumerate(self._walk, start=1):
            key = _key(entry.name)
            if not self.index.holds(key, entry.name) and not self._belongs_to_open_request(key):
                item = self._measure(key, now)
                if item is not None:
                    self.index.put(key, item)
            if count == limit:
                return False
        self._walk, self.complete = None, True
        return True

    def close(self) -> None:
        """Abandon a walk; the next one begins anew."""
        self._walk = None

    def due(self, now: float, extra: int = 0) -> bool:
        """Return whether `prune` would find something to delete."""
        oldest = self.index.oldest()
        return oldest is not None and self._is_due(oldest[1], now, extra)

    def prune(self, now: float, extra: int = 0) -> int:
        """Delete what exceeds its time or the bounds, and `extra` requests more, oldest first; return how many.

        At most `BATCH` at a time. Requests before responses: see `delete_archived`.
        """
        chosen: list[str] = []
        names: list[str] = []
        while len(chosen) < BATCH:
            oldest = self.index.oldest()
            if oldest is None or not self._is_due(oldest[1], now, extra - len(chosen)):
                break
            key, changed = oldest
            self.index.drop(key)
            item = self._measure(key, now)
            # What is spared here the next walk finds again.
            if item is None or self._belongs_to_open_request(key):  # gate: archive-of-open
                continue
            if item.changed > changed:
                self.index.put(key, item)
                continue
            chosen.append(key)
            names.extend(_present(key, item))
        delete_archived(self._disk, names)
        return len(chosen)

    def _is_due(self, changed: float, now: float, extra: int) -> bool:
        limits = self._limits
        if changed < now - limits.seconds:
            return True
        crowded = len(self.index) > limits.requests or self.index.size > limits.bytes or extra > 0
        # A time well in the future is one of a clock that was set back.
        young = now - min(KEEP_SECONDS, limits.seconds) <= changed <= now + KEEP_SECONDS
        return crowded and not young  # gate: archive-minute

    def _belongs_to_open_request(self, key: str) -> bool:
        rid = _id(key)
        if rid is None:
            return False
        if self._is_live(rid):
            return True
        # The request of an answer still in responses/ says whether a resubmission is the same one.
        places = (
            (Area.RESPONSES, response_file(rid)),
            (Area.PROCESSING, request_file(rid)),
            (Area.REQUESTS, request_file(rid)),
        )
        return any(self._disk.stat_any(area, name) is not None for area, name in places)

    def _measure(self, key: str, now: float) -> _Item | None:
        names = enumerate(_names(key))
        stats = {
            bit: status for bit, name in names if (status := self._disk.stat_any(Area.ARCHIVE, name)) is not None
        }
        if not stats:
            return None
        # A rename sets ctime. A time of modification in the future is one that somebody has set.
        changed = max(
            max(status.st_ctime, status.st_mtime if status.st_mtime <= now else 0.0) for status in stats.values()
        )
        return _Item(changed, sum(status.st_size for status in stats.values()), sum(1 << bit for bit in stats))


def _key(name: str) -> str:
    """Return the key of a file: the id of its request, or its own name."""
    rid = id_of_response_file(name) or id_of_log_file(name)
    # Any other name may be one of a request in requests/, but not here.
    if rid is None and (request := id_of_request_file(name)) is not None and request_file(request) == name:
        rid = request
    # A slash is in no id.
    return f"/{name}" if rid is None else rid


def _names(key: str) -> tuple[str, ...]:
    """Return the files of archive/ that may belong to `key`."""
    rid = _id(key)
    return (key.removeprefix("/"),) if rid is None else (request_file(rid), response_file(rid), log_file(rid))


def _present(key: str, item: _Item) -> list[str]:
    return [name for bit, name in enumerate(_names(key)) if item.present >> bit & 1]


def _id(key: str) -> RequestId | None:
    return None if key.startswith("/") else RequestId(key)
