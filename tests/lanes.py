"""Commands in lanes: lane beside lane, in each lane one command after the other; the first that fails ends them all.

    python -m tests.lanes 'make test-unit' 'make test-lisp' -- 'make test-e2e'
    python -m tests.lanes --abreast 2 'make test-unit' 'make test-lisp' 'make test-e2e'

`--` begins another lane. `--abreast N` makes each lane N wide: N of its commands run at a time, and whichever ends
makes room for the next, so that none stands idle as long as there are any. Each line a command writes is printed at
once, behind the command's last word. Nothing here knows what a tier is: the Makefile names them.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import FrameType

HEARTBEAT_SECONDS = 60.0
GRACE_SECONDS = 20.0
"""What a command gets to put its things away once another has failed."""
SUBREAPER = Path(__file__).with_name("subreaper.py")

Lane = Sequence[str]
Tell = Callable[[str], None]


def parse(words: Sequence[str]) -> list[Lane]:
    """Return the lanes of a command line; empty ones are left out."""
    groups = itertools.groupby(words, lambda word: word == "--")
    return [list(lane) for separator, lane in groups if not separator]


def name_of(command: str) -> str:
    return shlex.split(command)[-1].rpartition("/")[2]


class Lanes:
    """One run. `tell` gets every line, from any thread; `grace`: seconds to end in, for what is interrupted.

    abreast: how many commands of a lane run at a time.
    """

    def __init__(self, lanes: Sequence[Lane], tell: Tell, *, abreast: int = 1, grace: float = GRACE_SECONDS) -> None:
        self._lanes = lanes
        self._abreast = abreast
        self._tell = tell
        self._grace = grace
        self._width = max(len(name_of(command)) for lane in lanes for command in lane)
        self._began = time.monotonic()
        self._lock = threading.Lock()
        self._running: dict[str, tuple[subprocess.Popen[str], float]] = {}
        self._broken: int | None = None
        self.passed: dict[str, str] = {}
        """What each command took, by the clock and of a processor."""

    def run(self) -> int:
        """Return the status of the first command that failed, 0 where all passed."""
        shared = [iter(lane) for lane in self._lanes]
        threads = [threading.Thread(target=self._follow, args=(lane,)) for lane in shared * self._abreast]
        for thread in threads:
            thread.start()
        reported_at = self._began
        while alive := [thread for thread in threads if thread.is_alive()]:
            alive[0].join(0.5)
            if time.monotonic() - reported_at >= HEARTBEAT_SECONDS:
                reported_at = time.monotonic()
                self._say(", ".join(self._under_way()))
        for name, took in self.passed.items():
            self._tell(f"{name:<{self._width}}  passed in {took}")
        return self._broken or 0

    def end(self, status: int) -> None:
        """Interrupt what runs, kill what does not end of that; the run returns `status`, unless it failed before."""
        with self._lock:
            if self._broken is not None:
                return
            self._broken = status
            processes = [process for process, _ in self._running.values()]
        for process in processes:
            _signal(process, signal.SIGINT)
        threading.Thread(target=_kill, args=(processes, self._grace), daemon=True).start()

    def _follow(self, lane: Iterator[str]) -> None:
        """Play what is left of a lane; others may take from it, too."""
        while True:
            with self._lock:
                command = next(lane, None)
            if command is None:
                return
            name, began = name_of(command), time.monotonic()
            status, processor = self._play(name, command)
            seconds = time.monotonic() - began
            with self._lock:
                over = self._broken is not None
            if over:
                return
            if status != 0:
                self._say(f"{name} FAILED after {seconds:.0f} s, with {status}; what else runs is ended")
                self.end(status)
                return
            self.passed[name] = f"{seconds:4.0f} s, {processor:4.0f} s of a processor"
            self._say(f"{name} passed in {seconds:.0f} s")

    def _play(self, name: str, command: str) -> tuple[int, float]:
        """Return the status of a command, and the seconds of a processor that it took."""
        with self._lock:
            if self._broken is not None:
                return self._broken, 0.0
            reading, writing = os.pipe()
            # A session of its own: a signal to its group ends whatever it has started.
            process = subprocess.Popen(
                [sys.executable, str(SUBREAPER), str(writing), *shlex.split(command)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                start_new_session=True,
                pass_fds=(writing,),
            )
            os.close(writing)
            self._running[name] = process, time.monotonic()
        self._say(f"{name} begins")
        assert process.stdout is not None
        with process.stdout:
            for line in process.stdout:
                # What a command says of its interruption would bury the failure.
                if self._broken is None:
                    self._tell(f"{name:<{self._width}} | {line.rstrip()}")
        with os.fdopen(reading) as source:
            processor = float(source.read() or 0)
        status = process.wait()
        with self._lock:
            del self._running[name]
        return status, processor

    def _under_way(self) -> list[str]:
        now = time.monotonic()
        with self._lock:
            return [f"{name} for {now - began:.0f} s" for name, (_, began) in self._running.items()]

    def _say(self, text: str) -> None:
        self._tell(f"#### {time.monotonic() - self._began:4.0f} s: {text}")


def _signal(process: subprocess.Popen[str], number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, number)


def _kill(processes: Sequence[subprocess.Popen[str]], grace: float) -> None:
    deadline = time.monotonic() + grace
    for process in processes:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(max(0.0, deadline - time.monotonic()))
        _signal(process, signal.SIGKILL)


def main(words: Sequence[str]) -> int:
    """Run the lanes of a command line; returns the exit status."""
    if {"-h", "--help"} & set(words):
        print(__doc__)
        return 0
    abreast = "1"
    if words[:1] == ["--abreast"]:
        abreast, words = "".join(words[1:2]), words[2:]
    lanes = parse(words)
    if not lanes or abreast not in set("123456789"):
        print(__doc__, file=sys.stderr)
        return 64
    lock = threading.Lock()

    def tell(line: str) -> None:
        with lock:
            print(line, flush=True)

    run = Lanes(lanes, tell, abreast=int(abreast))

    def ended(number: int, frame: FrameType | None) -> None:
        del frame
        threading.Thread(target=run.end, args=(128 + number,)).start()

    # Also where SIGINT is ignored, as in background jobs: what is started here would ignore it, too.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if number is signal.SIGINT or signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, ended)
    return run.run()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
