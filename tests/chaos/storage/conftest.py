"""Where recordings and crash states lie: in memory, since every state is a directory of its own."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.storage.recording import Recording
from tests.chaos.storage.scenarios import record_all

MEMORY = Path("/dev/shm")


@pytest.fixture(scope="session")
def scratch() -> Iterator[Path]:
    """Return a directory in memory."""
    place = Path(tempfile.mkdtemp(prefix="efrit-storage-", dir=MEMORY if MEMORY.is_dir() else None))
    yield place
    # What was killed at the end may still write.
    shutil.rmtree(place, ignore_errors=True)


@pytest.fixture(scope="session")
def recordings(scratch: Path, lisp: Path) -> dict[str, Recording]:
    """Return the recordings of every scenario, by name."""
    return record_all(scratch / "recordings", lisp)
