"""`python -m tests.bench.wake`: how long a pool member that sleeps takes to answer, step by step, on the cluster.

WAKES times one of POOLS pools, each of one member that is suspended for idleness, gets a request. Each step is the
moment a watch shows it, or the time of a line in the bridge's log. All programs have one clock: the cluster is this
machine.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any

from efrit.kube.client import KubeClient
from efrit.resources import INSTANCES, NAMESPACES, PODS, POOLS, REQUESTS, STATEFULSETS, Resource
from tests.bench import cluster
from tests.bench.quantile import quantile
from tests.support.command_line import parser

NAMESPACE = "efrit-bench-wake"
POOL_COUNT = int(os.environ.get("POOLS", "4"))
WAKES = int(os.environ.get("WAKES", "16"))
EVERY_SECONDS = 25.0
"""A pool is woken at most this often: an instance gets at most 30 statuses a minute, and each wake takes seven."""
SUSPEND_AFTER = 10
"""The shortest that an instance may have."""
SECONDS = 180.0

Json = Mapping[str, Any]
Predicate = Callable[[Json], bool]


def _condition(kind: str) -> Predicate:
    def is_true(obj: Json) -> bool:
        conditions = obj.get("status", {}).get("conditions", ())
        return any(condition["type"] == kind and condition["status"] == "True" for condition in conditions)

    return is_true


def _runs(container: str) -> Predicate:
    def runs(pod: Json) -> bool:
        status = pod.get("status", {})
        states = (*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ()))
        return any(state["name"] == container and "running" in state["state"] for state in states)

    return runs


STEPS: Mapping[Resource, Mapping[str, Predicate]] = {
    REQUESTS: {
        "bound to the member": lambda obj: "instanceName" in obj.get("status", {}),
        "answered": cluster.is_final,
    },
    STATEFULSETS: {"one replica wanted": lambda obj: obj["spec"]["replicas"] == 1},
    PODS: {
        "pod created": lambda obj: "deletionTimestamp" not in obj["metadata"],
        "scheduled": _condition("PodScheduled"),
        "has an address": lambda obj: bool(obj.get("status", {}).get("podIP")),
        "bridge runs": _runs("bridge"),
        "emacs runs": _runs("emacs"),
    },
    INSTANCES: {"instance Ready": cluster.is_ready},
}

LOGGED = {"Lisp in place": "installed", "bridge serves": "serving on port", "bridge heard Emacs": "started (pid"}
"""What a line of the bridge's log holds."""


class Steps:
    """When each step of one wake was first seen."""

    def __init__(self, pool: str) -> None:
        self.seen: dict[str, float] = {}
        self._pool = pool
        self._changed = asyncio.Event()

    async def wait_for(self, *steps: str) -> None:
        """Wait until these were seen."""
        async with asyncio.timeout(SECONDS):
            while not self.seen.keys() >= set(steps):
                self._changed.clear()
                await self._changed.wait()

    async def follow(self, api: KubeClient, resource: Resource, watching: asyncio.Event) -> None:
        """Note the steps of a resource until cancelled."""
        async with cluster.events_of(api, resource.path(NAMESPACE)) as events:
            watching.set()
            async for kind, obj in events:
                now = time.perf_counter()
                if self._pool not in obj["metadata"]["name"]:
                    continue
                for step, holds in STEPS[resource].items():
                    if step not in self.seen and kind != "DELETED" and holds(obj):
                        self.seen[step] = now
                        self._changed.set()


@asynccontextmanager
async def stepping(api: KubeClient, pool: str) -> AsyncIterator[Steps]:
    """Follow all resources for the length of the block."""
    steps, tasks = Steps(pool), []
    try:
        for resource in STEPS:
            watching = asyncio.Event()
            tasks.append(asyncio.create_task(steps.follow(api, resource, watching)))
            await watching.wait()
        yield steps
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _logged(api: KubeClient, pool: str) -> dict[str, float]:
    """Return when the bridge of the one pod said what, in seconds since the epoch."""
    (name,) = await _pods(api, pool)
    where = PODS.path(NAMESPACE, name, "log")
    lines = (await cluster.text(api, where, container="bridge", timestamps="true")).splitlines()
    return {
        step: datetime.fromisoformat(line.split()[0]).timestamp()
        for step, text in LOGGED.items()
        for line in lines
        if text in line
    }


async def _pods(api: KubeClient, pool: str) -> list[str]:
    names = [pod["metadata"]["name"] for pod in (await cluster.call(api, "GET", PODS.path(NAMESPACE)))["items"]]
    return [name for name in names if pool in name]


async def _asleep(api: KubeClient, pool: str) -> None:
    async with asyncio.timeout(SECONDS):
        while True:
            status = (await cluster.call(api, "GET", POOLS.path(NAMESPACE, pool))).get("status", {})
            if status.get("suspended") == 1 and not await _pods(api, pool):
                return
            await asyncio.sleep(0.25)


async def measure() -> list[dict[str, float]]:
    """Return the steps of each wake, in seconds since the create was sent."""
    async with cluster.client() as api:
        space = f"{NAMESPACES.path()}/{NAMESPACE}"
        labels = {"pod-security.kubernetes.io/enforce": "restricted"}
        await cluster.call(api, "POST", NAMESPACES.path(), {"metadata": {"name": NAMESPACE, "labels": labels}})
        try:
            return await _wakes(api)
        finally:
            await cluster.call(api, "DELETE", space)


async def _wakes(api: KubeClient) -> list[dict[str, float]]:
    volume = {"ephemeral": os.environ.get("VOLUMES") is None}
    template = {"spec": {"queue": volume, "workspace": volume, "idle": {"suspendAfterSeconds": SUSPEND_AFTER}}}
    names = [f"sleepers-{number}" for number in range(POOL_COUNT)]
    for name in names:
        pool = POOLS.manifest({"name": name}, spec={"replicas": 1, "template": template})
        await cluster.call(api, "POST", POOLS.path(NAMESPACE), pool)
    wakes, woken = [], dict.fromkeys(names, float("-inf"))
    for number in range(WAKES):
        name = names[number % POOL_COUNT]
        await _asleep(api, name)
        await asyncio.sleep(max(0.0, woken[name] + EVERY_SECONDS - time.perf_counter()))
        async with stepping(api, name) as steps:
            spec = {"poolRef": {"name": name}, "type": "eval", "content": "(+ 40 2)"}
            began, epoch = time.perf_counter(), time.time()
            woken[name] = began
            request = REQUESTS.manifest({"name": f"{name}-{number}"}, spec=spec)
            await cluster.call(api, "POST", REQUESTS.path(NAMESPACE), request)
            await steps.wait_for("answered", "instance Ready")
        logged = {step: moment - epoch for step, moment in (await _logged(api, name)).items()}
        wakes.append({step: moment - began for step, moment in steps.seen.items()} | logged)
    return wakes


def main() -> int:
    """Measure and print."""
    wakes = asyncio.run(measure())
    answers = [wake["answered"] for wake in wakes]
    print(f"{len(wakes)} wakes, load {os.getloadavg()[0]:.1f}: create -> answer seen,")
    print(f"p50 {quantile(answers, 0.5):.2f} s, p90 {quantile(answers, 0.9):.2f} s, slowest {max(answers):.2f} s")
    print("step, seen after: p50, p90")
    moments = {
        step: [wake[step] for wake in wakes if step in wake] for step in {step for wake in wakes for step in wake}
    }
    for step, values in sorted(moments.items(), key=lambda item: quantile(item[1], 0.5)):
        print(f"  {step:<20} {quantile(values, 0.5):5.2f} s  {quantile(values, 0.9):5.2f} s")
    return 0


if __name__ == "__main__":
    parser(__doc__).parse_args()
    sys.exit(main())
