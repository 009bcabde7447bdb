"""`python -m tests.bench.pool_size [MEMBERS …]`: what pools of so many members take of the controller. Simulated.

A real API server and the real controller; pods and bridges are simulated. Of each number of members (100, then
1,000), which the controller makes in POOLS pools from nothing, prints the seconds until all are Ready, those of a
processor that the controller took for it, and for nothing at all in IDLE_SECONDS after that, its memory, and the load
of the machine.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import psutil

from efrit.kube.media_types import METADATA_LIST
from efrit.resources import INSTANCES, POOLS
from tests.support.command_line import parser
from tests.support.crowd.cgroup import memory_of
from tests.support.crowd.crowd import Crowd, crowd
from tests.support.kube import Json

COUNTS = (100, 1000)
MAX_POOLS = int(os.environ.get("POOLS", "50"))
IDLE_SECONDS = float(os.environ.get("IDLE_SECONDS", "30"))
SETTLED_SECONDS = 3600.0
EPHEMERAL: Json = {"workspace": {"ephemeral": True}, "queue": {"ephemeral": True}}
HEAD = "members pools settled/s processor/s idle/s of it peak/MiB settled/MiB own/MiB load"


async def _serve_members(made: Crowd) -> None:
    """Have a bridge for each member that the controller makes, until cancelled."""
    done: set[str] = set()
    while True:
        async for obj in made.api.pages(INSTANCES, made.namespace, accept=METADATA_LIST):
            if (uid := obj["metadata"]["uid"]) not in done:
                done.add(uid)
                made.bridges.add(uid, holds=False)
        await asyncio.sleep(0.1)


async def _until_ready(made: Crowd, members: int) -> None:
    async with asyncio.timeout(SETTLED_SECONDS):
        while True:
            made.check()
            pools = [obj async for obj in made.api.pages(POOLS, made.namespace)]
            if sum(pool.get("status", {}).get("ready") or 0 for pool in pools) == members:
                return
            await asyncio.sleep(0.5)


def _processor(made: Crowd) -> float:
    times = psutil.Process(made.operator.process.pid).cpu_times()
    return float(times.user + times.system)


async def measured(members: int, directory: Path) -> str:
    """Return the line of one number of members."""
    pools = min(MAX_POOLS, members)
    async with crowd(directory) as made:
        await made.launch()
        await made.until_leading()
        serving = asyncio.create_task(_serve_members(made))
        before, began = _processor(made), time.monotonic()
        for number in range(pools):
            replicas = members // pools + (number < members % pools)
            spec = {"replicas": replicas, "template": {"spec": EPHEMERAL}}
            await made.api.create(
                POOLS.manifest({"name": f"pool{number:02}", "namespace": made.namespace}, spec=spec)
            )
        await _until_ready(made, members)
        took, processor = time.monotonic() - began, _processor(made) - before
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
        before = _processor(made)
        await asyncio.sleep(IDLE_SECONDS)
        idle = _processor(made) - before
        memory = memory_of(made.operator.process.pid)
        return (
            f"{members:7} {pools:5} {took:9.1f} {processor:11.1f} {idle:6.2f} {IDLE_SECONDS:5.0f} "
            f"{memory.peak:8.1f} {memory.settled:11.1f} {memory.own:7.1f} {os.getloadavg()[0]:4.1f}"
        )


def main(counts: Sequence[int]) -> None:
    """Measure each number of members, with a control plane of its own."""
    print(HEAD)
    for count in counts:
        with tempfile.TemporaryDirectory() as folder:
            print(asyncio.run(measured(count, Path(folder))), flush=True)


if __name__ == "__main__":
    arguments = parser(__doc__)
    arguments.add_argument("members", nargs="*", type=int, default=COUNTS, help="numbers of members (100 and 1000)")
    main(arguments.parse_args().members)
