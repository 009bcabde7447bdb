"""The recorder and fault injector of `shim.c`: builds it, reads its record, arms its faults.

Processes started with `FileShim.environment` are observed from then on. Knows nothing of queues.
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
from tests.support.fork_server import SHIM
from tests.support.timeout import TIMEOUT

SOURCE = Path(__file__).with_name("shim.c")
COMPILE = ("gcc", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC")


def library() -> Path:
    """Return the compiled shim, built once for each version of its source."""
    built = cache() / "chaos" / f"shim-{hashlib.sha256(SOURCE.read_bytes()).hexdigest()[:16]}.so"
    if not built.exists():
        ensure_debian_packages({name: DEBIAN_TEST[name] for name in ("gcc", "/usr/include/stdio.h")})
        built.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=built.parent) as scratch:
            made = Path(scratch) / built.name
            subprocess.run([*COMPILE, "-o", made, SOURCE, "-ldl", "-lpthread"], check=True, timeout=TIMEOUT)
            made.rename(built)
    return built


class Action(IntEnum):
    """What an armed fault does; the numbers are those of `enum action` in shim.c."""

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
        """Whether the call returned an error."""
        return self.result < 0


def parse(record: bytes) -> list[Operation]:
    """Return the operations in a record, in the order in which they happened."""
    rules, at = [], 0
    while at < len(record):
        end = record.index(b"\n", at)
        words = record[at:end].decode("utf-8", "surrogateescape").split("\t")
        number, pid, program, kind, result, error, inode, path, target, offset, size = words
        data = record[end + 1 : end + 1 + int(size)]
        at = end + 2 + int(size)
        rules.append(
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
    return rules


class FileShim:
    """One record, and up to 16 armed faults, shared by all processes that see what happens below `roots`."""

    def __init__(self, place: Path, *roots: Path) -> None:
        place.mkdir(parents=True)
        self._state, self._log = place / "state", place / "record"
        # Its own copy: the loader returns the same library for the same file.
        mine = Path(shutil.copy2(library(), place / "shim.so"))
        self._library = ctypes.CDLL(str(mine))
        self._library.chaos_set_clock.argtypes = [ctypes.c_int64]
        if self._library.chaos_open(str(self._state).encode(), str(self._log).encode()) != 0:
            raise OSError(f"the shim cannot use {place}")
        self.environment = {
            "LD_PRELOAD": str(mine),
            SHIM: str(library()),
            "EFRIT_CHAOS_STATE": str(self._state),
            "EFRIT_CHAOS_LOG": str(self._log),
            "EFRIT_CHAOS_ROOTS": ":".join(str(root) for root in roots),
        }

    @property
    def size(self) -> int:
        """Number of bytes recorded so far: where the next operation will begin."""
        return self._log.stat().st_size

    def operations(self, since: int = 0, end: int | None = None) -> list[Operation]:
        """Return what was recorded from byte `since` on, up to byte `end` or now."""
        if end is None:
            with self.still():
                end = self.size
        with self._log.open("rb") as log:
            log.seek(since)
            return parse(log.read(end - since))

    def mark(self, text: str) -> None:
        """Add a line of the test's own to the record."""
        self._library.chaos_mark(text.encode())

    @contextlib.contextmanager
    def still(self) -> Iterator[None]:
        """Hold all processes: nothing changes below the roots, and none is in the middle of a call."""
        self._library.chaos_lock()
        try:
            yield
        finally:
            self._library.chaos_unlock()

    # Faults

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
        """Arm `action` for the call after the next `skip` that match.

        `path` (the new one, of two) and `program` are shell patterns. `operation` is a kind of `Operation` but open
        for create and cut, or `*`. `number`: the errno of FAIL and SHORT.
        """
        words = [word.encode() for word in (program, operation, path)]
        self._library.chaos_arm(slot, int(action), number, skip, int(lasting), *words)

    def clear(self, slot: int = 0) -> None:
        """Disarm a slot."""
        self._library.chaos_arm(slot, 0, 0, 0, 0, b"", b"", b"")

    def hits(self, slot: int = 0) -> int:
        """Return how many calls the armed fault has hit."""
        return int(self._library.chaos_struck(slot))

    def set_clock(self, offset_seconds: int) -> None:
        """Move the wall clock of every process by this much against the true one."""
        self._library.chaos_set_clock(offset_seconds)
