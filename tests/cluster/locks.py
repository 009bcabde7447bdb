"""Locks between the processes of this rig: files, released by the kernel when their holder ends."""

from __future__ import annotations

import contextlib
import fcntl
from collections.abc import Iterator
from pathlib import Path

from tests.cluster.progress import say


@contextlib.contextmanager
def exclusive_lock(path: Path, waiting: str) -> Iterator[None]:
    """Hold the lock at PATH, whose directory is made; say WAITING if another process holds it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(waiting)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
