"""A store over a real queue, and the objects that tests have it observe."""

from __future__ import annotations

import asyncio
import contextlib
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any

from efrit.controller.model.keys import WorkKey
from efrit.controller.model.snapshots import InstanceSnapshot, PlanSnapshot, PoolPlace, RequestSnapshot
from efrit.controller.store.store import Store
from efrit.controller.work_queue import WorkQueue
from efrit.protocol.events import Reset
from efrit.protocol.view import RequestView
from tests.support.factory import CONFIG, NAMESPACE, NOW, POD_UID, QUEUE_ID, Json, stats
from tests.unit.controller.virtual_time import elapse

ALPHA = (NAMESPACE, "alpha")
WORK = (NAMESPACE, "work")
APP = (NAMESPACE, "app")
UID = "uid-work"
SOON = 0.001


class World:
    """A store over a real queue, made in the loop that first asks for it; the wall clock follows the loop's."""

    @cached_property
    def queue(self) -> WorkQueue:
        return WorkQueue()

    @cached_property
    def store(self) -> Store:
        return Store(self.queue, CONFIG, self.now, asyncio.get_running_loop().time)

    def now(self) -> datetime:
        return NOW + timedelta(seconds=asyncio.get_running_loop().time())

    async def due_keys(self, within: float = SOON) -> set[tuple[str, str]]:
        """Kind and name of everything that is reconciled within this time."""
        keys: set[WorkKey] = set()

        async def reconcile(key: WorkKey) -> None:
            keys.add(key)

        task = asyncio.create_task(self.queue.run(reconcile, 1))
        await elapse(within)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        assert {key.namespace for key in keys} <= {NAMESPACE, "other"}
        return {(key.kind.removeprefix("Efrit"), key.name) for key in keys}

    async def due_names(self, kind: str, within: float = SOON) -> set[str]:
        """Names of everything of a kind that is reconciled within this time."""
        return {name for each, name in await self.due_keys(within) if each == kind}

    def list_parts(self, *parts: Json, plan: tuple[str, str] = (NAMESPACE, "app"), uid: str = "uid-app") -> None:
        """Show the requests of a plan, as a list of them does."""
        for part in parts:
            self.store.plans.observe_listed(part)
        self.store.plans.listed(plan, uid, {part["metadata"]["name"] for part in parts})

    def request(self, key: tuple[str, str] = WORK) -> RequestSnapshot:
        """Return the snapshot of a request that is known."""
        snapshot = self.store.requests.snapshot(key)
        assert snapshot is not None
        return snapshot

    def place(self, name: str = "one") -> PoolPlace:
        """Return what a request of a pool, by its name, is told of that."""
        place = self.request((NAMESPACE, name)).pool
        assert place is not None
        return place

    def candidates(self, name: str = "one") -> list[str]:
        """Return the instances that a request, by its name, may choose from."""
        return [candidate.instance.metadata.name for candidate in self.request((NAMESPACE, name)).candidates]

    def instance(self, key: tuple[str, str] = ALPHA, *, deciding: bool = False) -> InstanceSnapshot:
        """Return the snapshot of an instance that is known."""
        snapshot = self.store.instances.snapshot(key, deciding=deciding)
        assert snapshot is not None
        return snapshot

    def plan(self, key: tuple[str, str] = APP) -> PlanSnapshot:
        """Return the snapshot of a plan that is known."""
        snapshot = self.store.plans.snapshot(key)
        assert snapshot is not None
        return snapshot

    def pod_uid(self) -> str | None:
        pod = self.instance().pod
        return pod.uid if pod else None

    async def settle(self) -> None:
        await self.due_keys()

    def open_bridge(
        self,
        *views: RequestView,
        queue_id: str = QUEUE_ID,
        pod_uid: str = POD_UID,
        of: tuple[str, str] = ALPHA,
        **figures: Any,
    ) -> None:
        """Tell what a bridge tells at the start of its stream."""
        self.store.bridges.event(of, pod_uid, Reset(queue_id=queue_id, epoch="e"))
        for view in views:
            self.store.bridges.event(of, pod_uid, view)
        self.store.bridges.event(of, pod_uid, stats(queue_id=queue_id, **figures))


def child(
    kind: str = "pod",
    *,
    uid: str = POD_UID,
    name: str = "efrit-alpha-0",
    of: str = "alpha",
    version: str | None = None,
    owner: str | None = None,
    **status: Any,
) -> Json:
    """Return a child of an instance; pods belong to the StatefulSet `ss`, if not to `owner`."""
    meta: Json = {"name": name, "namespace": NAMESPACE, "uid": uid, "labels": {"efrit.dev/instance": of}}
    by_default = "ss" if name.endswith("-0") else f"uid-{of}"
    meta["ownerReferences"] = [{"uid": owner or by_default, "controller": True}]
    if version is not None:
        meta["resourceVersion"] = version
    return {"kind": kind, "metadata": meta, "spec": {}, "status": status}
