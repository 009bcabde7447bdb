"""health.py: the probes, over HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass

import httpx
import pytest

from efrit.controller.health import MAX_CONNECTIONS, STUCK_AFTER_SECONDS, Health, serve
from tests.support.timeout import TIMEOUT

HALF = b"GET /healthz HTTP/1.1\r\nX-Slow: "

WITHOUT_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""A client that is given none reads all certificate authorities there are."""


@dataclass
class Probe:
    health: Health
    client: httpx.AsyncClient

    async def get(self, path: str) -> tuple[int, str]:
        response = await self.client.get(path)
        return response.status_code, response.text


@pytest.fixture
async def probe() -> AsyncIterator[Probe]:
    health = Health()
    runner = await serve(health, "127.0.0.1", 0)
    port = runner.addresses[0][1]
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", verify=WITHOUT_TLS, trust_env=False) as client:
        yield Probe(health, client)
    await runner.cleanup()


async def test_a_standby_is_alive(probe: Probe) -> None:
    assert await probe.get("/healthz") == (200, "ok\n")


async def test_a_leader_whose_queue_moves_is_alive(probe: Probe) -> None:
    probe.health.stalled_seconds = lambda: STUCK_AFTER_SECONDS

    assert await probe.get("/healthz") == (200, "ok\n")


async def test_a_leader_whose_queue_stands_still_is_not_alive(probe: Probe) -> None:
    probe.health.stalled_seconds = lambda: STUCK_AFTER_SECONDS + 30

    status, text = await probe.get("/healthz")

    assert status == 503
    assert "the work queue has finished no key for 90 s" in text


async def test_a_process_that_starts_is_not_ready(probe: Probe) -> None:
    assert (await probe.get("/readyz"))[0] == 503


async def test_a_standby_and_a_leader_are_both_ready_and_say_which_they_are(probe: Probe) -> None:
    probe.health.ready = True
    assert await probe.get("/readyz") == (200, "standby\n")

    probe.health.stalled_seconds = lambda: 0.0
    assert await probe.get("/readyz") == (200, "leading\n")


async def test_metrics_that_take_a_token_are_not_beside_the_probes() -> None:
    runner = await serve(Health(), "127.0.0.1", 0, with_metrics=False)
    async with httpx.AsyncClient(verify=WITHOUT_TLS, trust_env=False) as client:
        response = await client.get(f"http://127.0.0.1:{runner.addresses[0][1]}/metrics")
    await runner.cleanup()

    assert response.status_code == 404


async def half_a_request(host: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection(host, port)
    writer.write(HALF)
    return reader, writer


async def end_of(reader: asyncio.StreamReader) -> bytes:
    with contextlib.suppress(ConnectionResetError):
        return await asyncio.wait_for(reader.read(), TIMEOUT)
    return b""


async def test_connections_that_send_half_a_request_make_place_for_a_probe_and_are_bounded(probe: Probe) -> None:
    url = probe.client.base_url
    halves = [await half_a_request(url.host, url.port or 0) for _ in range(MAX_CONNECTIONS + 1)]

    assert await probe.get("/healthz") == (200, "ok\n")
    for reader, _ in halves[:2]:
        assert await end_of(reader) == b""
    assert not any(reader.at_eof() for reader, _ in halves[2:])

    for _, writer in halves:
        writer.transport.abort()


async def test_who_fills_the_port_ends_connections_of_their_own(probe: Probe) -> None:
    url = probe.client.base_url
    reader, writer = await asyncio.open_connection(url.host, url.port)
    crowd = [
        await asyncio.open_connection(url.host, url.port, local_addr=("127.0.0.2", 0)) for _ in range(MAX_CONNECTIONS)
    ]

    assert await end_of(crowd[0][0]) == b""
    writer.write(b"GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
    assert (await end_of(reader)).endswith(b"ok\n")

    for _, other in [(reader, writer), *crowd]:
        other.transport.abort()


async def test_a_request_that_does_not_come_to_its_end_is_ended() -> None:
    runner = await serve(Health(), "127.0.0.1", 0, idle_seconds=0.1)
    reader, writer = await half_a_request(*runner.addresses[0])

    assert await end_of(reader) == b""

    writer.close()
    await runner.cleanup()


async def test_the_metrics_are_those_of_the_controller(probe: Probe) -> None:
    status, text = await probe.get("/metrics")

    assert status == 200
    assert "efrit_open_requests" in text
