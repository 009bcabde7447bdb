"""What a benchmark sends to an instance, whatever the API server: evals one after the other, bursts, a steady rate.

Every time is from sending a create until a watch of the same client shows the end. A floor is the same without an
operator: a create and one patch of the status, by a client that watches, while another one watches.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from efrit.kube.client import KubeClient
from efrit.resources import REQUESTS
from tests.bench import cluster
from tests.bench.quantile import quantile
from tests.support.bench.rates import Rate, are_too_fast

AT_ONCE = 16
"""Creates that are under way at the same time."""
POLL_SECONDS = 0.5
TIMEOUT_SECONDS = 600.0
RATE_SECONDS = 8.0
ENDED = {"phase": "Succeeded", "reason": "Succeeded", "result": "3"}


class Target(NamedTuple):
    """A namespace and its instances, which get the evals in turn."""

    api: KubeClient
    namespace: str
    instances: tuple[str, ...]

    @property
    def where(self) -> str:
        return REQUESTS.path(self.namespace)

    async def create(self, name: str, number: int = 0) -> float:
        """Create an eval and return when that began."""
        instance = self.instances[number % len(self.instances)]
        return await self.send(cluster.request(name, instance, timeoutSeconds=3600))

    async def send(self, manifest: Mapping[str, Any]) -> float:
        """Create a request and return when that began."""
        began = time.perf_counter()
        await cluster.call(self.api, "POST", self.where, manifest)
        return began


class Burst(NamedTuple):
    """Seconds from the first create to the last answer, and to the last create."""

    seconds: float
    created: float


async def serial(target: Target, prefix: str, count: int) -> list[float]:
    """Send evals one after the other; the seconds of each."""
    async with cluster.watching(target.api, target.where, cluster.is_final) as watch:
        return await _in_turn(target, prefix, count, watch)


async def burst(target: Target, prefix: str, count: int) -> Burst:
    """Send many evals at once."""
    async with cluster.watching(target.api, target.where, cluster.is_final) as watch:
        return await _at_once(target, prefix, count, watch)


async def floor_serial(target: Target, prefix: str, count: int) -> list[float]:
    """Do what `serial` does in a namespace that no operator serves."""
    async with cluster.watching(target.api, target.where, cluster.is_final) as watch, _ending(target):
        return await _in_turn(target, prefix, count, watch)


async def floor(target: Target, prefix: str, count: int) -> Burst:
    """Do what `burst` does in a namespace that no operator serves."""
    async with cluster.watching(target.api, target.where, cluster.is_final) as watch, _ending(target):
        return await _at_once(target, prefix, count, watch)


async def polled(target: Target, prefix: str, count: int) -> list[float]:
    """Send evals one after the other and look every half second, as a client without a watch does."""
    seconds = []
    for number in range(count):
        began = await target.create(f"{prefix}-{number}", number)
        where = f"{target.where}/{prefix}-{number}"
        while not cluster.is_final(await cluster.call(target.api, "GET", where)):  # noqa: ASYNC110 - polls a remote server
            await asyncio.sleep(POLL_SECONDS)
        seconds.append(time.perf_counter() - began)
    return seconds


async def at_rate(target: Target, prefix: str, rate: float, seconds: float) -> list[float]:
    """Send so many evals a second, whether or not those before are answered; the seconds of each."""
    created: dict[str, float] = {}

    async def create(number: int) -> None:
        created[f"{prefix}-{number}"] = time.perf_counter()
        await target.create(f"{prefix}-{number}", number)

    async with cluster.watching(target.api, target.where, cluster.is_final) as watch:
        began, tasks = time.perf_counter(), []
        for number in range(round(rate * seconds)):
            await asyncio.sleep(max(0.0, began + number / rate - time.perf_counter()))
            tasks.append(asyncio.create_task(create(number)))
        await asyncio.gather(*tasks)
        await watch.wait_for(set(created), TIMEOUT_SECONDS)
        return [watch.seen[name] - at for name, at in created.items()]


async def sustained(target: Target, rates: Iterable[float], evals: int, say: Callable[[str], None]) -> list[Rate]:
    """Send so many evals at each of ascending rates, RATE_SECONDS at least, until two in succession are too fast."""
    tried: list[Rate] = []
    for rate in rates:
        seconds = await at_rate(target, f"rate{rate:g}", rate, max(RATE_SECONDS, evals / rate))
        tried.append(Rate(rate, quantile(seconds, 0.5), quantile(seconds, 0.99), len(seconds)))
        say(f"{rate:g} evals a second: p99 {tried[-1].p99 * 1000:.0f} ms of {len(seconds)}")
        if are_too_fast(tried):
            break
    return tried


async def _in_turn(target: Target, prefix: str, count: int, watch: cluster.Watch) -> list[float]:
    seconds = []
    for number in range(count):
        name = f"{prefix}-{number}"
        began = await target.create(name, number)
        await watch.wait_for({name}, TIMEOUT_SECONDS)
        seconds.append(watch.seen[name] - began)
    return seconds


async def _at_once(target: Target, prefix: str, count: int, watch: cluster.Watch) -> Burst:
    limit = asyncio.Semaphore(AT_ONCE)

    async def create(number: int) -> None:
        async with limit:
            await target.create(f"{prefix}-{number}", number)

    names = {f"{prefix}-{number}" for number in range(count)}
    began = time.perf_counter()
    await asyncio.gather(*map(create, range(count)))
    created = time.perf_counter() - began
    await watch.wait_for(names, TIMEOUT_SECONDS)
    return Burst(max(watch.seen[name] for name in names) - began, created)


@asynccontextmanager
async def _ending(target: Target) -> AsyncIterator[None]:
    """End each request of the namespace as soon as a watch shows it, for the length of the block."""
    limit, patches = asyncio.Semaphore(AT_ONCE), set[asyncio.Task[None]]()

    async def end(obj: Mapping[str, Any]) -> None:
        meta = obj["metadata"]
        body = {"metadata": {name: meta[name] for name in ("uid", "resourceVersion")}, "status": ENDED}
        async with limit:
            await cluster.merge(target.api, f"{target.where}/{meta['name']}/status", body)

    def seen(obj: Mapping[str, Any]) -> bool:
        if not obj.get("status"):
            patches.add(task := asyncio.create_task(end(obj)))
            task.add_done_callback(patches.discard)
        return False

    async with cluster.watching(target.api, target.where, seen):
        yield
        await asyncio.gather(*patches)
