"""act/bridge_transport.py against a server that answers with any bytes it likes."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import time
from collections.abc import AsyncIterator

import httpx
import pytest
from httpx_sse import aconnect_sse

from efrit.controller.act import bridge_transport
from efrit.controller.act.bridge_transport import BridgeTransport, read_events
from efrit.controller.act.stream_rate import Shared, StreamRate
from efrit.errors import ProtocolError
from tests.support.timeout import TIMEOUT

EVENTS = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
RESET = b'id: abc-1\nevent: reset\ndata: {"queue_id":"q","epoch":"abc"}\n\n'


@contextlib.asynccontextmanager
async def answering(*parts: bytes, then: bytes = b"", stays: bool = False) -> AsyncIterator[httpx.AsyncClient]:
    """Yield a client of a server that says `parts`, and `then` over and over; nothing more if that is empty.

    With `stays` it keeps the connection open until the client has left.
    """

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            await reader.readuntil(b"\r\n\r\n")
            for part in parts:
                writer.write(part)
            while then:
                writer.write(then)
                await writer.drain()
            if stays:
                await reader.read()
        writer.close()
        event.set()

    event = asyncio.Event()
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    transport = BridgeTransport(StreamRate(Shared(), time.monotonic), asyncio.Semaphore())
    async with server:
        async with httpx.AsyncClient(transport=transport, base_url=f"http://127.0.0.1:{port}") as client:
            yield client
        if stays:
            await event.wait()


async def events(client: httpx.AsyncClient) -> list[str]:
    async with aconnect_sse(client, "GET", "/v1/events") as source:
        return [event_id async for event, event_id in read_events(source) if event is not None]


async def test_events_are_read_with_their_ids() -> None:
    async with answering(EVENTS + RESET + b": still here\n\n" + RESET[10:]) as client:
        assert await events(client) == ["abc-1", "abc-1"]


@pytest.mark.parametrize("then", [b"x" * 4096, b"data: x\n" * 512, b": x\n" * 1024], ids=["line", "data", "comments"])
async def test_an_event_without_end_ends_the_stream(then: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bridge_transport, "MAX_EVENT_BYTES", 20_000)
    async with answering(EVENTS + RESET, then=then) as client:
        with pytest.raises(httpx.RemoteProtocolError, match="longer than"):
            await events(client)


async def test_a_stream_of_whole_events_may_be_longer_than_one_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bridge_transport, "MAX_EVENT_BYTES", 100)
    async with answering(EVENTS, *[RESET] * 50) as client:
        assert len(await events(client)) == 50


async def test_an_answer_without_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bridge_transport, "MAX_BODY_BYTES", 100_000)
    async with answering(b"HTTP/1.1 200 OK\r\n\r\n", then=b"x" * 4096) as client:
        with pytest.raises(httpx.RemoteProtocolError, match="longer than"):
            await client.get("/")


BODY = b"HTTP/1.1 200 OK\r\n\r\n"
LARGE = b"x" * (2 * bridge_transport.SMALL_BODY_BYTES)


@pytest.mark.parametrize(("size", "waits"), [(1000, False), (len(LARGE), True)])
async def test_one_body_that_is_large_is_read_at_a_time(size: int, waits: bool) -> None:
    async with answering(BODY + LARGE[:size]) as client:
        turns: asyncio.Semaphore = client._transport._large_bodies  # type: ignore[attr-defined]
        async with turns:
            reading = asyncio.create_task(client.get("/"))
            done, _ = await asyncio.wait({reading}, timeout=0.5 if waits else TIMEOUT)
            assert bool(done) != waits
        assert len((await reading).content) == size
        assert not turns.locked()


async def test_a_large_body_that_is_sent_drop_by_drop_gives_its_turn_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bridge_transport, "LARGE_BODY_SECONDS", 0.1)
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n"
    async with answering(head + LARGE, stays=True) as client:
        with pytest.raises(TimeoutError):
            await client.get("/")
        assert not client._transport._large_bodies.locked()  # type: ignore[attr-defined]


async def test_nothing_is_unpacked_decoded_kept_or_followed_because_a_bridge_says_so() -> None:
    body = gzip.compress(b"0" * 10_000_000)
    head = (
        "HTTP/1.1 302 Found\r\nLocation: http://elsewhere.example/\r\nSet-Cookie: a=b\r\nContent-Encoding: gzip\r\n"
        f"Content-Type: application/json; charset=utf-7\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    async with answering(head.encode() + body) as client:
        answer = await client.get("/")
        assert answer.content == body
        assert dict(answer.headers) == {"content-type": "application/json"}
        assert len(client.cookies) == 0


@pytest.mark.parametrize("event_id", ["é-1", "a b-1", "x", "a-" + "9" * 30, "-1", "a\x01-1"])
async def test_an_id_that_cannot_be_sent_back_is_refused(event_id: str) -> None:
    async with answering(EVENTS + RESET.replace(b"abc-1", event_id.encode())) as client:
        with pytest.raises(ProtocolError):
            await events(client)
