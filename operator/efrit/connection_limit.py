"""How many connections a listener has at once, those included whose TLS handshake is not finished.

Shared by the bridge and the controller's metrics. Each connection takes up to a quarter of a megabyte for TLS, from
before its first byte, and whoever reaches the port may open any.
"""

from __future__ import annotations

import gc
import time
import weakref
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class ConnectionLimit(Generic[T]):
    """At most `most` at once. Where there are that many, garbage is collected, at most every `collect_seconds`."""

    def __init__(self, most: int, collect_seconds: float) -> None:
        self._most = most
        self._collect_seconds = collect_seconds
        # One whose handshake fails is never notified that it is lost: it is gone when nobody holds it any more.
        self._alive: weakref.WeakSet[T] = weakref.WeakSet()
        self._collected = 0.0

    def __iter__(self) -> Iterator[T]:
        return iter(self._alive)

    def check(self) -> None:
        """Raise `ConnectionRefusedError` where one more is too many: before TLS there is nobody else to answer."""
        if len(self._alive) >= self._most and time.monotonic() - self._collected > self._collect_seconds:
            # A failed handshake leaves a cycle.
            gc.collect()
            self._collected = time.monotonic()
        if len(self._alive) >= self._most:  # gate: connection-limit
            raise ConnectionRefusedError("too many connections")

    def add(self, connection: T) -> None:
        """Count a connection for as long as somebody holds it."""
        self._alive.add(connection)


def oldest_of_most(opened: Mapping[T, str]) -> T:
    """Return which connection is ended where there are too many: the oldest of the address that has most of them.

    `opened`: all, the oldest first, each with its address. Whoever fills a port ends connections of their own.
    """
    ((crowd, _),) = Counter(opened.values()).most_common(1)  # gate: oldest-of-most
    return next(connection for connection, address in opened.items() if address == crowd)


def address_of(transport: Any) -> str:
    """Return the address of a connection's other end; empty where it has ended already."""
    peer = transport.get_extra_info("peername")
    return str(peer[0]) if peer else ""
