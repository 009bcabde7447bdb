"""Connections within limits of time."""

import asyncio
import re

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
    # Refused for its missing token, where its head was read in time, the half body is no longer waited for either.
    refusals = (b"HTTP/1.1 401", b"HTTP/1.1 408") if name == "half a body" else (b"HTTP/1.1 408",)
    assert any(refusal in answer for refusal in refusals)
    assert b'"code":"' in answer
    writer.close()


async def test_a_connection_may_rest_between_two_requests(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    served = await serve()
    reader, writer = await asyncio.open_connection("127.0.0.1", served.bridge.port, ssl=trusting(served.secrets))
    await served.until(lambda: bool(served.bridge._server.server_state.connections))
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
    (held,) = served.bridge._server.server_state.connections
    assert len(held.transport._ssl_protocol._ssl_buffer) == TLS_BUFFER_BYTES  # type: ignore[attr-defined]
