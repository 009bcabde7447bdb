"""`python -m tests.bench.path`: the whole path of an eval beside its floor, and what each part takes for it.

On the cluster of KUBECONFIG, in a namespace of its own; with PROCESSES=1 without a cluster, on a real API server,
etcd, controller, bridge and Emacs. In one run, in this order: a create and one patch of the status by a client that
watches, one after the other and in a burst (the floor: on a cluster the operator is scaled to zero meanwhile), evals
one after the other, bursts of BURSTS (500, 2,000, 10,000) evals, a client that polls every half second, and rates
that rise until the p99 is above 250 ms. SERIAL (200), POLLED (10) and RATE_SECONDS (8) are the other sizes.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from typing import NamedTuple, TypeVar

from efrit.kube.resources import INSTANCES, NAMESPACES
from tests.bench import cluster, load, processors
from tests.bench.load import Target
from tests.bench.quantile import quantile
from tests.bench.sides import side
from tests.cluster.paths import Layout
from tests.support import figures
from tests.support.command_line import parser
from tests.support.figures import Figure
from tests.support.plot import Bars, Curves

T = TypeVar("T")
NAMESPACE, UNSERVED, INSTANCE = "efrit-bench-path", "efrit-bench-floor", "bench"
QUICK = bool(os.environ.get("QUICK"))
BURSTS = tuple(map(int, os.environ.get("BURSTS", "500,2000" if QUICK else "500,2000,10000").split(",")))
SERIAL = int(os.environ.get("SERIAL", "50" if QUICK else "200"))
POLLED = int(os.environ.get("POLLED", "4" if QUICK else "10"))
RATES = (5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 80.0, 100.0, 120.0, 150.0)
RATE_SECONDS = float(os.environ.get("RATE_SECONDS", "3" if QUICK else "8"))
FLOOR_OF_BURST = BURSTS[0]


class Place(NamedTuple):
    """Where it is measured.

    seconds: returns what each part has taken of the processors; unserved: where the floor is measured, within
    `alone`, in which no operator serves it.
    """

    target: Target
    unserved: Target
    seconds: Callable[[], Awaitable[processors.Seconds]]
    alone: Callable[[], AbstractAsyncContextManager[None]] = nullcontext


class Result(NamedTuple):
    """The rows of the table, and for the plot what each part took for each eval of each load, in milliseconds."""

    figures: list[Figure]
    parts: dict[str, dict[str, float]]

    def panels(self) -> Iterator[Bars | Curves]:
        yield Bars("processor time for each eval", "ms", self.parts)
        sizes = {size: row for size in BURSTS if (row := self.parts.get(_burst(size)))}
        names = dict.fromkeys(name for row in sizes.values() for name in row)
        lines = {name: [(float(size), row.get(name, 0.0)) for size, row in sizes.items()] for name in names}
        yield Curves("processor time for each eval of a burst", "ms", "evals of the burst", lines)


def _burst(size: int) -> str:
    return f"burst of {size:,}"


async def measure(place: Place, say: Callable[[str], None]) -> Result:
    """Measure everything at one place."""
    found, parts = list[Figure](), dict[str, dict[str, float]]()

    async def counted(title: str, count: int, work: Awaitable[T]) -> T:
        before = await place.seconds()
        result = await work
        parts[title] = processors.between(before, await place.seconds(), count)
        say(f"{title}: {sum(parts[title].values()):.1f} ms of a processor for each")
        return result

    async with place.alone():
        await load.floor_serial(place.unserved, "warm", 20)
        floor = await counted("floor", SERIAL, load.floor_serial(place.unserved, "serial", SERIAL))
        await counted(
            f"floor of {_burst(FLOOR_OF_BURST)}", FLOOR_OF_BURST, load.floor(place.unserved, "f", FLOOR_OF_BURST)
        )
    await load.serial(place.target, "warm", 20)
    seconds = await counted("one after the other", SERIAL, load.serial(place.target, "serial", SERIAL))
    p50, p99 = quantile(seconds, 0.5), quantile(seconds, 0.99)
    found.append(Figure("create -> answer seen, one after the other, p50", p50 * 1000, "ms", "<= 12"))
    found.append(Figure("create -> answer seen, one after the other, p99", p99 * 1000, "ms", "<= 40"))
    found.append(Figure("its floor, p50", quantile(floor, 0.5) * 1000, "ms"))
    found.append(Figure("its floor, p99", quantile(floor, 0.99) * 1000, "ms"))
    found.append(Figure("an eval beside its floor, p50", p50 / quantile(floor, 0.5), "times"))
    for size in BURSTS:
        took = await counted(_burst(size), size, load.burst(place.target, f"b{size}", size))
        aim = ">= 140" if size == 2000 else ""
        found.append(
            Figure(_burst(size), size / took.seconds, "/s", aim, f"(created at {size / took.created:.0f}/s)")
        )
    polled = await counted("polled", POLLED, load.polled(place.target, "polled", POLLED))
    found.append(Figure("a client that polls every 500 ms, p50", quantile(polled, 0.5) * 1000, "ms"))
    best, _ = await load.sustained(place.target, RATES, RATE_SECONDS, say)
    found.append(Figure("highest rate of those tried with p99 <= 250 ms", best, "/s"))
    return Result([*found, *_of_parts(parts)], parts)


def _of_parts(parts: Mapping[str, Mapping[str, float]]) -> Iterator[Figure]:
    for title, row in parts.items():
        for name, value in row.items():
            yield Figure(f"{title}: {name}", value, "processor ms")
        yield Figure(f"{title}: together", sum(row.values()), "processor ms")
    first, last = _burst(BURSTS[0]), _burst(BURSTS[-1])
    yield from _beside_floor(parts, first)
    # Of a cluster elsewhere no part's time is known.
    if first != last and any(parts[first].values()):
        whole = sum(parts[last].values()) / sum(parts[first].values())
        names = [name for name in parts[last] if parts[first].get(name, 0.0) > 0.05]
        detail = ", ".join(f"{name} {parts[last][name] / parts[first][name]:.2f}" for name in names)
        yield Figure(f"an eval of the {last} beside one of the {first}", whole, "times", "<= 1.1", f"({detail})")


def _beside_floor(parts: Mapping[str, Mapping[str, float]], burst: str) -> Iterator[Figure]:
    """Yield what is aimed at: what an eval takes beside the floor of the burst, API server and etcd alone."""
    floor = sum(parts[f"floor of {burst}"].get(name, 0.0) for name in ("API server", "etcd"))
    if not floor:
        return
    for title, aim in ((burst, 0.4), ("one after the other", 0.71)):
        ours = sum(parts[title].get(name, 0.0) for name in ("controller", "bridge"))
        yield Figure(f"{title}: controller and bridge", ours, "processor ms")
        yield Figure(
            f"{title}: controller and bridge beside the floor of a burst", ours / floor, "times", f"<= {aim}"
        )
    whole = sum(parts[burst].values())
    yield Figure(f"{burst}: together, beside its floor", whole / floor, "times", "<= 1.55")


@asynccontextmanager
async def on_processes() -> AsyncIterator[Place]:
    """Run all parts as processes for the length of the block."""
    async with side() as one:
        yield Place(one.target, one.unserved, one.seconds)


@asynccontextmanager
async def on_cluster() -> AsyncIterator[Place]:
    """Make an instance on the cluster for the length of the block; parts are measured separately on the bare one."""
    layout = Layout.of_this_clone()

    async def seconds() -> processors.Seconds:
        await asyncio.sleep(1)
        return processors.of_cluster(layout) if layout.data.exists() else {}

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


async def run(say: Callable[[str], None]) -> Result:
    """Measure at the place that the environment names."""
    async with on_processes() if os.environ.get("PROCESSES") else on_cluster() as place:
        return await measure(place, say)


def main() -> int:
    """Measure and print."""
    result = asyncio.run(run(lambda line: print(line, file=sys.stderr, flush=True)))
    print("\n".join(figures.table(result.figures, figures.load())))
    return 0


if __name__ == "__main__":
    parser(__doc__).parse_args()
    sys.exit(main())
