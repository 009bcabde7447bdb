"""act/bridge_transport.py against a server that answers with any bytes it likes."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest

from efrit.controller.act import bridge_transport, http_calls
from efrit.controller.act.bridge_transport import Answer, BridgeTransport, NotEvents, read_events
from efrit.controller.act.http_calls import (
    ConnectError,
    Connections,
    Place,
    PoolTimeout,
    ReadError,
    ReadTimeout,
    RemoteProtocolError,
    Timeouts,
)
from efrit.controller.act.stream_rate import Shared, StreamRate
from efrit.errors import ProtocolError
from tests.support.timeout import TIMEOUT
from tests.support.transports import abort_all

EVENTS = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
RESET = b'id: abc-1\nevent: reset\ndata: {"queue_id":"q","epoch":"abc"}\n\n'


TIMEOUTS = Timeouts(connect=TIMEOUT, read=TIMEOUT, pool=TIMEOUT)


@dataclass
class Caller:
    """The controller's side; `served` are the server's connections, `received` the heads it has got."""

    port: int
    large_bodies: asyncio.Semaphore = field(default_factory=asyncio.Semaphore)
    served: list[asyncio.Task[None] | None] = field(default_factory=list)
    received: list[bytes] = field(default_factory=list)
    most: int = 2

    def __post_init__(self) -> None:
        self.connections = Connections(Place("127.0.0.1", self.port), self.most, idle_seconds=60)
        self.transport = BridgeTransport(self.connections, self.large_bodies)

    @property
    def opened(self) -> int:
        return len(self.served)

    async def get(self, timeouts: Timeouts = TIMEOUTS, content: bytes | None = None) -> tuple[Answer, bytes]:
        method = "GET" if content is None else "PUT"
        async with self.transport.call(method, "/", {}, timeouts, content) as answer:
            return answer, await answer.read()

    async def events(self) -> list[str]:
        rate = StreamRate(Shared(), time.monotonic)
        async with self.transport.call("GET", "/v1/events", {}, TIMEOUTS) as answer:
            return [event_id async for event, event_id in read_events(answer.slices(rate)) if event is not None]


@contextlib.asynccontextmanager
async def answering(
    *parts: bytes, then: bytes = b"", stays: bool = False, again: bool = False
) -> AsyncIterator[Caller]:
    """Yield a client of a server that says `parts`, and `then` over and over; nothing more if that is empty.

    With `stays` it keeps the connection open until the client has left; with `again` it answers again and again.
    """

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        caller.served.append(asyncio.current_task())
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError), contextlib.closing(writer):
            while True:
                caller.received.append(await reader.readuntil(b"\r\n\r\n"))
                for part in parts:
                    writer.write(part)
                    await writer.drain()
                while then:
                    writer.write(then)
                    await writer.drain()
                if not again:
                    break
            if stays:
                await reader.read()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    caller = Caller(server.sockets[0].getsockname()[1])
    async with server:
        yield caller
        caller.transport.close()
        await asyncio.gather(*filter(None, caller.served))
        # A call may be given up before its connection is taken up: a closed server would leave that open.
        await abort_all(asyncio.get_running_loop())


async def test_events_are_read_with_their_ids() -> None:
    async with answering(EVENTS + RESET + b": still here\n\n" + RESET[10:]) as client:
        assert await client.events() == ["abc-1", "abc-1"]


@pytest.mark.parametrize("then", [b"x" * 4096, b"data: x\n" * 512, b": x\n" * 1024], ids=["line", "data", "comments"])
async def test_an_event_without_end_ends_the_stream(then: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bridge_transport, "MAX_EVENT_BYTES", 20_000)
    async with answering(EVENTS + RESET, then=then) as client:
        with pytest.raises(RemoteProtocolError, match="longer than"):
            await client.events()


async def test_a_stream_of_whole_events_may_be_longer_than_one_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bridge_transport, "MAX_EVENT_BYTES", 100)
    async with answering(EVENTS, *[RESET] * 50) as client:
        assert len(await client.events()) == 50


async def test_an_answer_without_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bridge_transport, "MAX_BODY_BYTES", 100_000)
    async with answering(b"HTTP/1.1 200 OK\r\n\r\n", then=b"x" * 4096) as client:
        with pytest.raises(RemoteProtocolError, match="longer than"):
            await client.get()


BODY = b"HTTP/1.1 200 OK\r\n\r\n"
LARGE = b"x" * (2 * bridge_transport.SMALL_BODY_BYTES)


@pytest.mark.parametrize(("size", "waits"), [(1000, False), (len(LARGE), True)])
async def test_one_body_that_is_large_is_read_at_a_time(size: int, waits: bool) -> None:
    async with answering(BODY + LARGE[:size]) as client:
        async with client.large_bodies:
            reading = asyncio.create_task(client.get())
            done, _ = await asyncio.wait({reading}, timeout=0.5 if waits else TIMEOUT)
            assert bool(done) != waits
        assert len((await reading)[1]) == size
        assert not client.large_bodies.locked()


async def test_a_large_body_that_is_sent_drop_by_drop_gives_its_turn_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bridge_transport, "LARGE_BODY_SECONDS", 0.1)
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n"
    async with answering(head + LARGE, stays=True) as client:
        with pytest.raises(TimeoutError):
            await client.get()
        assert not client.large_bodies.locked()


async def test_nothing_is_unpacked_decoded_kept_or_followed_because_a_bridge_says_so() -> None:
    body = gzip.compress(b"0" * 10_000_000)
    head = (
        "HTTP/1.1 302 Found\r\nLocation: http://elsewhere.example/\r\nSet-Cookie: a=b\r\nContent-Encoding: gzip\r\n"
        f"Content-Type: application/json; charset=utf-7\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    async with answering(head.encode() + body) as client:
        answer, content = await client.get()
        assert content == body
        assert (answer.status, answer.kind) == (302, "application/json")


@pytest.mark.parametrize("event_id", ["é-1", "a b-1", "x", "a-" + "9" * 30, "-1", "a\x01-1"])
async def test_an_id_that_cannot_be_sent_back_is_refused(event_id: str) -> None:
    async with answering(EVENTS + RESET.replace(b"abc-1", event_id.encode())) as client:
        with pytest.raises(ProtocolError):
            await client.events()


WHOLE = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
CHUNKS = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\no\r\n1\r\nk\r\n0\r\n\r\n"


@pytest.mark.parametrize("answer", [WHOLE, CHUNKS, b"HTTP/1.1 100 Continue\r\n\r\n" + WHOLE])
async def test_a_connection_whose_answer_was_read_is_used_again(answer: bytes) -> None:
    async with answering(answer, again=True) as client:
        assert [(await client.get())[1] for _ in range(3)] == [b"ok"] * 3
        assert client.opened == 1


@pytest.mark.parametrize("more", [WHOLE, b"x" * 100, b"\0"], ids=["answer", "text", "byte"])
async def test_what_comes_after_an_answer_is_nobody_s_and_ends_the_connection(more: bytes) -> None:
    async with answering(WHOLE + more, again=True) as client:
        assert [(await client.get())[1] for _ in range(2)] == [b"ok"] * 2
        assert client.opened == 2
        assert not client.connections._idle


async def test_a_connection_at_rest_on_which_something_comes_is_dropped() -> None:
    async with answering(WHOLE, again=True) as client:
        await client.get()
        (resting,) = client.connections._idle
        resting.data_received(WHOLE)
        assert not resting.is_usable
        assert (await client.get())[1] == b"ok"
        assert client.opened == 2


async def test_a_connection_that_the_bridge_has_closed_is_not_used_again() -> None:
    async with answering(WHOLE) as client:
        for _ in range(2):
            assert (await client.get())[1] == b"ok"
            (resting,) = client.connections._idle
            while resting.is_usable:  # noqa: ASYNC110 - the loop tells the connection, and nobody else
                await asyncio.sleep(0)
        assert client.opened == 2


async def test_a_connection_that_has_rested_for_long_is_dropped() -> None:
    async with answering(WHOLE, again=True) as client:
        await client.get()
        client.connections._idle[0].idle_since -= 61
        await client.get()
        assert client.opened == 2


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    ("begin", "then"),
    [
        (b"HTTP/1.1 200 OK\r\nX: ", b"x" * 4096),
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 100),
        (CHUNKED + b"2;", b"x" * 4096),
        (CHUNKED + b"0\r\nX: ", b"x" * 4096),
        (CHUNKED, b"1;" + b"x" * 8192 + b"\r\no\r\n"),
    ],
    ids=["head", "heads", "chunk", "trailer", "chunks"],
)
async def test_what_is_no_body_may_not_go_on_for_ever(begin: bytes, then: bytes) -> None:
    async with answering(begin + then * (4 * http_calls.MAX_HEAD_BYTES // len(then))) as client:
        with pytest.raises(RemoteProtocolError, match="the head of an answer is longer than"):
            await client.get()


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (b"", "Server disconnected without sending a response."),
        (b"hello\r\n\r\n", "the answer is not HTTP"),
        (b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n", "the answer is not HTTP"),
        (WHOLE[:-1], "peer closed connection without sending complete message body"),
        (b"HTTP/1.1 099 X\r\nContent-Length: 2\r\n\r\nno" + WHOLE, "the answer is not HTTP"),
        (CHUNKS[:-5], "peer closed connection without sending complete message body"),
    ],
)
async def test_a_call_is_made_once_whatever_becomes_of_its_answer(answer: bytes, error: str) -> None:
    async with answering(answer) as client:
        with pytest.raises(RemoteProtocolError, match=error):
            await client.get(content=b"{}")
        assert client.opened == 1


async def test_a_body_of_many_small_chunks_is_read() -> None:
    size = http_calls.MAX_HEAD_BYTES
    async with answering(CHUNKED + b"1\r\no\r\n" * size + b"0\r\n\r\n") as client:
        assert (await client.get())[1] == b"o" * size


async def test_a_silent_bridge_a_closed_port_and_a_full_pool_are_different_errors() -> None:
    short = Timeouts(connect=TIMEOUT, read=0.05, pool=0.05)
    async with answering(stays=True) as client:
        calls = [asyncio.create_task(client.get()) for _ in range(client.most)]
        while client.opened < client.most:  # noqa: ASYNC110 - counted by the server
            await asyncio.sleep(0)
        with pytest.raises(PoolTimeout):
            await client.get(short)
        calls.pop().cancel()
        with pytest.raises(ReadTimeout):
            await client.get(short)
        client.transport.close()
        with pytest.raises(ReadError):
            await calls.pop()
        with pytest.raises(ReadError):
            await client.get()
    gone = Caller(client.port)
    with pytest.raises(ConnectError, match="All connection attempts failed"):
        await gone.get()


async def test_a_body_that_nobody_reads_stays_in_the_socket() -> None:
    async with answering(BODY, then=b"x" * 65536) as client:
        async with client.transport.call("GET", "/", {}, TIMEOUTS) as answer:
            connection = answer._connection
            while not connection._paused:  # noqa: ASYNC110 - the loop tells the connection, and nobody else
                await asyncio.sleep(0)
            size = len(connection._body)
            assert size < http_calls.HIGH_WATER_BYTES + 1024 * 1024
            for _ in range(10):
                await asyncio.sleep(0)
            assert len(connection._body) == size
            # Once it is read, more comes.
            assert [len(await connection.read(TIMEOUT)) > 0 for _ in range(3)] == [True] * 3


class Full(asyncio.Transport):
    """A transport whose other side takes nothing until `take`."""

    def __init__(self) -> None:
        super().__init__()
        self.aborted = False
        self.unsent = 0
        self.connection = http_calls.Connection()
        self.connection.connection_made(self)

    async def call(self, data: bytes) -> asyncio.Task[None]:
        """Return the task that sends a call, and waits."""
        task = asyncio.create_task(self.connection.send(data, TIMEOUT))
        await asyncio.sleep(0)
        return task

    async def take(self) -> None:
        self.unsent = 0
        self.connection.resume_writing()
        await asyncio.sleep(0)

    async def read(self) -> bytes:
        """Read an answer to its end, and let it go."""
        body = await self.connection.read(TIMEOUT)
        self.connection.finish()
        return body

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.unsent += len(data)
        self.connection.pause_writing()

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def is_closing(self) -> bool:
        return self.aborted

    def abort(self) -> None:
        self.aborted = True


async def test_a_request_that_the_bridge_does_not_take_is_given_up() -> None:
    with pytest.raises(ReadTimeout):
        await Full().connection.send(b"call", 0.05)


async def test_a_request_is_written_as_fast_as_the_bridge_takes_it() -> None:
    full = Full()
    sending = await full.call(b"x" * (2 * http_calls.WRITE_BYTES + 1))
    # No answer, but an event.
    full.connection.data_received(b"HTTP/1.1 100 Continue\r\n\r\n")
    for size in (http_calls.WRITE_BYTES, http_calls.WRITE_BYTES, 1):
        assert full.unsent == size
        await full.take()
    await sending
    full.connection.data_received(WHOLE)
    assert await full.read() == b"ok"
    assert full.connection.is_usable


@pytest.mark.parametrize("size", [1, http_calls.WRITE_BYTES + 1], ids=["unsent", "unwritten"])
@pytest.mark.parametrize("takes", [False, True])
async def test_a_connection_whose_request_was_answered_early_is_not_used_again(size: int, takes: bool) -> None:
    full = Full()
    sending = await full.call(b"x" * size)
    full.connection.data_received(WHOLE)
    if takes:
        await full.take()
    await sending
    assert await full.read() == b"ok"
    assert full.unsent <= http_calls.WRITE_BYTES
    assert not full.connection.is_usable


async def test_a_connection_with_unsent_bytes_is_not_used_again() -> None:
    full = Full()
    sending = await full.call(b"call")
    await full.take()
    await sending
    full.connection.data_received(WHOLE)
    full.unsent = 1
    assert await full.read() == b"ok"
    assert not full.connection.is_usable


async def test_a_bridge_that_does_not_take_what_tls_answers_it_is_left() -> None:
    full = Full()
    full.connection.pause_writing()
    assert full.aborted


async def test_a_connection_on_which_the_bridge_says_no_more_is_not_used_again() -> None:
    full = Full()
    sending = await full.call(b"call")
    await full.take()
    await sending
    full.connection.data_received(WHOLE)
    full.connection.eof_received()
    assert await full.read() == b"ok"
    assert not full.connection.is_usable


async def test_no_call_is_made_on_a_connection_that_opens_while_all_are_closed() -> None:
    async with answering(WHOLE) as client:
        call = asyncio.create_task(client.get())
        await asyncio.sleep(0)
        client.transport.close()
        with pytest.raises(ReadError):
            await call
    assert not client.received


async def test_what_is_no_event_stream_is_not_read_as_one() -> None:
    async with answering(WHOLE) as client:
        with pytest.raises(NotEvents, match="text/event-stream"):
            await client.events()


async def test_nothing_of_a_path_becomes_a_header() -> None:
    async with answering(WHOLE) as client:
        async with client.transport.call("GET", "/v1/\r\nX: y?only=waiting", {}, TIMEOUTS) as answer:
            await answer.read()
        (head,) = client.received
        assert head.startswith(b"GET /v1/%0D%0AX%3A%20y?only=waiting HTTP/1.1\r\nHost: 127.0.0.1:")
        assert head.count(b"\r\n") == 3
