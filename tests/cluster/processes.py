"""Daemons that outlive the command that started them: start, find again, stop.

A daemon is known by a small JSON file with its pid and the kernel's start time of that pid, so that a pid
used again by somebody else is never taken for ours.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.progress import WAIT_SECONDS, ClusterError

_PR_SET_PDEATHSIG = 1
_PR_SET_TIMERSLACK = 29

TIMER_SLACK = "EFRIT_TEST_TIMER_SLACK_MS"
"""The variable with how late a daemon's timers may be; without it, as late as the kernel has it, 0.05 ms.

A program of Go that has something to do looks after itself each 20 us, which takes a fifth of what API server and
etcd take in all; as timers may be later, it does so less often. What is measured by the clock runs without it.
"""

FAVOURED = "-10"
"""As the niceness of a session: it gets as much as nine others."""

# Children of this very process: kept, so that they can be reaped and Popen does not complain when collected.
_children: dict[int, subprocess.Popen[bytes]] = {}


def start_time(pid: int) -> str | None:
    """Clock tick at which the process began; None for one that is gone or only waits to be reaped."""
    if (child := _children.get(pid)) is not None:
        child.poll()
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else fields[19]


@dataclass(frozen=True)
class Daemon:
    """One long-running program of the cluster, with its files under `directory`."""

    name: str
    command: tuple[str, ...]
    directory: Path

    @property
    def log(self) -> Path:
        """Standard output and error of all its runs."""
        return self.directory / "logs" / f"{self.name}.log"

    @property
    def _record(self) -> Path:
        return self.directory / "pids" / f"{self.name}.json"

    def start(self, *, keep: Sequence[int] = (), dies_with_parent: bool = False) -> None:
        """Start it in a session of its own; `keep` lists file descriptors to hand down."""
        self.log.parent.mkdir(parents=True, exist_ok=True)
        self._record.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            child = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                pass_fds=tuple(keep),
                cwd=self.directory,
                # Before the program begins, so that no end of this process comes too early for it.
                preexec_fn=_before_the_program(
                    os.getpid() if dies_with_parent else None, int(os.environ.get(TIMER_SLACK, "0"))
                ),
            )
        _children[child.pid] = child
        self._record.write_text(json.dumps({"pid": child.pid, "started": start_time(child.pid)}))

    def favour(self) -> None:
        """Have its session go before others where the processors are short; no kernel need be able to."""
        with contextlib.suppress(OSError):
            Path(f"/proc/{self.pid()}/autogroup").write_text(FAVOURED)

    def pid(self) -> int | None:
        """Return the pid while the daemon runs, else None."""
        try:
            record = json.loads(self._record.read_text())
        except (OSError, ValueError):
            return None
        pid, started = record.get("pid"), record.get("started")
        return pid if isinstance(pid, int) and started and start_time(pid) == started else None

    def stop(self, *, grace: float = 0.0) -> None:
        """Stop it: SIGTERM first if `grace` seconds are given, SIGKILL after them; returns once it is gone."""
        pid = self.pid()
        if pid is not None:
            if grace:
                _signal(pid, signal.SIGTERM)
                deadline = time.monotonic() + grace
                while self.pid() is not None and time.monotonic() < deadline:
                    time.sleep(0.02)
            deadline = time.monotonic() + WAIT_SECONDS
            while self.pid() is not None:
                _signal(pid, signal.SIGKILL)
                if time.monotonic() > deadline:
                    raise ClusterError(f"{self.name} (pid {pid}) does not die; look at /proc/{pid}/stack.")
                time.sleep(0.02)
            if (child := _children.pop(pid, None)) is not None:
                child.wait()
        self._record.unlink(missing_ok=True)

    def log_tail(self, lines: int = 15) -> str:
        """Return the end of the log, for error messages."""
        try:
            return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])
        except OSError:
            return "(no log)"


def _before_the_program(parent: int | None, slack: int) -> Callable[[], None] | None:
    """Return what a child does before it becomes the program, None for nothing; what it starts inherits the slack.

    parent: have the kernel kill it when this one ends, even if that has happened already.
    slack: milliseconds by which its timers may be late; 0 for the kernel's own.
    """
    if parent is None and not slack:
        return None
    libc = ctypes.CDLL(None, use_errno=True)

    def ask() -> None:
        if slack:
            libc.prctl(_PR_SET_TIMERSLACK, slack * 1_000_000, 0, 0, 0)
        if parent is not None:
            libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
            if os.getppid() != parent:
                os._exit(1)

    return ask


def _signal(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
