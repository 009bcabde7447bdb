"""What the tests of the clients share."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest


@pytest.fixture
def look_alike() -> Iterator[int]:
    """Yield the id of a process that is called emacs."""
    process = subprocess.Popen(
        ["emacs-look-alike", "-S", "-c", "import sys; print(flush=True); sys.stdin.read()"],
        executable=sys.executable,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    process.stdout.readline()
    yield process.pid
    process.communicate()
