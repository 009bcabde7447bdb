"""Who only opens connections, or sends without end, stops nobody: real sockets, real TLS, counts and no times."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from efrit.mcp import listener
from efrit.mcp.settings import Limits
from tests.support.timeout import TIMEOUT
from tests.unit.mcp.test_listener import listening, write_pair

LIMITS = Limits(connections=24, connections_per_address=16, calls=8, calls_per_caller=2)
NEIGHBOURS = [f"127.0.0.{n}" for n in range(2, 5)]
HELLO = bytes.fromhex("1603010200010001fc0303")
"""The first bytes of a handshake that goes no further."""


@pytest.fixture
async def port(tmp_path: Path) -> AsyncIterator[int]:
    write_pair(tmp_path, "mcp")
    ready: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    done = asyncio.Event()

    # A task group is left by the task that entered it, and fixtures end in another one than they began.
    async def host() -> None:
        async with listening(tmp_path, LIMITS) as number:
            ready.set_result(number)
            await done.wait()

    task = asyncio.create_task(host())
    number = await ready
    with anyio.fail_after(TIMEOUT):
        while not await answered(number):
            await anyio.lowlevel.checkpoint()
    yield number
    done.set()
    await task


@contextlib.contextmanager
def sockets() -> Iterator[list[socket.socket]]:
    opened: list[socket.socket] = []
    try:
        yield opened
    finally:
        for sock in opened:
            sock.close()


def trusting() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


@asynccontextmanager
async def connected(
    port: int, address: str = "127.0.0.1"
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trusting(), local_addr=(address, 0))
    try:
        yield reader, writer
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


def request(port: int, method: str = "GET", path: str = "/healthz", **headers: str) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", f"Host: localhost:{port}", *(f"{k}: {v}" for k, v in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode()


async def answered(port: int, address: str = "127.0.0.1") -> bool:
    """Whether somebody who connects now gets an answer."""
    try:
        async with connected(port, address) as (reader, writer):
            writer.write(request(port))
            return (await reader.readline()).startswith(b"HTTP/1.1 200")
    except OSError:
        return False


@pytest.mark.parametrize("sent", [b"", HELLO], ids=["nothing", "half a greeting"])
@pytest.mark.parametrize("attackers", [["127.0.0.1"], NEIGHBOURS], ids=["one address", "several"])
async def test_many_half_open_connections_stop_no_caller_who_comes_after(
    port: int, attackers: list[str], sent: bytes
) -> None:
    loop = asyncio.get_running_loop()
    with sockets() as opened:
        for n in range(120):
            attacker = socket.socket()
            opened.append(attacker)
            attacker.bind((attackers[n % len(attackers)], 0))
            attacker.setblocking(False)
            await loop.sock_connect(attacker, ("127.0.0.1", port))
            with contextlib.suppress(OSError):
                await loop.sock_sendall(attacker, sent)
        for address in ("127.0.0.1", "127.0.0.9"):
            assert await answered(port, address)
        open_sockets = [sock for sock in opened if not await ended(sock)]
        most = LIMITS.connections_per_address if len(attackers) == 1 else LIMITS.connections
        assert len(open_sockets) <= most


async def ended(connection: socket.socket) -> bool:
    """Whether the server has dropped it by now."""
    await anyio.lowlevel.checkpoint()
    try:
        return connection.recv(1) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


async def test_a_running_call_is_not_dropped_for_others(port: int) -> None:
    async with connected(port) as (reader, writer), contextlib.AsyncExitStack() as stack:
        writer.write(message(port, b"{"))
        await writer.drain()
        for n in range(2 * LIMITS.connections):
            with contextlib.suppress(OSError):
                await stack.enter_async_context(connected(port, ["127.0.0.1", *NEIGHBOURS][n % 4]))
        assert await answered(port)
        writer.write(b"nonsense")
        assert (await reader.readline()).startswith(b"HTTP/1.1 400")


def message(port: int, begun: bytes, length: int = 9) -> bytes:
    """Return a message of which only the beginning has come."""
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    return request(port, "POST", "/mcp", **headers, **{"Content-Length": str(length)}) + begun


async def test_a_caller_has_a_share_of_the_calls_and_the_probes_are_answered(port: int) -> None:
    async with contextlib.AsyncExitStack() as stack:
        for _ in range(LIMITS.calls_per_caller):
            _, writer = await stack.enter_async_context(connected(port))
            writer.write(message(port, b"{"))
        async with connected(port) as (reader, writer):
            writer.write(message(port, b"{"))
            assert (await reader.readline()).startswith(b"HTTP/1.1 429")
        assert await answered(port)


async def test_a_message_that_does_not_come_is_ended(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener.Connection, "receive_seconds", 0.2)
    async with connected(port) as (reader, writer):
        writer.write(message(port, b"{", 1_000_000))
        assert (await asyncio.wait_for(reader.read(), TIMEOUT)).startswith(b"HTTP/1.1 408")
