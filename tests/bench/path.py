"""`python -m tests.bench.path`: the whole path of an eval beside its floor, and what each part takes for it.

On the cluster of KUBECONFIG, in a namespace of its own; with PROCESSES=1 without a cluster, on a real API server,
etcd, controller, bridge and Emacs. In one run, in this order: a create and one patch of the status by a client that
watches, one after the other and in bursts (the floor: on a cluster the operator is scaled to zero meanwhile), evals
one after the other, bursts of BURSTS (500, 2,000, 10,000) evals, a client that polls every half second, and rates
that rise until the p99 is above 250 ms twice. SERIAL (200), POLLED (10), RATE_EVALS (400, of each rate) and
REST_SECONDS (15, in which nothing is asked) are the other sizes. The largest burst has no floor of its own.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from typing import NamedTuple, TypeVar

from efrit.resources import INSTANCES, NAMESPACES, REQUESTS
from tests.bench import cluster, load, processors
from tests.bench.load import Burst, Target
from tests.bench.quantile import quantile
from tests.bench.sides import side
from tests.support import figures
from tests.support.bench import api_writes, jobs, loads, rates
from tests.support.command_line import parser
from tests.support.figures import Figure

T = TypeVar("T")
NAMESPACE, UNSERVED, INSTANCE = "efrit-bench-path", "efrit-bench-floor", "bench"
QUICK = bool(os.environ.get("QUICK"))
BURSTS = tuple(map(int, os.environ.get("BURSTS", "500,2000" if QUICK else "500,2000,10000").split(",")))
SERIAL = int(os.environ.get("SERIAL", "50" if QUICK else "200"))
POLLED = int(os.environ.get("POLLED", "4" if QUICK else "10"))
RATES = (10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 80.0, 100.0, 120.0, 150.0)
RATE_EVALS = int(os.environ.get("RATE_EVALS", "100" if QUICK else "400"))
REST_SECONDS = float(os.environ.get("REST_SECONDS", "5" if QUICK else "15"))
FLOORS = tuple(size for size in BURSTS if size < BURSTS[-1]) or BURSTS
"""Bursts that have a floor of their own; the others are compared with the last of these."""


class Place(NamedTuple):
    """Where it is measured.

    seconds: returns what each part has taken of the processors; unserved: where the floor is measured, within
    `alone`, in which no operator serves it.
    """

    target: Target
    unserved: Target
    seconds: Callable[[], Awaitable[processors.Seconds]]
    alone: Callable[[], AbstractAsyncContextManager[None]] = nullcontext


async def measure(place: Place, say: Callable[[str], None]) -> list[Figure]:
    """Measure everything at one place."""
    found, parts = list[Figure](), dict[str, dict[str, float]]()
    floors: dict[int, float] = {}

    async def counted(title: str, count: int, work: Awaitable[T]) -> T:
        before = await place.seconds()
        result = await work
        parts[title] = processors.between(before, await place.seconds(), count)
        say(f"{title}: {sum(parts[title].values()):.1f} ms of a processor for each")
        return result

    async with place.alone():
        await load.floor_serial(place.unserved, "warm", 20)
        floor = await counted("floor", SERIAL, load.floor_serial(place.unserved, "serial", SERIAL))
        for size in FLOORS:
            took = await counted(loads.floor(size, FLOORS), size, load.floor(place.unserved, f"f{size}", size))
            floors[size] = size / took.seconds
    found += [Figure(loads.floor(size, FLOORS), rate, "/s", floor=rate) for size, rate in floors.items()]
    await load.serial(place.target, "warm", 20)
    seconds = await counted("one after the other", SERIAL, load.serial(place.target, "serial", SERIAL))
    found += _one_after_the_other(seconds, floor)
    for size in BURSTS:
        writes = await api_writes.so_far(place.target.api)
        took = await counted(loads.burst(size), size, load.burst(place.target, f"b{size}", size))
        found.append(_of_burst(size, took, floors[loads.floor_size(size, FLOORS)]))
        found += _of_writes(size, api_writes.between(writes, await api_writes.so_far(place.target.api), size))
    polled = await counted("polled", POLLED, load.polled(place.target, "polled", POLLED))
    found.append(Figure("a client that polls every 500 ms, p50", quantile(polled, 0.5) * 1000, "ms"))
    found += await _at_rest(place, say)
    tried = await load.sustained(place.target, RATES, RATE_EVALS, say)
    found += rates.figures_of(tried, quantile(floor, 0.5))
    return [*found, *loads.figures_of(parts, BURSTS, FLOORS)]


def _one_after_the_other(seconds: list[float], floor: list[float]) -> Iterator[Figure]:
    for share, name, aim in ((0.5, "p50", "<= 12"), (0.99, "p99", "<= 40")):
        eval_, least = quantile(seconds, share) * 1000, quantile(floor, share) * 1000
        yield Figure(f"create -> answer seen, one after the other, {name}", eval_, "ms", aim, floor=least)
        yield Figure(f"its floor, {name}", least, "ms", floor=least)
    p50 = quantile(seconds, 0.5) / quantile(floor, 0.5)
    yield Figure("an eval beside its floor, p50", p50, "times")


def _of_burst(size: int, took: Burst, floor: float) -> Figure:
    aim, detail = ">= 140" if size == 2000 else "", f"(created at {size / took.created:.0f}/s)"
    return Figure(loads.burst(size), size / took.seconds, "/s", aim, detail, floor)


def _of_writes(size: int, writes: Mapping[str, float]) -> Iterator[Figure]:
    title = f"{loads.burst(size)}: writes of the API server for each eval"
    most = ", ".join(f"{name} {value:.2f}" for name, value in list(writes.items())[:4])
    yield Figure(f"{title}, of requests", writes.get(REQUESTS.plural, 0.0), "writes", "<= 2")
    yield Figure(f"{title}, of everything", sum(writes.values()), "writes", "", f"({most})")


async def _at_rest(place: Place, say: Callable[[str], None]) -> list[Figure]:
    """Measure what each part takes while nobody asks for anything: it is in what an eval that comes alone takes."""
    before, began = await place.seconds(), time.perf_counter()
    await asyncio.sleep(REST_SECONDS)
    shares = jobs.share_of(before, await place.seconds(), time.perf_counter() - began)
    say(f"at rest: {sum(shares.values()):.1%} of a processor")
    return [Figure(f"at rest: {name}", share * 100, "% of a processor") for name, share in shares.items()]


@asynccontextmanager
async def on_processes() -> AsyncIterator[Place]:
    """Run all parts as processes for the length of the block."""
    async with side() as one:
        yield Place(one.target, one.unserved, one.seconds)


@asynccontextmanager
async def on_cluster() -> AsyncIterator[Place]:
    """Make an instance on the cluster for the length of the block; parts are measured separately on the bare one."""

    async def seconds() -> processors.Seconds:
        await asyncio.sleep(1)
        return processors.of_this_cluster()

    async with cluster.client() as api:
        for name in (NAMESPACE, UNSERVED):
            labels = {"pod-security.kubernetes.io/enforce": "restricted"}
            await cluster.call(api, "POST", NAMESPACES.path(), {"metadata": {"name": name, "labels": labels}})
        try:
            where = INSTANCES.path(NAMESPACE)
            async with cluster.watching(api, where, cluster.is_ready) as watch:
                await cluster.call(api, "POST", where, cluster.instance(INSTANCE))
                await watch.wait_for({INSTANCE}, 120)
            target = Target(api, NAMESPACE, (INSTANCE,))
            yield Place(target, target._replace(namespace=UNSERVED), seconds, cluster.without_operator)
        finally:
            for name in (NAMESPACE, UNSERVED):
                await cluster.call(api, "DELETE", f"{NAMESPACES.path()}/{name}")


async def run(say: Callable[[str], None]) -> list[Figure]:
    """Measure at the place that the environment names."""
    async with on_processes() if os.environ.get("PROCESSES") else on_cluster() as place:
        return await measure(place, say)


def main() -> int:
    """Measure and print."""
    found = asyncio.run(run(lambda line: print(line, file=sys.stderr, flush=True)))
    print("\n".join(figures.table(found, figures.load())))
    return 0


if __name__ == "__main__":
    parser(__doc__).parse_args()
    sys.exit(main())
