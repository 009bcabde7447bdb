"""Store, decisions and actor between a fake API server and a fake bridge; keys are reconciled by hand."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from efrit import resources
from efrit.api import EfritInstance
from efrit.controller.act.bridges import Bridges
from efrit.controller.manifests import build
from efrit.controller.model import names
from efrit.controller.model.keys import WorkKey
from efrit.controller.model.snapshots import InstanceSnapshot
from efrit.controller.reconcile import Reconciler
from efrit.controller.store.store import Store
from efrit.controller.work_queue import WorkQueue
from efrit.protocol.events import Reset
from tests.support.factory import (
    CONFIG,
    POD_UID,
    QUEUE_ID,
    Json,
    instance_json,
    request_json,
    statefulset_json,
    stats,
)
from tests.unit.controller.fake_api import FakeApi
from tests.unit.controller.fake_bridge import INSTANCE, FakeBridge
from tests.unit.controller.store.world import child

ALPHA = resources.INSTANCES.path("team", "alpha")
WORK = resources.REQUESTS.path("team", "work")
PLAN = resources.PLANS.path("team", "app")
REQUESTS = resources.REQUESTS.path("team")


@dataclass
class Clock:
    """The real time, and what a test lets pass."""

    passed: timedelta = timedelta(0)

    def __call__(self) -> datetime:
        return datetime.now(UTC) + self.passed

    def monotonic(self) -> float:
        return time.monotonic() + self.passed.total_seconds()


@dataclass
class Rig:
    """Everything but kopf."""

    reconciler: Reconciler
    store: Store
    queue: WorkQueue
    api: FakeApi
    bridge: FakeBridge
    bridges: Bridges
    clock: Clock
    served: bool = True

    async def reconcile(self, kind: str = "EfritRequest", name: str = "work") -> None:
        await self.reconciler.reconcile(WorkKey(kind, "team", name))

    def observe(self, **fields: Any) -> Json:
        """Place a request in the API server and show it to the store."""
        stored = self.api.put(WORK, request_json(created=datetime.now(UTC), **fields))
        self.store.requests.observe(stored)
        return stored

    def ready(self, *views: Any, pod: Json | None = None, template: str | None = None, **fields: Any) -> None:
        """Show a ready and open instance whose bridge tells of these requests, its pod made from this template."""
        self.store.instances.observe(instance_json(**fields))
        statefulset, running = statefulset_json(), child(phase="Running", podIP="127.0.0.1") | (pod or {})
        if template is not None:
            for made in (statefulset, running):
                made["metadata"]["annotations"] = {names.TEMPLATE_HASH: template}
        self.store.children.observe_statefulset(statefulset)
        self.store.children.observe_pod(running)
        for event in (Reset(queue_id=QUEUE_ID, epoch="e"), *views, stats()):
            self.store.bridges.event(INSTANCE, POD_UID, event)
        opened = {"handover": {"state": "Open", "id": self.instance.facts.handover_id}}
        self.store.instances.observe(self.api.put(ALPHA, instance_json(status=opened, **fields)))

    def wanted_template(self, obj: Json | None = None, **fields: Any) -> str:
        """Return the digest of the pod template that an instance, or one with these fields, is to have."""
        instance = EfritInstance.model_validate(obj or instance_json(**fields))
        return build(instance, CONFIG, self.reconciler._identity, 1, self.clock()).template_digest

    @property
    def instance(self) -> InstanceSnapshot:
        snapshot = self.store.instances.snapshot(INSTANCE)
        assert snapshot is not None
        return snapshot

    @property
    def bridge_calls(self) -> list[tuple[str, str]]:
        return [(method, path) for method, path, _ in self.bridge.calls]

    @property
    def status(self) -> Json:
        """The status of the request."""
        status: Json = self.api.objects[WORK].get("status", {})
        return status
