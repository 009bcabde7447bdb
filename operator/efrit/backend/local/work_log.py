"""The work log of a request on this machine, read in parts while it grows."""

from __future__ import annotations

from efrit.backend.local.files import QueueFiles
from efrit.protocol.ids import RequestId
from efrit.queue.work_log import read_lines

_PART = 1 << 20


def lines_from(files: QueueFiles, rid: str, offset: int) -> tuple[list[str], int]:
    """Return whole lines of the work log from `offset` on, about a MiB of them, and the offset behind them.

    A line longer than a MiB is left out. No lines: there are no more yet.
    """
    lines: list[str] = []
    size = 0
    while size < _PART:
        part, end = read_lines(files.disk, RequestId(rid), offset)
        if end == offset:
            break
        offset = end
        size += sum(len(line.text) for line in part)
        lines += [line.text.decode(errors="replace") for line in part]
    return lines, offset
