"""The claim journal: which request was begun, which attempt it was, by which start of Emacs.

Emacs appends one synced line before it evaluates; we create the file, read its new lines, and shorten it.
Blocking functions for the disk thread.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from efrit.protocol import RequestId, is_request_id
from efrit.queue.durable import Disk, publish, temporary_name
from efrit.queue.layout import CLAIMS, CLAIMS_OLD, Area

_CHUNK = 1 << 20
# As strict as Emacs' own reader: what is taken is written again, byte for byte, when the journal is shortened.
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
        """Creates the journal if there is none and takes in what an interrupted `compact` left behind."""
        if self._disk.stat(Area.ROOT, CLAIMS) is None:
            publish(self._disk, Area.ROOT, CLAIMS, b"")
            self._disk.sync_dir(Area.ROOT)
        self._merge_old(lambda _: True)
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
        """Reads the lines added since the last call."""
        found = self._disk.stat(Area.ROOT, CLAIMS)
        if found is None:
            return
        if found.st_ino != self._inode or found.st_size < self._offset:
            self._inode, self._offset = found.st_ino, 0
        while self._offset < found.st_size:
            data = self._disk.read(Area.ROOT, CLAIMS, limit=_CHUNK, start=self._offset) or b""
            whole = data[: data.rfind(b"\n") + 1]
            if not whole:
                # A line still being written, or garbage longer than any line: skip only the garbage.
                self._offset += len(data) if len(data) == _CHUNK else 0
                return
            for claim in parse_claims(whole):
                self._attempts[claim.id] = max(claim.attempt, self.attempt(claim.id))
            self._offset += len(whole)

    def compact(self, is_live: Callable[[RequestId], bool]) -> None:
        """Rewrites the journal with the claims of live requests only.

        To be called while nothing waits and nothing runs. A claim Emacs appends meanwhile to the file it
        had already opened is not lost: that file stays reachable as claims.old until it was merged.
        """
        whole = self._read_all(CLAIMS)
        kept = b"".join(_line(claim) for claim in parse_claims(whole) if is_live(claim.id))
        temporary = temporary_name()
        fd = self._disk.create(Area.TMP, temporary, kept)
        try:
            self._disk.sync_file(fd)
            self._disk.link(Area.ROOT, CLAIMS, Area.ROOT, CLAIMS_OLD)
            self._disk.rename(Area.TMP, temporary, Area.ROOT, CLAIMS)
        finally:
            self._disk.remove(Area.TMP, temporary)
        self._disk.sync_dir(Area.ROOT)
        self._merge_old(is_live)
        self.read_new()

    def _merge_old(self, is_live: Callable[[RequestId], bool]) -> None:
        if self._disk.stat(Area.ROOT, CLAIMS_OLD) is None:
            return
        present = set(parse_claims(self._read_all(CLAIMS)))
        missing = [
            _line(claim)
            for claim in parse_claims(self._read_all(CLAIMS_OLD))
            if claim not in present and is_live(claim.id)
        ]
        if missing:
            self._disk.append(Area.ROOT, CLAIMS, b"".join(missing))
        self._disk.remove(Area.ROOT, CLAIMS_OLD)
        self._disk.sync_dir(Area.ROOT)

    def _read_all(self, name: str) -> bytes:
        parts, start = [], 0
        while data := self._disk.read(Area.ROOT, name, limit=_CHUNK, start=start):
            parts.append(data)
            start += len(data)
        return b"".join(parts)


def _line(claim: Claim) -> bytes:
    return f"{claim.id} {claim.attempt} {claim.boot}\n".encode()
