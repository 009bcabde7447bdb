"""inotify(7), as the kernel has it: directories are watched, what changed in them is read as names. No event loop."""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Mapping
from pathlib import Path

MODIFY = 0x2
CLOSE_WRITE = 0x8
MOVED_TO = 0x80
CREATE = 0x100
DELETE_SELF = 0x400
MOVE_SELF = 0x800
UNMOUNT = 0x2000
Q_OVERFLOW = 0x4000
IGNORED = 0x8000
_ONLYDIR = 0x1000000

_HEAD = struct.Struct("iIII")
"""Watch, mask, cookie, length of the name that follows."""
_AT_ONCE = 64 * 1024
"""Bytes of events read at once: hundreds, and at least one with the longest name."""


class Inotify:
    """Watches on directories. `fd` is readable when there are events."""

    def __init__(self) -> None:
        """Raise `OSError` where the kernel has no inotify, or no more of it for this user."""
        libc = ctypes.CDLL(None, use_errno=True)
        self._add = libc.inotify_add_watch
        self._add.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_uint32)
        self.fd = _checked(libc.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK))

    def watch(self, directory: Path, mask: int) -> int:
        """Watch a directory; return the number that its events bear. Raises `OSError`."""
        return _checked(self._add(self.fd, os.fsencode(directory), mask | _ONLYDIR))

    def read(self) -> list[tuple[int, int, str]]:
        """Return events: number of the watch, mask, name in the directory or "". Empty where there are none now."""
        try:
            data = os.read(self.fd, _AT_ONCE)
        except BlockingIOError:
            return []
        events, start = [], 0
        while start < len(data):
            watch, mask, _, length = _HEAD.unpack_from(data, start)
            start += _HEAD.size
            # Filled up with zeros.
            name = data[start : start + length].rstrip(b"\0")
            events.append((watch, mask, os.fsdecode(name)))
            start += length
        return events

    def close(self) -> None:
        """Stop watching."""
        os.close(self.fd)


def watching(masks: Mapping[Path, int]) -> tuple[Inotify, dict[int, Path]]:
    """Return watches on all of `masks`, and the directories by the numbers of their watches. Raises `OSError`."""
    inotify = Inotify()
    try:
        return inotify, {inotify.watch(directory, mask): directory for directory, mask in masks.items()}
    except OSError:
        inotify.close()
        raise


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
