"""Idle instances and work that comes in the same moment, through store, decisions and actor."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from efrit.controller.act.actor import Actor
from efrit.controller.act.bridges import Bridges
from efrit.controller.act.identity import new_identity
from efrit.controller.act.kube import Kube
from efrit.controller.model.keys import WorkKey
from efrit.controller.reconcile import Reconciler
from efrit.controller.store.store import Store
from efrit.controller.work_queue import WorkQueue
from efrit.errors import ApiUnavailable
from efrit.protocol import Reset
from tests.unit.controller.factory import (
    CONFIG,
    OWNED,
    POD_UID,
    QUEUE_ID,
    Json,
    instance_json,
    plan_json,
    request_json,
    statefulset_json,
    stats,
    view,
)
from tests.unit.controller.fake_api import FakeApi
from tests.unit.controller.fake_bridge import INSTANCE, FakeBridge, fake_bridge

ROOT = "/apis/efrit.dev/v1alpha1/namespaces/team"
ALPHA = f"{ROOT}/efritinstances/alpha"
WORK = f"{ROOT}/efritrequests/work"
APP = f"{ROOT}/efritplans/app"
STATEFULSET = "/apis/apps/v1/namespaces/team/statefulsets/efrit-alpha"
PUT = ("PUT", "/v1/requests/uid-work")
LOOK = WorkKey("EfritInstance", *INSTANCE)
WORK_LOOK = WorkKey("EfritRequest", "team", "work")
SUSPEND = {"suspendAfterSeconds": 10}
DELETE = {"deleteAfterSeconds": 10}


@dataclass
class Rig:
    """A ready instance that has been idle for an hour; looks are made by hand."""

    reconciler: Reconciler
    store: Store
    api: FakeApi
    bridge: FakeBridge

    def idle(self, rules: Json) -> None:
        born = datetime.now(UTC) - timedelta(hours=1)
        self.store.instances.observe(self.api.put(ALPHA, instance_json(created=born, spec={"idle": rules})))
        known = self.store.instances.snapshot(INSTANCE)
        assert known is not None
        # Requests may be handed to it at once: only what these tests are about keeps them back.
        opened = {"handover": {"state": "Open", "id": known.facts.handover_id}}
        again = instance_json(created=born, spec={"idle": rules}, version="11", status=opened)
        self.store.instances.observe(self.api.put(ALPHA, again))
        labels = {"efrit.dev/instance": "alpha"}
        meta = {"name": "efrit-alpha-0", "namespace": "team", "uid": POD_UID, "labels": labels, **OWNED}
        self.store.children.observe_statefulset(statefulset_json())
        sidecar = {"ports": [{"name": "bridge", "containerPort": self.bridge.port}]}
        status = {"phase": "Running", "podIP": "127.0.0.1"}
        self.store.children.observe_pod({"metadata": meta, "spec": {"initContainers": [sidecar]}, "status": status})
        for event in (Reset(queue_id=QUEUE_ID, epoch="e"), stats()):
            self.store.bridges.event(INSTANCE, POD_UID, event)
        self.store.first_list_complete(None)
        self.bridge.answers[PUT] = (201, view().to_json())

    def ask(self) -> None:
        """Create a request and let the watch tell of it."""
        self.store.requests.observe(self.api.put(WORK, request_json(created=datetime.now(UTC))))

    async def look(self) -> None:
        await self.reconciler.reconcile(LOOK)

    async def look_at_work(self) -> None:
        await self.reconciler.reconcile(WORK_LOOK)

    @property
    def handed_over(self) -> bool:
        return PUT in [(method, path) for method, path, _ in self.bridge.calls]

    @property
    def replicas(self) -> int:
        found: int = self.api.objects[STATEFULSET]["spec"]["replicas"]
        return found


@pytest.fixture
async def rig(served: tuple[FakeApi, Kube], tmp_path: Path) -> AsyncIterator[Rig]:
    api, kube = served

    def clock() -> datetime:
        return datetime.now(UTC)

    identity, queue = new_identity(), WorkQueue()
    store = Store(queue, CONFIG, clock)
    async with fake_bridge(identity, tmp_path) as bridge:
        bridges = Bridges(identity, store)
        actor = Actor(kube, bridges, store, clock, "pod-1", lambda: True)
        reconciler = Reconciler(store, actor, identity, clock, lambda _: True)
        await bridges.connect(bridge.wanted())
        try:
            yield Rig(reconciler, store, api, bridge)
        finally:
            await bridges.close()


# Suspension.


async def test_a_request_that_comes_while_its_instance_is_scaled_down_waits_and_wakes_it(rig: Rig) -> None:
    rig.idle(SUSPEND)
    suspending = asyncio.create_task(rig.look())
    await rig.api.until(lambda: rig.api.made("PATCH"))
    rig.ask()
    await rig.look_at_work()
    await suspending
    assert not rig.handed_over
    assert rig.replicas == 0

    await rig.look()
    assert rig.replicas == 1
    await rig.look_at_work()
    assert rig.handed_over


async def test_a_request_that_came_before_keeps_its_instance_from_being_scaled_down(rig: Rig) -> None:
    rig.idle(SUSPEND)
    rig.ask()
    await rig.look()
    assert rig.replicas == 1
    await rig.look_at_work()
    assert rig.handed_over


async def test_a_scale_down_without_an_answer_is_undone_though_nobody_knows_whether_it_took_effect(
    rig: Rig,
) -> None:
    rig.idle(SUSPEND)
    rig.api.fail("PATCH", STATEFULSET, 0)
    with pytest.raises(ApiUnavailable):
        await rig.look()
    rig.ask()
    await rig.look_at_work()
    assert not rig.handed_over

    await rig.look()
    assert rig.replicas == 1
    await rig.look_at_work()
    assert rig.handed_over


# Deletion.


async def test_an_idle_instance_is_deleted_and_late_news_of_it_change_nothing(rig: Rig) -> None:
    rig.idle(DELETE)
    late = rig.api.objects[ALPHA]
    await rig.look()
    assert ALPHA not in rig.api.objects
    assert [call.body["reason"] for call in rig.api.made("POST")] == ["IdleDeleted"]

    rig.store.instances.observe({**late, "metadata": {**late["metadata"], "resourceVersion": "9999"}})
    assert rig.store.instances.snapshot(INSTANCE) is None
    rig.ask()
    await rig.look_at_work()
    assert not rig.handed_over


@pytest.mark.parametrize(
    ("where", "work"),
    [
        (WORK, request_json()),
        (WORK, request_json(target=None, selector={"matchLabels": {"a": "b"}}, status={"instanceName": "alpha"})),
        (APP, plan_json()),
        (APP, plan_json(suspend=True)),
        (APP, plan_json(target=None, poolRef={"name": "many"}, status={"instanceName": "alpha"})),
    ],
    ids=["a request", "a bound request", "a plan", "a suspended plan", "a bound plan"],
)
async def test_work_that_the_watch_has_not_told_of_keeps_an_instance_from_being_deleted(
    rig: Rig, where: str, work: Json
) -> None:
    rig.idle(DELETE)
    rig.api.put(where, work)

    await rig.look()

    assert rig.api.made("DELETE") == []
    assert rig.api.made("POST") == []
    snapshot = rig.store.instances.snapshot(INSTANCE)
    assert snapshot is not None
    assert snapshot.open_requests + snapshot.active_plans + snapshot.suspended_plans == 1
    await rig.look()
    after = rig.store.instances.snapshot(INSTANCE)
    assert after is not None
    assert not after.facts.handover_paused


async def test_work_of_others_does_not_keep_an_instance_from_being_deleted(rig: Rig) -> None:
    rig.idle(DELETE)
    rig.api.put(WORK, request_json(target="beta"))
    rig.api.put(f"{ROOT}/efritrequests/done", request_json("done", status={"phase": "Succeeded"}))
    rig.api.put(APP, plan_json(status={"phase": "Failed"}))

    await rig.look()

    assert ALPHA not in rig.api.objects


async def test_a_request_that_comes_while_its_instance_is_checked_is_not_handed_over(rig: Rig) -> None:
    rig.idle(DELETE)
    deleting = asyncio.create_task(rig.look())
    await rig.api.until(lambda: rig.api.calls)
    rig.ask()
    await rig.look_at_work()
    await deleting
    assert not rig.handed_over


async def test_an_instance_that_was_changed_since_it_was_decided_about_is_not_deleted(rig: Rig) -> None:
    rig.idle(DELETE)
    rig.api.put(ALPHA, {**rig.api.objects[ALPHA], "spec": {}})

    await rig.look()

    assert ALPHA in rig.api.objects
    snapshot = rig.store.instances.snapshot(INSTANCE)
    assert snapshot is not None
    assert snapshot.instance.spec.idle is None


async def test_an_instance_is_not_deleted_while_the_check_cannot_be_made(rig: Rig) -> None:
    rig.idle(DELETE)
    rig.api.fail("GET", f"{ROOT}/efritplans", 503)

    with contextlib.suppress(ApiUnavailable):
        await rig.look()

    assert rig.api.made("DELETE") == []
