"""health.py: the probes, over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

import httpx
import pytest

from efrit.controller.health import STUCK_AFTER_SECONDS, Health, serve


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
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", trust_env=False) as client:
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
    async with httpx.AsyncClient(trust_env=False) as client:
        response = await client.get(f"http://127.0.0.1:{runner.addresses[0][1]}/metrics")
    await runner.cleanup()

    assert response.status_code == 404


async def test_the_metrics_are_those_of_the_controller(probe: Probe) -> None:
    status, text = await probe.get("/metrics")

    assert status == 200
    assert "efrit_open_requests" in text
