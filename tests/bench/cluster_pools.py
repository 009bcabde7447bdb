"""`python -m tests.bench.cluster_pools`: a pool on the bare cluster, with real members.

REQUESTS evals to a pool that goes from 0 to MEMBERS and back to 0: how long it takes, that each is answered once,
what the controller writes for each. Then exclusive claims of WARM warm members: for SECONDS RATE a second, each
released as soon as it is Bound; and one for each member, all held. The times are those a watch shows.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx

from efrit.kube.media_types import MERGE_PATCH
from efrit.resources import EXCLUSIVE_CLAIMS, INSTANCES, NAMESPACES, POOLS, REQUESTS
from tests.bench import cluster
from tests.bench.quantile import quantile
from tests.cluster import audit
from tests.cluster.paths import Layout
from tests.support.command_line import parser

NAMESPACE = "efrit-bench-pools"
POOL = "crew"
REQUEST_COUNT = int(os.environ.get("REQUESTS", "2000"))
MEMBERS = int(os.environ.get("MEMBERS", "5"))
WARM = int(os.environ.get("WARM", "20"))
RATE = float(os.environ.get("RATE", "45"))
SECONDS = int(os.environ.get("SECONDS", "3"))
CREATORS = 4
TIMEOUT_SECONDS = 600.0
EPHEMERAL = {"spec": {"queue": {"ephemeral": True}, "workspace": {"ephemeral": True}}}
WRITES = ("create", "update", "patch", "delete")

Json = Mapping[str, Any]


class Written:
    """What the controller writes in the namespace from now on, by the API server's audit log."""

    def __init__(self) -> None:
        self._log = audit.log(Layout.of_this_clone())
        self._begin = self._log.stat().st_size

    def counts(self) -> Counter[str]:
        """Return how often it has written what: "patch efritrequests/status"."""
        counts: Counter[str] = Counter()
        with self._log.open("rb") as log:
            log.seek(self._begin)
            for event in map(json.loads, log):
                target = event.get("objectRef", {})
                if target.get("namespace") == NAMESPACE and event["verb"] in WRITES:
                    kind = "/".join(filter(None, (target["resource"], target.get("subresource"))))
                    counts[f"{event['verb']} {kind}"] += 1
        return counts


async def until_status(api: httpx.AsyncClient, **expected: object) -> Json:
    async with asyncio.timeout(TIMEOUT_SECONDS):
        while True:
            pool = await cluster.call(api, "GET", POOLS.path(NAMESPACE, POOL))
            status: Json = pool.get("status", {})
            is_observed = status.get("observedGeneration") == pool["metadata"]["generation"]
            if is_observed and expected.items() <= status.items():
                return status
            await asyncio.sleep(0.2)


async def change(api: httpx.AsyncClient, where: str, spec: Json) -> None:
    headers = {"Content-Type": MERGE_PATCH}
    response = await api.patch(where, content=json.dumps({"spec": spec}), headers=headers)
    response.raise_for_status()


async def _from_zero(api: httpx.AsyncClient) -> None:
    autoscaling = {"maxReplicas": MEMBERS, "targetLoadPerInstance": 10, "scaleDown": {"stabilizationSeconds": 2}}
    await change(api, POOLS.path(NAMESPACE, POOL), {"replicas": None, "autoscaling": autoscaling})
    await until_status(api, desiredReplicas=0, replicas=0, draining=0)
    written, names, sizes = Written(), [f"zero-{number}" for number in range(REQUEST_COUNT)], Counter[int]()

    def is_at_zero(pool: Json) -> bool:
        sizes[pool.get("status", {}).get("replicas", 0)] += 1
        return False

    async def create(first: int) -> None:
        for number in range(first, REQUEST_COUNT, CREATORS):
            spec = {"poolRef": {"name": POOL}, "type": "eval", "content": f"(+ 1 {number})", "timeoutSeconds": 600}
            manifest = REQUESTS.manifest({"name": names[number]}, spec=spec)
            await cluster.call(api, "POST", REQUESTS.path(NAMESPACE), manifest)

    requests = REQUESTS.path(NAMESPACE)
    pools = cluster.watching(api, POOLS.path(NAMESPACE), is_at_zero)
    async with cluster.watching(api, requests, cluster.is_final) as watch, pools:
        await asyncio.sleep(0.5)
        began = time.perf_counter()
        await asyncio.gather(*map(create, range(CREATORS)))
        created = time.perf_counter() - began
        await watch.wait_for(set(names), TIMEOUT_SECONDS)
        took = max(watch.seen.values()) - began
        await until_status(api, desiredReplicas=0, replicas=0, draining=0)
        gone = time.perf_counter() - began
    statuses = {name: watch.last[name]["status"] for name in names}
    right = sum(status.get("result") == str(int(name[5:]) + 1) for name, status in statuses.items())
    attempts = Counter(status.get("attempt") for status in statuses.values())
    of_each = Counter(status["instanceName"] for status in statuses.values())
    print(f"{REQUEST_COUNT} requests to a pool at 0, created in {created:.0f} s: answered after {took:.0f} s,")
    print(f"  at 0 again after {gone:.0f} s, most members {max(sizes)}, load {os.getloadavg()[0]:.1f}")
    print(f"  right answers {right}, attempts {dict(attempts)}, by member {sorted(of_each.values())}")
    _print_writes(written, REQUEST_COUNT, "request")


def _print_writes(written: Written, count: int, of: str) -> None:
    for kind, number in sorted(written.counts().items(), key=lambda item: -item[1]):
        print(f"  {number:6d} {kind:<34} {number / count:6.3f} for each {of}")


def _is_bound(claim: Json) -> bool:
    return bool(claim.get("status", {}).get("phase") == "Bound")


def _has_ended(claim: Json) -> bool:
    return "completionTime" in claim.get("status", {})


async def _claims(api: httpx.AsyncClient, prefix: str, count: int, *, release_at_once: bool) -> None:
    where, written = EXCLUSIVE_CLAIMS.path(NAMESPACE), Written()
    members = {
        item["metadata"]["name"] for item in (await cluster.call(api, "GET", INSTANCES.path(NAMESPACE)))["items"]
    }
    names = [f"{prefix}-{number}" for number in range(count)]
    created: dict[str, float] = {}

    async def claim(name: str) -> None:
        spec = {"poolRef": {"name": POOL}, "release": "Return", "ttlSecondsAfterFinished": 0}
        created[name] = time.perf_counter()
        await cluster.call(api, "POST", where, EXCLUSIVE_CLAIMS.manifest({"name": name}, spec=spec))
        if release_at_once:
            await bound.wait_for({name}, TIMEOUT_SECONDS)
            await change(api, f"{where}/{name}", {"released": True})

    async with (
        cluster.watching(api, where, _is_bound) as bound,
        cluster.watching(api, where, _has_ended) as ended,
        cluster.watching(api, INSTANCES.path(NAMESPACE), lambda _: True) as instances,
    ):
        await asyncio.sleep(0.5)
        began, tasks = time.perf_counter(), []
        for number, name in enumerate(names):
            await asyncio.sleep(max(0.0, began + number / RATE - time.perf_counter()))
            tasks.append(asyncio.create_task(claim(name)))
        await asyncio.gather(*tasks)
        await bound.wait_for(set(names), TIMEOUT_SECONDS)
        if not release_at_once:
            await asyncio.gather(*(change(api, f"{where}/{name}", {"released": True}) for name in names))
        await ended.wait_for(set(names), TIMEOUT_SECONDS)
        over = time.perf_counter() - began
    waits = [bound.seen[name] - created[name] for name in names]
    rate = count / (max(created.values()) - began) if count > 1 else 0.0
    kind = "released at once" if release_at_once else "held"
    print(
        f"{count} claims of {WARM} warm members at {rate:.0f}/s, {kind}, create -> Bound; "
        f"load {os.getloadavg()[0]:.1f}"
    )
    shares = ", ".join(f"p{100 * share:.0f} {quantile(waits, share) * 1000:.0f} ms" for share in (0.5, 0.9, 0.99))
    print(f"  {shares}; all ended after {over:.1f} s, {len(instances.last.keys() - members)} members made meanwhile")
    _print_writes(written, count, "claim")


@asynccontextmanager
async def pool_of(api: httpx.AsyncClient) -> AsyncIterator[None]:
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    await cluster.call(api, "POST", NAMESPACES.path(), {"metadata": {"name": NAMESPACE, "labels": labels}})
    try:
        pool = POOLS.manifest({"name": POOL}, spec={"replicas": 0, "template": EPHEMERAL})
        await cluster.call(api, "POST", POOLS.path(NAMESPACE), pool)
        yield
    finally:
        await cluster.call(api, "DELETE", f"{NAMESPACES.path()}/{NAMESPACE}")


async def measure() -> None:
    """Measure and print."""
    async with cluster.client() as api, pool_of(api):
        if REQUEST_COUNT:
            await _from_zero(api)
        if WARM:
            warm = {"replicas": WARM, "ready": WARM, "idle": WARM, "draining": 0}
            await change(api, POOLS.path(NAMESPACE, POOL), {"replicas": WARM, "autoscaling": None})
            await until_status(api, **warm)
            await _claims(api, "short", round(RATE * SECONDS), release_at_once=True)
            await until_status(api, **warm)
            await _claims(api, "held", WARM, release_at_once=False)


def main() -> int:
    """Measure and print."""
    asyncio.run(measure())
    return 0


if __name__ == "__main__":
    parser(__doc__).parse_args()
    sys.exit(main())
