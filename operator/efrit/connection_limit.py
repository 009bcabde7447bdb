"""How many connections a listener has at once, those included whose TLS handshake is not finished.

Shared by the ports of the bridge and the controller. A connection takes up to a quarter of a megabyte for TLS, from
before its first byte, and whoever reaches the port may open any.
"""

from __future__ import annotations

import errno
import gc
import time
import weakref
from collections import Counter
from collections.abc import Iterator
from typing import Any, Generic, TypeVar

T = TypeVar("T")

OUT_OF_RESOURCES = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
"""Why none can be accepted until another has ended."""


class ConnectionLimit(Generic[T]):
    """At most `limit` at once. Where there are that many, garbage is collected, at most every `collect_seconds`."""

    def __init__(self, limit: int, collect_seconds: float) -> None:
        self._limit = limit
        self._collect_seconds = collect_seconds
        # One whose handshake fails is never notified that it is lost: it is gone when nobody holds it any more.
        self._alive: weakref.WeakSet[T] = weakref.WeakSet()
        self._collected = 0.0

    def __iter__(self) -> Iterator[T]:
        return iter(self._alive)

    def check(self) -> None:
        """Raise `ConnectionRefusedError` where one more is too many: before TLS there is nobody else to answer."""
        if len(self._alive) >= self._limit and time.monotonic() - self._collected > self._collect_seconds:
            # A failed handshake leaves a cycle.
            gc.collect()
            self._collected = time.monotonic()
        if len(self._alive) >= self._limit:  # gate: connection-limit
            raise ConnectionRefusedError("too many connections")

    def add(self, connection: T) -> None:
        """Count a connection for as long as somebody holds it."""
        self._alive.add(connection)


class OpenConnections(Generic[T]):
    """Those that are open, of which one more than `limit` has another one ended: a new one is never refused."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._addresses: dict[T, str] = {}
        """Of each, the oldest first."""

    def __iter__(self) -> Iterator[T]:
        return iter(self._addresses)

    def add(self, connection: T, peer: tuple[Any, ...] | None) -> T | None:
        """Count a connection. Return the one that the caller has to end for it, None where there is room.

        It is the oldest of the address that has most: whoever fills a port ends connections of their own.
        """
        self._addresses[connection] = str(peer[0]) if peer else ""
        if len(self._addresses) <= self._limit:  # gate: probe-connections
            return None
        ((crowd, _),) = Counter(self._addresses.values()).most_common(1)  # gate: oldest-of-most
        oldest = next(opened for opened, address in self._addresses.items() if address == crowd)
        self.remove(oldest)
        return oldest

    def remove(self, connection: T) -> None:
        """Count a connection no longer."""
        self._addresses.pop(connection, None)
