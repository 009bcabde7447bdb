"""Where recordings and crash states lie: in memory, since every state is a directory of its own."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.chaos.storage.recording import Recording
from tests.chaos.storage.scenarios import record_all
from tests.scratch import MEMORY, owned_for_a_while
from tests.support.faults.file_shim.shim import library
from tests.support.forked_programs import for_all_forks


def pytest_before_forks(until_end: ExitStack) -> None:
    """Import the programs once for all forks that start them under the shim, when the first is started."""
    until_end.enter_context(for_all_forks(str(library())))


@pytest.fixture(scope="session")
def scratch() -> Iterator[Path]:
    """Return a directory in memory."""
    with owned_for_a_while("storage", MEMORY if MEMORY.is_dir() else None) as place:
        yield place


@pytest.fixture(scope="session")
def recordings(scratch: Path, lisp: Path) -> dict[str, Recording]:
    """Return the recordings of every scenario, by name."""
    return record_all(scratch / "recordings", lisp)
