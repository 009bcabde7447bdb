"""One program under test: started with its own environment and log, ended in every case."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil

from tests.support.forked_programs import Forked, can_be_forked
from tests.support.timeout import TIMEOUT

HASH_SEED = os.environ.get("PYTHONHASHSEED", "random")


def is_running(pid: int) -> bool:
    """Return whether there is such a process; one that only waits to be reaped has ended."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


class Process:
    """A child in a session of its own; the kernel kills it when the thread that made it ends."""

    def __init__(self, command: Sequence[str | Path], env: Mapping[str, str], log: Path, cwd: Path) -> None:
        self.log = log
        words, whole = list(map(str, command)), {"PYTHONHASHSEED": HASH_SEED, **env}
        self._child: subprocess.Popen[bytes] | Forked
        with log.open("ab") as sink, Path(os.devnull).open("rb") as nothing:
            if can_be_forked(words, whole):
                streams = nothing.fileno(), sink.fileno(), sink.fileno()
                self._child = Forked(words, whole, cwd, streams=streams, start_new_session=True)
                return
            self._child = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", *words],
                env=whole,
                cwd=cwd,
                stdin=nothing,
                stdout=sink,
                stderr=sink,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def status(self) -> int | None:
        """Exit status, None while it runs."""
        return self._child.poll()

    def send(self, number: signal.Signals) -> None:
        self._child.send_signal(number)

    def terminate(self, seconds: float = TIMEOUT) -> int:
        """Ask it to end and return its exit status; TimeoutExpired where it does not."""
        self.send(signal.SIGTERM)
        return self._child.wait(seconds)

    def kill(self) -> None:
        """Kill it and all it has started."""
        if self._child.poll() is None or self._group_alive():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._child.pid, signal.SIGKILL)
        self._child.wait(TIMEOUT)

    def _group_alive(self) -> bool:
        try:
            os.killpg(self._child.pid, 0)
        except ProcessLookupError:
            return False
        return True

    def tail(self, lines: int = 25) -> str:
        """Return the end of its log, for messages."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])
