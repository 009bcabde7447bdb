"""Memory of a process: what it took, and a limit that the kernel enforces as it does for a container."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOTS = (Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup"))


class Memory(NamedTuple):
    """Of one process, in megabytes of a million bytes."""

    peak: float
    """Highest resident size."""
    settled: float
    """Resident size now."""
    own: float
    """What is its own of that, shared pages in proportion."""


def memory_of(pid: int) -> Memory:
    """Return what a process takes, and took."""
    status = _fields(Path(f"/proc/{pid}/status"))
    rollup = _fields(Path(f"/proc/{pid}/smaps_rollup"))
    return Memory(status["VmHWM"], status["VmRSS"], rollup["Pss"])


def _fields(path: Path) -> dict[str, float]:
    words = (line.split() for line in path.read_text().splitlines())
    return {row[0].rstrip(":"): int(row[1]) * 1024 / 1e6 for row in words if len(row) == 3 and row[2] == "kB"}


class MemoryGroup:
    """A control group with a limit of memory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def add(self, pid: int) -> None:
        """Put a process under the limit."""
        (self._directory / "cgroup.procs").write_text(str(pid))

    @property
    def killed(self) -> int:
        """How many of its processes the kernel has killed for their memory."""
        for name in ("memory.oom_control", "memory.events"):
            if (path := self._directory / name).exists():
                words = dict(line.split() for line in path.read_text().splitlines())
                return int(words["oom_kill"])
        raise FileNotFoundError(f"{self._directory} counts no kills")


@contextlib.contextmanager
def memory_group(limit: int) -> Iterator[MemoryGroup]:
    """Yield a group with a limit in bytes. Needs the rights of root."""
    root = next(root for root in ROOTS if (root / "cgroup.procs").exists())
    directory = root / f"efrit-{os.getpid()}-{secrets.token_hex(4)}"
    directory.mkdir()
    name = "memory.limit_in_bytes" if (directory / "memory.limit_in_bytes").exists() else "memory.max"
    (directory / name).write_text(str(limit))
    try:
        yield MemoryGroup(directory)
    finally:
        for pid in (directory / "cgroup.procs").read_text().split():
            (root / "cgroup.procs").write_text(pid)
        directory.rmdir()
