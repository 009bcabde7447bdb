"""Connections within limits of time."""

import asyncio
import re

import pytest

from efrit.bridge import connection
from efrit.bridge.server import Server
from efrit.timed_connection import MAX_HEAD_BYTES, MAX_HEADERS, MAX_PIPELINED_REQUESTS
from efrit.tls_buffer import TLS_BUFFER_BYTES
from tests.support.certificates import TOKEN, trusting
from tests.support.timeout import TIMEOUT
from tests.unit.bridge.conftest import Serve, Served

BEGUN = {
    "nothing": b"",
    "half a head": b"GET /healthz HT",
    "half a body": b"PUT /v1/requests/a HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nab",
    "half a second request": b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\nGET /he",
}


@pytest.mark.parametrize("name", BEGUN)
async def test_a_request_that_never_comes_is_not_waited_for(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(connection.Connection, "receive_seconds", 0.2)
    served = await serve()
    reader, writer = await asyncio.open_connection("127.0.0.1", served.bridge.port, ssl=trusting(served.secrets))
    writer.write(BEGUN[name])
    answer = await asyncio.wait_for(reader.read(), TIMEOUT)
    # Refused for its missing token, where its head was read in time, the half body is no longer waited for either.
    refusals = (b"HTTP/1.1 401", b"HTTP/1.1 408") if name == "half a body" else (b"HTTP/1.1 408",)
    assert any(refusal in answer for refusal in refusals)
    assert b'"code":"' in answer
    # Whatever was answered before the time was over is not answered again.
    assert answer.count(b"HTTP/1.1 ") == (2 if name == "half a second request" else 1)
    writer.close()


GET = b"GET /healthz HTTP/1.1\r\n"
HOST = b"Host: a\r\n"
PUT = b"PUT /v1/requests/a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n"
ALLOWED = f"Authorization: Bearer {TOKEN}\r\n".encode()
UPGRADE = b"Connection: upgrade\r\nUpgrade: websocket\r\n"
CLOSE = b"Connection: close\r\n"


def endless(begun: bytes) -> bytes:
    """Return what is refused with its last byte: what it leaves unread would end the connection before its answer."""
    return begun.ljust(MAX_HEAD_BYTES + 1, b"x")


ANSWERED_ONCE = {
    "a head without end": (endless(GET + HOST + b"X: "), b"400"),
    "too many headers": (GET + HOST + b"X: y\r\n" * (MAX_HEADERS - 1) + b"Connection: close\r\n\r\n", b"400"),
    "as many headers as may be": (GET + HOST + b"X: y\r\n" * (MAX_HEADERS - 1) + b"\r\nno HTTP", b"200"),
    "no host": (GET + b"\r\n", b"400"),
    "two hosts": (GET + HOST + HOST + b"\r\n", b"400"),
    "an older version": (b"GET /healthz\r\n\r\n", b"400"),
    "a newer version": (b"GET /healthz HTTP/2.0\r\n\r\n", b"400"),
    "no address of ours": (b"CONNECT a:1 HTTP/1.1\r\n" + HOST + b"\r\n", b"400"),
    "another protocol to no address of ours": (b"CONNECT a:1 HTTP/1.1\r\n" + HOST + UPGRADE + b"\r\n", b"400"),
    "an unknown method": (b"BREW /healthz HTTP/1.1\r\n" + HOST + b"\r\n", b"400"),
    "lines that end without CR": (GET.replace(b"\r", b"") + b"Host: a\n\n", b"400"),
    "a line that goes on": (GET + HOST + b"X: y\r\n z\r\n\r\n", b"400"),
    "a space after a name": (GET + HOST + b"Content-Length : 0\r\n\r\n", b"400"),
    "a length, and chunks": (PUT + b"Content-Length: 5\r\n\r\n0\r\n\r\n", b"400"),
    "two lengths": (GET + HOST + b"Content-Length: 0\r\n" * 2 + b"\r\n", b"400"),
    "a body of no length": (PUT.replace(b"chunked", b"chunked, identity") + b"\r\n0\r\n\r\n", b"400"),
    "a frame that ends without CR": (PUT + ALLOWED + b"\r\n1;\nx\r\n0\r\n\r\n", b"400"),
    "a chunk without a length": (PUT + ALLOWED + b"\r\nzz\r\n", b"400"),
    "a frame without end": (endless(PUT + ALLOWED + b"\r\n1;"), b"400"),
    "trailers without end": (endless(PUT + ALLOWED + b"\r\n0\r\nX: "), b"400"),
    "no token, and trailers without end": (endless(PUT + b"\r\n0\r\nX: "), b"401"),
}


@pytest.mark.parametrize("name", ANSWERED_ONCE)
async def test_after_what_is_no_http_or_too_long_the_connection_ends(served: Served, name: str) -> None:
    sent, status = ANSWERED_ONCE[name]
    answer = await answers(served, sent)
    # Without a token it may be refused for that before it is too long.
    assert re.findall(rb"HTTP/1.1 (\d+)", answer) in ([status], [b"400" if status == b"401" else status])


@pytest.mark.parametrize("next_one", [b"no HTTP\r\n\r\n", PUT + b"\r\n1\r\nx\r\nzz\r\n"], ids=["head", "body"])
async def test_what_is_not_http_after_a_request_does_not_take_its_answer(served: Served, next_one: bytes) -> None:
    answer = await answers(served, GET + HOST + b"\r\n" + next_one + GET + HOST + b"\r\n")
    assert re.findall(rb"HTTP/1.1 (\d+)", answer) == [b"200"]


async def test_requests_sent_together_are_answered_in_turn_up_to_a_bound(served: Served) -> None:
    paths = [b"/healthz", b"/v1/nothing"] * MAX_PIPELINED_REQUESTS
    answer = await answers(served, b"".join(b"GET " + path + b" HTTP/1.1\r\nHost: a\r\n\r\n" for path in paths))
    statuses = re.findall(rb"HTTP/1.1 (\d+)", answer)
    assert statuses == [{b"/healthz": b"200"}.get(path, b"404") for path in paths[: 1 + MAX_PIPELINED_REQUESTS]]


async def test_what_follows_a_body_is_no_header(served: Served) -> None:
    request = PUT + b"Connection: close\r\n\r\n0\r\n" + ALLOWED + b"\r\n"
    assert (await answers(served, request)).startswith(b"HTTP/1.1 401")


BODY = b'{"id":"a","type":"eval","content":"1"}'
CHUNKS = b"\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY)
OLD = b"PUT /v1/requests/a HTTP/1.0\r\n" + ALLOWED + b"Content-Length: %d\r\n" % len(BODY)
LAST = GET + HOST + CLOSE + b"\r\n"
TAKEN = {
    "another protocol": (GET + HOST + UPGRADE + b"\r\n" + LAST, [b"200", b"200"]),
    "another protocol, and a body": (PUT + ALLOWED + UPGRADE + CHUNKS + LAST, [b"201", b"200"]),
    "an expectation of HTTP/1.0": (OLD + b"Expect: 100-continue\r\n\r\n" + BODY, [b"201"]),
    "spaces after a value": (PUT + ALLOWED + CLOSE + b"Expect: 100-continue \t\r\n" + CHUNKS, [b"100", b"201"]),
}


@pytest.mark.parametrize("name", TAKEN)
async def test_what_may_be_sent_is_taken(served: Served, name: str) -> None:
    sent, statuses = TAKEN[name]
    assert re.findall(rb"HTTP/1.1 (\d+)", await answers(served, sent)) == statuses


async def test_a_stream_ends_with_its_connection_also_where_the_next_request_waits(served: Served) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", served.bridge.port, ssl=trusting(served.secrets))
    writer.write(b"GET /v1/events HTTP/1.1\r\n" + HOST + ALLOWED + b"\r\n" + GET + HOST + b"\r\n")
    await served.until(lambda: served.bridge.events.readers == 1)
    await reader.readuntil(b"data:")
    writer.transport.abort()
    await served.until(lambda: served.bridge.events.readers == 0)


async def test_a_connection_on_which_a_request_has_begun_does_not_rest(served: Served) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", served.bridge.port, ssl=trusting(served.secrets))
    writer.write(GET + HOST + b"\r\n" + GET)
    assert (await reader.readuntil(b"ok\n")).startswith(b"HTTP/1.1 200")
    (held,) = connections_of(served)
    assert held.timeout_keep_alive_task is None
    writer.write(HOST + b"\r\n")
    assert (await reader.readuntil(b"ok\n")).startswith(b"HTTP/1.1 200")
    assert held.timeout_keep_alive_task is not None
    writer.close()


def connections_of(served: Served) -> set[connection.Connection]:
    server = served.bridge._listeners[0].server
    assert isinstance(server, Server)
    return {held for held in server.server_state.connections if isinstance(held, connection.Connection)}


async def answers(served: Served, sent: bytes) -> bytes:
    """Return what comes until the bridge ends the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", served.bridge.port, ssl=trusting(served.secrets))
    writer.write(sent)
    received = await asyncio.wait_for(reader.read(), TIMEOUT)
    writer.close()
    return received


async def test_a_connection_may_rest_between_two_requests(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    served = await serve()
    reader, writer = await asyncio.open_connection("127.0.0.1", served.bridge.port, ssl=trusting(served.secrets))
    await served.until(lambda: bool(connections_of(served)))
    # From its opening on it has longer.
    monkeypatch.setattr(connection.Connection, "receive_seconds", 0.1)
    request = b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n"
    writer.write(request)
    first = await reader.readuntil(b"\r\n\r\n")
    size = re.search(rb"content-length: (\d+)", first)
    assert size is not None
    await reader.readexactly(int(size[1]))
    # Longer than a first request is waited for.
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(reader.read(1), 0.5)
    writer.write(request)
    assert (await reader.readuntil(b"\r\n\r\n"))[:15] == first[:15] == b"HTTP/1.1 200 OK"
    writer.close()


async def test_a_connection_keeps_a_buffer_of_one_record(serve: Serve) -> None:
    served = await serve()
    await served.client.get("/healthz")
    (held,) = connections_of(served)
    assert len(held.transport._ssl_protocol._ssl_buffer) == TLS_BUFFER_BYTES  # type: ignore[attr-defined]
