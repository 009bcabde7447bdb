"""What the HTTP transport takes in at once: calls, and the bytes of their messages.

A message is refused before anything is made of it. All counts are of one process; nothing here waits. Knows
nothing of MCP or Kubernetes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from starlette.types import Message, Receive

from efrit.mcp.settings import Limits
from efrit.protocol.json_limits import has_more_parts

MAX_MESSAGE_BYTES = 3 << 20
"""The longest content of a request, each character escaped."""
MAX_MESSAGE_PARTS = 10_000
"""Commas, brackets and braces: the largest plan has a few hundred."""
SMALL_MESSAGE_BYTES = 16 << 10
"""Not counted against the following two, so that an ordinary call is taken whatever others send."""
MAX_HELD_BYTES = 8 << 20
"""Of all messages whose calls are running: as objects they take up to five times as much."""
MAX_HELD_BYTES_PER_CALLER = 4 << 20


class RejectedError(Exception):
    """A call that is not taken in: the HTTP status, and what to do."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass
class Admission:
    """The calls that are running, and what their messages weigh."""

    limits: Limits
    _calls: Counter[str] = field(default_factory=Counter)
    _held_bytes: Counter[str] = field(default_factory=Counter)

    @property
    def running(self) -> int:
        """How many calls are running."""
        return self._calls.total()

    @property
    def held_bytes(self) -> int:
        """How many bytes their messages have that are counted."""
        return self._held_bytes.total()

    @property
    def callers(self) -> int:
        """How many callers are known."""
        return len(self._calls | self._held_bytes)

    @contextmanager
    def call(self, caller: str) -> Iterator[MessageBytes]:
        """Count one call of `caller` while it lasts. Raises `RejectedError`."""
        if self._calls[caller] >= self.limits.calls_per_caller:
            raise RejectedError(
                429, f"{caller} has {self.limits.calls_per_caller} calls running; wait until one has ended"
            )
        if self.running >= self.limits.calls:
            raise RejectedError(503, f"{self.limits.calls} calls are running; try again when some have ended")
        message_bytes = MessageBytes(self._held_bytes, caller)
        self._calls[caller] += 1
        try:
            yield message_bytes
        finally:
            message_bytes.release()
            self._calls[caller] -= 1
            if not self._calls[caller]:
                # A caller who has gone leaves nothing behind.
                del self._calls[caller], self._held_bytes[caller]


@dataclass
class MessageBytes:
    """The bytes of one call's message."""

    _all: Counter[str]
    _caller: str
    _size: int = 0

    def add(self, size: int) -> None:
        """Count more bytes. Raises `RejectedError`."""
        counted = max(0, self._size + size - SMALL_MESSAGE_BYTES) - max(0, self._size - SMALL_MESSAGE_BYTES)
        if self._size + size > MAX_MESSAGE_BYTES:
            raise RejectedError(
                413, f"the message has more than {MAX_MESSAGE_BYTES} bytes; put large input into a file"
            )
        if self._all[self._caller] + counted > MAX_HELD_BYTES_PER_CALLER:
            raise RejectedError(
                429, f"the running calls of {self._caller} have too much content; wait until one has ended"
            )
        if self._all.total() + counted > MAX_HELD_BYTES:
            raise RejectedError(503, "the running calls have too much content; try again when some have ended")
        self._size += size
        self._all[self._caller] += counted

    def release(self) -> None:
        """Count no bytes any more."""
        self._all[self._caller] -= max(0, self._size - SMALL_MESSAGE_BYTES)
        self._size = 0


class DisconnectedError(Exception):
    """The caller went away before the message was there."""


async def read_message(receive: Receive, message_bytes: MessageBytes) -> bytes:
    """Return the whole body of a request. Raises `RejectedError`, and `DisconnectedError`."""
    data = b""
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise DisconnectedError
        part: bytes = message.get("body", b"")
        message_bytes.add(len(part))
        data += part
        if not message.get("more_body"):
            break
    if has_more_parts(data, MAX_MESSAGE_PARTS):  # gate: message-parts
        raise RejectedError(
            413, f"the message has more than {MAX_MESSAGE_PARTS} values; send fewer, or put them into a file"
        )
    return data


def replayed(data: bytes, receive: Receive) -> Receive:
    """Return a `receive` that hands over `data` as the body, and after it what comes from the connection."""
    pending: list[Message] = [{"type": "http.request", "body": data, "more_body": False}]

    async def receive_again() -> Message:
        return pending.pop() if pending else await receive()

    return receive_again
