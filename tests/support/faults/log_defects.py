"""Which lines in the log of a container show a defect of ours. Pure: no cluster is needed to judge a text.

A log is as the kubelet keeps it: each line begins with its time, its stream and whether it is whole.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_DEFECT = re.compile(r"CRITICAL(?!.*the lease is lost)|File \".*/site-packages/efrit/")
_TRACEBACK = "Traceback (most recent call last)"
_CUT_OFF = "timeout graceful shutdown exceeded"
"""What uvicorn logs when a bridge ends before its calls do: on a busy node a call may last that long."""


def logged_defects(log: str, since: str) -> list[str]:
    """Return the lines from the time `since` on that no program of ours may log."""
    lines = [line for line in log.splitlines() if line.partition(" ")[0] >= since]
    return [line for part in _parts(lines) if _CUT_OFF not in part[-1] for line in part if _DEFECT.search(line)]


def _parts(lines: list[str]) -> Iterator[list[str]]:
    """Yield each traceback with its exception as one part, and each other line by itself.

    In a record of ours all lines of a traceback are indented (`efrit.log_format`); what Python prints at the end of a
    process is not, and the exception is the first line that is none of a frame.
    """
    traceback: list[str] = []
    indented = False
    for line in lines:
        message = line.partition(" F ")[2]
        if message.startswith(_TRACEBACK) or (not traceback and message.lstrip().startswith(_TRACEBACK)):
            if traceback:
                yield traceback
            traceback, indented = [line], message.startswith(" ")
        elif traceback and message.startswith(" "):
            traceback.append(line)
        elif traceback and not indented:
            yield [*traceback, line]
            traceback = []
        else:
            if traceback:
                yield traceback
                traceback = []
            yield [line]
    if traceback:
        yield traceback
