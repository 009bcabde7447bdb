"""Temporary directories in memory: the queue syncs each file it writes, which a disk takes milliseconds for.

What is synced when is proven by records of the calls (tests/chaos/storage), in memory as on a disk.

What a run that was killed leaves there, the next one removes. Whose a directory is, tells a lock that its process has
and that ends with it: an id of a process may be that of another one by then.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

MEMORY = Path("/dev/shm")
ENOUGH_BYTES = 4 << 30
"""What several tiers side by side never fill."""


def use_memory() -> None:
    """Have this process and those it starts make temporary directories in memory, where nothing else is wanted."""
    if "TMPDIR" not in os.environ and _is_fit():
        os.environ["TMPDIR"] = str(MEMORY)
        tempfile.tempdir = None


def _is_fit() -> bool:
    try:
        room = os.statvfs(MEMORY)
    except OSError:
        return False
    # Containers often have 64 MiB there, from which no program may be run.
    runs_programs = not room.f_flag & os.ST_NOEXEC
    return room.f_bavail * room.f_frsize >= ENOUGH_BYTES and runs_programs and os.access(MEMORY, os.W_OK)


PREFIX = "efrit."
"""Of directories that have an owner."""
FAILED = "failed"
"""The file in the directory of a run whose tests have failed: somebody may want to look at it."""
DAY_SECONDS = 24 * 3600.0

_locks: dict[Path, int] = {}


def owned_directory(kind: str, directory: Path | None = None) -> Path:
    """Make a temporary directory that belongs to this process and to its forks, until `remove` or their end.

    It is in `directory`, which is where temporary directories are, or `MEMORY`: nobody looks elsewhere.
    """
    while True:
        path = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{kind}-", dir=directory))
        lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        fcntl.flock(lock, fcntl.LOCK_EX)
        if path.exists():
            _locks[path] = lock
            return path
        # Another run has found it before it was locked.
        os.close(lock)


def remove(path: Path) -> None:
    """Remove an owned directory; one that is gone stays so."""
    # What was killed at the end may still write.
    shutil.rmtree(path, ignore_errors=True)
    if (lock := _locks.pop(path, None)) is not None:
        os.close(lock)


def keep_for_a_day(path: Path) -> None:
    """Have other runs leave an owned directory alone after the end of this process."""
    (path / FAILED).touch()


@contextlib.contextmanager
def owned_for_a_while(kind: str, directory: Path | None = None) -> Iterator[Path]:
    """Yield an owned directory, which is gone afterwards."""
    path = owned_directory(kind, directory)
    try:
        yield path
    finally:
        remove(path)


def remove_left_behind() -> None:
    """Remove what belongs to processes that are dead, except what is to be kept."""
    places = {Path(tempfile.gettempdir()), MEMORY}
    for path in (path for place in places for path in place.glob(f"{PREFIX}*")):
        with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
            lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            stack.callback(os.close, lock)
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not _is_to_be_kept(path):
                shutil.rmtree(path, ignore_errors=True)


def _is_to_be_kept(path: Path) -> bool:
    try:
        return (path / FAILED).stat().st_mtime + DAY_SECONDS > time.time()
    except FileNotFoundError:
        return False
