"""The Emacs daemons of this machine that tests have started: nobody's children, which outlive who started them."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path

import psutil

from tests.support.timeout import TIMEOUT

HOMES: list[Path] = []
"""Places outside of the run's temporary directory whose daemons it must have ended."""


def serving(places: Iterable[Path]) -> list[psutil.Process]:
    """Return the daemons whose homes or queues are, or were, below one of the places; stopped ones too."""
    return [process for process in psutil.process_iter() if _serves(process, tuple(places))]


def end_daemons(place: Path) -> None:
    """End every daemon whose home or queue is below the place, also one that its heartbeat does not name."""
    limit = time.monotonic() + TIMEOUT
    while daemons := serving([place]):
        assert time.monotonic() < limit, f"{daemons} do not end"
        for process in daemons:
            process.kill()
        psutil.wait_procs(daemons, 1)


def _serves(process: psutil.Process, places: tuple[Path, ...]) -> bool:
    try:
        if not any("efrit-server-start" in word for word in process.cmdline()):
            return False
        environment = process.environ()
    except psutil.Error:
        return False
    own = [Path(environment.get(name, "")) for name in ("EFRIT_QUEUE_DIR", "HOME")]
    return any(path.is_relative_to(place) for path in own for place in places)
