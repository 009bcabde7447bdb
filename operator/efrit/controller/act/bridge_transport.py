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

from efrit.controller.act.stream_rate import StreamRate
from efrit.protocol import Event, EventId, parse_event

MAX_BODY_BYTES = 24 * 1024 * 1024
"""The largest answer file a bridge reads (16 MiB), told as a view, and room to spare."""
MAX_EVENT_BYTES = 256 * 1024
"""An answer within an event has at most 64 KiB; what else is in an event is small."""
SLICE_BYTES = 8 * 1024
"""So much of an event stream is parsed before others have their turn."""
_EVENTS = "text/event-stream"


class TooLong(httpx.RemoteProtocolError):
    """A body or an event that is longer than a bridge's may be."""


class BridgeTransport(httpx.AsyncHTTPTransport):
    """httpx' own transport, within limits."""

    def __init__(self, rate: StreamRate, **options: Any) -> None:
        super().__init__(**options)
        self._rate = rate

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send `request`. Raises `httpx.TransportError`, later too, while the body is read."""
        answer = await super().handle_async_request(request)
        kind = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
        assert isinstance(answer.stream, httpx.AsyncByteStream)  # noqa: S101 - what the async transport makes
        return httpx.Response(
            answer.status_code,
            headers={"content-type": kind} if kind.isascii() else {},
            stream=_Events(answer.stream, self._rate) if kind == _EVENTS else _Body(answer.stream),
            extensions=answer.extensions,
        )


class _Body(httpx.AsyncByteStream):
    """A body that may not grow beyond its limit."""

    def __init__(self, stream: httpx.AsyncByteStream) -> None:
        self._stream = stream
        self._size = 0

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for part in self._stream:
            self._count(part)
            yield part

    async def aclose(self) -> None:
        await self._stream.aclose()

    def _count(self, part: bytes) -> None:
        self._size += len(part)
        if self._size > MAX_BODY_BYTES:
            raise TooLong(f"the bridge's answer is longer than {MAX_BODY_BYTES} bytes")


class _Events(_Body):
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
        seen = self._last + part
        end = seen.rfind(b"\n\n")
        self._size = self._size + len(part) if end < 0 else len(seen) - end - 2
        self._last = seen[-1:]
        if self._size > MAX_EVENT_BYTES:
            raise TooLong(f"an event of the bridge is longer than {MAX_EVENT_BYTES} bytes")


async def read_events(source: EventSource) -> AsyncIterator[tuple[Event | None, str]]:
    """Yield each event, None for one of a later version, and the id to resume after it, `""` without one.

    Raises `ProtocolError` for an unknown event, `httpx.TransportError` and `httpx_sse.SSEError`.
    """
    async for each in source.aiter_sse():
        event = parse_event(each.event, each.data)
        # It goes into a header when the stream is taken up again.
        yield event, str(EventId.parse(each.id)) if each.id else ""
