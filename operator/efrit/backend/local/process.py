"""Processes of this machine: is that number an Emacs, and the one that wrote the heartbeat? Signals to it.

A heartbeat outlives its Emacs, and numbers come back: nothing is signalled that began after its heartbeat.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from msgspec import Struct

from efrit.backend.local.answers import time_if_valid

_PROC = Path("/proc")
# A start is known to a tick, a clock may be set a little meanwhile.
_SLACK_SECONDS = 2.0
_boot_times: list[float] = []
"""What `_booted_at` has found so far, once it has."""


class Emacs(Struct, frozen=True):
    """A running Emacs that serves a queue: where the system says, `ticks` from the boot to its start.

    `started`: the same in epoch seconds.
    """

    pid: int
    boot: str
    version: str | None
    beat: datetime
    ticks: int | None
    started: float | None

    def send(self, number: signal.Signals) -> bool:
        """Send a signal to the process; return False if it is gone."""
        if not self.alive:
            return False
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(self.pid, number)
            return True
        return False

    def resume(self) -> None:
        """Have it go on where a signal has stopped it: until then it takes no other signal but SIGKILL."""
        if self.stopped:
            self.send(signal.SIGCONT)

    @property
    def stopped(self) -> bool:
        """Whether a signal has stopped it (SIGSTOP): it does nothing until SIGCONT."""
        return state_of(self.pid) == "T"

    @property
    def alive(self) -> bool:
        """Whether it still runs."""
        return is_emacs(self.pid) and start_ticks(self.pid) == self.ticks


def emacs_of(heartbeat: Mapping[str, Any]) -> Emacs | None:
    """Return the Emacs that wrote this heartbeat, if it is running."""
    pid, beat = heartbeat.get("pid"), time_if_valid(heartbeat.get("time"))
    if not isinstance(pid, int) or isinstance(pid, bool) or pid < 2 or beat is None or not is_emacs(pid):
        return None
    ticks = start_ticks(pid)
    started = _epoch_seconds(ticks)
    if started is not None and started > beat.timestamp() + _SLACK_SECONDS:
        return None
    version = heartbeat.get("emacs_version")
    return Emacs(pid, str(heartbeat.get("boot")), version if isinstance(version, str) else None, beat, ticks, started)


def is_emacs(pid: int) -> bool:
    """Return whether process `pid` runs, and is called emacs. A zombie does not run."""
    if not _PROC.is_dir():
        return "emacs" in _by_ps("comm", pid).lower()
    try:
        argv = (_PROC / str(pid) / "cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    names = [os.fsdecode(argv[0])]
    with contextlib.suppress(OSError):
        names.append(os.readlink(_PROC / str(pid) / "exe"))  # noqa: PTH115 - the text is wanted
    return bool(argv[0]) and any("emacs" in os.path.basename(name) for name in names)  # noqa: PTH119


def state_of(pid: int) -> str:
    """Return the letter ps shows for the state of process `pid`; empty if there is none."""
    if not _PROC.is_dir():
        return _by_ps("state", pid)[:1]
    try:
        return (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return ""


def _by_ps(column: str, pid: int) -> str:
    # Only where there is no /proc.
    import subprocess

    command = ["ps", "-o", f"{column}=", "-p", str(pid)]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def _epoch_seconds(ticks: int | None) -> float | None:
    """Return so many ticks after the boot in epoch seconds; None if the time of the boot cannot be read."""
    booted = _booted_at()
    return None if ticks is None or booted is None else booted + ticks / os.sysconf("SC_CLK_TCK")


def start_ticks(pid: int) -> int | None:
    """Return when process `pid` started, in ticks since the boot; None if that cannot be read."""
    try:
        text = (_PROC / str(pid) / "stat").read_text()
        # The name in brackets may hold anything; the 22nd field is the 20th behind it.
        return int(text.rpartition(")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return None


def _booted_at() -> float | None:
    """Return when the system was booted, the earliest time that it has said so far; None if that cannot be read.

    A clock that is set moves it: an Emacs must not seem to have begun after a heartbeat of its own.
    """
    with contextlib.suppress(OSError, ValueError):
        lines = (_PROC / "stat").read_text().splitlines()
        _boot_times[:] = [
            min([*_boot_times, *(float(line.split()[1]) for line in lines if line.startswith("btime "))])
        ]
    return _boot_times[0] if _boot_times else None
