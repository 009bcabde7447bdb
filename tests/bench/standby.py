"""`python -m tests.bench.standby`: what a controller that stands by costs, at rest and per eval. A simulated bridge.

A real API server and one or two real controllers, in TURNS (3) turns of each: SETTLE_SECONDS (15) after the change,
REST_SECONDS (20) in which nobody asks for anything, then EVALS (100) evals one after the other, beside INSTANCES (1)
instances. Prints milliseconds of a processor that each part takes for an eval, and percent of a processor at rest, of
each turn, and at last the medians of the turns; with REQUESTS=1 also which calls the API server served.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from statistics import median

from prometheus_client.parser import text_string_to_metric_families

from tests.bench import cluster, load, processors
from tests.bench.load import Target
from tests.bench.quantile import quantile
from tests.support.command_line import parser
from tests.support.crowd.crowd import Crowd, crowd
from tests.support.operator import Operator

TURNS = int(os.environ.get("TURNS", "3"))
SETTLE_SECONDS = float(os.environ.get("SETTLE_SECONDS", "15"))
REST_SECONDS = float(os.environ.get("REST_SECONDS", "20"))
EVALS = int(os.environ.get("EVALS", "100"))
INSTANCES = int(os.environ.get("INSTANCES", "1"))

Taken = dict[str, tuple[float, float]]
"""Milliseconds for each eval and share of a processor at rest, by part."""
Calls = Counter[tuple[str, str]]
"""Calls that the API server has served, by verb and resource."""


async def _calls(target: Target) -> Calls:
    counts = Calls()
    for family in text_string_to_metric_families(await cluster.text(target.api, "/metrics")):
        for sample in family.samples:
            if sample.name == "apiserver_request_total":
                counts[sample.labels["verb"], sample.labels["resource"]] += int(sample.value)
    return counts


def _seconds(made: Crowd, standby: Operator | None) -> Mapping[str, float]:
    leaders = {"API server": made.plane.apiserver.pid(), "etcd": made.plane.etcd.pid()}
    leaders["leader"] = made.operator.process.pid
    if standby is not None:
        leaders["standby"] = standby.process.pid
    return processors.of_sessions({name: pid for name, pid in leaders.items() if pid is not None})


async def _turn(made: Crowd, target: Target, name: str, standby: Operator | None) -> Taken:
    await asyncio.sleep(SETTLE_SECONDS)
    before, began = _seconds(made, standby), time.monotonic()
    await asyncio.sleep(REST_SECONDS)
    passed = time.monotonic() - began
    rest = {part: (taken - before[part]) / passed for part, taken in _seconds(made, standby).items()}
    calls, before, began = await _calls(target), _seconds(made, standby), time.monotonic()
    seconds = await load.serial(target, name, EVALS)
    passed = time.monotonic() - began
    each = processors.between(before, _seconds(made, standby), EVALS)
    taken = {part: (took, rest[part]) for part, took in each.items()}
    pace = f"p50 {quantile(seconds, 0.5) * 1000:.0f} ms, {passed / EVALS * 1000:.0f} ms each"
    print(f"{name}: load {os.getloadavg()[0]:4.1f}, {pace}; {_text(taken)}", flush=True)
    if os.environ.get("REQUESTS"):
        served = (await _calls(target)) - calls
        print("  ", ", ".join(f"{verb} {resource} {count}" for (verb, resource), count in served.most_common(12)))
    return taken


def _text(taken: Taken) -> str:
    return ", ".join(f"{part} {each:.2f} ms (at rest {rest:.2%})" for part, (each, rest) in taken.items())


def _medians(turns: list[Taken]) -> Taken:
    return {
        part: (median(turn[part][0] for turn in turns), median(turn[part][1] for turn in turns)) for part in turns[0]
    }


async def main() -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as directory:
        async with crowd(Path(directory)) as made:
            await made.add_instances([f"more{number}" for number in range(INSTANCES - 1)], holds=True)
            await made.add_instances(["answers"], holds=False)
            await made.launch()
            await made.until_connected(INSTANCES)
            async with cluster.client(made.plane.kubeconfig) as api:
                target = Target(api, made.namespace, ("answers",))
                await load.serial(target, "warm", 20)
                alone, beside = list[Taken](), list[Taken]()
                for number in range(TURNS):
                    alone.append(await _turn(made, target, f"alone{number}", None))
                    async with made.standby() as standby:
                        beside.append(await _turn(made, target, f"beside{number}", standby))
                print(f"one controller: {_text(_medians(alone))}")
                print(f"one that leads, one that stands by: {_text(_medians(beside))}")


if __name__ == "__main__":
    parser(__doc__).parse_args()
    asyncio.run(main())
