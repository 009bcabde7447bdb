"""The API server as a benchmark sees it: one keep-alive connection for writes, one watch that stamps arrivals."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

from efrit.kube.client import KubeClient
from efrit.kube.media_types import MERGE_PATCH
from efrit.kube.watch import follow_events
from efrit.resources import INSTANCES, REQUESTS
from tests.support import kubectl as cluster_cli
from tests.support.kube import Json, open_client
from tests.support.kubeconfig import Kubeconfig

FINAL = ("Succeeded", "Failed")


@asynccontextmanager
async def client(kubeconfig: Path | None = None) -> AsyncIterator[KubeClient]:
    """Yield a client for the current context of a kubeconfig, that of KUBECONFIG if none is named."""
    api = await open_client(Kubeconfig(kubeconfig or Path(os.environ["KUBECONFIG"])))
    try:
        yield api
    finally:
        await api.close()


async def call(api: KubeClient, method: str, where: str, body: Any = None) -> Any:
    """Make one call and return its JSON."""
    return await api.call(method, where, body=body)


async def merge(api: KubeClient, where: str, body: Mapping[str, Any]) -> None:
    """Merge-patch what is there."""
    await api.call("PATCH", where, body=body, content_type=MERGE_PATCH)


async def text(api: KubeClient, where: str, **query: str) -> str:
    """Return an answer that is not JSON."""
    return (await api.read("GET", where, query=query, max_bytes=None, accept="*/*") or b"").decode()


@asynccontextmanager
async def events_of(api: KubeClient, where: str) -> AsyncIterator[AsyncIterator[tuple[str, Json]]]:
    """Yield the events of a collection from now on: type and object."""
    version = (await call(api, "GET", f"{where}?limit=1"))["metadata"]["resourceVersion"]
    response = await api.open_watch(where, version, {"timeoutSeconds": "3600"}, silence=None)
    async with aclosing(follow_events(response)) as events:
        yield events


def instance(name: str, **spec: Any) -> dict[str, Any]:
    """Return an EfritInstance."""
    return INSTANCES.manifest({"name": name}, spec=spec)


def request(name: str, target: str, content: str = "(+ 1 2)", **spec: Any) -> dict[str, Any]:
    """Return an EfritRequest for an eval."""
    whole = {"instanceRef": {"name": target}, "type": "eval", "content": content, **spec}
    return REQUESTS.manifest({"name": name}, spec=whole)


class Watch:
    """Follows a collection and stamps each object the first time `done` says so."""

    def __init__(self, done: Any) -> None:
        self._done = done
        self.seen: dict[str, float] = {}
        self.last: dict[str, Mapping[str, Any]] = {}
        self.begun = asyncio.Event()
        """Set once it misses nothing."""
        self._changed = asyncio.Event()
        self._over: asyncio.Task[None] | None = None

    def end(self, task: asyncio.Task[None]) -> None:
        """Wake who waits with the reason why no more comes: the task that followed is done."""
        self._over = task
        self._changed.set()

    async def wait_for(self, names: set[str], seconds: float) -> None:
        """Wait until every name is stamped. Raises what ended the watch before that."""
        async with asyncio.timeout(seconds):
            while not names <= self.seen.keys():
                if self._over is not None:
                    self._over.result()
                    raise ConnectionError(f"the watch ended before {len(names - self.seen.keys())} objects were seen")
                self._changed.clear()
                await self._changed.wait()

    async def follow(self, api: KubeClient, where: str) -> None:
        """Read the watch until cancelled."""
        async with events_of(api, where) as events:
            self.begun.set()
            async for _, obj in events:
                now = time.perf_counter()
                name = obj["metadata"]["name"]
                self.last[name] = obj
                if name not in self.seen and self._done(obj):
                    self.seen[name] = now
                    self._changed.set()


@asynccontextmanager
async def without_operator() -> AsyncIterator[None]:
    """Have no controller run for the length of the block: it serves every namespace of the cluster."""

    async def kubectl(*words: str) -> str:
        return await asyncio.to_thread(cluster_cli.kubectl, *words, "-n", "efrit-system")

    operator = "deployment/efrit-operator"
    replicas = await kubectl("get", operator, "-o", "jsonpath={.spec.replicas}")
    try:
        await kubectl("scale", operator, "--replicas=0")
        pods = "app.kubernetes.io/name=efrit-operator"
        await kubectl("wait", "pod", "-l", pods, "--for=delete", "--timeout=120s")
        yield
    finally:
        await kubectl("scale", operator, f"--replicas={replicas}")
        await kubectl("rollout", "status", operator, "--timeout=120s")


@asynccontextmanager
async def watching(api: KubeClient, where: str, done: Any) -> AsyncIterator[Watch]:
    """Follow a collection for the length of the block, in which nothing is missed."""
    watch = Watch(done)
    task, begun = asyncio.create_task(watch.follow(api, where)), asyncio.create_task(watch.begun.wait())
    task.add_done_callback(watch.end)
    try:
        await asyncio.wait({task, begun}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            task.result()
        yield watch
    finally:
        task.cancel()
        begun.cancel()
        await asyncio.gather(task, begun, return_exceptions=True)


def is_final(obj: Mapping[str, Any]) -> bool:
    """Whether a request is answered."""
    return obj.get("status", {}).get("phase") in FINAL


def is_ready(obj: Mapping[str, Any]) -> bool:
    """Whether an instance is Ready."""
    conditions = obj.get("status", {}).get("conditions", ())
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)


def is_complete(obj: Mapping[str, Any]) -> bool:
    """Whether a Job is done."""
    conditions = obj.get("status", {}).get("conditions", ())
    return any(
        condition["type"] in ("Complete", "Failed") and condition["status"] == "True" for condition in conditions
    )
