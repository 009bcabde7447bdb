"""The port of the probes."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import functools
import re
import socket
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable

import httpx
import pytest
import uvicorn

from efrit.bridge.probes import (
    _ACCEPT_AGAIN_SECONDS,
    ACCEPTED_AT_ONCE,
    MAX_CONNECTIONS,
    MAX_HEAD_BYTES,
    ProbeServer,
)
from efrit.bridge.server import listen
from efrit.timed_connection import MAX_HEADERS
from tests.support.timeout import TIMEOUT
from tests.unit.bridge.conftest import Serve

GET = b"GET /healthz HTTP/1.1\r\n"
HOST = b"Host: a\r\n"
PROBE = GET + b"Host: 10.0.0.1:8444\r\nUser-Agent: kube-probe/1.36\r\nAccept: */*\r\nConnection: close\r\n\r\n"

WITHOUT_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""A client that is given none reads all certificate authorities there are."""

Probes = Callable[..., Awaitable[int]]


@pytest.fixture
async def answering() -> AsyncIterator[Probes]:
    """Start servers of probes, each of which is alive and not ready; they return their port."""
    async with contextlib.AsyncExitStack() as stack:

        async def start(listening: socket.socket | None = None, seconds: float = TIMEOUT) -> int:
            opened = listening or listen("127.0.0.1", 0)
            server = ProbeServer({b"/healthz": list, b"/readyz": lambda: ["Emacs is not running"]}, seconds)
            port = int(opened.getsockname()[1])
            task = asyncio.create_task(server.serve([opened]))
            stack.push_async_callback(asyncio.wait_for, task, TIMEOUT)
            stack.callback(server.stop)
            return port

        yield start


async def until(condition: Callable[[], bool]) -> None:
    limit = time.monotonic() + TIMEOUT
    while not condition():
        assert time.monotonic() < limit
        await asyncio.sleep(0.005)


async def answers(port: int, *parts: bytes) -> bytes:
    """Return what comes until the connection ends; each part is sent once the one before it was."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for part in parts:
        writer.write(part)
        await writer.drain()
        await asyncio.sleep(0)
    received = await asyncio.wait_for(reader.read(), TIMEOUT)
    writer.close()
    return received


async def test_a_probe_of_the_kubelet_gets_its_answer_and_the_end_of_the_connection(answering: Probes) -> None:
    head, _, body = (await answers(await answering(), PROBE)).partition(b"\r\n\r\n")
    kind, length = b"content-type: text/plain; charset=utf-8", b"content-length: 3"
    assert head.splitlines() == [b"HTTP/1.1 200 OK", kind, length, b"connection: close"]
    assert body == b"ok\n"


async def test_the_head_of_a_probe_may_come_in_pieces(answering: Probes) -> None:
    pieces = [PROBE[at : at + 1] for at in range(len(PROBE))]
    assert (await answers(await answering(), *pieces)).endswith(b"\r\n\r\nok\n")


@pytest.mark.parametrize("begun", [b"", b"GET /healthz HT"], ids=["nothing", "half a head"])
async def test_a_probe_that_never_comes_is_not_waited_for(answering: Probes, begun: bytes) -> None:
    answer = await answers(await answering(seconds=0.2), begun)
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b'"code":"Invalid"' in answer


ANSWERED_ONCE = {
    "without a name to what came before names": (b"GET /healthz HTTP/1.0\r\n\r\n", b"200"),
    "what is asked behind a question mark": (b"GET /healthz?verbose HTTP/1.1\r\n" + HOST + b"\r\n", b"200"),
    "two requests": (GET + HOST + b"\r\nPOST /readyz HTTP/1.1\r\n" + HOST + b"\r\n", b"200"),
    "a request, and what is not HTTP": (GET + HOST + b"\r\nno HTTP\r\n\r\n", b"200"),
    "another protocol": (GET + HOST + b"Connection: upgrade\r\nUpgrade: websocket\r\n\r\n", b"200"),
    "as many headers as may be": (GET + HOST + b"X: y\r\n" * (MAX_HEADERS - 1) + b"\r\n", b"200"),
    "a body": (b"POST /healthz HTTP/1.1\r\n" + HOST + b"Content-Length: 5\r\n\r\n", b"405"),
    "another path": (b"GET /metrics HTTP/1.1\r\n" + HOST + b"\r\n", b"404"),
    "too many headers": (GET + HOST + b"X: y\r\n" * MAX_HEADERS + b"\r\n", b"400"),
    "a head without end": ((GET + HOST + b"X: ").ljust(MAX_HEAD_BYTES, b"x"), b"400"),
    "no host": (GET + b"\r\n", b"400"),
    "two hosts": (GET + HOST + b"hOST: b\r\n\r\n", b"400"),
    "an older version": (b"GET /healthz\r\n\r\n", b"400"),
    "a newer version": (b"GET /healthz HTTP/2.0\r\n\r\n", b"400"),
    "no address of ours": (b"CONNECT a:1 HTTP/1.1\r\n" + HOST + b"\r\n", b"404"),
    "an unknown method": (b"BREW /healthz HTTP/1.1\r\n" + HOST + b"\r\n", b"400"),
    "a space after a name": (GET + HOST + b"Content-Length : 0\r\n\r\n", b"400"),
}


@pytest.mark.parametrize("name", ANSWERED_ONCE)
async def test_whatever_comes_has_one_answer(answering: Probes, name: str) -> None:
    sent, status = ANSWERED_ONCE[name]
    assert re.findall(rb"HTTP/1.1 (\d+)", await answers(await answering(), sent)) == [status]


async def test_the_answer_to_head_is_that_to_get_without_its_body(answering: Probes) -> None:
    port = await answering()
    head = await answers(port, b"HEAD /readyz HTTP/1.1\r\n" + HOST + b"\r\n")
    whole = await answers(port, b"GET /readyz HTTP/1.1\r\n" + HOST + b"\r\n")
    assert head == whole.partition(b"\r\n\r\n")[0] + b"\r\n\r\n"
    assert whole.startswith(b"HTTP/1.1 503 ")


class Full(socket.socket):
    """A listening socket of a process that may open no more files, until `full` is False."""

    full = True
    asked = 0

    def accept(self) -> tuple[socket.socket, object]:
        if self.full:
            self.asked += 1
            raise OSError(errno.EMFILE, "too many open files")
        return super().accept()


async def test_where_no_more_files_can_be_opened_the_next_connection_waits(answering: Probes) -> None:
    opened = Full()
    opened.bind(("127.0.0.1", 0))
    opened.listen()
    port = await answering(opened)
    began = time.monotonic()
    answer = asyncio.create_task(answers(port, PROBE))
    await until(lambda: opened.asked > 0)
    for _ in range(100):
        await asyncio.sleep(0)
    # Asked again in each round of the loop it would be a hundred times.
    assert opened.asked <= 1 + (time.monotonic() - began) / _ACCEPT_AGAIN_SECONDS
    opened.full = False
    assert (await answer).endswith(b"ok\n")


class Counted(socket.socket):
    """A listening socket that says how many it has accepted in each round of the loop."""

    def begin(self) -> None:
        self.rounds = [0]
        self.backlog = 0
        asyncio.get_running_loop().call_soon(self._next)

    def _next(self) -> None:
        self.rounds.append(0)
        asyncio.get_running_loop().call_soon(self._next)

    def listen(self, backlog: int = 0, /) -> None:
        self.backlog = backlog
        super().listen(backlog)

    def accept(self) -> tuple[socket.socket, object]:
        accepted = super().accept()
        self.rounds[-1] += 1
        return accepted


async def test_all_that_wait_are_accepted_at_once_up_to_a_bound(answering: Probes) -> None:
    opened = Counted()
    opened.begin()
    opened.bind(("127.0.0.1", 0))
    opened.listen(ACCEPTED_AT_ONCE + 8)
    with contextlib.ExitStack() as stack:
        clients = [
            stack.enter_context(socket.create_connection(opened.getsockname())) for _ in range(ACCEPTED_AT_ONCE + 8)
        ]
        for client in clients:
            client.sendall(PROBE)
        await answering(opened)
        await until(lambda: sum(opened.rounds) == len(clients))
        assert [count for count in opened.rounds if count] == [ACCEPTED_AT_ONCE, 8]
        for client in clients:
            assert client.recv(100).startswith(b"HTTP/1.1 200 ")


async def test_as_many_may_wait_as_on_the_port_of_the_calls(answering: Probes) -> None:
    opened = Counted()
    opened.begin()
    opened.bind(("127.0.0.1", 0))
    opened.listen()
    await answers(await answering(opened), PROBE)
    assert opened.backlog == uvicorn.Config("").backlog


async def test_connections_that_are_open_end_with_the_server() -> None:
    listening = listen("127.0.0.1", 0)
    port = listening.getsockname()[1]
    server = ProbeServer({})
    task = asyncio.create_task(server.serve([listening]))
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(GET)
    await until(lambda: bool(list(server.connections)))
    server.stop()
    await asyncio.wait_for(task, TIMEOUT)
    with contextlib.suppress(ConnectionResetError):
        assert await asyncio.wait_for(reader.read(), TIMEOUT) == b""
    writer.close()
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", port)


async def test_the_probes_have_a_port_without_tls_that_has_nothing_else(serve: Serve) -> None:
    served = await serve(bridge_probe_port=0)
    await served.until(lambda: served.bridge.queue.is_open)
    url = f"http://127.0.0.1:{served.bridge.probe_port}"
    async with httpx.AsyncClient(base_url=url, verify=WITHOUT_TLS, trust_env=False) as client:
        alive, ready = await client.get("/healthz"), await client.get("/readyz")
        others = [await client.get(path) for path in ("/metrics", "/v1/stats", "/v1/requests", "/v1/requests/a")]
    assert (alive.status_code, alive.text) == (200, "ok\n")
    assert ready.status_code == 503
    assert ready.json()["error"]["message"] == "Emacs is not running"
    assert [other.status_code for other in others] == [404] * 4


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the server of probes wait for a request as long as a test does, however slow the machine is."""
    monkeypatch.setattr("efrit.bridge.app.ProbeServer", functools.partial(ProbeServer, receive_seconds=TIMEOUT))


@pytest.mark.usefixtures("patient")
async def test_connections_to_the_port_of_the_probes_make_place_for_a_probe_and_are_bounded(serve: Serve) -> None:
    served = await serve(bridge_probe_port=0)
    port = served.bridge.probe_port
    held = [await asyncio.open_connection("127.0.0.1", port) for _ in range(MAX_CONNECTIONS + 1)]
    async with httpx.AsyncClient(verify=WITHOUT_TLS, trust_env=False) as client:
        alive = await client.get(f"http://127.0.0.1:{port}/healthz")
    assert alive.status_code == 200
    for reader, _ in held[:2]:
        with contextlib.suppress(ConnectionResetError):
            assert await asyncio.wait_for(reader.read(), TIMEOUT) == b""
    assert not any(reader.at_eof() for reader, _ in held[2:])
    for _, writer in held:
        writer.transport.abort()


@pytest.mark.usefixtures("patient")
async def test_who_fills_the_port_of_the_probes_ends_connections_of_their_own(serve: Serve) -> None:
    served = await serve(bridge_probe_port=0)
    port = served.bridge.probe_port
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    crowd = [
        await asyncio.open_connection("127.0.0.1", port, local_addr=("127.0.0.2", 0)) for _ in range(MAX_CONNECTIONS)
    ]
    with contextlib.suppress(ConnectionResetError):
        assert await asyncio.wait_for(crowd[0][0].read(), TIMEOUT) == b""
    writer.write(PROBE)
    assert (await asyncio.wait_for(reader.read(), TIMEOUT)).endswith(b"ok\n")
    for _, other in [(reader, writer), *crowd]:
        other.transport.abort()
