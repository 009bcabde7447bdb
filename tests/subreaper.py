"""Run a command and tell what it and all that it has started took of a processor, orphans and daemons too.

    python -m tests.subreaper DESCRIPTOR COMMAND…

What a process has waited for the kernel adds up for it. A program whose parent ends before it is lost to that sum:
the controllers and bridges of the tests, and whatever runs on the node. Here this process becomes their parent.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

_PR_SET_CHILD_SUBREAPER = 36


def main(words: Sequence[str]) -> int:
    """Run the command; write the seconds to the descriptor; return the command's exit status as a shell does."""
    descriptor, command = int(words[0]), list(words[1:])
    os.set_inheritable(descriptor, False)
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    # Who ends the run interrupts the whole group: what it means for this process the command decides.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda *_: None)
    child = os.posix_spawnp(command[0], command, os.environ)
    while True:
        pid, status = os.wait()
        if pid == child:
            break
    times = os.times()
    seconds = times.user + times.system + times.children_user + times.children_system + sum(_running(os.getpid()))
    with os.fdopen(descriptor, "w") as sink:
        sink.write(f"{seconds:.2f}")
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def _running(ancestor: int) -> Iterator[float]:
    """Yield what each process below `ancestor` took so far, with those that it has waited for."""
    parents: dict[int, int] = {}
    ticks: dict[int, int] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            # Behind the name of the program, which may have blanks: state, parent, and from the 12th on the times.
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents[int(entry.name)] = int(fields[1])
        ticks[int(entry.name)] = sum(map(int, fields[11:15]))
    for pid, spent in ticks.items():
        above = parents[pid]
        while above not in (ancestor, 0):
            above = parents.get(above, 0)
        if above == ancestor:
            yield spent / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
