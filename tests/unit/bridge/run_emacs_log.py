"""What a program in Emacs's place has written, and waiting for it."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from tests.support.timeout import TIMEOUT

SERVES = f"exec sleep {2 * TIMEOUT:.0f}"
"""What an Emacs does that serves: it lives for longer than a test waits, however slow the machine is."""
Starter = Callable[..., subprocess.Popen[str]]


def lines(place: Path) -> list[str]:
    log = place / "log"
    return log.read_text().splitlines() if log.exists() else []


def until(condition: Callable[[], object], seconds: float = TIMEOUT) -> None:
    limit = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < limit
        time.sleep(0.01)
