"""cli/keys.py: what a terminal sends, key by key."""

from __future__ import annotations

import asyncio
import os
import pty
import termios

import pytest

from efrit.cli.keys import pressed_keys, split
from tests.support.timeout import TIMEOUT


@pytest.mark.parametrize(
    ("text", "keys"), [("q", ["q"]), ("\x1b[A\x1b[Bx", ["up", "down", "x"]), ("\x1b[5~", []), ("\x1b", []), ("", [])]
)
def test_what_a_terminal_sends_is_split_into_keys(text: str, keys: list[str]) -> None:
    assert split(text) == keys


def test_keys_come_without_enter_and_the_terminal_is_put_right() -> None:
    master, slave = pty.openpty()
    before = termios.tcgetattr(slave)

    async def read() -> str:
        with os.fdopen(slave, "r", closefd=False) as stream:
            async with pressed_keys(stream) as keys:
                os.write(master, b"q")
                return await asyncio.wait_for(keys.get(), TIMEOUT)

    assert asyncio.run(read()) == "q"
    assert termios.tcgetattr(slave) == before
    os.close(master)
    os.close(slave)
