"""The claim journal: which request was begun, which attempt it was, by which start of Emacs.

Emacs appends one synced line before it evaluates; we create the file, read its new lines, and begin a new one when it
has grown. The one before stays as claims.old, and recovery reads both. Blocking functions for the disk thread.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from efrit.protocol import RequestId, is_request_id
from efrit.queue.durable import Disk, publish
from efrit.queue.layout import CLAIMS, CLAIMS_NEW, CLAIMS_OLD, Area

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
    """The claims in whole lines of `data`; torn or foreign lines are passed over."""
    for line in data.split(b"\n")[:-1]:
        match = _LINE.fullmatch(line)
        if match is not None and is_request_id(rid := match[1].decode()):
            yield Claim(RequestId(rid), int(match[2]), match[3].decode())


class ClaimJournal:
    """Attempts by id, kept up to date by reading only what was added since the last look."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._attempts: dict[RequestId, int] = {}
        self._inode = 0
        self._offset = 0

    def open(self) -> None:
        """Creates the journal if there is none, finishes a `rotate` cut short, and reads it."""
        self._finish_rotation()
        self._read(CLAIMS_OLD, 0)
        self.read_new()

    @property
    def size(self) -> int:
        """Bytes read of the journal so far."""
        return self._offset

    def attempt(self, rid: RequestId) -> int:
        """The last attempt begun; 0 if none."""
        return self._attempts.get(rid, 0)

    def forget(self, rid: RequestId) -> None:
        """Drops what is remembered in memory of an acknowledged request."""
        self._attempts.pop(rid, None)

    def read_new(self) -> None:
        """Reads the lines added since the last call. A journal that is gone is made again: without it Emacs waits."""
        found = self._disk.stat(Area.ROOT, CLAIMS)
        if found is None:
            publish(self._disk, Area.ROOT, CLAIMS, b"")
            self._disk.sync_dir(Area.ROOT)
            found = self._disk.stat(Area.ROOT, CLAIMS)
        if found is not None and (found.st_ino != self._inode or found.st_size < self._offset):
            self._inode, self._offset = found.st_ino, 0
        self._offset = self._read(CLAIMS, self._offset)

    def _read(self, name: str, offset: int) -> int:
        """Takes in the claims in whole lines from `offset` on; returns where they end."""
        while data := self._disk.read(Area.ROOT, name, limit=_CHUNK, start=offset):
            whole = data[: data.rfind(b"\n") + 1]
            if not whole:
                # A line still being written, or garbage longer than any line: skip only the garbage.
                return offset + (len(data) if len(data) == _CHUNK else 0)
            for claim in parse_claims(whole):
                self._attempts[claim.id] = max(claim.attempt, self.attempt(claim.id))
            offset += len(whole)
        return offset

    def rotate(self) -> bool:
        """Begins a new journal and drops the one before the last. False while anything waits or runs.

        Emacs may have opened the journal before the exchange and write after it. A claim made at any moment is in
        claims.old, which is kept until the next rotation, or in claims.new, whose name is synced before it becomes
        the journal; both names are, and Emacs reads all three files when it starts.
        """
        self._finish_rotation()
        if any(
            name.endswith(".json") for area in (Area.REQUESTS, Area.PROCESSING) for name in self._disk.names(area)
        ):
            return False
        # A claim may go once its answer can not: unsynced, a crash could bring the request back without either.
        self._disk.sync_dir(Area.RESPONSES)
        publish(self._disk, Area.ROOT, CLAIMS_NEW, b"")
        self._disk.remove(Area.ROOT, CLAIMS_OLD)
        self._disk.link(Area.ROOT, CLAIMS, Area.ROOT, CLAIMS_OLD)
        self._disk.sync_dir(Area.ROOT)
        self._disk.rename(Area.ROOT, CLAIMS_NEW, Area.ROOT, CLAIMS)
        self._disk.sync_dir(Area.ROOT)
        self._read(CLAIMS_OLD, self._offset)
        self.read_new()
        return True

    def _finish_rotation(self) -> None:
        found = self._disk.stat(Area.ROOT, CLAIMS_NEW)
        if found is None:
            return
        if found.st_size == 0:
            self._disk.remove(Area.ROOT, CLAIMS_NEW)
        else:
            # Emacs wrote to it as to the journal: a crash has undone the exchange, and claims.old is complete.
            self._disk.rename(Area.ROOT, CLAIMS_NEW, Area.ROOT, CLAIMS)
        self._disk.sync_dir(Area.ROOT)
