"""`python -m tests.bench.cluster_pools`: a pool on the bare cluster, with real members.

REQUESTS evals to a pool that goes from 0 to MEMBERS and back to 0: how long it takes, that each is answered once,
what the controller writes for each. Then exclusive claims of WARM warm members: for SECONDS RATE a second, each
released HELD_MS after it is Bound; and one for each member, all held. The times are those a watch shows.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

from efrit.errors import ApiNotFound
from efrit.kube.client import KubeClient
from efrit.kube.connection import load_connection
from efrit.resources import EXCLUSIVE_CLAIMS, INSTANCES, NAMESPACES, PODS, POOLS, REQUESTS
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
HELD_MS = float(os.environ.get("HELD_MS", "0"))
CREATORS = 4
CONNECTIONS = 8
TIMEOUT_SECONDS = 600.0
UNSCHEDULABLE_SECONDS = 30.0
"""After so long a member for which no node has room is not waited for any more."""
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


async def until_status(api: KubeClient, **expected: object) -> Json:
    async with asyncio.timeout(TIMEOUT_SECONDS):
        while True:
            pool = await cluster.call(api, "GET", POOLS.path(NAMESPACE, POOL))
            status: Json = pool.get("status", {})
            is_observed = status.get("observedGeneration") == pool["metadata"]["generation"]
            if is_observed and expected.items() <= status.items():
                return status
            await asyncio.sleep(0.2)


async def until_warm(api: KubeClient) -> None:
    """Wait until WARM members are idle, and nothing of others is left. Raises where no node has room for them."""
    await change(api, POOLS.path(NAMESPACE, POOL), {"replicas": WARM, "autoscaling": None})
    unschedulable_since: float | None = None
    async with asyncio.timeout(TIMEOUT_SECONDS):
        while True:
            instances = (await cluster.call(api, "GET", INSTANCES.path(NAMESPACE)))["items"]
            pods = (await cluster.call(api, "GET", PODS.path(NAMESPACE)))["items"]
            claims = (await cluster.call(api, "GET", EXCLUSIVE_CLAIMS.path(NAMESPACE)))["items"]
            if not claims and len(instances) == len(pods) == WARM and all(map(cluster.is_ready, instances)):
                break
            count = sum(map(_is_unschedulable, instances))
            now = time.perf_counter()
            unschedulable_since = (unschedulable_since or now) if count else None
            if unschedulable_since is not None and now - unschedulable_since > UNSCHEDULABLE_SECONDS:
                raise RuntimeError(f"no node has room for {count} of {WARM} members: measure with a smaller WARM")
            await asyncio.sleep(1)
    await until_status(api, replicas=WARM, ready=WARM, idle=WARM, draining=0)


def _is_unschedulable(instance: Json) -> bool:
    conditions = instance.get("status", {}).get("conditions", ())
    return any(condition["type"] == "Ready" and condition["reason"] == "Unschedulable" for condition in conditions)


async def change(api: KubeClient, where: str, spec: Json) -> None:
    await cluster.merge(api, where, {"spec": spec})


async def _from_zero(api: KubeClient) -> None:
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


class Bound:
    """When each claim was Bound, as a watch shows it."""

    def __init__(self, names: Iterable[str]) -> None:
        self._events = {name: asyncio.Event() for name in names}
        self.seen: dict[str, float] = {}

    def observe(self, claim: Json) -> bool:
        """Take in a claim as a watch shows it; return whether it has ended."""
        name, status = claim["metadata"]["name"], claim.get("status", {})
        if status.get("phase") == "Bound" and name not in self.seen:
            self.seen[name] = time.perf_counter()
            self._events[name].set()
        return "completionTime" in status

    async def wait_for(self, *names: str) -> None:
        """Wait until these claims are Bound."""
        async with asyncio.timeout(TIMEOUT_SECONDS):
            for name in names:
                await self._events[name].wait()


class Away:
    """When each member went back to the pool, as a watch shows it."""

    def __init__(self) -> None:
        self._claim_of: dict[str, str] = {}
        self.back: dict[str, float] = {}
        """By the claim that had it."""
        self._changed = asyncio.Event()

    def observe(self, instance: Json) -> bool:
        """Take in an instance as a watch shows it."""
        meta = instance["metadata"]
        owner = meta.get("ownerReferences", [{}])[0]
        if owner.get("kind") == "EfritClaim":
            self._claim_of[meta["name"]] = owner["name"]
        elif meta["name"] in self._claim_of:
            self.back[self._claim_of.pop(meta["name"])] = time.perf_counter()
            self._changed.set()
        return False

    async def wait_for(self, claims: set[str]) -> None:
        """Wait until the member of each of these claims is back."""
        async with asyncio.timeout(TIMEOUT_SECONDS):
            while not claims <= self.back.keys():
                self._changed.clear()
                await self._changed.wait()


def _quantiles(seconds: list[float]) -> str:
    return ", ".join(f"p{100 * share:.0f} {quantile(seconds, share) * 1000:.0f} ms" for share in (0.5, 0.9, 0.99))


async def _claims(api: KubeClient, kube: KubeClient, prefix: str, count: int, *, release_at_once: bool) -> None:
    where, written = EXCLUSIVE_CLAIMS.path(NAMESPACE), Written()
    members = {
        item["metadata"]["name"] for item in (await cluster.call(api, "GET", INSTANCES.path(NAMESPACE)))["items"]
    }
    names = [f"{prefix}-{number}" for number in range(count)]
    created: dict[str, float] = {}
    released: dict[str, float] = {}
    bound, away = Bound(names), Away()

    async def release(name: str) -> None:
        released[name] = time.perf_counter()
        await kube.patch(EXCLUSIVE_CLAIMS, NAMESPACE, name, {"spec": {"released": True}})

    async def claim(name: str) -> None:
        spec = {"poolRef": {"name": POOL}, "release": "Return", "ttlSecondsAfterFinished": 0}
        created[name] = time.perf_counter()
        await kube.create(EXCLUSIVE_CLAIMS.manifest({"name": name}, spec=spec), NAMESPACE)
        if release_at_once:
            await bound.wait_for(name)
            await asyncio.sleep(HELD_MS / 1000)
            await release(name)

    async with (
        cluster.watching(api, where, bound.observe) as ended,
        cluster.watching(api, INSTANCES.path(NAMESPACE), away.observe) as instances,
    ):
        # Each new connection is a handshake of some milliseconds on both sides.
        await asyncio.gather(*(kube.list(EXCLUSIVE_CLAIMS, NAMESPACE) for _ in range(CONNECTIONS)))
        await asyncio.sleep(0.5)
        began, tasks, own_began = time.perf_counter(), [], time.process_time()
        for number, name in enumerate(names):
            await asyncio.sleep(max(0.0, began + number / RATE - time.perf_counter()))
            tasks.append(asyncio.create_task(claim(name)))
        await asyncio.gather(*tasks)
        await bound.wait_for(*names)
        if not release_at_once:
            await asyncio.gather(*map(release, names))
        await ended.wait_for(set(names), TIMEOUT_SECONDS)
        await away.wait_for(set(names))
        over, own = time.perf_counter() - began, time.process_time() - own_began
    waits = [bound.seen[name] - created[name] for name in names]
    rate = count / (max(created.values()) - began) if count > 1 else 0.0
    kind = f"each released after {HELD_MS:.0f} ms" if release_at_once else "held"
    print(
        f"{count} claims of {WARM} warm members at {rate:.0f}/s, {kind}, create -> Bound; "
        f"load {os.getloadavg()[0]:.1f}"
    )
    print(f"  {_quantiles(waits)}; all ended after {over:.1f} s, {own:.1f} s of a processor for this bench")
    print(f"  release -> back: {_quantiles([away.back[name] - released[name] for name in released])}")
    print(f"  release -> end: {_quantiles([ended.seen[name] - released[name] for name in released])}")
    print(f"  {len(instances.last.keys() - members)} members made meanwhile")
    _print_writes(written, count, "claim")


async def _until_gone(api: KubeClient) -> None:
    """Wait until the namespace of an earlier run is deleted. Raises where nobody deletes it."""
    with suppress(ApiNotFound):
        async with asyncio.timeout(TIMEOUT_SECONDS):
            while there := await cluster.call(api, "GET", f"{NAMESPACES.path()}/{NAMESPACE}"):
                if there["metadata"].get("deletionTimestamp") is None:
                    raise RuntimeError(f"there is a namespace {NAMESPACE}: delete it")
                await asyncio.sleep(0.5)


@asynccontextmanager
async def pool_of(api: KubeClient) -> AsyncIterator[None]:
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    await _until_gone(api)
    await cluster.call(api, "POST", NAMESPACES.path(), {"metadata": {"name": NAMESPACE, "labels": labels}})
    try:
        pool = POOLS.manifest({"name": POOL}, spec={"replicas": 0, "template": EPHEMERAL})
        await cluster.call(api, "POST", POOLS.path(NAMESPACE), pool)
        yield
    finally:
        await cluster.call(api, "DELETE", f"{NAMESPACES.path()}/{NAMESPACE}")


@asynccontextmanager
async def _connected() -> AsyncIterator[KubeClient]:
    """Yield a client that takes little of a processor: what measures competes with what is measured."""
    kube = KubeClient((await load_connection()).configuration, field_manager="bench")
    try:
        yield kube
    finally:
        await kube.close()


async def measure() -> None:
    """Measure and print."""
    async with cluster.client() as api, _connected() as kube, pool_of(api):
        if REQUEST_COUNT:
            await _from_zero(api)
        if WARM:
            await until_warm(api)
            await _claims(api, kube, "short", round(RATE * SECONDS), release_at_once=True)
            await until_warm(api)
            await _claims(api, kube, "held", WARM, release_at_once=False)


def main() -> int:
    """Measure and print."""
    asyncio.run(measure())
    return 0


if __name__ == "__main__":
    parser(__doc__).parse_args()
    sys.exit(main())
