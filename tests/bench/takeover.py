"""`python -m tests.bench.takeover`: how long a killed leader of many instances is missed. Simulated pods and bridges.

A real API server and two real controllers; INSTANCES (1000) instances. KILLS (3) times the one that leads is killed
and a request created at that moment; its kubelet says so at once, which takes up to a second on a cluster
(`python -m tests.bench.failover`). Prints the seconds from the kill until the lease was taken, until the answer, and
until the successor is connected to all bridges, with those of a processor that it took by then, its memory at the
kill and at most, and after how many seconds it was that much.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import tempfile
import time
from contextlib import AsyncExitStack
from pathlib import Path

import psutil

from tests.support.command_line import parser
from tests.support.crowd import objects
from tests.support.crowd.crowd import Crowd, crowd
from tests.support.operator import Operator

INSTANCES = int(os.environ.get("INSTANCES", "1000"))
KILLS = int(os.environ.get("KILLS", "3"))
CONNECTED_SECONDS = 1800.0
REST_SECONDS = 10.0
"""Before each kill: what the one before has caused is over."""


async def _kill(made: Crowd, leader: Operator, standby: Operator, name: str) -> str:
    before = _processor_seconds(standby)
    leader.kill()
    began = time.monotonic()
    memory = asyncio.create_task(_peak(standby, began))
    await made.api.create(objects.request(name, made.namespace, "answers", 100))
    leader.report_end()
    made.operator = standby
    taken = await made.until_leading()
    answered = await made.until_answered({name})
    await made.until_connected(INSTANCES + 1, CONNECTED_SECONDS)
    connected, took = time.monotonic(), _processor_seconds(standby) - before
    memory.cancel()
    first, peak, at = await memory
    seconds = f"{taken - began:8.2f} {answered - began:8.2f} {connected - began:10.2f} {took:10.2f}"
    return f"{seconds} {first:8.0f} {peak:8.0f} {at:8.1f}"


async def _peak(operator: Operator, began: float) -> tuple[float, float, float]:
    """Sample the memory of a process until cancelled; return MB at first and at most, and the seconds until then."""
    process = psutil.Process(operator.process.pid)
    first = peak = process.memory_info().rss / 1e6
    at = 0.0
    with contextlib.suppress(asyncio.CancelledError):
        while True:
            now = process.memory_info().rss / 1e6
            if now > peak:
                peak, at = now, time.monotonic() - began
            await asyncio.sleep(0.1)
    return first, peak, at


def _processor_seconds(operator: Operator) -> float:
    times = psutil.Process(operator.process.pid).cpu_times()
    return times.user + times.system


async def main() -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as directory:
        async with AsyncExitStack() as stack:
            made = await stack.enter_async_context(crowd(Path(directory)))
            await made.add_instances([f"more{number}" for number in range(INSTANCES)], holds=True)
            await made.add_instances(["answers"], holds=False)
            await made.launch()
            await made.until_connected(INSTANCES + 1, CONNECTED_SECONDS)
            first = leader = made.operator
            standby = await stack.enter_async_context(made.standby())
            heads = f"{'lease':>8} {'answer':>8} {'connected':>10} {'processor':>10}"
            print(f"{INSTANCES} instances: {heads} {'MB':>8} {'at most':>8} {'after':>8}")
            for number in range(KILLS):
                await asyncio.sleep(REST_SECONDS)
                load = os.getloadavg()[0]
                print(f"  load {load:4.1f} {await _kill(made, leader, standby, f'r{number}')}", flush=True)
                leader.process.log.unlink()
                await asyncio.to_thread(leader.start, leading=False)
                leader, standby = standby, leader
            made.operator = first


if __name__ == "__main__":
    parser(__doc__).parse_args()
    asyncio.run(main())
