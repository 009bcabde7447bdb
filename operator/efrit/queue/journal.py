"""The claim journal: which request was begun, which attempt it was, by which start of Emacs.

Emacs appends one synced line before it evaluates; we create the file, read its new lines, and replace it when it
has grown by one that has the claims of open requests. The one before stays as claims.old, and recovery reads both.
Blocking functions for the disk thread.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from efrit.protocol import RequestId, id_of_request_file, is_request_id
from efrit.queue.durable import Disk, publish
from efrit.queue.layout import CLAIMS, CLAIMS_NEW, CLAIMS_OLD, Area
from efrit.queue.observe import IndexedRequest, identify

COMPACT_ABOVE_BYTES = 256 * 1024
"""How much a journal may have beyond the claims of open requests before it is compacted."""
MAX_LINE_BYTES = 128 + 9 + 64 + 3
"""Longest line of a claim: id, attempt, boot, two spaces and a newline."""

_CHUNK = 1 << 20
# As strict as Emacs' own reader: both must see the same claims.
_LINE = re.compile(rb"([A-Za-z0-9._-]{1,128}) ([0-9]{1,9}) ([0-9a-z]{1,64})")


@dataclass(frozen=True)
class Claim:
    """One line of the journal."""

    id: RequestId
    attempt: int
    boot: str


def parse_claims(data: bytes) -> Iterator[Claim]:
    """Yield the claims in the whole lines of `data`, without torn or foreign lines."""
    for line in data.split(b"\n")[:-1]:
        match = _LINE.fullmatch(line)
        if match is not None and is_request_id(rid := match[1].decode()):
            yield Claim(RequestId(rid), int(match[2]), match[3].decode())


class ClaimJournal:
    """Attempts by id, kept up to date by reading only what was added since it was last read."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._attempts: dict[RequestId, int] = {}
        self._inode = 0
        self._offset = 0

    def open(self) -> None:
        """Create the journal if there is none, finish an interrupted `compact`, and read the journal."""
        self._finish_exchange()
        self._read(CLAIMS_OLD, 0)
        self.read_new()

    @property
    def size(self) -> int:
        """Bytes read of the journal so far."""
        return self._offset

    def __len__(self) -> int:
        """Count the ids whose attempts are in memory."""
        return len(self._attempts)

    def due(self, open_count: int) -> bool:
        """Return whether `compact` would shorten the journal enough, with so many requests open.

        A compacted journal has one line for each of them at most. That it must have grown by more than that since is
        also what makes it safe to drop claims.old: an Emacs that has it open still appends nothing anywhere else.
        """
        return self._offset > COMPACT_ABOVE_BYTES + 2 * MAX_LINE_BYTES * open_count

    def attempt(self, rid: RequestId) -> int:
        """Return the number of the last attempt begun; 0 if there is none."""
        return self._attempts.get(rid, 0)

    def forget(self, rid: RequestId) -> None:
        """Drop an acknowledged request from memory."""
        self._attempts.pop(rid, None)

    def read_new(self) -> None:
        """Read the lines added since the last call. A journal that is gone is created again: Emacs waits for one."""
        stat = self._disk.stat(Area.ROOT, CLAIMS)
        if stat is None:
            self._disk.remove_non_file(Area.ROOT, CLAIMS)  # gate: odd-journal
            publish(self._disk, Area.ROOT, CLAIMS, b"")
            self._disk.sync_dir(Area.ROOT)  # gate: fsync-new-journal
            stat = self._disk.stat(Area.ROOT, CLAIMS)
        if stat is not None and (stat.st_ino != self._inode or stat.st_size < self._offset):
            self._inode, self._offset = stat.st_ino, 0
        self._offset = self._read(CLAIMS, self._offset)

    def _read(self, name: str, offset: int) -> int:
        """Record the claims in the whole lines from `offset` on; return where they end."""
        for claims, end in self._claims_from(name, offset):
            for claim in claims:
                self._attempts[claim.id] = max(claim.attempt, self.attempt(claim.id))
            offset = end
        return offset

    def _claims_from(
        self, name: str, offset: int, *, forbidden_is_empty: bool = True
    ) -> Iterator[tuple[Iterator[Claim], int]]:
        """Yield the claims in whole lines from `offset` on, some at a time, and where those lines end."""
        while data := self._disk.read(
            Area.ROOT, name, limit=_CHUNK, start=offset, forbidden_is_empty=forbidden_is_empty
        ):
            whole = data[: data.rfind(b"\n") + 1]
            if not whole:
                # A line still being written, or garbage longer than any line: skip only the garbage.
                if len(data) == _CHUNK:
                    yield iter(()), offset + len(data)
                return
            offset += len(whole)
            yield parse_claims(whole), offset
            if len(data) < _CHUNK:
                return

    def compact(self, indexed: Mapping[RequestId, IndexedRequest]) -> None:
        """Replace the journal by one that has only the claims of open requests, whatever waits or runs meanwhile.

        `indexed` is what the index holds. Raises `OSError`; the journal is as good as before then.

        Emacs may have opened the journal before the exchange and write after it: such a claim is in claims.old, which
        is kept whole until the next compaction. The new journal is on the disk, name and all, before the claims.old
        of the compaction before is dropped, so that at any moment claims.old, claims.new and claims.log together
        have every claim of an open request. Emacs reads all three when it starts.
        """
        self._finish_exchange()
        needed = self._open_requests(indexed)
        # A claim may go once its request can not come back: unsynced, a crash could bring it back without its claim.
        for area in (Area.REQUESTS, Area.PROCESSING, Area.RESPONSES):
            self._disk.sync_dir(area)  # gate: fsync-ends
        self._disk.remove_non_file(Area.ROOT, CLAIMS_NEW)
        publish(self._disk, Area.ROOT, CLAIMS_NEW, self._lines_of(needed))  # gate: claims-of-open
        replaced, offset = self._inode, self._offset
        self._exchange()
        self._attempts = {rid: attempt for rid, attempt in self._attempts.items() if rid in indexed or rid in needed}
        stat = self._disk.stat(Area.ROOT, CLAIMS_OLD)
        self._read(CLAIMS_OLD, offset if stat is not None and stat.st_ino == replaced else 0)
        self.read_new()

    def _open_requests(self, indexed: Mapping[RequestId, IndexedRequest]) -> set[RequestId]:
        """Return the ids of all requests that wait or run, by the index and by the directories."""
        needed = {rid for rid, item in indexed.items() if not item.state.final}
        by_name = {item.request_name: rid for rid, item in indexed.items()}
        # Emacs gives some back from processing/ to requests/: looked at in this order, none is missed on its way.
        for area in (Area.REQUESTS, Area.PROCESSING, Area.REQUESTS):
            for name in self._disk.names(area):
                rid = id_of_request_file(name) if area is Area.PROCESSING else by_name.get(name)
                if rid is None and area is Area.REQUESTS and name.endswith(".json"):
                    by_name[name] = rid = identify(self._disk, name) or RequestId("")
                if rid:
                    needed.add(rid)
        return needed

    def _lines_of(self, needed: set[RequestId]) -> bytes:
        """Return a journal with the last claim of each of `needed`. Raises `PermissionError` rather than lose one."""
        last: dict[RequestId, Claim] = {}
        for name in (CLAIMS_OLD, CLAIMS):
            for claims, _ in self._claims_from(name, 0, forbidden_is_empty=False):  # gate: claims-unread
                for claim in claims:
                    if claim.id in needed and claim.attempt >= (last[claim.id].attempt if claim.id in last else 0):
                        last[claim.id] = claim
        return "".join(f"{claim.id} {claim.attempt} {claim.boot}\n" for claim in last.values()).encode()

    def _exchange(self) -> None:
        """Make claims.new the journal and the journal claims.old."""
        # What claims.new was made of may go once it can not.
        self._disk.sync_dir(Area.ROOT)  # gate: fsync-compacted
        if self._disk.stat(Area.ROOT, CLAIMS) is not None:
            self._disk.remove(Area.ROOT, CLAIMS_OLD)
            self._disk.remove_non_file(Area.ROOT, CLAIMS_OLD)
            self._disk.link(Area.ROOT, CLAIMS, Area.ROOT, CLAIMS_OLD)  # gate: journal-before
            self._disk.sync_dir(Area.ROOT)  # gate: fsync-journal-names
        self._disk.remove_non_file(Area.ROOT, CLAIMS)
        self._disk.rename(Area.ROOT, CLAIMS_NEW, Area.ROOT, CLAIMS)
        self._disk.sync_dir(Area.ROOT)

    def _finish_exchange(self) -> None:
        """Finish the exchange that a crash has cut short, or undone after Emacs had written to the new journal."""
        if self._disk.stat(Area.ROOT, CLAIMS_NEW) is not None:  # gate: undone-exchange
            self._exchange()
