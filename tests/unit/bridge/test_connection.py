"""Connections within limits of time."""

import asyncio
import contextlib

import pytest

from efrit.bridge import connection
from efrit.tls_buffer import TLS_BUFFER_BYTES
from tests.support.certificates import trusting
from tests.support.timeout import TIMEOUT
from tests.unit.bridge.conftest import Serve

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
    # Refused for its missing token first, the half body is no longer waited for either.
    assert answer.startswith(b"HTTP/1.1 401") if name == "half a body" else b"HTTP/1.1 408" in answer
    assert b'"code":"' in answer
    writer.close()


async def test_a_connection_may_rest_between_two_requests(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection.Connection, "receive_seconds", 0.5)
    served = await serve()
    reader, writer = await asyncio.open_connection("127.0.0.1", served.bridge.port, ssl=trusting(served.secrets))
    request = b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n"
    writer.write(request)
    first = await reader.readuntil(b"\r\n\r\n")
    # Longer than a first request is waited for; what comes meanwhile is the first answer's body.
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(1.5):
            while not reader.at_eof():
                await reader.read(65536)
    assert not reader.at_eof()
    writer.write(request)
    assert (await reader.readuntil(b"\r\n\r\n"))[:15] == first[:15] == b"HTTP/1.1 200 OK"
    writer.close()


async def test_a_connection_keeps_a_buffer_of_one_record(serve: Serve) -> None:
    served = await serve()
    await served.client.get("/healthz")
    (held,) = served.bridge._server.server_state.connections
    assert len(held.transport._ssl_protocol._ssl_buffer) == TLS_BUFFER_BYTES  # type: ignore[attr-defined]
