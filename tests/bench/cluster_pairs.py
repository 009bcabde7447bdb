"""`python -m tests.bench.cluster_pairs [ephemeral] [storage]`: a member beside an instance, on the bare cluster.

A real instance and a pool of one real member, both with the kind of queue that is named (both kinds without): PAIRS
(200) evals of each, one after the other, each pair in the other order than the one before. Create -> answer as a
watch sees it: p50 and p95 of both, and the differences of pairs, of which the median is what a pool adds.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from efrit.kube.client import KubeClient
from efrit.resources import INSTANCES, POOLS, REQUESTS
from tests.bench import cluster, cluster_pools
from tests.bench.cluster_pools import EPHEMERAL, NAMESPACE, POOL
from tests.bench.load import Target
from tests.bench.quantile import quantile
from tests.support.command_line import parser

PAIRS = int(os.environ.get("PAIRS", "200"))
WARM_UP = 20
INSTANCE = "pet"
TIMEOUT_SECONDS = 60.0
KINDS: Mapping[str, Mapping[str, Any]] = {
    "ephemeral": EPHEMERAL["spec"],
    "storage": {"queue": {"ephemeral": False}, "workspace": {"ephemeral": False}},
}
TARGETS: Mapping[str, Mapping[str, Any]] = {
    "instance": {"instanceRef": {"name": INSTANCE}},
    "pool": {"poolRef": {"name": POOL}},
}


async def _serve(api: KubeClient, kind: str) -> None:
    """Have both serve, with this kind of queue."""
    spec = KINDS[kind]
    await cluster_pools.change(api, POOLS.path(NAMESPACE, POOL), {"replicas": 1, "template": {"spec": spec}})
    await cluster.call(api, "POST", INSTANCES.path(NAMESPACE), cluster.instance(INSTANCE, **spec))
    await cluster_pools.until_status(api, replicas=1, ready=1, draining=0)


async def _pairs(api: KubeClient, kind: str) -> dict[str, list[float]]:
    """Return the seconds of each eval, by where it went; those of a pair have the same place."""
    seconds: dict[str, list[float]] = {where: [] for where in TARGETS}
    target = Target(api, NAMESPACE, (INSTANCE,))
    async with cluster.watching(api, REQUESTS.path(NAMESPACE), cluster.is_final) as watch:
        for number in range(WARM_UP + PAIRS):
            for where in sorted(TARGETS, reverse=bool(number % 2)):
                name = f"{kind}-{where}-{number}"
                spec = {**TARGETS[where], "type": "eval", "content": "(+ 1 2)"}
                began = await target.send(REQUESTS.manifest({"name": name}, spec=spec))
                await watch.wait_for({name}, TIMEOUT_SECONDS)
                if number >= WARM_UP:
                    seconds[where].append(watch.seen[name] - began)
    return seconds


def _print(kind: str, seconds: Mapping[str, list[float]]) -> None:
    for where, values in seconds.items():
        p50, p95 = (quantile(values, share) * 1000 for share in (0.5, 0.95))
        print(f"{kind}, {where}: p50 {p50:.1f} ms, p95 {p95:.1f} ms of {len(values)}")
    differences = [pool - alone for pool, alone in zip(seconds["pool"], seconds["instance"], strict=True)]
    low, median, high = (quantile(differences, share) * 1000 for share in (0.25, 0.5, 0.75))
    print(
        f"  the pool adds {median:.1f} ms (median of the pairs; quartiles {low:.1f} and {high:.1f}), "
        f"load {os.getloadavg()[0]:.1f}",
        flush=True,
    )


async def measure(kinds: Sequence[str]) -> None:
    """Measure and print."""
    for kind in kinds:
        async with cluster.client() as api, cluster_pools.pool_of(api):
            await _serve(api, kind)
            _print(kind, await _pairs(api, kind))


def main(kinds: Sequence[str]) -> int:
    """Measure and print."""
    asyncio.run(measure(kinds or list(KINDS)))
    return 0


if __name__ == "__main__":
    arguments = parser(__doc__)
    arguments.add_argument("kind", nargs="*", choices=[*KINDS, []], help=f"of {', '.join(KINDS)}; both without")
    sys.exit(main(arguments.parse_args().kind))
