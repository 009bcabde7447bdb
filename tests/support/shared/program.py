"""The file system that remembers, built once for each version of its source."""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
from pathlib import Path

from tests.cluster import locks
from tests.cluster.paths import cache
from tests.cluster.progress import run

SOURCE = Path(__file__).with_name("delayed_mount")


def available() -> bool:
    """Return whether hosts can be made here: it takes root, FUSE and Go."""
    return os.geteuid() == 0 and os.access("/dev/fuse", os.R_OK | os.W_OK) and shutil.which("go") is not None


def delayed_mount() -> Path:
    """Return the path of the program; build it where it is missing."""
    sources = [(SOURCE / name).read_bytes() for name in ("main.go", "go.mod", "go.sum")]
    digest = hashlib.sha256(b"\0".join([*sources, platform.machine().encode()])).hexdigest()[:16]
    program = cache() / "bin" / f"delayed-mount-{digest}"
    if not program.exists():
        program.parent.mkdir(parents=True, exist_ok=True)
        with locks.exclusive_lock(
            program.with_suffix(".lock"), "another process is building delayed-mount: waiting for it"
        ):
            if not program.exists():
                partial = program.with_suffix(".part")
                run(["go", "build", "-o", str(partial), "."], doing="building delayed-mount", cwd=SOURCE)
                partial.rename(program)
    return program
