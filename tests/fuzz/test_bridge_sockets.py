"""Raw bytes against a real efrit-bridge: whatever one client does, it stays whole and answers the others."""

import contextlib
import json
import socket
import ssl
from collections.abc import Iterator

import httpx
import psutil
import pytest

from efrit.bridge.connection import MAX_CONNECTIONS
from efrit.bridge.routes import MAX_STREAMS
from efrit.protocol.view import ErrorBody
from tests.support.bridge_instance import Instance, until
from tests.support.certificates import TOKEN, trusting
from tests.support.plain_http import NO_TLS
from tests.support.timeout import TIMEOUT

AUTH = f"Host: bridge\r\nAuthorization: Bearer {TOKEN}\r\n"
BODY = json.dumps({"id": "raw", "type": "eval", "content": "1"})


@contextlib.contextmanager
def opened(instance: Instance) -> Iterator[ssl.SSLSocket]:
    context = trusting(instance.secrets)
    context.check_hostname = False
    with socket.create_connection(("127.0.0.1", instance.port), timeout=TIMEOUT) as plain:
        with context.wrap_socket(plain) as wrapped:
            yield wrapped


def read_response(wrapped: ssl.SSLSocket) -> tuple[int, bytes]:
    """Status and body of the first answer."""
    data = b""
    while b"\r\n\r\n" not in data:
        data += _more(wrapped)
    head, _, body = data.partition(b"\r\n\r\n")
    length = int(next((line[15:] for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")), 0))
    while len(body) < length:
        body += _more(wrapped)
    return int(head.split()[1]), body[:length]


def _more(wrapped: ssl.SSLSocket) -> bytes:
    part = wrapped.recv(65536)
    assert part, "the bridge hung up without a word"
    return part


def alive(instance: Instance) -> None:
    """Check that it answers somebody else, and that nothing went wrong inside."""
    assert instance.client.get("/healthz").status_code == 200
    assert instance.client.get("/v1/stats").status_code == 200
    log = (instance.place / "bridge.log").read_text()
    assert "Traceback" not in log, log[-3000:]
    assert TOKEN not in log


MALFORMED = {
    "no http": b"\x00\x01\x02\x03\r\n\r\n",
    "no version": b"GET /\r\n\r\n",
    "an unknown method": f"BREW /v1/stats HTTP/1.1\r\n{AUTH}\r\n".encode(),
    "two lengths": f"PUT /v1/requests/raw HTTP/1.1\r\n{AUTH}Content-Length: 3\r\n"
    f"Content-Length: 5\r\n\r\nabcde".encode(),
    "length and chunks": f"PUT /v1/requests/raw HTTP/1.1\r\n{AUTH}Content-Length: 3\r\n"
    "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n".encode(),
    "negative length": f"PUT /v1/requests/raw HTTP/1.1\r\n{AUTH}Content-Length: -1\r\n\r\n".encode(),
    "huge length": f"PUT /v1/requests/raw HTTP/1.1\r\n{AUTH}Content-Length: {'9' * 500}\r\n\r\n".encode(),
    "bad chunk": f"PUT /v1/requests/raw HTTP/1.1\r\n{AUTH}Transfer-Encoding: chunked\r\n\r\nzz\r\n\r\n".encode(),
    "ten thousand headers": b"GET / HTTP/1.1\r\n" + b"x: y\r\n" * 20_000,
    "one long header": b"GET / HTTP/1.1\r\nx: " + b"y" * 200_000,
    "a long path": b"GET /" + b"x" * 200_000,
    "a header without a name": b"GET /healthz HTTP/1.1\r\n: x\r\n\r\n",
    "a NUL in a header": b"GET /healthz HTTP/1.1\r\nHost: a\r\nX: a\0b\r\n\r\n",
    "another language": "GET /é HTTP/1.1\r\nHost: a\r\n\r\n".encode(),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_what_is_no_http_is_refused_in_json(instance: Instance, name: str) -> None:
    with opened(instance) as wrapped:
        with contextlib.suppress(OSError):
            wrapped.sendall(MALFORMED[name])
        status, body = read_response(wrapped)
    assert status in (400, 413, 422), body
    assert len(ErrorBody.parse(body).error.message) > 10
    alive(instance)


@pytest.mark.parametrize("name", MALFORMED)
def test_what_is_no_http_ends_the_connection_of_a_probe(instance: Instance, name: str) -> None:
    with socket.create_connection(("127.0.0.1", instance.probe_port), timeout=TIMEOUT) as connection:
        with contextlib.suppress(ConnectionError):
            connection.sendall(MALFORMED[name])
            # What was sent and is not read may end the connection before its answer comes.
            answer = b"".join(iter(lambda: connection.recv(65536), b""))
            assert answer.startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 404 ")), answer
    probe = httpx.get(f"http://127.0.0.1:{instance.probe_port}/healthz", trust_env=False, verify=NO_TLS)
    assert probe.status_code == 200
    alive(instance)


WELL_FORMED = {
    "an absolute address": (f"GET https://elsewhere/v1/stats HTTP/1.1\r\n{AUTH}\r\n", (200, 404)),
    "a path with an escaped slash": (f"GET /v1/requests/a%2f..%2fb HTTP/1.1\r\n{AUTH}\r\n", (404,)),
    "a path with an escaped NUL": (f"GET /v1/requests/a%00b HTTP/1.1\r\n{AUTH}\r\n", (404,)),
    "dots": (f"GET /v1/requests/.. HTTP/1.1\r\n{AUTH}\r\n", (404,)),
    "another host": ("GET /v1/requests/ HTTP/1.1\r\nHost: evil.example\r\n\r\n", (404,)),
    "no token": ("GET /v1/stats HTTP/1.1\r\nHost: a\r\n\r\n", (401,)),
    "a long token": (f"GET /v1/stats HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {'x' * 9_000}\r\n\r\n", (401,)),
    "a method for nothing here": (f"PROPFIND /v1/stats HTTP/1.1\r\n{AUTH}\r\n", (405,)),
    "an upgrade": (f"GET /v1/stats HTTP/1.1\r\n{AUTH}Connection: upgrade\r\nUpgrade: websocket\r\n\r\n", (200,)),
    "a body where none belongs": (f"GET /v1/stats HTTP/1.1\r\n{AUTH}Content-Length: 4\r\n\r\nabcd", (200,)),
    "an expectation": (
        f"PUT /v1/requests/raw HTTP/1.0\r\n{AUTH}Content-Length: {len(BODY)}\r\n\r\n{BODY}",
        (200, 201),
    ),
}


@pytest.mark.parametrize("name", WELL_FORMED)
def test_odd_requests_get_an_ordinary_answer(instance: Instance, name: str) -> None:
    text, expected = WELL_FORMED[name]
    with opened(instance) as wrapped:
        wrapped.sendall(text.encode())
        status, body = read_response(wrapped)
    assert status in expected, body
    if status >= 400:
        assert len(ErrorBody.parse(body).error.message) > 10
    assert b"elsewhere" not in body
    alive(instance)


def test_what_follows_a_request_is_another_request_or_none(instance: Instance) -> None:
    """A smuggled second request in a body stays a body; a pipelined one is answered in its turn."""
    inner = f"DELETE /v1/requests/raw HTTP/1.1\r\n{AUTH}\r\n"
    with opened(instance) as wrapped:
        wrapped.sendall(
            f"PUT /v1/requests/raw HTTP/1.1\r\n{AUTH}Content-Length: {len(inner)}\r\n\r\n{inner}"
            f"GET /v1/nothing HTTP/1.1\r\n{AUTH}\r\n".encode()
        )
        assert read_response(wrapped)[0] == 422
    alive(instance)


@pytest.mark.parametrize("chunked", [True, False], ids=["chunks without end", "ten megabytes"])
def test_a_body_that_is_too_long_is_refused_before_it_is_there(instance: Instance, chunked: bool) -> None:
    framing = "Transfer-Encoding: chunked" if chunked else f"Content-Length: {10 << 20}"
    part = b"10000\r\n" + b"x" * 65536 + b"\r\n" if chunked else b"x" * 65536
    with opened(instance) as wrapped:
        wrapped.sendall(f"PUT /v1/requests/raw HTTP/1.1\r\n{AUTH}{framing}\r\n\r\n".encode())
        with contextlib.suppress(OSError):
            for _ in range(159):
                wrapped.sendall(part)
        status, body = read_response(wrapped)
    assert (status, ErrorBody.parse(body).error.code) == (413, "TooLarge")
    alive(instance)


def test_the_bridge_serves_the_others_while_many_connections_do_nothing(instance: Instance) -> None:
    assert instance.bridge is not None
    process = psutil.Process(instance.bridge.pid)
    with contextlib.ExitStack() as stack:
        for number in range(100):
            plain = stack.enter_context(socket.create_connection(("127.0.0.1", instance.port), timeout=TIMEOUT))
            plain.sendall(b"\x16\x03\x01" if number % 2 else b"no TLS at all\r\n\r\n")
        for _ in range(20):
            stack.enter_context(opened(instance)).sendall(b"PUT /v1/requests/slow HTTP/1.1\r\nHost: a\r\n")
        alive(instance)
        assert process.memory_info().rss < 192 << 20
    alive(instance)


def test_beyond_the_limit_connections_are_dropped_and_taken_again_later(instance: Instance) -> None:
    assert instance.bridge is not None
    process = psutil.Process(instance.bridge.pid)
    with contextlib.ExitStack() as stack:
        mine = [
            stack.enter_context(socket.create_connection(("127.0.0.1", instance.port), timeout=TIMEOUT))
            for _ in range(3 * MAX_CONNECTIONS)
        ]
        # Those of earlier tests may still count for a moment: at most as many as allowed are kept.
        until(lambda: sum(map(_hung_up, mine)) >= 2 * MAX_CONNECTIONS)
        assert process.memory_info().rss < 192 << 20
        print(f"{process.memory_info().rss >> 20} MiB with {3 * MAX_CONNECTIONS} connections opened")
    until(lambda: _takes_connections(instance))
    alive(instance)


def _hung_up(plain: socket.socket) -> bool:
    plain.setblocking(False)
    try:
        return plain.recv(1, socket.MSG_PEEK) == b""
    except BlockingIOError:
        return False
    except ConnectionResetError:
        return True


def _takes_connections(instance: Instance) -> bool:
    """Many at once: those hung up on must be forgotten, not just some of them."""
    with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
        for _ in range(MAX_CONNECTIONS // 2):
            stack.enter_context(opened(instance))
        return True
    return False


def test_readers_beyond_the_limit_are_refused_with_retry_after(instance: Instance) -> None:
    with contextlib.ExitStack() as stack:
        for _ in range(MAX_STREAMS):
            reader = stack.enter_context(opened(instance))
            reader.sendall(f"GET /v1/events HTTP/1.1\r\n{AUTH}Last-Event-ID: {'9' * 900}\r\n\r\n".encode())
            assert read_response(reader)[0] == 200
        refused = instance.client.get("/v1/events")
        assert (refused.status_code, refused.json()["error"]["code"]) == (429, "TooManyStreams")
        alive(instance)
    # Refused, it is not a stream and ends at once, until the bridge has seen the others go.
    until(lambda: next(instance.events(), ("", "", {}))[1] == "reset")
