"""pytest's option `--part N/M`: of the test files, those that belong to the Nth of M runs side by side.

Workers of one run would each collect every file, and one process more would take in what they report: with thousands
of tests of a few milliseconds that is a third of the time.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    parser.addoption("--part", metavar="N/M", help="run the Nth of M parts of the test files")


def pytest_configure(config: pytest.Config) -> None:
    """Ignore the files of the other parts."""
    if (part := config.getoption("--part")) is not None:
        number, parts = map(int, part.split("/"))
        files = [path for word in config.args for path in Path(word.partition("::")[0]).resolve().rglob("test_*.py")]
        config.pluginmanager.register(Part(shares(files, parts)[number - 1]))


def shares(files: Sequence[Path], parts: int) -> list[set[Path]]:
    """Return the files of each part: each file, the largest first, goes where there is least yet."""
    found: list[set[Path]] = [set() for _ in range(parts)]
    sizes = [0] * parts
    for size, path in sorted(((path.stat().st_size, path) for path in files), reverse=True):
        least = sizes.index(min(sizes))
        found[least].add(path)
        sizes[least] += size
    return found


class Part:
    """What a run does not have is another's."""

    def __init__(self, files: set[Path]) -> None:
        self._files = files

    def pytest_ignore_collect(self, collection_path: Path) -> bool | None:
        if collection_path.suffix == ".py" and collection_path.name.startswith("test_"):
            return True if collection_path not in self._files else None
        return None

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        # What was chosen by name may all be in another part.
        if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED:
            session.exitstatus = pytest.ExitCode.OK
