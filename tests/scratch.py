"""Temporary directories in memory: the queue syncs each file it writes, which a disk takes milliseconds for.

What is synced when is proven by records of the calls (tests/chaos/storage), in memory as on a disk.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

MEMORY = Path("/dev/shm")
ENOUGH_BYTES = 4 << 30
"""What several tiers side by side never fill."""


def use_memory(directory: Path = MEMORY, enough: int = ENOUGH_BYTES) -> None:
    """Have this process and those it starts make temporary directories in memory, where nothing else is wanted."""
    if "TMPDIR" not in os.environ and _is_fit(directory, enough):
        os.environ["TMPDIR"] = str(directory)
        tempfile.tempdir = None


def _is_fit(directory: Path, enough: int) -> bool:
    try:
        room = os.statvfs(directory)
    except OSError:
        return False
    # Containers often have 64 MiB there, from which no program may be run.
    runs_programs = not room.f_flag & os.ST_NOEXEC
    return room.f_bavail * room.f_frsize >= enough and runs_programs and os.access(directory, os.W_OK)
