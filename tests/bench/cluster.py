"""The API server as a benchmark sees it: one keep-alive connection for writes, one watch that stamps arrivals."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import ssl
import tempfile
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import yaml

from efrit.resources import INSTANCES, REQUESTS
from tests.support import kubectl as cluster_cli

FINAL = ("Succeeded", "Failed")


def client(kubeconfig: Path | None = None) -> httpx.AsyncClient:
    """Return a client for the current context of a kubeconfig (certificates or a token in it), that of KUBECONFIG."""
    config = yaml.safe_load((kubeconfig or Path(os.environ["KUBECONFIG"])).read_text())
    context = next(
        context["context"] for context in config["contexts"] if context["name"] == config["current-context"]
    )
    cluster = next(cluster["cluster"] for cluster in config["clusters"] if cluster["name"] == context["cluster"])
    user = next(user["user"] for user in config["users"] if user["name"] == context["user"])
    tls = ssl.create_default_context(cadata=base64.b64decode(cluster["certificate-authority-data"]).decode())
    if "tls-server-name" in cluster:
        tls.check_hostname = False
    headers = {}
    if "token" in user:
        headers["Authorization"] = f"Bearer {user['token']}"
    else:
        with tempfile.TemporaryDirectory() as folder:
            paths = []
            for key in ("client-certificate-data", "client-key-data"):
                path = Path(folder) / key
                path.touch(0o600)
                path.write_bytes(base64.b64decode(user[key]))
                paths.append(str(path))
            tls.load_cert_chain(*paths)
    return httpx.AsyncClient(base_url=cluster["server"], verify=tls, headers=headers, timeout=30, trust_env=False)


async def call(api: httpx.AsyncClient, method: str, where: str, body: Any = None) -> Any:
    """Make one call and return its JSON."""
    response = await api.request(method, where, json=body)
    if response.status_code >= 400:
        raise RuntimeError(f"{method} {where}: {response.status_code} {response.text[:500]}")
    return response.json()


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

    async def follow(self, api: httpx.AsyncClient, where: str) -> None:
        """Read the watch until cancelled."""
        version = (await call(api, "GET", f"{where}?limit=1"))["metadata"]["resourceVersion"]
        query = f"{where}?watch=1&resourceVersion={version}"
        async with api.stream("GET", query, timeout=None) as stream:
            self.begun.set()
            async for line in stream.aiter_lines():
                now = time.perf_counter()
                obj = json.loads(line)["object"]
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
async def watching(api: httpx.AsyncClient, where: str, done: Any) -> AsyncIterator[Watch]:
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
