"""The keys a person presses, one by one and without Enter. Knows nothing of what they mean."""

from __future__ import annotations

import asyncio
import contextlib
import os
import termios
import tty
from collections.abc import AsyncIterator
from typing import TextIO

from efrit.cli.streams import is_terminal

_NAMES = {"\x1b[A": "up", "\x1b[B": "down", "\x1bOA": "up", "\x1bOB": "down"}
_MAX_KEYS = 64


@contextlib.asynccontextmanager
async def pressed_keys(stream: TextIO) -> AsyncIterator[asyncio.Queue[str]]:
    """Yield a queue of keys; arrows are `up` and `down`. Nothing comes where `stream` is not a terminal.

    The terminal is as it was afterwards. Keys beyond 64 that nobody has taken are dropped.
    """
    keys: asyncio.Queue[str] = asyncio.Queue(_MAX_KEYS)
    if not is_terminal(stream):
        yield keys
        return
    fd, loop = stream.fileno(), asyncio.get_running_loop()
    before = termios.tcgetattr(fd)

    def read() -> None:
        data = os.read(fd, 256)
        if not data:
            # The terminal is gone.
            loop.remove_reader(fd)
            data = b"q"
        for key in split(data.decode(errors="replace")):
            if not keys.full():
                keys.put_nowait(key)

    tty.setcbreak(fd)
    loop.add_reader(fd, read)
    try:
        yield keys
    finally:
        loop.remove_reader(fd)
        termios.tcsetattr(fd, termios.TCSADRAIN, before)


def split(text: str) -> list[str]:
    """Return the keys in what a terminal sent at once; sequences of unknown keys are left out."""
    keys = []
    while text:
        name = next((name for name in _NAMES if text.startswith(name)), None)
        if name is not None:
            keys.append(_NAMES[name])
            text = text[len(name) :]
        elif text[0] == "\x1b":
            break
        else:
            keys.append(text[0])
            text = text[1:]
    return keys
