"""Runs pytest for one mutant after the other, each in a fork of a process that has imported the libraries.

    python -m tests.mutation.warm_pytest SECONDS

Each line on stdin is a JSON list of pytest's arguments; each on stdout an object with its exit `code` and `output`.
Nothing of this project is imported before the fork, so that each run sees the sources as they are then.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

import pytest

LIBRARIES = Path(__file__).with_name("libraries.py")
OURS = ("efrit", "tests")


def import_libraries() -> None:
    """Have pytest itself import them, as it rewrites the assertions of some."""
    with TemporaryFile("w+") as sink:
        _run_at(sink, ["-q", "-p", "no:cacheprovider", str(LIBRARIES)])


def run(arguments: list[str], seconds: float) -> tuple[int, str]:
    """Return exit code and output of one run; killed with all it has started when the time is over."""
    with TemporaryFile("w+") as sink:
        pid = os.fork()
        if pid == 0:
            os.setsid()
            _forget_ours()
            code = _run_at(sink, arguments)
            os._exit(code)
        waiting = os.pidfd_open(pid)
        try:
            in_time = bool(select.select([waiting], [], [], seconds)[0])
            if not in_time:
                os.killpg(pid, signal.SIGKILL)
            _, status = os.waitpid(pid, 0)
        finally:
            os.close(waiting)
        sink.seek(0)
        return os.waitstatus_to_exitcode(status), sink.read() + ("" if in_time else f"\nnot within {seconds:.0f} s")


def _run_at(sink: IO[str], arguments: list[str]) -> int:
    """Run pytest with `sink` for all that it or a program of its prints."""
    sys.stdout.flush()
    descriptors = os.dup(1), os.dup(2)
    try:
        os.dup2(sink.fileno(), 1)
        os.dup2(sink.fileno(), 2)
        return int(pytest.main(arguments))
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for number, descriptor in enumerate(descriptors, 1):
            os.dup2(descriptor, number)
            os.close(descriptor)


def _forget_ours() -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] in OURS]:
        del sys.modules[name]


def main(seconds: float) -> None:
    """Serve until stdin ends."""
    import_libraries()
    for line in sys.stdin:
        code, output = run(json.loads(line), seconds)
        print(json.dumps({"code": code, "output": output}), flush=True)


if __name__ == "__main__":
    main(float(sys.argv[1]))
