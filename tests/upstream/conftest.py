"""Upstream's code at a fixed commit, and its client compiled. `make upstream` runs these tests."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.upstream.source import SECONDS, unpack


@pytest.fixture(scope="session")
def upstream(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the directories mcp/ and lisp/, as they are there."""
    directory = tmp_path_factory.mktemp("upstream")
    unpack(directory)
    return directory


@pytest.fixture(scope="session")
def client(upstream: Path) -> Path:
    """Return the directory of the TypeScript client with what it depends on; compiled in dist/."""
    for words in (["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts"], ["npm", "run", "build"]):
        done = subprocess.run(
            words, cwd=upstream / "mcp", capture_output=True, text=True, timeout=SECONDS, check=False
        )
        if done.returncode != 0:
            pytest.fail(f"`{' '.join(words)}` failed:\n{done.stdout}{done.stderr}", pytrace=False)
    return upstream / "mcp"
