"""reconcile.py: one look at one key, through the real store, decisions and actor."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from efrit.controller.act.actor import Actor
from efrit.controller.act.bridges import Bridges
from efrit.controller.act.identity import new_identity
from efrit.controller.act.kube import Kube
from efrit.controller.model.config import RolloutLimits
from efrit.controller.model.keys import RESYNC, WorkKey
from efrit.controller.reconcile import Reconciler
from efrit.controller.store.store import Store
from efrit.controller.work_queue import WorkQueue
from efrit.errors import BridgeUnreachable
from efrit.protocol import Reason, RequestState, Reset, request_id
from tests.support.timeout import TIMEOUT
from tests.unit.controller.factory import (
    CONFIG,
    NOW,
    POD_UID,
    QUEUE_ID,
    Json,
    answered,
    final_status,
    instance_json,
    part_json,
    plan_json,
    request_json,
    stats,
    view,
)
from tests.unit.controller.fake_api import FakeApi
from tests.unit.controller.fake_bridge import INSTANCE, FakeBridge, fake_bridge

KEY = ("team", "work")
LOOK = WorkKey("EfritRequest", *KEY)
UID = "uid-work"
ONE = f"/v1/requests/{UID}"
CANCEL = f"{ONE}/cancel"
WORK = "/apis/efrit.dev/v1alpha1/namespaces/team/efritrequests/work"
REQUESTS = WORK.rpartition("/")[0]
LOST = view(state=RequestState.RUNNING, attempt=1, metadata={"name": "work", "namespace": "team"})


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
    """Everything but kopf: looks are made by hand."""

    reconciler: Reconciler
    store: Store
    queue: WorkQueue
    api: FakeApi
    bridge: FakeBridge
    bridges: Bridges
    clock: Clock
    served: bool = True

    async def look(self) -> None:
        await self.reconciler.reconcile(LOOK)

    def observe(self, **given: Any) -> Json:
        """Place a request in the API server and show it to the store."""
        stored = self.api.put(WORK, request_json(created=datetime.now(UTC), **given))
        self.store.requests.observe(stored)
        return stored

    def crowd_out_contents(self) -> None:
        """Show as many large requests as it takes to have no room for the content of another."""
        for number in range(9):
            self.store.requests.observe(request_json(f"r{number}", content="\N{GRINNING FACE}" * 245_760))

    def crowd_out_plans(self) -> None:
        """Show as many large plans and requests of theirs as it takes to have no room for the content of another."""
        for number in range(80):
            other = plan_json(f"p{number}", intent={"description": "d" * 16_000}, amendments=["m" * 2048] * 64)
            self.store.plans.observe(other | {"metadata": {**other["metadata"], "namespace": "other"}})
        for number in range(80):
            other = part_json("z", plan=f"p{number}", content="z" * 240_000)
            self.store.requests.observe(other | {"metadata": {**other["metadata"], "name": f"z{number}"}})

    def ready(self, *views: Any) -> None:
        """Show a ready instance whose bridge tells of these requests."""
        self.store.instances.observe(instance_json())
        self.store.children.observe_statefulset(
            {
                "metadata": {
                    "name": "efrit-alpha",
                    "namespace": "team",
                    "uid": "ss",
                    "labels": {"efrit.dev/instance": "alpha"},
                    "ownerReferences": [{"uid": "uid-alpha", "controller": True}],
                }
            }
        )
        self.store.children.observe_pod(
            {
                "metadata": {
                    "name": "efrit-alpha-0",
                    "namespace": "team",
                    "uid": POD_UID,
                    "labels": {"efrit.dev/instance": "alpha"},
                    "ownerReferences": [{"uid": "ss", "controller": True}],
                },
                "status": {"phase": "Running", "podIP": "127.0.0.1"},
            }
        )
        for event in (Reset(queue_id=QUEUE_ID, epoch="e"), *views, stats()):
            self.store.bridges.event(INSTANCE, POD_UID, event)
        known = self.store.instances.snapshot(INSTANCE)
        assert known is not None
        opened = {"handover": {"state": "Open", "id": known.facts.handover_id}}
        self.store.instances.observe(instance_json(version="11", status=opened))

    @property
    def bridge_calls(self) -> list[tuple[str, str]]:
        return [(method, path) for method, path, _ in self.bridge.calls]

    @property
    def status(self) -> Json:
        status: Json = self.api.objects[WORK].get("status", {})
        return status


@pytest.fixture
async def rig(api: FakeApi, kube: Kube, tmp_path: Path) -> AsyncIterator[Rig]:
    clock = Clock()
    identity, queue = new_identity(), WorkQueue()
    store = Store(queue, CONFIG, clock, clock.monotonic)
    async with fake_bridge(identity, tmp_path) as bridge:
        bridges = Bridges(identity, store)
        actor = Actor(kube, bridges, store, clock, "pod-1", lambda: True)
        reconciler = Reconciler(store, actor, identity, clock, lambda _: made.served)
        made = Rig(reconciler, store, queue, api, bridge, bridges, clock)
        await bridges.connect(bridge.wanted())
        try:
            yield made
        finally:
            await bridges.close()


async def test_a_request_goes_from_hand_over_to_acknowledgement(rig: Rig) -> None:
    rig.ready()
    rig.observe()
    rig.bridge.answers["PUT", ONE] = (201, view().to_json())
    rig.bridge.answers["DELETE", ONE] = (204, "")

    await rig.look()
    rig.store.bridges.event(INSTANCE, POD_UID, answered(result="2"))
    await rig.look()
    assert (rig.status["phase"], rig.status["result"]) == ("Succeeded", "2")
    assert ("DELETE", ONE) not in rig.bridge_calls, "acknowledged before the status was confirmed"
    await rig.look()

    assert rig.bridge_calls == [("PUT", ONE), ("DELETE", ONE)]
    assert len(rig.api.made("PATCH")) == 1


async def test_a_content_that_was_dropped_is_read_again_and_handed_over_at_once(rig: Rig) -> None:
    rig.ready()
    rig.observe(content="(whole)" * 1000)
    rig.crowd_out_contents()
    rig.bridge.answers["PUT", ONE] = (201, view().to_json())

    await rig.look()

    (sent,) = (body for method, _, body in rig.bridge.calls if method == "PUT")
    assert json.loads(sent)["content"] == "(whole)" * 1000
    assert [call.path for call in rig.api.made("GET")] == [WORK]


@pytest.mark.parametrize("by", [None, "another"])
async def test_a_request_whose_content_is_gone_when_it_is_read_is_not_handed_over(rig: Rig, by: str | None) -> None:
    rig.store.first_list_complete(None)
    rig.ready()
    rig.observe(content="x" * 60_000)
    rig.crowd_out_contents()
    del rig.api.objects[WORK]
    if by is not None:
        rig.api.put(WORK, request_json(uid=by, content="(other)"))

    await rig.look()

    assert rig.bridge_calls == []
    assert rig.store.requests.snapshot(KEY) is None


async def test_a_request_that_was_cancelled_when_its_content_is_read_is_declined_instead(rig: Rig) -> None:
    rig.ready()
    rig.observe(content="x" * 60_000)
    rig.crowd_out_contents()
    rig.api.put(WORK, request_json(content="(late)", cancel=True, version="99"))
    rig.bridge.answers["POST", CANCEL] = (202, view().to_json())

    await rig.look()

    assert rig.bridge_calls == [("POST", CANCEL)]


async def test_a_request_does_not_end_for_an_instance_that_only_the_watch_does_not_know(rig: Rig) -> None:
    rig.api.put("/apis/efrit.dev/v1alpha1/namespaces/team/efritinstances/alpha", instance_json())
    rig.observe()
    rig.clock.passed = timedelta(hours=1)

    await rig.look()

    assert rig.status == {}
    assert rig.store.instances.snapshot(INSTANCE) is not None


OPENED = {"handover": {"state": "Open", "id": "of another process"}}


@pytest.mark.parametrize("stored", [instance_json(version="11", status=OPENED), None], ids=["opened", "gone"])
async def test_a_cancelled_request_does_not_end_while_another_process_may_have_handed_it_over(
    rig: Rig, stored: Json | None
) -> None:
    path = "/apis/efrit.dev/v1alpha1/namespaces/team/efritinstances/alpha"
    rig.store.instances.observe(instance_json(version="10"))
    rig.store.first_list_complete(None)
    if stored is not None:
        rig.api.put(path, stored)
    rig.observe(cancel=True)

    await rig.look()

    assert rig.status == {}
    target = rig.store.instances.snapshot(INSTANCE)
    assert (target.facts.opened_by_other if target else None) == (True if stored else None)


async def test_a_request_ends_where_its_instance_really_does_not_exist(rig: Rig) -> None:
    rig.observe()
    rig.clock.passed = timedelta(hours=1)

    await rig.look()

    assert rig.status["phase"] == "Failed"


async def test_a_final_request_that_left_the_selection_is_forgotten_once_acknowledged(rig: Rig) -> None:
    rig.ready(answered(result="2"))
    rig.observe(status=final_status())
    rig.store.requests.left(request_json())
    rig.bridge.answers["DELETE", ONE] = (204, "")

    await rig.look()

    assert rig.store.requests.snapshot(KEY) is None


async def test_a_request_that_left_and_is_deleted_has_its_work_stopped(rig: Rig) -> None:
    rig.ready(view(state=RequestState.RUNNING, attempt=1))
    stored = rig.observe()
    del rig.api.objects[WORK]
    rig.store.requests.left(stored)
    rig.bridge.answers["POST", CANCEL] = (202, view(state=RequestState.RUNNING, attempt=1).to_json())

    await rig.look()

    assert rig.bridge_calls == [("POST", CANCEL)]


async def test_a_request_that_left_and_was_made_anew_counts_as_deleted(rig: Rig) -> None:
    rig.ready()
    stored = rig.observe()
    rig.api.put(WORK, request_json(uid="another"))
    rig.store.requests.left(stored)

    await rig.look()

    assert rig.store.requests.snapshot(KEY) is None


async def test_a_request_that_left_by_mistake_goes_on(rig: Rig) -> None:
    rig.ready()
    stored = rig.observe()
    rig.store.requests.left(stored)
    rig.bridge.answers["PUT", ONE] = (201, view().to_json())

    await rig.look()

    assert rig.bridge_calls == [("PUT", ONE)]
    assert not rig.store.requests.must_verify(KEY)


async def test_a_request_that_left_because_somebody_else_finished_it_is_final(rig: Rig) -> None:
    rig.ready()
    stored = rig.observe()
    rig.api.put(WORK, {**stored, "status": final_status()})
    rig.store.requests.left(stored)

    await rig.look()

    assert rig.bridge_calls == []
    assert rig.store.requests.snapshot(KEY) is None


# Work whose request is not known.


async def test_work_of_a_request_that_was_missed_is_taken_up(rig: Rig) -> None:
    rig.ready(LOST)
    rig.api.put(WORK, request_json())

    await rig.look()

    snapshot = rig.store.requests.snapshot(KEY)
    assert snapshot is not None
    assert snapshot.bridge_view == LOST
    assert rig.bridge_calls == []


async def test_work_of_a_final_request_is_acknowledged(rig: Rig) -> None:
    rig.ready(LOST)
    rig.api.put(WORK, request_json(status=final_status()))
    rig.bridge.answers["DELETE", ONE] = (204, "")

    await rig.look()

    assert rig.bridge_calls == [("DELETE", ONE)]


async def test_work_of_a_deleted_request_is_stopped_and_acknowledged_once(rig: Rig) -> None:
    rig.ready(LOST)
    ended = structs.replace(answered(reason=Reason.CANCELLED), metadata=LOST.metadata)
    rig.bridge.answers["POST", CANCEL] = (200, ended.to_json())
    rig.bridge.answers["DELETE", ONE] = (204, "")

    await rig.look()
    await rig.look()

    assert rig.bridge_calls == [("POST", CANCEL), ("DELETE", ONE)]
    assert rig.store.bridges.orphans(KEY) == []


async def test_work_of_a_request_is_stopped_when_another_has_taken_its_name(rig: Rig) -> None:
    rig.observe()
    rig.ready(LOST)
    ended = structs.replace(answered(reason=Reason.CANCELLED), metadata=LOST.metadata)
    rig.bridge.answers["POST", CANCEL] = (200, ended.to_json())
    rig.bridge.answers["DELETE", ONE] = (204, "")
    successor = view("uid-second")
    rig.bridge.answers["PUT", "/v1/requests/uid-second"] = (201, successor.to_json())
    # The deletion was never told: one watch event of the next request is all that came.
    rig.observe(uid="uid-second")

    await rig.look()

    assert rig.bridge_calls == [
        ("PUT", "/v1/requests/uid-second"),
        ("POST", CANCEL),
        ("DELETE", ONE),
    ]
    assert rig.store.bridges.orphans(KEY) == []


async def test_work_of_two_deleted_requests_of_one_name_is_stopped(rig: Rig) -> None:
    rig.ready(LOST, structs.replace(LOST, id=request_id("uid-second")))
    for uid in (UID, "uid-second"):
        ended = structs.replace(answered(uid, reason=Reason.CANCELLED), metadata=LOST.metadata)
        rig.bridge.answers["POST", f"/v1/requests/{uid}/cancel"] = (200, ended.to_json())
        rig.bridge.answers["DELETE", f"/v1/requests/{uid}"] = (204, "")

    await rig.look()

    assert {path for method, path in rig.bridge_calls if method == "POST"} == {
        CANCEL,
        "/v1/requests/uid-second/cancel",
    }
    assert rig.store.bridges.orphans(KEY) == []


async def test_work_of_a_deleted_request_that_still_runs_is_acknowledged_when_it_has_ended(rig: Rig) -> None:
    rig.ready(LOST)
    rig.bridge.answers["POST", CANCEL] = (202, LOST.to_json())
    rig.bridge.answers["DELETE", ONE] = (409, '{"error": {"code": "NotAnswered", "message": "it runs"}}')

    await rig.look()
    ended = structs.replace(answered(reason=Reason.CANCELLED), metadata=LOST.metadata)
    rig.store.bridges.event(INSTANCE, POD_UID, ended)
    rig.bridge.answers["POST", CANCEL] = (200, ended.to_json())
    rig.bridge.answers["DELETE", ONE] = (204, "")
    await rig.look()

    assert rig.bridge_calls[-1] == ("DELETE", ONE)
    assert rig.store.bridges.orphans(KEY) == []


async def test_work_of_a_deleted_request_is_not_forgotten_because_its_bridge_was_away(rig: Rig) -> None:
    rig.ready(LOST)
    rig.bridge.answers["POST", CANCEL] = (0, "")

    with pytest.raises(BridgeUnreachable):
        await rig.look()

    assert rig.store.bridges.orphans(KEY) == [(INSTANCE, UID)]


async def test_a_key_nobody_knows_needs_nothing(rig: Rig) -> None:
    await rig.look()

    assert rig.api.calls == []


# Plans.

PLAN = "/apis/efrit.dev/v1alpha1/namespaces/team/efritplans/app"
APP = ("team", "app")
LOOK_AT_PLAN = WorkKey("EfritPlan", *APP)


def part_of_app(name: str) -> Json:
    return part_json(name, content="z" * 1000, status={**final_status(), "result": "r" * 1000})


async def test_a_plan_learns_which_requests_it_has_before_it_does_anything(rig: Rig) -> None:
    rig.api.put(f"{REQUESTS}/one", part_json("one"))
    rig.store.plans.observe(rig.api.put(PLAN, plan_json()))

    await rig.reconciler.reconcile(LOOK_AT_PLAN)

    snapshot = rig.store.plans.snapshot(APP)
    assert snapshot is not None
    assert set(snapshot.requests or {}) > {"one"}
    methods = [call.method for call in rig.api.calls]
    assert methods.index("POST") > methods.index("GET") == 0


async def test_a_plan_whose_content_was_dropped_is_decided_about_exactly_as_before(rig: Rig) -> None:
    for name in ("one", "two"):
        rig.api.put(f"{REQUESTS}/{name}", part_of_app(name))
    rig.store.plans.observe(rig.api.put(PLAN, plan_json(amendments=["More."])))
    for _ in range(3):
        await rig.reconciler.reconcile(LOOK_AT_PLAN)
    before, written = rig.store.plans.snapshot(APP), dict(rig.api.objects)

    rig.crowd_out_plans()
    dropped = rig.store.plans.snapshot(APP)
    assert dropped is not None
    assert dropped.requests is None
    assert dropped.plan.spec.amendments == ()
    await rig.reconciler.reconcile(LOOK_AT_PLAN)

    assert rig.store.plans.snapshot(APP) == before
    assert rig.api.objects == written, "nothing is created or written twice"


@pytest.mark.parametrize("known", ["30", "999"], ids=["cannot be read", "is older than what was seen"])
async def test_a_plan_that_cannot_be_had_again_is_asked_for_once_and_its_requests_are_not_listed(
    rig: Rig, known: str
) -> None:
    rig.store.plans.observe(plan_json(version=known))
    rig.crowd_out_plans()
    rig.api.put(PLAN, plan_json() if known == "999" else plan_json(intent="no object"))
    reconciled = 0
    quiet = asyncio.Event()

    async def reconcile(work: WorkKey) -> None:
        nonlocal reconciled
        if work == LOOK_AT_PLAN:
            await rig.reconciler.reconcile(work)
            reconciled += 1
        if reconciled > 1 or not len(rig.queue):
            quiet.set()

    working = asyncio.create_task(rig.queue.run(reconcile, 1))
    await asyncio.wait_for(quiet.wait(), TIMEOUT)
    working.cancel()
    await asyncio.gather(working, return_exceptions=True)

    assert [call.path for call in rig.api.calls] == [PLAN]


async def test_a_plan_that_left_because_it_is_deleted_is_forgotten(rig: Rig) -> None:
    rig.store.plans.observe(plan_json())
    rig.store.plans.left(plan_json())

    await rig.reconciler.reconcile(LOOK_AT_PLAN)

    assert rig.store.plans.snapshot(APP) is None


async def test_a_plan_that_left_because_somebody_else_finished_it_is_forgotten(rig: Rig) -> None:
    rig.store.plans.observe(plan_json(version="1"))
    rig.store.plans.left(rig.api.put(PLAN, plan_json(status=final_status())))

    await rig.reconciler.reconcile(LOOK_AT_PLAN)

    assert rig.store.plans.snapshot(APP) is None


async def test_a_plan_that_left_by_mistake_goes_on(rig: Rig) -> None:
    rig.store.plans.observe(plan_json(version="1"))
    rig.store.plans.left(rig.api.put(PLAN, plan_json()))

    await rig.reconciler.reconcile(LOOK_AT_PLAN)

    assert rig.store.plans.must_verify(APP) is None
    assert rig.store.plans.open_uids() == {APP: "uid-app"}


async def test_a_final_plan_past_its_time_to_live_is_deleted_and_forgotten(rig: Rig) -> None:
    old = final_status(ended=datetime.now(UTC) - timedelta(seconds=10))
    rig.store.plans.observe(rig.api.put(PLAN, plan_json(status=old, ttlSecondsAfterFinished=5)))

    await rig.reconciler.reconcile(LOOK_AT_PLAN)

    assert PLAN not in rig.api.objects
    assert rig.store.plans.snapshot(APP) is None


async def test_a_plan_that_is_cancelled_is_deleted_when_its_time_to_live_is_over(rig: Rig) -> None:
    rig.store.plans.observe(rig.api.put(PLAN, plan_json(ttlSecondsAfterFinished=5, cancel=True)))

    for _ in range(4):
        await rig.reconciler.reconcile(LOOK_AT_PLAN)

    assert rig.store.plans.snapshot(APP) is None
    assert len(rig.store.expirations) == 1


async def test_a_plan_nobody_knows_needs_nothing(rig: Rig) -> None:
    await rig.reconciler.reconcile(LOOK_AT_PLAN)

    assert rig.api.calls == []


# Instances and the pulse.


async def test_a_refusal_is_told_instead_of_the_status_that_was_decided_before_it(rig: Rig) -> None:
    look = WorkKey("EfritInstance", *INSTANCE)
    account = "/api/v1/namespaces/team/serviceaccounts/efrit-alpha"
    where = "/apis/efrit.dev/v1alpha1/namespaces/team/efritinstances/alpha"
    rig.store.instances.observe(rig.api.put(where, instance_json()))
    rig.api.fail("PATCH", account, 403, {"message": "exceeded quota: accounts"})

    await rig.reconciler.reconcile(look)
    assert [call.path for call in rig.api.made("PATCH")] == [account]
    await rig.reconciler.reconcile(look)

    ready = rig.api.objects[where]["status"]["conditions"][0]
    assert (ready["reason"], "exceeded quota: accounts" in ready["message"]) == ("ChildRefused", True)

    # Taken back: the status that the refusal still speaks in is not written for the new generation.
    mended = {**rig.api.objects[where], **instance_json(generation=2, version="999")}
    rig.store.instances.observe(rig.api.put(where, {**mended, "status": rig.api.objects[where]["status"]}))
    await rig.reconciler.reconcile(look)
    assert rig.api.objects[where]["status"]["observedGeneration"] == 1
    await rig.reconciler.reconcile(look)
    after = rig.api.objects[where]["status"]
    assert (after["observedGeneration"], after["conditions"][0]["reason"]) == (2, "Creating")


async def test_an_instance_that_is_gone_is_disconnected(rig: Rig) -> None:
    assert len(rig.bridges) == 1

    await rig.reconciler.reconcile(WorkKey("EfritInstance", *INSTANCE))

    assert len(rig.bridges) == 0


async def test_a_sleeping_instance_is_looked_at_when_a_request_comes(rig: Rig) -> None:
    asleep = instance_json(spec={"idle": {"suspendAfterSeconds": 60}}, status={"suspendedIdle": True})
    rig.store.instances.observe(asleep)
    rig.observe()
    seen: list[WorkKey] = []
    looked = asyncio.Event()

    async def look(key: WorkKey) -> None:
        seen.append(key)
        await rig.reconciler.reconcile(key)
        if rig.api.objects.get("/apis/apps/v1/namespaces/team/statefulsets/efrit-alpha"):
            looked.set()

    working = asyncio.create_task(rig.queue.run(look, 1))
    await asyncio.wait_for(looked.wait(), TIMEOUT)
    working.cancel()
    await asyncio.gather(working, return_exceptions=True)

    made = rig.api.objects["/apis/apps/v1/namespaces/team/statefulsets/efrit-alpha"]
    assert made["spec"]["replicas"] == 1


async def test_a_resync_key_has_the_children_of_its_instance_applied_again(rig: Rig) -> None:
    rig.ready()

    await rig.reconciler.reconcile(WorkKey(RESYNC, *INSTANCE))
    await rig.reconciler.reconcile(WorkKey(RESYNC, "team", "unknown"))

    snapshot = rig.store.instances.snapshot(INSTANCE)
    assert snapshot is not None
    assert snapshot.facts.resync
    assert set(rig.store.instances.keys()) == {INSTANCE}


async def test_a_key_of_a_namespace_that_is_not_served_is_not_looked_at(rig: Rig) -> None:
    rig.ready()
    rig.observe()
    rig.bridge.answers["PUT", ONE] = (201, view().to_json())
    rig.served = False

    await rig.look()

    assert rig.bridge_calls == []
    assert rig.api.calls == []

    rig.served = True
    await rig.look()
    assert rig.bridge_calls == [("PUT", ONE)]


async def test_two_instances_decided_about_at_once_do_not_take_the_same_place(api: FakeApi, kube: Kube) -> None:
    identity, queue = new_identity(), WorkQueue()
    limits = RolloutLimits(max_concurrent=1, max_concurrent_per_namespace=5)
    store = Store(queue, replace(CONFIG, rollout=limits), lambda: NOW)
    bridges = Bridges(identity, store)
    actor = Actor(kube, bridges, store, lambda: NOW, "pod-1", lambda: True)
    reconciler = Reconciler(store, actor, identity, lambda: NOW, lambda _: True)
    names = ["a", "b", "c"]
    for name in names:
        instance = api.put(WORK.replace("efritrequests/work", f"efritinstances/{name}"), instance_json(name))
        store.instances.observe(instance)
        labels = {"efrit.dev/instance": name}
        meta = {"namespace": "team", "labels": labels}
        hashes = {"efrit.dev/template-hash": "old"}
        owner = {"kind": "EfritInstance", "name": name, "uid": f"uid-{name}", "controller": True}
        store.children.observe_statefulset(
            {
                "metadata": {
                    **meta,
                    "name": f"efrit-{name}",
                    "uid": f"ss-{name}",
                    "annotations": hashes,
                    "ownerReferences": [owner],
                },
                "spec": {"replicas": 1},
            }
        )
        running = [{"name": "emacs", "state": {"running": {}}}]
        store.children.observe_pod(
            {
                "metadata": {
                    **meta,
                    "name": f"efrit-{name}-0",
                    "uid": f"pod-{name}",
                    "ownerReferences": [{"kind": "StatefulSet", "uid": f"ss-{name}", "controller": True}],
                },
                "status": {"phase": "Running", "containerStatuses": running},
            }
        )
        store.bridges.event(("team", name), f"pod-{name}", stats())

    store.first_list_complete(None)
    await asyncio.gather(*(reconciler.reconcile(WorkKey("EfritInstance", "team", name)) for name in names))

    told = {
        name: api.objects[WORK.replace("efritrequests/work", f"efritinstances/{name}")]["status"] for name in names
    }
    updated = {
        name: next(each["reason"] for each in status["conditions"] if each["type"] == "Updated")
        for name, status in told.items()
    }
    assert sorted(updated.values()) == ["UpdateDraining", "UpdateQueued", "UpdateQueued"]
