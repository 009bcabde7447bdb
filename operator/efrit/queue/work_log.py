"""Work logs: what chats and commands report while they run, one JSON object a line, appended by Emacs.

Read in two ways: the last line that says how far a request has come, for its view; and line by line, for whoever
follows it. A line is whole once its newline is there. Blocking functions for the disk thread.
"""

import json
from dataclasses import dataclass
from typing import Any

from efrit.errors import ProtocolError
from efrit.protocol import Progress, RequestId
from efrit.protocol.json_limits import exceeds_part_limit
from efrit.queue.durable import Disk
from efrit.queue.layout import Area, log_file, progress_file

MAX_MESSAGE_CHARS = 1024
"""Of a message in a view: it is kept in memory and reported with every change of the request."""
_TAIL = 256 * 1024
_PART = 64 * 1024
_LONGEST_LINE = 1024 * 1024


@dataclass(frozen=True)
class Line:
    """One line without its newline, and the offset behind it, at which the next begins."""

    text: bytes
    end: int


def locate_log(disk: Disk, rid: RequestId) -> tuple[Area, str, int] | None:
    """Return where the log of `rid` is and its size in bytes; None if there is none."""
    for area, name in ((Area.PROGRESS, progress_file(rid)), (Area.ARCHIVE, log_file(rid))):
        stat = disk.stat(area, name)
        if stat is not None:
            return area, name, stat.st_size
    return None


def resume_offset(disk: Disk, rid: RequestId, offset: int) -> int:
    """Return `offset` if a line begins there, else 0: the log is another one by now, or the offset was made up."""
    place = locate_log(disk, rid)
    if place is None or not 0 < offset <= place[2]:
        return 0
    return offset if disk.read(place[0], place[1], limit=1, start=offset - 1) == b"\n" else 0


def read_lines(disk: Disk, rid: RequestId, offset: int) -> tuple[list[Line], int]:
    """Return some of the whole lines from `offset` on, and the offset behind them; the same `offset` without a line.

    A line longer than a megabyte is skipped.
    """
    place = locate_log(disk, rid)
    if place is None:
        return [], offset
    area, name, size = place
    if size < offset:
        return [], 0
    data = disk.read(area, name, limit=_PART, start=offset) or b""
    if b"\n" not in data and len(data) == _PART:
        data = disk.read(area, name, limit=_LONGEST_LINE, start=offset) or b""
    if b"\n" not in data:
        return ([], offset) if len(data) < _LONGEST_LINE else _behind_long_line(disk, area, name, offset)
    lines = []
    start = 0
    while (end := data.find(b"\n", start)) >= 0:
        lines.append(Line(data[start:end], offset + end + 1))
        start = end + 1
    return lines, offset + start


def _behind_long_line(disk: Disk, area: Area, name: str, offset: int) -> tuple[list[Line], int]:
    at = offset
    while data := disk.read(area, name, limit=_LONGEST_LINE, start=at):
        end = data.find(b"\n")
        if end >= 0:
            return [], at + end + 1
        at += len(data)
    return [], offset


def last_progress(disk: Disk, rid: RequestId, offset: int) -> tuple[Progress | None, int]:
    """Return the last progress of `rid` after its first `offset` bytes, if there is any, and the log's size."""
    name = progress_file(rid)
    stat = disk.stat(Area.PROGRESS, name)
    if stat is None or stat.st_size == offset:
        return None, offset
    start = offset if offset < stat.st_size else 0
    start = max(start, stat.st_size - _TAIL)
    data = disk.read(Area.PROGRESS, name, limit=_TAIL, start=start) or b""
    whole = data[: data.rfind(b"\n") + 1]
    for line in reversed(whole.splitlines()):
        latest = progress_in(line)
        if latest is not None:
            return latest, start + len(whole)
    return None, start + len(whole)


def progress_in(line: bytes) -> Progress | None:
    """Return the progress in a line of type `progress`; None for any other, and for one that cannot be read."""
    if b'"progress"' not in line or exceeds_part_limit(line):
        return None
    try:
        loaded = json.loads(line)
        if not isinstance(loaded, dict) or loaded.get("type") != "progress":
            return None
        return Progress.parse(json.dumps(_known_members(loaded)))
    except (ValueError, RecursionError, ProtocolError):
        return None


def _known_members(loaded: dict[str, Any]) -> dict[str, Any]:
    entry = {key: loaded.get(key) for key in ("step", "message", "tool_calls", "tokens", "session")}
    if isinstance(entry["message"], str):
        entry["message"] = entry["message"][:MAX_MESSAGE_CHARS]
    if isinstance(entry["session"], dict):
        entry["session"] = entry["session"].get("id")
    return entry
