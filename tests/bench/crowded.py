"""`python -m tests.bench.crowded`: what an eval costs beside many instances, open requests and finished ones.

A real API server and the real controller; pods and bridges are simulated. For each number of instances (INSTANCES: 1,
10, 100, 1,000), which get the evals in turn, of open requests that others hold (OPEN: 100 to 50,000) and of finished
ones (FINISHED: the same), prints what controller, API server and etcd take of a processor for each eval of a burst of
BURST (300), what the API server writes for it, and the time of one of SERIAL (100) one after the other. Each size has
a control plane of its own, on which the floor is measured before the controller starts: a create and one patch of the
status, two watches, beside the same objects. What grows there is the API server's. Evals begin once the controller
rests.
"""

from __future__ import annotations

import asyncio
import math
import os
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from efrit.api.instance_volumes import Queue
from efrit.controller.resync import FIRST_SWEEP_SECONDS
from efrit.errors import ApiUnavailable
from efrit.kube.media_types import METADATA_LIST
from efrit.protocol import RequestReason
from efrit.resources import REQUESTS
from tests.bench import cluster, load, processors
from tests.bench.quantile import quantile
from tests.support.bench import api_writes, growth
from tests.support.bench.growth import KINDS, Cost, Measured
from tests.support.command_line import parser
from tests.support.crowd import objects
from tests.support.crowd.crowd import Crowd, crowd
from tests.support.figures import Figure

QUICK = bool(os.environ.get("QUICK"))


def _sizes(name: str, sizes: str) -> tuple[int, ...]:
    return tuple(int(size) for size in os.environ.get(name, sizes).split(",") if size)


INSTANCES = _sizes("INSTANCES", "1,10,100" if QUICK else "1,10,100,1000")
OPEN = _sizes("OPEN", "100,10000" if QUICK else "100,1000,10000,50000")
FINISHED = _sizes("FINISHED", "100,10000" if QUICK else "100,1000,10000,50000")
BURST = int(os.environ.get("BURST", "300"))
SERIAL = int(os.environ.get("SERIAL", "100"))
SECONDS = 900.0
SETTLE_SECONDS = 1.0
RESTS_SHARE, REST_SECONDS, MAX_REST_SECONDS = 0.25, 2.0, 120.0
"""Who takes no more of a processor for so long has done what there is; how long that is waited for."""
MAX_PENDING = Queue().max_pending
HOLDING = [f"holds{number}" for number in range(10)]


class Size(NamedTuple):
    """What there is beside the evals."""

    instances: int = 1
    open: int = 0
    finished: int = 0


def sizes(kind: str) -> dict[int, Size]:
    """Return the sizes of a kind that are measured, by its number."""
    numbers = {"instances": INSTANCES, "open": OPEN, "finished": FINISHED}[kind]
    return {number: Size()._replace(**{kind: number}) for number in numbers}


def stored(size: Size, namespace: str) -> Iterator[objects.Json]:
    for number in range(size.open):
        turn, holder = divmod(number, len(HOLDING))
        reason = RequestReason.QUEUED if turn < MAX_PENDING else RequestReason.BACKPRESSURE
        yield objects.waiting(f"open{number:05}", namespace, HOLDING[holder], 100, reason)
    for number in range(size.finished):
        yield objects.finished(f"done{number:05}", namespace, "answers0", ttl=86_400)


async def measured(size: Size, directory: Path, say: Callable[[str], None]) -> Measured:
    """Measure one size."""
    async with crowd(directory) as made:
        answering = [f"answers{number}" for number in range(size.instances)]
        holding = HOLDING if size.open else []
        await made.add_instances(holding, holds=True)
        await made.add_instances(answering, holds=False)
        objects.store(made.plane.ports.etcd, stored(size, made.namespace))
        await until_stored(made, size.open + size.finished)
        async with cluster.client(made.plane.kubeconfig) as api:
            target = load.Target(api, made.namespace, tuple(answering))
            floor = await _cost(made, target, "floor", load.floor, load.floor_serial)
            await made.launch()
            await made.until_connected(len(holding) + len(answering), SECONDS)
            await made.until_metric("efrit_open_requests", lambda value: value >= size.open, SECONDS)
            await made.until_held(min(size.open, len(holding) * MAX_PENDING), SECONDS)
            if not await until_rests(made):
                say(f"controller and API server did not rest within {MAX_REST_SECONDS:g} s")
            return Measured(await _cost(made, target, "eval", load.burst, load.serial), floor)


async def until_rests(made: Crowd) -> bool:
    """Wait until the controller has written what there was when it started, and its first sweep is over.

    That sweep lists all that has ended: it costs the API server as much as hundreds of evals.
    """
    ends = time.monotonic() + MAX_REST_SECONDS
    leaders = {"controller": made.operator.process.pid}
    if pid := made.plane.apiserver.pid():
        leaders["API server"] = pid
    spent = math.inf
    await asyncio.sleep(FIRST_SWEEP_SECONDS)
    while spent > RESTS_SHARE * REST_SECONDS and time.monotonic() < ends:
        before = processors.of_sessions(leaders)
        await asyncio.sleep(REST_SECONDS)
        after = processors.of_sessions(leaders)
        spent = max(after[name] - before[name] for name in leaders)
    return spent <= RESTS_SHARE * REST_SECONDS


async def until_stored(made: Crowd, count: int) -> None:
    """Wait until the API server has taken in what was written behind its back."""

    async def is_stored() -> bool:
        try:
            return len([obj async for obj in made.api.pages(REQUESTS, made.namespace, accept=METADATA_LIST)]) >= count
        except ApiUnavailable:
            # What it keeps in memory lags behind the store by more than it waits.
            return False

    async with asyncio.timeout(SECONDS):
        while not await is_stored():  # noqa: ASYNC110 - polls a remote server
            await asyncio.sleep(0.5)


async def _cost(
    made: Crowd,
    target: load.Target,
    prefix: str,
    burst: Callable[[load.Target, str, int], Awaitable[object]],
    serial: Callable[[load.Target, str, int], Awaitable[list[float]]],
) -> Cost:
    pids = {"API server": made.plane.apiserver.pid(), "etcd": made.plane.etcd.pid()}
    leaders = {name: pid for name, pid in pids.items() if pid}
    if burst is load.burst:
        leaders["controller"] = made.operator.process.pid
    await burst(target, f"{prefix}-warm", 20)
    await asyncio.sleep(SETTLE_SECONDS)
    written, before = await api_writes.so_far(target.api), processors.of_sessions(leaders)
    await burst(target, f"{prefix}-burst", BURST)
    await asyncio.sleep(SETTLE_SECONDS)
    parts = processors.between(before, processors.of_sessions(leaders), BURST)
    writes = api_writes.between(written, await api_writes.so_far(target.api), BURST)
    seconds = await serial(target, f"{prefix}-serial", SERIAL)
    return Cost(parts, quantile(seconds, 0.5) * 1000, quantile(seconds, 0.99) * 1000, writes)


def measure(kind: str, say: Callable[[str], None]) -> list[Figure]:
    """Measure all sizes of a kind of KINDS."""
    row: dict[int, Measured] = {}
    for number, size in sizes(kind).items():
        with tempfile.TemporaryDirectory() as directory:
            row[number] = asyncio.run(measured(size, Path(directory), say))
        cost, floor = row[number]
        taken = ", ".join(f"{name} {value:.1f}" for name, value in cost.parts.items())
        say(f"{number:,} {KINDS[kind]}: ms of a processor for each eval: {taken}; p50 {cost.p50:.1f} ms")
        say(f"its floor: {floor.together:.1f} ms of a processor; p50 {floor.p50:.1f} ms")
    return list(growth.figures_of(kind, row))


def main() -> int:
    """Measure and print."""
    for kind in KINDS:
        for row in measure(kind, lambda line: print(line, file=sys.stderr, flush=True)):
            print(f"{row.name:<64} {row.shown}")
    return 0


if __name__ == "__main__":
    parser(__doc__).parse_args()
    sys.exit(main())
