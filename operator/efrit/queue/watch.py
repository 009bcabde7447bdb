"""inotify as a hint: names that moved, collected until somebody has time to look.

Only the directories say what is true (`efrit.queue.observe`); an overflow, or no inotify at all, merely
means looking at everything.
"""

import asyncio
import logging
import os
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from asyncinotify import Inotify, Mask

from efrit.auto_reset_event import AutoResetEvent
from efrit.errors import QueueBroken
from efrit.queue.layout import HEARTBEAT, Area

log = logging.getLogger(__name__)

LINGER_SECONDS = 0.02
"""How long it may take until names are handed on that are not answers: most evals are answered by then, and looked at
once."""

_BYTES_AT_ONCE = 8 * 1024
"""What is read of events in one turn of the loop: one with the longest name at least, and some 128 of ours."""
_HEAD = struct.Struct("iIII")
"""Of an event (inotify(7)): watch, mask, cookie, length of the name that follows."""

# As numbers: enumerations take longer than all else that is done with an event.
_OVERFLOW = int(Mask.Q_OVERFLOW)
_APPEARS = Mask.CREATE | Mask.MOVED_TO | Mask.CLOSE_WRITE
_LOST = Mask.DELETE_SELF | Mask.MOVE_SELF
_ENDS = int(_LOST | Mask.IGNORED | Mask.UNMOUNT)
_MASKS = {
    # A claim shows in processing/; a request its client took away again is found by the scan.
    Area.REQUESTS: _APPEARS | _LOST,
    Area.PROCESSING: _APPEARS | _LOST,
    # An answer appears by link; whoever acknowledges or removes it is us, or found by the scan.
    Area.RESPONSES: Mask.CREATE | Mask.MOVED_TO | _LOST,
    # Work logs grow, with every word of a model.
    Area.PROGRESS: Mask.CREATE | Mask.MODIFY | _LOST,
    # The root only for the heartbeat, which is renamed into place.
    Area.ROOT: Mask.MOVED_TO | Mask.CLOSE_WRITE | _LOST,
}


@dataclass
class Touched:
    """What to look at: single names by area, or everything."""

    names: set[tuple[Area, str]] = field(default_factory=set)
    everything: bool = False
    heartbeat: bool = False


class Watcher:
    """Collects touched names. `working` is False where inotify is not to be had: scan often instead."""

    def __init__(self, root: Path) -> None:
        self._root = root
        #: Called at once with the name of a file of progress/ that changed; the index has nothing to read then.
        self.on_log: Callable[[str], None] = lambda name: None
        self._touched = Touched()
        self._reported = AutoResetEvent()
        self._inotify: Inotify | None = None
        self._areas: dict[int, Area] = {}
        """By the numbers of their watches."""
        self._broken: asyncio.Future[None] | None = None

    @property
    def working(self) -> bool:
        """Whether the kernel reports changes."""
        return self._inotify is not None

    def open(self) -> None:
        """Start watching; the kernel keeps the events until `run` reads them."""
        inotify: Inotify | None = None
        try:
            inotify = Inotify()
            self._areas = {
                inotify.add_watch(self._root / area, mask | Mask.ONLYDIR).wd: area for area, mask in _MASKS.items()
            }
        except OSError as error:
            # fs.inotify.max_user_instances is shared by everything of one user on the node.
            log.warning("no inotify (%s): looking ten times a second instead", error)
            if inotify is not None:
                inotify.close()
            return
        self._inotify = inotify

    def close(self) -> None:
        """Stop watching."""
        if self._inotify is not None:
            self._inotify.close()
            self._inotify = None

    async def run(self) -> None:
        """Collect events until cancelled. Raises `QueueBroken` when a directory is removed or replaced."""
        if self._inotify is None:
            return
        loop, fd = asyncio.get_running_loop(), self._inotify.fd
        self._broken = loop.create_future()
        loop.add_reader(fd, self._read)
        try:
            await self._broken
        finally:
            loop.remove_reader(fd)

    def _read(self) -> None:
        if self._inotify is None or self._broken is None or self._broken.done():
            return
        try:
            # What is left makes it readable again: the others have their turn first.
            data = os.read(self._inotify.fd, _BYTES_AT_ONCE)  # gate: inotify-turns
            for watch, mask, name in _events(data):
                self._take(watch, mask, name)
        except BlockingIOError:
            return
        except (OSError, QueueBroken) as error:
            self._broken.set_exception(error)

    def _take(self, watch: int, mask: int, name: str) -> None:
        if mask & _OVERFLOW:
            log.info("inotify overflowed: looking at everything")
            self._touched.everything = True
            self._reported.set()
        elif mask & _ENDS:
            raise QueueBroken(f"a directory of {self._root} was removed or replaced")
        elif name and watch in self._areas:
            self._note(self._areas[watch], name)

    def _note(self, area: Area, name: str) -> None:
        if area is Area.PROGRESS:
            self.on_log(name)
        elif area is Area.RESPONSES:
            self.touch(area, name)
        elif area is not Area.ROOT:
            self._touched.names.add((area, name))
            self._reported.set_within(LINGER_SECONDS)
        elif name == HEARTBEAT:
            self._touched.heartbeat = True
            self._reported.set_within(LINGER_SECONDS)

    def touch(self, area: Area, name: str) -> None:
        """Report `name` as touched, as an event would, and at once."""
        self._touched.names.add((area, name))
        self._reported.set()

    async def wait(self, seconds: float) -> Touched:
        """Return what was touched since the last call, as soon as there is an answer, or soon after that where there
        is none; empty after `seconds`."""
        await self._reported.wait(seconds)
        touched, self._touched = self._touched, Touched()
        return touched


def _events(data: bytes) -> Iterator[tuple[int, int, str]]:
    """Yield what was read of inotify: the number of the watch, the mask, and the name in the directory or ""."""
    start = 0
    while start < len(data):
        watch, mask, _, length = _HEAD.unpack_from(data, start)
        start += _HEAD.size
        # Filled up with zeros.
        yield watch, mask, os.fsdecode(data[start : start + length].rstrip(b"\0"))
        start += length
