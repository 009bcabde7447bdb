"""A namespace full of instances whose pods and bridges are simulated, and the controller as a process beside them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import httpx

from efrit import resources
from efrit.controller.act.identity import load_identity
from efrit.controller.act.kube import Kube as ControllerKube
from efrit.kube.connection import load_connection
from efrit.kube.media_types import METADATA_LIST
from efrit.resources import INSTANCES, PODS, REQUESTS, STATEFULSETS, VOLUME_CLAIMS, Resource
from tests.cluster.control_plane import ControlPlane
from tests.support import chart
from tests.support.crowd import objects
from tests.support.crowd.bridges import Bridges
from tests.support.crowd.cgroup import MemoryGroup
from tests.support.custom_resources import install_crds, new_namespace
from tests.support.kube import Json, Kube
from tests.support.operator import Operator
from tests.support.timeout import TIMEOUT

AT_A_TIME = 16
LARGEST_REQUEST = 262_144
"""Bytes of a content that the instances take: more than any request has."""


class Crowd:
    """Made by `crowd`."""

    def __init__(
        self,
        plane: ControlPlane,
        kube: Kube,
        api: ControllerKube,
        bridges: Bridges,
        namespace: str,
        installed: chart.Installed,
    ) -> None:
        self.plane = plane
        self.api = api
        self.bridges = bridges
        self.namespace = namespace
        self._of_operators = (plane, kube, namespace, installed, plane.directory)
        self.operator = Operator(*self._of_operators, "operator-0")

    async def add_instances(self, names: list[str], *, holds: bool, affinity: int = 0, random: bool = False) -> None:
        """Make instances, each with a pod that is Ready and whose bridge is served, before any controller runs.

        affinity: so many bytes of JSON are in the affinity of each; random: no two of its words are alike.
        """
        turns = asyncio.Semaphore(AT_A_TIME)

        async def add(name: str) -> None:
            async with turns:
                spec: Json = {"limits": {"maxRequestBytes": LARGEST_REQUEST}}
                if affinity:
                    spec["podTemplate"] = {"affinity": objects.affinity(affinity, random=random)}
                manifest = INSTANCES.manifest({"name": name, "namespace": self.namespace}, spec=spec)
                made = await self.api.create(manifest)
                self.bridges.add(made["metadata"]["uid"], holds=holds)

        await asyncio.gather(*map(add, names))

    async def play(self) -> None:
        """Be the StatefulSet controller, the volume binder and the kubelet, until cancelled."""
        done: set[str] = set()
        turns = asyncio.Semaphore(AT_A_TIME)

        async def serve(resource: Resource, name: str) -> None:
            async with turns:
                if resource is VOLUME_CLAIMS:
                    await self.api.patch_status(VOLUME_CLAIMS, self.namespace, name, {"status": {"phase": "Bound"}})
                else:
                    await self._start_pod(await self.api.get(STATEFULSETS, self.namespace, name))

        while True:
            for resource in (VOLUME_CLAIMS, STATEFULSETS):
                listing = self.api.pages(resource, self.namespace, accept=METADATA_LIST)
                new = [meta for obj in [obj async for obj in listing] if (meta := obj["metadata"])["uid"] not in done]
                await asyncio.gather(*(serve(resource, meta["name"]) for meta in new))
                done.update(meta["uid"] for meta in new)
            await asyncio.sleep(0.2)

    async def _start_pod(self, statefulset: Json) -> None:
        meta, template = statefulset["metadata"], statefulset["spec"]["template"]
        owner = resources.STATEFULSETS.reference(meta["name"], meta["uid"])
        spec = template["spec"]
        spec["initContainers"][0]["ports"][0]["containerPort"] = self.bridges.port
        about = {"name": f"{meta['name']}-0", "namespace": self.namespace, **template["metadata"]}
        pod = PODS.manifest({**about, "ownerReferences": [{**owner, "controller": True}]}, spec=spec)
        await self.api.create(pod)
        started = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        running = {"ready": True, "imageID": "", "restartCount": 0, "state": {"running": {"startedAt": started}}}
        status = {"phase": "Running", "podIP": "127.0.0.1", "podIPs": [{"ip": "127.0.0.1"}], "startTime": started}
        for field, containers in (("initContainerStatuses", "initContainers"), ("containerStatuses", "containers")):
            status[field] = [
                {"name": container["name"], "image": container["image"], **running} for container in spec[containers]
            ]
        await self.api.patch_status(PODS, self.namespace, about["name"], {"status": status})

    async def until_connected(self, count: int, seconds: float = TIMEOUT) -> None:
        """Wait until so many bridges have the controller's stream."""
        async with asyncio.timeout(seconds):
            while len(self.bridges.connected) < count:
                self.check()
                await asyncio.sleep(0.2)

    async def until_held(self, count: int, seconds: float = TIMEOUT) -> None:
        """Wait until bridges that hold their requests have so many."""
        async with asyncio.timeout(seconds):
            while self.bridges.held < count:
                self.check()
                await asyncio.sleep(0.2)

    async def until_answered(self, names: set[str], seconds: float = TIMEOUT) -> float:
        """Wait until one of these requests is final, and return the monotonic time of that."""
        async with asyncio.timeout(seconds):
            while True:
                self.check()
                for name in names:
                    request = await self.api.get(REQUESTS, self.namespace, name)
                    if request.get("status", {}).get("phase") in ("Succeeded", "Failed"):
                        return time.monotonic()
                await asyncio.sleep(0.05)

    async def until_leading(self, seconds: float = TIMEOUT) -> float:
        """Wait until the controller leads, and return the monotonic time of that."""
        async with asyncio.timeout(seconds):
            while "leading; serving" not in self.operator.process.log.read_text():
                self.check()
                await asyncio.sleep(0.01)
        return time.monotonic()

    async def until_metric(self, name: str, holds: Callable[[float], bool], seconds: float = TIMEOUT) -> None:
        """Wait until a metric of the controller has such a value."""
        await self._until(lambda: self._holds(name, holds), seconds)

    async def until_listed(self, resource: Resource, most: int, seconds: float = TIMEOUT) -> None:
        """Wait until there are at most so many objects of a kind."""

        async def few() -> bool:
            listing = self.api.pages(resource, self.namespace, accept=METADATA_LIST)
            return len([obj async for obj in listing]) <= most

        await self._until(few, seconds)

    async def _holds(self, name: str, holds: Callable[[float], bool]) -> bool:
        return holds(await self.metric(name))

    async def _until(self, condition: Callable[[], Awaitable[bool]], seconds: float) -> None:
        ends = time.monotonic() + seconds
        while not await condition():
            self.check()
            assert time.monotonic() < ends, self.operator.diagnostics()
            await asyncio.sleep(0.5)

    async def metric(self, name: str) -> float:
        """Return the value of a metric of the controller; 0 while it does not answer."""
        try:
            return await asyncio.to_thread(self.operator.metric, name)
        except httpx.TransportError:
            return 0.0

    def check(self) -> None:
        """Raise AssertionError where the controller has ended."""
        assert not self.operator.ended, self.operator.diagnostics()

    async def launch(self, group: MemoryGroup | None = None) -> None:
        """Start the controller, in a group with a limit of memory if there is one."""
        self.operator.launch(PYTHONMALLOC=os.environ.get("PYTHONMALLOC", "default"))
        if group is not None:
            group.add(self.operator.process.pid)

    @contextlib.asynccontextmanager
    async def standby(self) -> AsyncIterator[Operator]:
        """Yield a second controller, which stands by; the caller launches or starts the first one."""
        with contextlib.closing(Operator(*self._of_operators, "operator-1")) as standby:
            await asyncio.to_thread(standby.start, leading=False)
            yield standby


@contextlib.asynccontextmanager
async def crowd(directory: Path, flags: tuple[str, ...] = ()) -> AsyncIterator[Crowd]:
    """Yield a control plane with an empty namespace; its controller is stopped at the end.

    flags: of the API server.
    """
    with ControlPlane(flags=flags) as plane, contextlib.closing(Kube(plane)) as kube:
        install_crds(kube)
        namespace = new_namespace(kube)
        api = ControllerKube((await load_connection(plane.kubeconfig)).configuration)
        installed = chart.install(kube, namespace)
        bridges = Bridges(await load_identity(api, namespace, installed.env["EFRIT_IDENTITY_SECRET"]), directory)
        made = Crowd(plane, kube, api, bridges, namespace, installed)
        async with bridges.serving():
            playing = asyncio.create_task(made.play())
            try:
                yield made
            finally:
                playing.cancel()
                await asyncio.gather(playing, return_exceptions=True)
                made.operator.close()
                await api.close()
