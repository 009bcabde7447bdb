"""A machine that is busy elsewhere: run a command whose processes are stopped for a moment each, at random.

    python -m tests.stalls --seed 1 --share 0.5 --longest 1.5 .venv/bin/pytest tests/unit --forks 8

Whatever a test takes for granted about who is faster than whom fails sooner or later. This is to explore with: a test
that fails so gets a condition to wait for in place of its clock. What a test itself stops stays stopped. One that
measures how fast processes are, or has a lease that is shorter than they are stopped, may fail for that alone.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Generic, Protocol, TypeVar

import psutil

from tests.support.command_line import parser

STEP_SECONDS = 0.02


class Process(Protocol):
    """What is done to a process: that of psutil. One that has ended raises psutil.Error."""

    @property
    def pid(self) -> int:
        """Its process id."""

    def status(self) -> str:
        """Return its state."""
        ...

    def suspend(self) -> None:
        """Send it SIGSTOP."""

    def resume(self) -> None:
        """Send it SIGCONT."""


P = TypeVar("P", bound=Process)


class Stalls(Generic[P]):
    """Stops processes, each until its time is over."""

    def __init__(
        self, chance: random.Random, share: float, longest: float, is_stopped_again: Callable[[int], bool]
    ) -> None:
        """Stop about a `share` of all processes at any time, each for `longest` seconds at most.

        is_stopped_again: whether somebody else has stopped a process, by its id, after it was stopped here.
        """
        self._chance = chance
        self._share = share
        self._longest = longest
        self._is_stopped_again = is_stopped_again
        self._until: dict[P, float] = {}

    def step(self, processes: Sequence[P], now: float) -> None:
        """Let go whose time is over, and stop others in their place."""
        for process in [process for process, until in self._until.items() if until <= now]:
            self._resume(process)
        running = [process for process in processes if process not in self._until]
        wanted = int(self._share * len(processes) + self._chance.random()) - len(self._until)
        for process in self._chance.sample(running, max(0, min(wanted, len(running)))):
            with contextlib.suppress(psutil.Error):
                # What somebody else has stopped is theirs to let go.
                if process.status() != psutil.STATUS_STOPPED:
                    process.suspend()
                    self._until[process] = now + self._chance.uniform(0, self._longest)

    def end(self) -> None:
        """Let all go."""
        for process in list(self._until):
            self._resume(process)

    def _resume(self, process: P) -> None:
        del self._until[process]
        with contextlib.suppress(psutil.Error):
            if not self._is_stopped_again(process.pid):
                process.resume()


def is_stopped_again(pid: int) -> bool:
    """Return whether a SIGSTOP waits for a process that is stopped: a SIGCONT would take both back.

    One that waits for a process that still runs is the first.
    """
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return False
    fields = dict(line.split(":\t", 1) for line in lines if line.startswith(("State:", "ShdPnd:")))
    return fields["State"].startswith("T") and bool(int(fields["ShdPnd"], 16) & 1 << (signal.SIGSTOP - 1))


def options() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    made = parser(__doc__)
    made.add_argument("--seed", type=int, default=0, help="of what is stopped when; the command adds its own chance")
    made.add_argument("--share", type=float, default=0.3, help="of all processes that is stopped at any time (0.3)")
    made.add_argument("--longest", type=float, default=0.5, help="seconds that one is stopped at most (0.5)")
    made.add_argument("command", nargs=argparse.REMAINDER)
    return made


def family(command: subprocess.Popen[bytes]) -> Iterator[psutil.Process]:
    """Yield the process of the command and all that it has started, as far as they are its descendants still."""
    with contextlib.suppress(psutil.Error):
        first = psutil.Process(command.pid)
        yield first
        yield from first.children(recursive=True)


def main(words: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    chosen = options().parse_args(words)
    chance = random.Random(chosen.seed)  # noqa: S311 - no secret
    stalls: Stalls[psutil.Process] = Stalls(chance, chosen.share, chosen.longest, is_stopped_again)
    with subprocess.Popen(chosen.command) as command:
        try:
            while command.poll() is None:
                stalls.step(list(family(command)), time.monotonic())
                time.sleep(STEP_SECONDS)
        finally:
            stalls.end()
            # Nothing where it has ended.
            command.terminate()
    return command.returncode


if __name__ == "__main__":
    # What is stopped is let go though this program is to end early.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    sys.exit(main())
