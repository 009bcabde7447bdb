"""Ports of loopback for programs that get theirs as an argument: each is given out once.

Not one that the kernel has just given and taken back: until the program listens, and each time it starts anew, that
may be given to another server or connection of the tests that run beside.
"""

from __future__ import annotations

import functools
import os
import socket
import threading
from collections.abc import Iterator

PORTS = range(20_000, 30_000)
"""Below what the kernel gives to who asks for any, and what a cluster gives to Services."""
BLOCK = 100
"""So many are one process's own, for as long as it lives."""

_lock = threading.Lock()


def free_port() -> int:
    """Return a loopback port nobody listens on, and that no other process is given."""
    with _lock:
        return next(_of_process(os.getpid()))


@functools.cache
def _of_process(_: int) -> Iterator[int]:
    """Return those of this process: a fork of it has others."""
    return _own()


def _own() -> Iterator[int]:
    own: list[int] = []
    for block in PORTS[::BLOCK]:
        mark = socket.socket(socket.AF_UNIX)
        try:
            mark.bind(f"\0efrit-tests-ports-{block}")
        except OSError:
            mark.close()
            continue
        # Open until the process ends.
        mark.detach()
        own.extend(range(block, block + BLOCK))
        yield from filter(_is_free, own[-BLOCK:])
    # The first were given out thousands of ports ago.
    while free := list(filter(_is_free, own)):
        yield from free
    raise RuntimeError(f"all ports from {PORTS.start} to {PORTS.stop - 1} are taken")


def _is_free(port: int) -> bool:
    with socket.socket() as sock:
        try:
            sock.bind(("", port))
        except OSError:
            return False
    return True
