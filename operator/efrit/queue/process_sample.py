"""Whether a process that does not answer could have: its state and CPU time, from one moment to the next."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass

WAKE_SECONDS = 3.0
"""Silence of an Emacs that no request occupies after which it is signalled; it writes its heartbeat every second,
unless it rests."""

HUNG_SECONDS = 6.0  # gate: hung-seconds
"""The longest such silence in which it could run: then it hangs and is ended. With the second until that is noticed
and two for the start of another one, the next request is answered within ten seconds."""

_ENOUGH_CPU = 0.25
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Sample:
    """What the kernel says of a process: the letter of its state, as ps has it, and the CPU seconds it has used."""

    state: str
    cpu: float


def sample(pid: int) -> Sample | None:
    """Return the sample of process `pid`; None if it is gone, or the system has no /proc."""
    try:
        # Not as text: it is read with every change of a request.
        fd = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
        try:
            # The name in brackets may hold anything.
            fields = os.read(fd, 4096).rpartition(b")")[2].split()
        finally:
            os.close(fd)
        return Sample(fields[0].decode("ascii", "replace"), (int(fields[11]) + int(fields[12])) / _TICKS)
    except (OSError, ValueError, IndexError):
        return None


def could_run(before: Sample, after: Sample, seconds: float) -> float:
    """Return for how many of the `seconds` between two samples the process could have answered.

    One that waits could have all the time. One that computes could if it had a quarter of a CPU; where it gets less,
    its time passes that much more slowly. One that is stopped or waits for a disk could not.
    """
    if after.state == "S":  # gate: silent-sleeper
        return seconds
    if after.state == "R":
        return min(seconds, max(0.0, after.cpu - before.cpu) / _ENOUGH_CPU)
    return 0.0


class ResponseMeter:
    """Counts the seconds of one silence in which a process could have answered, from sample to sample."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._last: tuple[Sample, float] | None = None

    def restart(self) -> None:
        """Begin anew: the process answered, or its silence until now proves nothing."""
        self.seconds, self._last = 0.0, None

    def note(
        self, sample: Sample | None, now: float, *, occupied: bool = False, due_seconds: float = math.inf
    ) -> None:
        """Take note of the sample made at `now`. `occupied`: until then its work kept it from answering.

        due_seconds: for how long an answer is due, at most what of the time since the last sample counts.
        """
        if occupied:  # gate: unresponsive-occupied
            self.restart()
        if self._last is not None and sample is not None:
            before, moment = self._last
            counted = min(now - moment, due_seconds)  # gate: unresponsive-rest
            self.seconds += could_run(before, sample, counted)
        self._last = None if sample is None else (sample, now)
