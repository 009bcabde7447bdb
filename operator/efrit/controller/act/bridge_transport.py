"""What a bridge may make us read: the pod it runs in runs its users' code, so it is not believed.

Of an answer's head only status and media type are passed on: no compression, no character set, no cookie and no
redirection is followed. Bodies and single events end with an error when they grow too long; an event stream is read
slice by slice and no faster than its rate. Decides nothing else.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
from httpx_sse import EventSource

from efrit.controller import metrics
from efrit.controller.act.stream_rate import StreamRate
from efrit.protocol import Event, EventId, parse_event

MAX_BODY_BYTES = 12 * 1024 * 1024
"""The largest answer file a bridge reads (8 MiB), told as a view, and room to spare."""
SMALL_BODY_BYTES = 256 * 1024
"""Bodies up to this size are read side by side; of larger ones one at a time, over all bridges."""
LARGE_BODY_SECONDS = 10.0
"""How long a large body may take, from its turn on: whoever sends it drop by drop keeps others waiting."""
MAX_EVENT_BYTES = 256 * 1024
"""An answer within an event has at most 64 KiB; what else is in an event is small."""
SLICE_BYTES = 4 * 1024
"""So much of an event stream is parsed before others have their turn."""
_EVENTS = "text/event-stream"


class TooLong(httpx.RemoteProtocolError):
    """A body or an event that is longer than a bridge's may be."""


class BridgeTransport(httpx.AsyncHTTPTransport):
    """httpx' own transport, within limits."""

    def __init__(self, rate: StreamRate, large_bodies: asyncio.Semaphore, **options: Any) -> None:
        """Read within `rate`; large_bodies: how many bridges may send a large body at the same time."""
        super().__init__(**options)
        self._rate = rate
        self._large_bodies = large_bodies

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send `request`. Raises `httpx.TransportError`, later too, while the body is read."""
        answer = await super().handle_async_request(request)
        kind = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
        assert isinstance(answer.stream, httpx.AsyncByteStream)  # noqa: S101 - what the async transport makes
        return httpx.Response(
            answer.status_code,
            headers={"content-type": kind} if kind.isascii() else {},
            stream=_Events(answer.stream, self._rate)
            if kind == _EVENTS
            else _Body(answer.stream, self._large_bodies),
            extensions=answer.extensions,
        )


class _Stream(httpx.AsyncByteStream):
    """What a bridge sends after the head of its answer."""

    def __init__(self, stream: httpx.AsyncByteStream) -> None:
        self._stream = stream
        self._size = 0

    async def aclose(self) -> None:
        await self._stream.aclose()


class _Body(_Stream):
    """A body that may not grow beyond its limit, and grows large only in its turn."""

    def __init__(self, stream: httpx.AsyncByteStream, large_bodies: asyncio.Semaphore) -> None:
        super().__init__(stream)
        self._large_bodies = large_bodies
        self._deadline: float | None = None
        """When its turn ends, on the loop's clock; None while it is small."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        parts = aiter(self._stream)
        while True:
            async with asyncio.timeout_at(self._deadline):
                part = await anext(parts, None)
            if part is None:
                return
            self._size += len(part)
            if self._size > MAX_BODY_BYTES:
                raise TooLong(f"the bridge's answer is longer than {MAX_BODY_BYTES} bytes")
            if self._size > SMALL_BODY_BYTES and self._deadline is None:
                await self._wait_for_large_body_slot()  # gate: large-bodies
            yield part

    async def _wait_for_large_body_slot(self) -> None:
        if self._large_bodies.locked():
            metrics.BUDGET_WAITS.labels("large_bodies").inc()
        await self._large_bodies.acquire()
        self._deadline = asyncio.get_running_loop().time() + LARGE_BODY_SECONDS

    async def aclose(self) -> None:
        if self._deadline is not None:
            self._deadline = None
            self._large_bodies.release()
        await super().aclose()


class _Events(_Stream):
    """A stream that may be endless, but for its single events: an empty line ends one."""

    _last = b""

    def __init__(self, stream: httpx.AsyncByteStream, rate: StreamRate) -> None:
        super().__init__(stream)
        self._rate = rate

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for part in self._stream:
            for begin in range(0, len(part), SLICE_BYTES):
                piece = part[begin : begin + SLICE_BYTES]
                self._count(piece)
                self._rate.read(piece)
                # What is not read stays in the socket, and its sender waits.
                await asyncio.sleep(self._rate.pause())  # gate: stream-rate
                yield piece

    def _count(self, part: bytes) -> None:
        received = self._last + part
        end = received.rfind(b"\n\n")
        self._size = self._size + len(part) if end < 0 else len(received) - end - 2
        self._last = received[-1:]
        if self._size > MAX_EVENT_BYTES:
            raise TooLong(f"an event of the bridge is longer than {MAX_EVENT_BYTES} bytes")


async def read_events(source: EventSource) -> AsyncIterator[tuple[Event | None, str]]:
    """Yield each event, None for one of a later version, and the id to resume after it, `""` without one.

    Raises `ProtocolError` for an unknown event, `httpx.TransportError` and `httpx_sse.SSEError`.
    """
    async for sent in source.aiter_sse():
        event = parse_event(sent.event, sent.data)
        # It goes into a header when the stream is taken up again.
        yield event, str(EventId.parse(sent.id)) if sent.id else ""
