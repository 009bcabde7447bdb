"""Where recordings and crash states lie: in memory, since every state is a directory of its own."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.chaos.storage.recording import Recording
from tests.chaos.storage.scenarios import record_all
from tests.support.faults.file_shim.shim import library
from tests.support.forked_programs import for_all_forks

MEMORY = Path("/dev/shm")


def pytest_before_forks(until_end: ExitStack) -> None:
    """Import the programs once for all forks that start them under the shim, when the first is started."""
    until_end.enter_context(for_all_forks(str(library())))


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
