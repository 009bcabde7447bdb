"""`python -m tests.bench.takeover`: how long a killed leader of many instances is missed. Simulated pods and bridges.

A real API server and two real controllers; INSTANCES (1000) instances, FINISHED (0) finished requests, and OPEN (0)
open ones on ten instances more. KILLS (3) times the one that leads is killed and a request created at that moment,
for an instance that has no other; its kubelet says so at once, which takes up to a second on a cluster
(`python -m tests.bench.failover`). Prints the seconds from the kill until the lease was taken, until the answer,
until that to one of the open requests, which its bridge had at the kill, and until the successor is connected to all
bridges, with those of a processor that it took by then, its memory at the kill and at most, and after how many
seconds it was that much.
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

from tests.bench.crowded import HOLDING, MAX_PENDING, Size, stored, until_rests, until_stored
from tests.support.command_line import parser
from tests.support.crowd import objects
from tests.support.crowd.crowd import Crowd, crowd
from tests.support.operator import Operator

INSTANCES = int(os.environ.get("INSTANCES", "1000"))
OPEN = int(os.environ.get("OPEN", "0"))
FINISHED = int(os.environ.get("FINISHED", "0"))
KILLS = int(os.environ.get("KILLS", "3"))
HOLDS = HOLDING if OPEN else []
CONNECTED_SECONDS = 1800.0
REST_SECONDS = 10.0
"""Before each kill: what the one before has caused is over."""


async def _kill(made: Crowd, leader: Operator, standby: Operator, name: str) -> str:
    before = _processor_seconds(standby)
    leader.kill()
    began = time.monotonic()
    memory = asyncio.create_task(_peak(standby, began))
    await made.api.create(objects.request(name, made.namespace, "answers", 100))
    held = await made.bridges.answer_held() if OPEN else name
    leader.report_end()
    made.operator = standby
    taken, answered, held_answered = await asyncio.gather(
        made.until_leading(), made.until_answered({name}), made.until_answered({held})
    )
    await made.until_connected(INSTANCES + 1 + len(HOLDS), CONNECTED_SECONDS)
    connected, took = time.monotonic(), _processor_seconds(standby) - before
    memory.cancel()
    first, peak, at = await memory
    seconds = " ".join(f"{at - began:8.2f}" for at in (taken, answered, held_answered, connected))
    return f"{seconds} {took:10.2f} {first:8.0f} {peak:8.0f} {at:8.1f}"


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
            await made.add_instances(HOLDS, holds=True)
            objects.store(made.plane.ports.etcd, stored(Size(open=OPEN, finished=FINISHED), made.namespace))
            await until_stored(made, OPEN + FINISHED)
            await made.launch()
            await made.until_connected(INSTANCES + 1 + len(HOLDS), CONNECTED_SECONDS)
            await made.until_held(min(OPEN, len(HOLDS) * MAX_PENDING), CONNECTED_SECONDS)
            await until_rests(made)
            first = leader = made.operator
            standby = await stack.enter_async_context(made.standby())
            heads = f"{'lease':>8} {'answer':>8} {'held':>8} {'connect':>8} {'processor':>10}"
            print(f"{INSTANCES} instances, {OPEN} open and {FINISHED} finished requests:")
            print(f"{'':11} {heads} {'MB':>8} {'at most':>8} {'after':>8}")
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
