"""What was in the place of a file and is none was renamed: it is kept for a while, so that its owner finds it.

Whoever may write to the queue decides how much of it there is, so it has a bound. Blocking; for the disk thread.
"""

import logging
import re
from collections.abc import Collection

from efrit.queue.durable import Disk
from efrit.queue.layout import ASIDE_PREFIX, Area
from efrit.queue.remove_tree import is_left, remove_tree

log = logging.getLogger(__name__)

MAX_ASIDE = 16
"""Entries of one directory that are kept, the newest."""
STEPS = 1000
"""Files and directories removed in one call, those below an entry included: some 20 ms of the disk thread."""
OUTSIDE_ARCHIVE = tuple(area for area in Area if area is not Area.ARCHIVE)
_NAMED = 5

_ASIDE = re.compile(rf"{ASIDE_PREFIX}[0-9a-f]+")
_ASIDE_IN_ARCHIVE = re.compile(rf"{ASIDE_PREFIX}.*_[0-9]+\.json", re.DOTALL)


def _is_aside(area: Area, name: str) -> bool:
    return (_ASIDE_IN_ARCHIVE if area is Area.ARCHIVE else _ASIDE).fullmatch(name) is not None


def delete_put_aside(
    disk: Disk, before: float, areas: Collection[Area] = OUTSIDE_ARCHIVE, *, steps: int = STEPS
) -> bool:
    """Delete what was put aside in `areas` before that time (epoch seconds), and what is beyond `MAX_ASIDE`.

    Returns whether there may be more to delete. In every area what an earlier call has left is deleted first.
    """
    taken, deleted = 0, []
    for area in Area:
        for name in _due(disk, area, before if area in areas else None, steps):
            if taken >= steps:
                break
            taken += remove_tree(disk.descriptor(area), name, steps - taken)
            if not is_left(name) and disk.stat_any(area, name) is None:
                deleted.append(f"{area}/{name}")
    if deleted:
        named = ", ".join(ascii(name) for name in deleted[:_NAMED])
        more = f" and {len(deleted) - _NAMED} more" if len(deleted) > _NAMED else ""
        log.warning("deleted what was put aside because it was no file of the queue: %s%s", named, more)
    return taken >= steps


def _due(disk: Disk, area: Area, before: float | None, limit: int) -> list[str]:
    """Return the names to delete in `area`, of so many that may be; without `before`, only those that are left."""
    left, aside = [], []
    for entry in disk.entries(area):
        if is_left(entry.name):
            left.append(entry.name)
        elif before is not None and _is_aside(area, entry.name):
            info = disk.stat_any(area, entry.name)
            if info is not None:
                # Not the time of modification, which anybody may set.
                aside.append((info.st_ctime, entry.name))
        if len(left) + len(aside) >= limit + MAX_ASIDE:
            break
    aside.sort()
    surplus = len(aside) - MAX_ASIDE  # gate: most-aside
    due = [
        name
        for number, (changed, name) in enumerate(aside)
        if number < surplus or (before is not None and changed < before)
    ]
    return left + due
