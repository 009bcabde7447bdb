"""`python -m tests.bench.failover`: how long a killed leader is missed, step by step, on the bare cluster.

CONTROLLERS, two of them without it; KILLS times the one that leads gets SIGKILL on its node, and a request is created
at that moment.
Each step is the moment a watch shows it, in seconds since the kill; all programs have one clock, as the cluster is
this machine. A kill comes once all are Ready again: the kubelet lets a container that ends often wait, which is no
part of what is measured.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from typing import Any

from efrit.controller.process_end import has_ended, pod_of
from efrit.kube.client import KubeClient
from efrit.resources import DEPLOYMENTS, INSTANCES, LEASES, NAMESPACES, PODS, REQUESTS
from tests.bench import cluster
from tests.bench.quantile import quantile
from tests.support.command_line import parser
from tests.support.faults.node.cluster import RELEASE, SYSTEM
from tests.support.faults.node.host import Host, Role

NAMESPACE = "efrit-bench-failover"
KILLS = int(os.environ.get("KILLS", "6"))
CONTROLLERS = int(os.environ.get("CONTROLLERS", "2"))
SECONDS = 400.0
INSTANCE = "one"

Json = Mapping[str, Any]
STEPS = ("the kubelet says so", "lease taken", "answered")


async def _until(look: Callable[[], Any]) -> Any:
    """Return the first result that is true."""
    async with asyncio.timeout(SECONDS):
        while True:
            found = await look()
            if found:
                return found
            await asyncio.sleep(0.2)


async def _holder(api: KubeClient) -> str:
    lease = await cluster.call(api, "GET", LEASES.path(SYSTEM, RELEASE))
    return str(lease["spec"].get("holderIdentity") or "")


async def _scale(api: KubeClient, replicas: int) -> None:
    """Have so many controllers that are Ready, one of which leads."""
    where = f"{DEPLOYMENTS.path(SYSTEM, RELEASE)}/scale"
    scale = await cluster.call(api, "GET", where)
    await cluster.call(api, "PUT", where, {**scale, "spec": {"replicas": replicas}})
    await _until(lambda: _settled(api, replicas))


async def _settled(api: KubeClient, replicas: int) -> bool:
    label = f"app.kubernetes.io/instance={RELEASE},app.kubernetes.io/name=efrit-operator"
    pods = (await cluster.call(api, "GET", f"{PODS.path(SYSTEM)}?labelSelector={label}"))["items"]
    ready = {pod["metadata"]["name"] for pod in pods if cluster.is_ready(pod)}
    return len(pods) == len(ready) == replicas and pod_of(await _holder(api)) in ready


async def _seen(api: KubeClient, where: str, holds: Callable[[Json], bool], ready: asyncio.Event) -> float:
    """Return when an object of a collection was first seen for which this holds."""
    async with cluster.events_of(api, where) as events:
        ready.set()
        async for _, obj in events:
            if holds(obj):
                return time.perf_counter()
    raise RuntimeError(f"the watch of {where} ended")


async def _kill(api: KubeClient, host: Host, number: int) -> dict[str, float]:
    """Kill the leader, and return when each step was seen."""
    holder, name = await _holder(api), f"after-{number}"
    (pod,) = [pod for pod in host.running(SYSTEM) if pod.name == pod_of(holder)]
    watched = {
        "the kubelet says so": (PODS.path(SYSTEM), lambda obj: has_ended(obj, holder)),
        "lease taken": (LEASES.path(SYSTEM), lambda obj: obj["spec"].get("holderIdentity") not in (None, holder)),
        "answered": (
            REQUESTS.path(NAMESPACE),
            lambda obj: obj["metadata"]["name"] == name and cluster.is_final(obj),
        ),
    }
    async with AsyncExitStack() as stack, asyncio.TaskGroup() as group:
        tasks = {}
        for step, (where, holds) in watched.items():
            one, ready = await stack.enter_async_context(cluster.client()), asyncio.Event()
            tasks[step] = group.create_task(_seen(one, where, holds, ready))
            await ready.wait()
        began = time.perf_counter()
        if pod.send(Role.OPERATOR, signal.SIGKILL) is None:
            raise RuntimeError("the leader has no process")
        await cluster.call(api, "POST", REQUESTS.path(NAMESPACE), cluster.request(name, INSTANCE))
    return {step: task.result() - began for step, task in tasks.items()}


async def measure() -> list[dict[str, float]]:
    """Return the steps of each kill, in seconds since it."""
    host = Host()
    async with cluster.client() as api:
        labels = {"pod-security.kubernetes.io/enforce": "restricted"}
        await cluster.call(api, "POST", NAMESPACES.path(), {"metadata": {"name": NAMESPACE, "labels": labels}})
        volume = {"ephemeral": True}
        manifest = cluster.instance(INSTANCE, queue=volume, workspace=volume)
        await cluster.call(api, "POST", INSTANCES.path(NAMESPACE), manifest)
        before = await cluster.call(api, "GET", f"{DEPLOYMENTS.path(SYSTEM, RELEASE)}/scale")
        try:
            await _scale(api, CONTROLLERS)
            where = INSTANCES.path(NAMESPACE, INSTANCE)
            await _until(lambda: _is_ready(api, where))
            kills = []
            for number in range(KILLS):
                await _until(lambda: _settled(api, CONTROLLERS))
                kills.append(await _kill(api, host, number))
            return kills
        finally:
            await _scale(api, before["spec"]["replicas"])
            await cluster.call(api, "DELETE", f"{NAMESPACES.path()}/{NAMESPACE}")


async def _is_ready(api: KubeClient, where: str) -> bool:
    return cluster.is_ready(await cluster.call(api, "GET", where))


def main() -> int:
    """Measure and print."""
    kills = asyncio.run(measure())
    print(f"{len(kills)} kills, load {os.getloadavg()[0]:.1f}; seconds since SIGKILL: p50, slowest")
    for step in STEPS:
        values = [kill[step] for kill in kills]
        print(f"  {step:<20} {quantile(values, 0.5):5.2f} s  {max(values):5.2f} s")
    return 0


if __name__ == "__main__":
    parser(__doc__).parse_args()
    sys.exit(main())
