"""What a bridge may make us read: the pod it runs in runs its users' code, so it is not believed.

Of an answer's head only status and media type are passed on: no compression, no character set, no cookie and no
redirection is followed. Bodies and single events end with an error when they grow too long; an event stream is read
slice by slice and no faster than its rate. Decides nothing else.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager

from efrit.controller import metrics
from efrit.controller.act.http_calls import Connection, Connections, Head, RemoteProtocolError, Timeouts
from efrit.controller.act.stream_rate import StreamRate
from efrit.protocol.events import Event, EventId, parse_event

MAX_BODY_BYTES = 12 * 1024 * 1024
"""The largest answer file a bridge reads (8 MiB), as a view, and room to spare."""
SMALL_BODY_BYTES = 256 * 1024
"""Bodies up to this size are read side by side; of larger ones one at a time, over all bridges."""
LARGE_BODY_SECONDS = 10.0
"""How long a large body may take, from its turn on: whoever sends it drop by drop keeps others waiting."""
MAX_EVENT_BYTES = 256 * 1024
"""An answer within an event has at most 64 KiB; what else is in an event is small."""
SLICE_BYTES = 4 * 1024
"""So much of an event stream is parsed before others have their turn."""
_EVENTS = "text/event-stream"


class TooLong(RemoteProtocolError):  # noqa: N818
    """A body or an event that is longer than a bridge's may be."""


class NotEvents(RemoteProtocolError):  # noqa: N818
    """What was to be an event stream is none."""


class Answer:
    """The answer to one call, its body not read yet."""

    def __init__(
        self, connection: Connection, head: Head, read_seconds: float, large_bodies: asyncio.Semaphore
    ) -> None:
        self.status, self.kind = head.status, head.kind
        self._connection = connection
        self._read_seconds = read_seconds
        self._large_bodies = large_bodies
        self._deadline: float | None = None
        """When the turn of a large body ends, on the loop's clock; None while it is small."""

    @property
    def is_success(self) -> bool:
        """Whether the bridge did what it was asked for."""
        return 200 <= self.status < 300

    async def read(self) -> bytes:
        """Return the whole body. Raises `TransportError`, `TimeoutError`."""
        return b"".join([part async for part in self.parts()])

    async def parts(self) -> AsyncIterator[bytes]:
        """Yield a body that may not grow beyond its limit, and grows large only in its turn."""
        size = 0
        while True:
            if self._deadline is None:
                part = await self._connection.read(self._read_seconds)
            else:
                async with asyncio.timeout_at(self._deadline):
                    part = await self._connection.read(self._read_seconds)
            if not part:
                return
            size += len(part)
            if size > MAX_BODY_BYTES:
                raise TooLong(f"the bridge's answer is longer than {MAX_BODY_BYTES} bytes")
            if size > SMALL_BODY_BYTES and self._deadline is None:
                await self._wait_for_large_body_slot()  # gate: large-bodies
            yield part

    async def slices(self, rate: StreamRate) -> AsyncIterator[bytes]:
        """Yield a stream that may be endless, but for its single events: an empty line ends one.

        Raises `NotEvents` for something else.
        """
        if self.kind != _EVENTS:
            raise NotEvents(
                f"Expected response header Content-Type to contain 'text/event-stream', got {self.kind[:100]!r}"
            )
        size, last = 0, b""
        while part := await self._connection.read(self._read_seconds):
            for begin in range(0, len(part), SLICE_BYTES):
                piece = part[begin : begin + SLICE_BYTES]
                received = last + piece
                end = received.rfind(b"\n\n")
                size = size + len(piece) if end < 0 else len(received) - end - 2
                last = received[-1:]
                if size > MAX_EVENT_BYTES:
                    raise TooLong(f"an event of the bridge is longer than {MAX_EVENT_BYTES} bytes")
                rate.read(piece)
                # What is not read stays in the socket, and its sender waits.
                await asyncio.sleep(rate.pause())  # gate: stream-rate
                yield piece

    async def _wait_for_large_body_slot(self) -> None:
        if self._large_bodies.locked():
            metrics.BUDGET_WAITS.labels("large_bodies").inc()
        await self._large_bodies.acquire()
        self._deadline = asyncio.get_running_loop().time() + LARGE_BODY_SECONDS

    def close(self) -> None:
        """Let the turn of a large body go."""
        if self._deadline is not None:
            self._deadline = None
            self._large_bodies.release()


class BridgeTransport:
    """Calls to one bridge, within limits."""

    def __init__(self, connections: Connections, large_bodies: asyncio.Semaphore) -> None:
        """Use `connections`; large_bodies: how many bridges may send a large body at the same time."""
        self._connections = connections
        self._large_bodies = large_bodies

    @asynccontextmanager
    async def call(
        self, method: str, path: str, headers: Mapping[str, str], timeouts: Timeouts, content: bytes | None = None
    ) -> AsyncGenerator[Answer]:
        """Make a call, whose answer is read in the block. Raises `TransportError`, also while the body is read."""
        connection, head = await self._connections.send(method, path, headers, content, timeouts)
        answer = Answer(connection, head, timeouts.read, self._large_bodies)
        try:
            yield answer
        finally:
            answer.close()
            self._connections.release(connection)

    def close(self) -> None:
        """End all connections, and the calls on them."""
        self._connections.close()


class _Lines:
    """Server-sent events out of the slices of a stream."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._id = ""

    def feed(self, piece: bytes) -> Iterator[tuple[str, str, str]]:
        """Yield name, data and id of the events that are whole with this piece. An id holds for those after it."""
        searched = max(0, len(self._buffer) - 1)
        self._buffer += piece
        if (end := self._buffer.rfind(b"\n\n", searched)) < 0:
            return
        whole = bytes(self._buffer[:end])
        del self._buffer[: end + 2]
        for block in whole.decode("utf-8", "replace").split("\n\n"):
            name, data = "", list[str]()
            for line in block.split("\n"):
                field, _, value = line.partition(":")
                value = value.removeprefix(" ")
                if field == "data":
                    data.append(value)
                elif field == "event":
                    name = value
                elif field == "id":
                    self._id = value
            if name or data:
                yield name or "message", "\n".join(data), self._id


async def read_events(slices: AsyncIterator[bytes]) -> AsyncIterator[tuple[Event | None, str]]:
    """Yield each event, None for one of a later version, and the id to resume after it, `""` without one.

    Raises `ProtocolError` for an unknown event, and what the slices raise.
    """
    lines = _Lines()
    async for piece in slices:
        for name, data, event_id in lines.feed(piece):
            event = parse_event(name, data)
            # It goes into a header when the stream is taken up again.
            yield event, str(EventId.parse(event_id)) if event_id else ""
