"""The recorder and fault injector of `shim.c`, as the test holds it: builds it, reads its record, arms its points.

Processes started with `FileShim.environment` are seen from then on. Knows nothing of queues.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import hashlib
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path

from tests.cluster.paths import cache
from tests.cluster.programs import DEBIAN_TEST, ensure_debian_packages

SOURCE = Path(__file__).with_name("shim.c")
COMPILE = ("gcc", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC")


def library() -> Path:
    """The compiled shim, built once for each version of its source."""
    built = cache() / "chaos" / f"shim-{hashlib.sha256(SOURCE.read_bytes()).hexdigest()[:16]}.so"
    if not built.exists():
        ensure_debian_packages({name: DEBIAN_TEST[name] for name in ("gcc", "/usr/include/stdio.h")})
        built.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=built.parent) as scratch:
            made = Path(scratch) / built.name
            subprocess.run([*COMPILE, "-o", made, SOURCE, "-ldl", "-lpthread"], check=True, timeout=60)
            made.rename(built)
    return built


class Action(IntEnum):
    """What happens at a point; the numbers are those of `enum action` in shim.c."""

    KILL_BEFORE = 1
    KILL_AFTER = 2
    FAIL = 3
    SHORT = 4
    STOP_BEFORE = 5
    STOP_AFTER = 6
    HANG = 7


@dataclass(frozen=True)
class Operation:
    """One call that changed something, or tried to. `path` and `target` are absolute; `data` is what was written.

    `kind`: create, open (for writing), cut (opened and emptied), write, truncate, fsync, mkdir, symlink, unlink,
    rename, link, or mark: a line of the test's own.
    """

    number: int
    pid: int
    program: str
    kind: str
    result: int
    error: int
    inode: int
    path: str
    target: str
    offset: int
    data: bytes = field(repr=False)

    @property
    def failed(self) -> bool:
        return self.result < 0


def parse(record: bytes) -> list[Operation]:
    """The operations in a record, in the order in which they happened."""
    found, at = [], 0
    while at < len(record):
        end = record.index(b"\n", at)
        words = record[at:end].decode("utf-8", "surrogateescape").split("\t")
        number, pid, program, kind, result, error, inode, path, target, offset, size = words
        data = record[end + 1 : end + 1 + int(size)]
        at = end + 2 + int(size)
        found.append(
            Operation(
                int(number),
                int(pid),
                program,
                kind,
                int(result),
                int(error),
                int(inode),
                path,
                target,
                int(offset),
                data,
            )
        )
    return found


class FileShim:
    """One record, shared by all processes that see what happens below `roots`."""

    def __init__(self, place: Path, *roots: Path) -> None:
        place.mkdir(parents=True)
        self._state, self._log = place / "state", place / "record"
        # Its own copy: the loader gives the same library twice to whoever asks for the same file.
        mine = Path(shutil.copy2(library(), place / "shim.so"))
        self._library = ctypes.CDLL(str(mine))
        self._library.chaos_set_clock.argtypes = [ctypes.c_int64]
        if self._library.chaos_open(str(self._state).encode(), str(self._log).encode()) != 0:
            raise OSError(f"the shim cannot use {place}")
        self.environment = {
            "LD_PRELOAD": str(mine),
            "EFRIT_CHAOS_STATE": str(self._state),
            "EFRIT_CHAOS_LOG": str(self._log),
            "EFRIT_CHAOS_ROOTS": ":".join(str(root) for root in roots),
        }

    @property
    def size(self) -> int:
        """Bytes recorded so far: where the next operation will begin."""
        return self._log.stat().st_size

    def operations(self, since: int = 0, end: int | None = None) -> list[Operation]:
        """What was recorded from byte `since` on, up to byte `end` or now."""
        if end is None:
            with self.still():
                end = self.size
        with self._log.open("rb") as log:
            log.seek(since)
            return parse(log.read(end - since))

    def mark(self, text: str) -> None:
        """Adds a line of the test's own to the record."""
        self._library.chaos_mark(text.encode())

    @contextlib.contextmanager
    def still(self) -> Iterator[None]:
        """While this is held nothing changes below the roots, and no process is in the middle of a call."""
        self._library.chaos_lock()
        try:
            yield
        finally:
            self._library.chaos_unlock()

    # Points

    def arm(
        self,
        action: Action,
        operation: str,
        path: str,
        *,
        program: str = "*",
        number: int = errno.EIO,
        skip: int = 0,
        lasting: bool = False,
        slot: int = 0,
    ) -> None:
        """Has `action` befall the call after the next `skip` that fit; `path` (the new one, of two) and `program` are
        shell patterns.

        `operation` is a kind of `Operation` but open for create and cut, or `*`.
        """
        words = [word.encode() for word in (program, operation, path)]
        self._library.chaos_arm(slot, int(action), number, skip, int(lasting), *words)

    def clear(self, slot: int = 0) -> None:
        """Takes a point away."""
        self._library.chaos_arm(slot, 0, 0, 0, 0, b"", b"", b"")

    def hits(self, slot: int = 0) -> int:
        """How often the point has struck."""
        return int(self._library.chaos_struck(slot))

    def set_clock(self, offset_seconds: int) -> None:
        """Moves the wall clock of every process by this much against the true one."""
        self._library.chaos_set_clock(offset_seconds)
