"""Where recordings and crash states lie: in memory, since every state is a directory of its own."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.storage.recording import Recording
from tests.chaos.storage.scenarios import record_all
from tests.support.compiled_lisp import compiled_lisp

MEMORY = Path("/dev/shm")


@pytest.fixture(scope="session")
def scratch() -> Iterator[Path]:
    """Return a directory in memory."""
    place = Path(tempfile.mkdtemp(prefix="efrit-storage-", dir=MEMORY if MEMORY.is_dir() else None))
    yield place
    shutil.rmtree(place)


@pytest.fixture(scope="session")
def lisp(scratch: Path) -> Path:
    """Return the compiled Lisp."""
    return compiled_lisp(scratch / "lisp")


@pytest.fixture(scope="session")
def recordings(scratch: Path, lisp: Path) -> dict[str, Recording]:
    """Return the recordings of every scenario, by name."""
    return record_all(scratch / "recordings", lisp)
