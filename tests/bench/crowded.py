"""`python -m tests.bench.crowded`: what an eval costs beside many instances, open requests and finished ones.

A real API server and the real controller; pods and bridges are simulated. For each number of instances (INSTANCES: 1,
10, 100, 1,000), which get the evals in turn, of open requests that others hold (OPEN: 100 to 50,000) and of finished
ones (FINISHED: the same), prints what controller, API server and etcd take of a processor for each eval of a burst of
BURST (300), and the time of one of SERIAL (50) one after the other. Each size has a control plane of its own.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from efrit.kube.media_types import METADATA_LIST
from efrit.kube.resources import REQUESTS
from tests.bench import cluster, load, processors
from tests.bench.quantile import quantile
from tests.support.command_line import parser
from tests.support.crowd import objects
from tests.support.crowd.crowd import Crowd, crowd
from tests.support.figures import Figure
from tests.support.plot import Curves

QUICK = bool(os.environ.get("QUICK"))


def _sizes(name: str, sizes: str) -> tuple[int, ...]:
    return tuple(int(size) for size in os.environ.get(name, sizes).split(",") if size)


INSTANCES = _sizes("INSTANCES", "1,10,100" if QUICK else "1,10,100,1000")
OPEN = _sizes("OPEN", "100,10000" if QUICK else "100,1000,10000,50000")
FINISHED = _sizes("FINISHED", "100,10000" if QUICK else "100,1000,10000,50000")
BURST = int(os.environ.get("BURST", "300"))
SERIAL = int(os.environ.get("SERIAL", "50"))
SECONDS = 900.0
SETTLE_SECONDS = 1.0
HOLDING = [f"holds{number}" for number in range(10)]
KINDS = {"instances": "instances (simulated)", "open": "open requests", "finished": "finished requests"}


class Size(NamedTuple):
    """What there is beside the evals."""

    instances: int = 1
    open: int = 0
    finished: int = 0


class Cost(NamedTuple):
    """Milliseconds of a processor for each eval of a burst, and of one eval on the clock, p50 and p99."""

    parts: dict[str, float]
    p50: float
    p99: float


def sizes() -> Iterator[tuple[str, int, Size]]:
    """Yield the kind, the number and the whole size of all that is measured."""
    for number in INSTANCES:
        yield "instances", number, Size(instances=number)
    for number in OPEN:
        yield "open", number, Size(open=number)
    for number in FINISHED:
        yield "finished", number, Size(finished=number)


def _stored(size: Size, namespace: str) -> Iterator[objects.Json]:
    for number in range(size.open):
        yield objects.request(f"open{number:05}", namespace, HOLDING[number % len(HOLDING)], 100)
    for number in range(size.finished):
        yield objects.finished(f"done{number:05}", namespace, "answers0", ttl=86_400)


async def measured(size: Size, directory: Path) -> Cost:
    """Measure one size."""
    async with crowd(directory) as made:
        answering = [f"answers{number}" for number in range(size.instances)]
        holding = HOLDING if size.open else []
        await made.add_instances(holding, holds=True)
        await made.add_instances(answering, holds=False)
        objects.store(made.plane.ports.etcd, _stored(size, made.namespace))
        await _until_stored(made, size.open + size.finished)
        await made.launch()
        await made.until_connected(len(holding) + len(answering), SECONDS)
        await made.until_metric("efrit_open_requests", lambda value: value >= size.open, SECONDS)
        async with cluster.client(made.plane.kubeconfig) as api:
            return await _cost(made, load.Target(api, made.namespace, tuple(answering)))


async def _until_stored(made: Crowd, count: int) -> None:
    """Wait until the API server has taken in what was written behind its back."""

    async def is_stored() -> bool:
        return len([obj async for obj in made.api.pages(REQUESTS, made.namespace, accept=METADATA_LIST)]) >= count

    async with asyncio.timeout(SECONDS):
        while not await is_stored():  # noqa: ASYNC110 - polls a remote server
            await asyncio.sleep(0.5)


async def _cost(made: Crowd, target: load.Target) -> Cost:
    pids = {"API server": made.plane.apiserver.pid(), "etcd": made.plane.etcd.pid()}
    leaders = {name: pid for name, pid in pids.items() if pid} | {"controller": made.operator.process.pid}
    await load.burst(target, "warm", 20)
    await asyncio.sleep(SETTLE_SECONDS)
    before = processors.of_sessions(leaders)
    await load.burst(target, "burst", BURST)
    await asyncio.sleep(SETTLE_SECONDS)
    parts = processors.between(before, processors.of_sessions(leaders), BURST)
    seconds = await load.serial(target, "serial", SERIAL)
    return Cost(parts, quantile(seconds, 0.5) * 1000, quantile(seconds, 0.99) * 1000)


def measure(say: Callable[[str], None]) -> tuple[list[Figure], list[Curves]]:
    """Measure all sizes; rows and curves."""
    costs: dict[str, dict[int, Cost]] = {}
    for kind, number, size in sizes():
        with tempfile.TemporaryDirectory() as directory:
            cost = asyncio.run(measured(size, Path(directory)))
        costs.setdefault(kind, {})[number] = cost
        taken = ", ".join(f"{name} {value:.1f}" for name, value in cost.parts.items())
        say(f"{number:,} {KINDS[kind]}: ms of a processor for each eval: {taken}; p50 {cost.p50:.1f} ms")
    rows, curves = [], []
    for kind, row in costs.items():
        for number, cost in row.items():
            title = f"{number:,} {KINDS[kind]}"
            rows += [Figure(f"{title}: {name}", value, "processor ms") for name, value in cost.parts.items()]
            rows.append(Figure(f"{title}: an eval, p50", cost.p50, "ms", "", f"(p99 {cost.p99:.0f})"))
        first, last = min(row), max(row)
        ratio = sum(row[last].parts.values()) / sum(row[first].parts.values())
        rows.append(
            Figure(f"an eval beside {last:,} {KINDS[kind]} to one beside {first:,}", ratio, "times", "<= 1.5")
        )
        names = row[first].parts
        lines = {name: [(float(number), cost.parts[name]) for number, cost in row.items()] for name in names}
        curves.append(Curves(f"processor time for each eval beside {KINDS[kind]}", "ms", KINDS[kind], lines))
    return rows, curves


def main() -> int:
    """Measure and print."""
    rows, _ = measure(lambda line: print(line, file=sys.stderr, flush=True))
    for row in rows:
        print(f"{row.name:<64} {row.shown}")
    return 0


if __name__ == "__main__":
    parser(__doc__).parse_args()
    sys.exit(main())
