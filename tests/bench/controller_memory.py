"""`python -m tests.bench.controller_memory [CASE …]`: what the controller takes of memory, at full size.

A real API server and the real controller, restarted under a limit of 256 MiB that the kernel enforces; pods and
bridges are simulated. Prints, for each case, the highest resident size after the restart, the one it settles at, the
seconds from leading to the first answer with those of a processor that the controller took for it, whether the kernel
killed the process, the slowest of its readiness probes and how many were not answered in time, the longest time
between two renewals of its lease, and the load of the machine. Needs the rights of root.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections.abc import Iterator
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import psutil

from efrit.kube.media_types import METADATA_LIST
from efrit.resources import LEASES, REQUESTS
from tests.bench.readiness import Probes
from tests.support.command_line import parser
from tests.support.crowd import objects
from tests.support.crowd.cgroup import memory_group, memory_of
from tests.support.crowd.crowd import Crowd, crowd

LIMIT = 256 << 20
SETTLE_SECONDS = 30.0
LISTED_SECONDS = 600.0
CONNECTED_SECONDS = 1800.0
ANSWERED_SECONDS = 300.0
HOLDING = [f"holds{number}" for number in range(10)]


class Case(NamedTuple):
    """What there is when the controller starts again."""

    instances: int = 10
    open: int = 0
    size: int = 100
    finished: int = 0
    affinity: int = 0
    """Bytes of JSON in the affinity of each instance that holds its requests."""
    random: bool = False
    """Whether that affinity cannot be compressed."""


CASES = {
    "idle": Case(),
    "open": Case(open=10_000, size=65_536),
    "small": Case(open=10_000),
    "largest": Case(open=60, size=240_000),
    "finished": Case(finished=50_000),
    "instances": Case(instances=1000),
    "specs": Case(instances=1000, affinity=100_000),
    "random": Case(instances=1000, affinity=100_000, random=True),
}


def _requests(case: Case, namespace: str) -> Iterator[objects.Json]:
    for number in range(case.open):
        yield objects.request(f"r{number:05}", namespace, HOLDING[number % 10], case.size)
    for number in range(case.finished):
        yield objects.finished(f"done{number:05}", namespace, HOLDING[number % 10], ttl=86_400)


async def _measured(case: Case, directory: Path) -> str:
    async with crowd(directory) as made:
        names = [*HOLDING, *(f"more{number}" for number in range(case.instances - len(HOLDING)))]
        await made.add_instances(names, holds=True, affinity=case.affinity, random=case.random)
        await made.add_instances(["answers"], holds=False)
        await made.launch()
        await made.until_connected(len(names) + 1, CONNECTED_SECONDS)
        made.operator.stop()
        objects.store(made.plane.ports.etcd, _requests(case, made.namespace))
        # Among the others, as chance has it.
        answer_names = {f"r{number * 1000:05}-answers" for number in range(10)}
        objects.store(
            made.plane.ports.etcd, (objects.request(name, made.namespace, "answers", 100) for name in answer_names)
        )
        # What is written behind its back the API server takes in later, and keeps every list waiting meanwhile.
        there = made.api.pages(REQUESTS, made.namespace, accept=METADATA_LIST)
        assert len([obj async for obj in there]) == case.open + case.finished + len(answer_names)
        made.operator.process.log.unlink()
        return await _restarted(made, there.version, len(names) + 1, case.open)


async def _restarted(made: Crowd, version: str, connected: int, open_requests: int) -> str:
    with memory_group(LIMIT) as group:
        first_answer = asyncio.create_task(_first_answer(made, version))
        renewals: list[datetime] = []
        watching = asyncio.create_task(_renewals(made, renewals))
        await made.launch(group)
        probes = Probes(made.operator.url("/readyz"))
        leading, began = await made.until_leading(), _processor_seconds(made)
        answered = await first_answer
        took = _processor_seconds(made) - began
        await made.until_connected(connected, CONNECTED_SECONDS)
        await made.until_metric("efrit_open_requests", lambda value: value >= open_requests, LISTED_SECONDS)
        ends = time.monotonic() + SETTLE_SECONDS
        while time.monotonic() < ends:
            made.check()
            await asyncio.sleep(1)
        memory = memory_of(made.operator.process.pid)
        figures = [
            f"{memory.peak:7.1f} {memory.settled:8.1f} {memory.own:7.1f} {answered - leading:7.2f} {took:9.2f}"
        ]
        figures.append(f"{await made.metric('efrit_open_requests'):8.0f} {group.killed:6}")
        watching.cancel()
        slowest, failed = probes.close()
        gap = max(((later - earlier).total_seconds() for earlier, later in pairwise(renewals)), default=0.0)
        figures.append(f"{slowest:7.2f} {failed:6} {gap:6.1f} {len(renewals):8} {os.getloadavg()[1]:5.1f}")
        made.operator.close()
        return " ".join(figures)


async def _renewals(made: Crowd, renewals: list[datetime]) -> None:
    """Collect when the lease was renewed, by the controller's own clock, until cancelled."""
    leases, version = await made.api.list(LEASES, made.namespace)
    del leases
    while True:
        async for _, lease in made.api.watch(LEASES, made.namespace, version):
            version = lease["metadata"]["resourceVersion"]
            if lease["spec"].get("holderIdentity") == made.operator.identity:
                renewals.append(datetime.fromisoformat(lease["spec"]["renewTime"]))


async def _first_answer(made: Crowd, version: str) -> float:
    """Return the monotonic time at which one of the requests is final: calls that ask would load the API server."""
    selector = "spec.instanceRef.name=answers,status.phase=Succeeded"
    async with asyncio.timeout(ANSWERED_SECONDS):
        while True:
            async for _ in made.api.watch(REQUESTS, made.namespace, version, fieldSelector=selector):
                return time.monotonic()


def _processor_seconds(made: Crowd) -> float:
    times = psutil.Process(made.operator.process.pid).cpu_times()
    return times.user + times.system


def main(chosen: list[str]) -> None:
    """Measure the cases that are named, all of them where none is."""
    memory = f"{'peak MB':>7} {'settled':>8} {'own':>7} {'answer':>7} {'processor':>9} {'open':>8} {'killed':>6}"
    print(f"{'case':<10} {memory} {'slowest':>7} {'failed':>6} {'lease':>6} {'renewals':>8} {'load':>5}")
    for name in chosen or CASES:
        with tempfile.TemporaryDirectory() as directory:
            print(f"{name:<10} {asyncio.run(_measured(CASES[name], Path(directory)))}", flush=True)


if __name__ == "__main__":
    arguments = parser(__doc__)
    arguments.add_argument("case", nargs="*", help=f"one of {', '.join(CASES)}; all of them without")
    cases = arguments.parse_args().case
    if unknown := set(cases) - set(CASES):
        arguments.error(f"no case is called {min(unknown)}; there are {', '.join(CASES)}")
    main(cases)
