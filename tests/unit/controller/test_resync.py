"""resync.py: lists find what events did not tell."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from efrit import resources
from efrit.controller.act.kube import Kube
from efrit.controller.list_pace import PAGE_OBJECTS
from efrit.controller.model.keys import WorkKey
from efrit.controller.model.snapshots import InstanceSnapshot
from efrit.controller.resync import MAX_NEW, MAX_READ_ALONE, Resync
from efrit.controller.store.store import Store
from efrit.controller.warm_objects import Place, WarmObjects
from efrit.controller.work_queue import WorkQueue
from efrit.errors import ApiForbidden, ApiNotFound, ApiUnavailable
from efrit.kube.media_types import METADATA_LIST
from efrit.resources import INSTANCES, PLANS, PODS, POOLS, STATEFULSETS, VOLUME_CLAIMS, Resource
from tests.support.factory import (
    CONFIG,
    NOW,
    final_status,
    instance_json,
    plan_json,
    request_json,
    statefulset_json,
)
from tests.support.timeout import TIMEOUT
from tests.unit.controller.fake_api import Call, FakeApi
from tests.unit.controller.store.test_pools import pool_json
from tests.unit.controller.store.world import child

ALL_PODS = resources.PODS.path()
ALL_POOLS = resources.POOLS.path()
KEY = ("team", "work")
ALPHA = ("team", "alpha")
POD = child(uid="pod", podIP="10.0.0.1")
STATEFULSET = statefulset_json()
PODS_OF_TEAM = resources.PODS.path("team", "efrit-alpha-0")
CLAIMS_OF_TEAM = resources.VOLUME_CLAIMS.path("team")
SETS_OF_TEAM = resources.STATEFULSETS.path("team", "efrit-alpha")


@dataclass
class Rig:
    resync: Resync
    store: Store
    api: FakeApi

    def expiring(self) -> set[str]:
        """Take the names of what is to be deleted some day."""
        later = NOW + timedelta(days=1)
        return {due.key[1] for due in iter(lambda: self.store.expirations.pop_due(later), None)}

    async def list_all(self) -> None:
        await listed(self.resync)

    def place(self, *kinds: str) -> None:
        """Have the API server hold objects of these kinds, each with the name the tests give it."""
        for kind in kinds:
            path, obj = PLACES[kind]
            self.api.put(path, obj)

    @property
    def instance(self) -> InstanceSnapshot:
        snapshot = self.store.instances.snapshot(ALPHA)
        assert snapshot is not None
        return snapshot


PLACES = {
    "instance": (resources.INSTANCES.path("team", "alpha"), instance_json()),
    "request": (resources.REQUESTS.path("team", "work"), request_json()),
    "plan": (resources.PLANS.path("team", "app"), plan_json()),
    "pod": (PODS_OF_TEAM, POD),
    "set": (SETS_OF_TEAM, STATEFULSET),
}


async def listed(resync: Resync) -> None:
    """List everything for the first time, or again."""
    await resync.list_all()
    await resync.list_requests()


@pytest.fixture
async def rig(api: FakeApi, kube: Kube) -> Rig:
    store = Store(WorkQueue(), CONFIG, lambda: NOW)
    return Rig(Resync(kube, store, None, 60, 600), store, api)


async def test_an_open_request_no_event_reported_is_found(rig: Rig) -> None:
    rig.place("request")

    await rig.resync.sweep_requests()

    assert rig.store.requests.open_uids() == {KEY: "uid-work"}


async def test_an_open_plan_no_event_reported_is_found_and_one_that_is_gone_is_verified(rig: Rig) -> None:
    plans = rig.store.plans
    rig.place("plan")
    plans.observe(plan_json("lost"))

    await rig.resync.sweep_plans()

    assert plans.open_uids() == {("team", "app"): "uid-app", ("team", "lost"): "uid-lost"}
    assert plans.must_verify(("team", "lost")) == "uid-lost"
    assert plans.must_verify(("team", "app")) is None


async def test_final_plans_with_a_time_to_live_are_found(rig: Rig) -> None:
    specs: tuple[tuple[str, dict[str, Any]], ...] = (("kept", {}), ("brief", {"ttlSecondsAfterFinished": 5}))
    for name, spec in specs:
        rig.api.put(resources.PLANS.path("team", name), plan_json(name, status=final_status(), **spec))

    await rig.resync.sweep_final()

    assert rig.expiring() == {"brief"}


async def test_the_default_time_to_live_is_for_requests_alone(kube: Kube, api: FakeApi) -> None:
    store = Store(WorkQueue(), CONFIG, lambda: NOW)
    rig = Rig(Resync(kube, store, None, 60, 600, request_ttl=60), store, api)
    api.put(resources.REQUESTS.path("team", "work"), request_json(status=final_status()))
    api.put(resources.PLANS.path("team", "app"), plan_json(status=final_status()))

    await rig.resync.sweep_final()

    assert rig.expiring() == {"work"}


async def test_only_open_requests_are_asked_for(rig: Rig) -> None:
    rig.api.put(resources.REQUESTS.path("team", "work"), request_json(status=final_status()))

    await rig.resync.sweep_requests()

    assert rig.store.requests.snapshot(KEY) is None


@pytest.mark.parametrize("there", [False, True])
async def test_a_request_that_is_gone_without_an_event_must_be_verified(rig: Rig, there: bool) -> None:
    rig.store.requests.observe(
        rig.api.put(resources.REQUESTS.path("team", "work"), request_json()) if there else request_json()
    )

    await rig.resync.sweep_requests()

    assert bool(rig.store.requests.must_verify(KEY)) is not there


async def test_a_request_made_anew_under_its_name_is_taken_in(rig: Rig) -> None:
    rig.store.requests.observe(request_json(uid="old"))
    rig.api.put(resources.REQUESTS.path("team", "work"), request_json(uid="new"))

    await rig.resync.sweep_requests()

    assert rig.store.requests.open_uids() == {KEY: "new"}


async def test_a_final_request_is_finished_with_at_the_next_sweep(rig: Rig) -> None:
    rig.store.requests.observe(request_json(status=final_status()))

    await rig.resync.sweep_requests()

    assert rig.store.requests.is_done(KEY)


async def test_a_sweep_looks_again_at_every_open_request(api: FakeApi, kube: Kube) -> None:
    reconciled = asyncio.Queue[WorkKey]()
    queue = WorkQueue()
    store = Store(queue, CONFIG, lambda: NOW)
    work = asyncio.create_task(queue.run(reconciled.put, 1))
    try:
        store.requests.observe(api.put(resources.REQUESTS.path("team", "work"), request_json()))
        async with asyncio.timeout(TIMEOUT):
            first = await reconciled.get()
            await Resync(kube, store, None, 0.01, 600).sweep_requests()
            assert await reconciled.get() == first
    finally:
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)


@pytest.mark.parametrize("there", [False, True])
async def test_an_instance_and_a_pool_that_are_gone_without_an_event_must_be_verified(rig: Rig, there: bool) -> None:
    instances, pools = rig.store.instances, rig.store.pools
    places = ((instances, ALPHA, INSTANCES, instance_json()), (pools, ("team", "crew"), POOLS, pool_json()))
    for objects, key, resource, obj in places:
        objects.observe(rig.api.put(resource.path(*key), obj) if there else obj)

    await rig.resync.sweep_instances()
    await rig.resync.sweep_pools()

    assert [bool(objects.must_verify(key)) for objects, key, *_ in places] == [not there] * 2


async def test_an_instance_of_which_only_children_were_seen_costs_no_question(rig: Rig) -> None:
    rig.store.children.observe_statefulset(STATEFULSET)

    await rig.resync.sweep_instances()

    assert rig.store.instances.must_verify(ALPHA) is None


async def test_an_instance_no_event_reported_is_found(rig: Rig) -> None:
    rig.place("instance")

    await rig.resync.sweep_instances()

    assert rig.store.instances.snapshot(ALPHA) is not None


async def test_a_pod_that_is_gone_without_an_event_is_forgotten(rig: Rig) -> None:
    rig.store.instances.observe(rig.api.put(resources.INSTANCES.path("team", "alpha"), instance_json()))
    rig.store.children.observe_statefulset(STATEFULSET)
    rig.place("set")
    rig.store.children.observe_pod(POD)
    assert rig.instance.pod is not None

    await rig.resync.sweep_instances()

    assert rig.instance.pod is None


async def test_a_pod_no_event_reported_is_found(rig: Rig) -> None:
    rig.store.instances.observe(rig.api.put(resources.INSTANCES.path("team", "alpha"), instance_json()))
    rig.place("set", "pod")

    await rig.resync.sweep_instances()

    assert rig.instance.pod is not None
    assert rig.instance.pod.ip == "10.0.0.1"


async def test_an_instance_made_anew_while_the_lists_are_read_is_kept(rig: Rig) -> None:
    rig.store.instances.observe(instance_json(uid="first", version="10"))
    rig.api.put(resources.INSTANCES.path("team", "beta"), instance_json("beta"))

    sweeping = asyncio.create_task(rig.resync.sweep_instances())
    await rig.api.until(lambda: any(call.path.endswith("/efritinstances") for call in rig.api.calls))
    rig.store.instances.observe(instance_json(uid="second", version="11"))
    await sweeping

    assert rig.instance.instance.metadata.uid == "second"


async def test_an_instance_that_is_deleted_while_the_lists_are_read_stays_deleted(rig: Rig) -> None:
    old = rig.api.put(resources.INSTANCES.path("team", "alpha"), instance_json())
    rig.store.instances.observe(old)
    rig.store.children.observe_statefulset(STATEFULSET)
    rig.api.gates[INSTANCES.path()] = asyncio.Event()

    sweeping = asyncio.create_task(rig.resync.sweep_instances())
    await rig.api.until(lambda: any(call.path == INSTANCES.path() for call in rig.api.calls))
    rig.store.instances.observe_left(old)
    rig.api.gates[INSTANCES.path()].set()
    await sweeping

    snapshot = rig.store.instances.snapshot(ALPHA)
    assert snapshot is None or snapshot.instance is None


async def test_a_pod_that_is_made_while_the_lists_are_read_is_kept(rig: Rig) -> None:
    rig.store.instances.observe(rig.api.put(resources.INSTANCES.path("team", "alpha"), instance_json()))
    rig.place("set")

    sweeping = asyncio.create_task(rig.resync.sweep_instances())
    await rig.api.until(lambda: any(call.path == ALL_PODS for call in rig.api.calls))
    rig.store.children.observe_pod(POD)
    await sweeping

    assert rig.instance.pod is not None


async def test_final_requests_with_a_time_to_live_are_found(rig: Rig) -> None:
    made: tuple[tuple[str, str, dict[str, Any]], ...] = (
        ("old", "Succeeded", {"ttlSecondsAfterFinished": 60}),
        ("failed", "Failed", {"ttlSecondsAfterFinished": 60}),
        ("kept", "Succeeded", {}),
        ("open", "Running", {"ttlSecondsAfterFinished": 60}),
    )
    for name, phase, spec in made:
        status = final_status(phase) if phase != "Running" else {"phase": phase}
        rig.api.put(resources.REQUESTS.path("team", name), request_json(name, status=status, **spec))

    await rig.resync.sweep_final()

    assert rig.expiring() == {"old", "failed"}
    assert rig.store.requests.final_uids() == []


async def test_new_requests_are_taken_in_before_the_others_are_listed(rig: Rig) -> None:
    rig.place("instance")
    for number in range(3):
        rig.api.put(
            resources.REQUESTS.path("team", f"held{number}"),
            request_json(f"held{number}", status={"phase": "Queued", "instanceName": "alpha"}),
        )
    rig.place("request")
    await rig.resync.list_all()
    rig.api.gates[resources.REQUESTS.path()] = gate = asyncio.Event()
    lists = [call.path for call in rig.api.calls].count(resources.REQUESTS.path())

    listing = asyncio.create_task(rig.resync.list_requests())
    await rig.api.until(lambda: any(call.path == resources.REQUESTS.path() for call in rig.api.calls))
    gate.set()
    gate = rig.api.gates[resources.REQUESTS.path()] = asyncio.Event()
    await rig.api.until(lambda: [call.path for call in rig.api.calls].count(resources.REQUESTS.path()) == lists + 2)
    assert rig.store.requests.open_uids() == {KEY: "uid-work"}
    gate.set()
    await listing

    assert len(rig.store.requests.open_uids()) == 4


async def test_of_very_many_new_requests_some_are_taken_in_before_the_others(rig: Rig) -> None:
    for number in range(MAX_NEW + 50):
        rig.api.put(resources.REQUESTS.path("team", f"r{number:03}"), request_json(f"r{number:03}"))

    await rig.resync.list_requests()

    asked = [call.query for call in rig.api.calls if call.query.get("fieldSelector") == "status.phase="]
    assert [query.get("continue") for query in asked] == [None]
    assert len(rig.store.requests.open_uids()) == MAX_NEW + 50


async def run_sweeps(resync: Resync, holds: Callable[[], bool], api: FakeApi) -> None:
    """Sweep until this holds after some call."""
    running = asyncio.create_task(resync.run())
    try:
        await api.until(holds)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


def lists_of_ended(api: FakeApi, resource: Resource, phase: str) -> list[Call]:
    """Return the lists of what has ended so."""
    wanted = {"fieldSelector": f"status.phase={phase}"}
    return [call for call in api.calls if call.path == resource.path() and call.query.items() >= wanted.items()]


async def test_a_sweep_of_what_has_ended_that_was_cut_short_is_made_up_for_by_the_next(
    api: FakeApi, kube: Kube, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("efrit.controller.resync.FIRST_SWEEP_SECONDS", 0.0)
    resync = Resync(kube, Store(WorkQueue(), CONFIG, lambda: NOW), None, 0.01, 600)
    api.fail("GET", resources.PLANS.path(), 503)

    await run_sweeps(resync, lambda: bool(lists_of_ended(api, resources.EXCLUSIVE_CLAIMS, "Failed")), api)

    assert len(lists_of_ended(api, resources.REQUESTS, "Succeeded")) == 1
    assert [call.path for call in api.calls].count(INSTANCES.path()) == 2, "not the tenth sweep from there"


async def test_sweeps_that_come_again_keep_their_pace_and_first_lists_do_not(
    api: FakeApi, kube: Kube, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("efrit.controller.resync.FIRST_SWEEP_SECONDS", 0.0)
    for number in range(300):
        api.put(resources.REQUESTS.path("team", f"r{number:03}"), request_json(f"r{number:03}"))
    resync = Resync(kube, Store(WorkQueue(), CONFIG, lambda: NOW), None, 0.01, 600)
    await listed(resync)
    first = [int(call.query["limit"]) for call in api.calls]
    api.calls.clear()

    await run_sweeps(resync, lambda: bool(lists_of_ended(api, resources.REQUESTS, "Failed")), api)

    assert max(first) > PAGE_OBJECTS
    assert max(int(call.query["limit"]) for call in api.calls) == PAGE_OBJECTS


async def test_only_its_own_namespace_is_swept(api: FakeApi, kube: Kube) -> None:
    resync = Resync(kube, Store(WorkQueue(), CONFIG, lambda: NOW), "a", 60, 600)

    await resync.sweep_requests()

    assert [call.path.split("/")[-2] for call in api.calls] == ["a"]


async def test_all_that_requests_refer_to_is_known_before_the_first_is_reconciled(rig: Rig) -> None:
    claim = child(name="efrit-alpha-queue", uid="u")
    rig.place("instance", "pod", "set")
    rig.api.put(f"{CLAIMS_OF_TEAM}/efrit-alpha-queue", claim)

    await rig.resync.list_all()

    instance_snapshot = rig.instance
    assert instance_snapshot.pod is not None
    assert instance_snapshot.statefulset is not None
    assert [claim.name for claim in instance_snapshot.claims] == ["efrit-alpha-queue"]
    assert not instance_snapshot.listed, "it might be taken for idle"


@pytest.mark.parametrize(("kind", "gone"), [(PODS, PODS_OF_TEAM), (PLANS, resources.PLANS.path("team", "app"))])
async def test_a_watch_goes_on_from_the_first_list_and_after_that_from_a_new_one(
    rig: Rig, kind: Resource, gone: str
) -> None:
    rig.place("instance", "set", "pod", "plan")
    await rig.resync.list_all()
    listed, version = len(rig.api.calls), str(rig.api.version)
    rig.store.plans.observe(rig.api.objects[resources.PLANS.path("team", "app")])

    assert await rig.resync.list_watched(kind) == version
    assert len(rig.api.calls) == listed
    del rig.api.objects[gone]
    rig.api.version += 1
    assert await rig.resync.list_watched(kind) == str(rig.api.version)
    assert (rig.instance.pod is None) is (kind == PODS)
    assert rig.store.plans.must_verify(("team", "app")) == ("uid-app" if kind == PLANS else None)


async def test_open_requests_and_plans_are_known_before_anything_is_decided(rig: Rig) -> None:
    rig.place("instance", "request")
    rig.api.put(resources.REQUESTS.path("team", "done"), request_json("done", status=final_status()))
    rig.place("plan")

    await rig.list_all()

    assert rig.store.requests.open_uids() == {KEY: "uid-work"}
    assert rig.store.plans.open_uids() == {("team", "app"): "uid-app"}
    assert rig.store.is_listed("team")


async def test_namespaces_take_turns_at_their_first_lists(api: FakeApi, kube: Kube) -> None:
    turns = asyncio.Semaphore(1)
    store = Store(WorkQueue(), CONFIG, lambda: NOW)
    resync = Resync(kube, store, "a", 60, 600, turns)

    async with turns:
        waiting = [asyncio.create_task(listing) for listing in (resync.list_all(), resync.list_requests())]
        await kube.list(PLANS, "b")
        assert [call.path for call in api.calls] == [PLANS.path("b")]
    await asyncio.gather(*waiting)

    assert store.is_listed("a")


async def test_a_request_that_changed_without_an_event_is_read_and_the_others_are_not(rig: Rig) -> None:
    for name in ("changed", "same"):
        rig.store.requests.observe(rig.api.put(resources.REQUESTS.path("team", name), request_json(name)))
    rig.api.put(resources.REQUESTS.path("team", "changed"), request_json("changed", cancel=True, version="99"))

    await rig.resync.sweep_requests()

    request_snapshot = rig.store.requests.snapshot(("team", "changed"))
    assert request_snapshot is not None
    assert request_snapshot.request.spec.cancel
    read = [call.path for call in rig.api.calls]
    assert read == [resources.REQUESTS.path(), resources.REQUESTS.path("team", "changed")]


async def test_a_sweep_that_finds_many_new_requests_lists_them_all(rig: Rig) -> None:
    for number in range(MAX_READ_ALONE + 1):
        rig.api.put(resources.REQUESTS.path("team", f"r{number}"), request_json(f"r{number}"))

    await rig.resync.sweep_requests()

    assert len(rig.store.requests.open_uids()) == MAX_READ_ALONE + 1
    assert {call.path for call in rig.api.calls} == {resources.REQUESTS.path()}


async def test_a_namespace_counts_as_listed_only_when_every_page_of_every_kind_was_read(rig: Rig) -> None:
    rig.api.page_size = 1
    for name in ("one", "two"):
        rig.api.put(resources.PLANS.path("team", name), plan_json(name))
    rig.api.fail("GET", resources.PLANS.path(), 503)

    with pytest.raises(ApiUnavailable):
        await rig.list_all()
    assert not rig.store.is_listed("team")

    await rig.list_all()
    assert rig.store.is_listed("team")
    assert len(rig.store.plans.open_uids()) == 2


async def test_each_namespace_is_listed_on_its_own(api: FakeApi, kube: Kube) -> None:
    store = Store(WorkQueue(), CONFIG, lambda: NOW)
    api.fail("GET", resources.REQUESTS.path("b"), 503)

    await listed(Resync(kube, store, "a", 60, 600))
    with pytest.raises(ApiUnavailable):
        await listed(Resync(kube, store, "b", 60, 600))

    assert store.is_listed("a")
    assert not store.is_listed("b")


async def test_only_what_is_seen_before_the_first_list_is_complete_may_be_older_than_the_controller(rig: Rig) -> None:
    rig.place("request")
    await rig.list_all()
    rig.store.requests.observe(request_json("later"))
    rig.store.requests.observe(request_json(version="200", status={"phase": "Running"}))

    listed = {
        name: request_snapshot.listed_at_start
        for name in ("work", "later")
        if (request_snapshot := rig.store.requests.snapshot(("team", name))) is not None
    }
    assert listed == {"work": True, "later": False}, "a change of it changes nothing of that"


async def test_a_namespace_listed_again_is_rid_of_what_has_gone_and_leaves_others_alone(
    api: FakeApi, kube: Kube
) -> None:
    store = Store(WorkQueue(), CONFIG, lambda: NOW)
    resync = Resync(kube, store, "team", 60, 600)
    for name in ("kept", "gone"):
        api.put(resources.INSTANCES.path("team", name), instance_json(name))
        api.put(resources.REQUESTS.path("team", name), request_json(name))
    await listed(resync)
    elsewhere = instance_json("other")
    elsewhere["metadata"]["namespace"] = "elsewhere"
    store.instances.observe(elsewhere)
    for plural in ("efritinstances", "efritrequests"):
        del api.objects[resources.resource_named(plural).path("team", "gone")]

    await listed(resync)

    assert store.instances.must_verify(("team", "gone"))
    assert not store.instances.must_verify(("team", "kept"))
    assert not store.instances.must_verify(("elsewhere", "other"))
    assert store.requests.must_verify(("team", "gone"))
    assert not store.requests.must_verify(("team", "kept"))


@pytest.mark.parametrize("status", [403, 404])
async def test_a_sweep_that_is_refused_ends_the_sweeps_of_its_namespace(
    status: int, api: FakeApi, kube: Kube, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("efrit.controller.resync.FIRST_SWEEP_SECONDS", 0)
    api.fail("GET", resources.REQUESTS.path("team"), 503)
    api.fail("GET", resources.REQUESTS.path("team"), status)

    async with asyncio.timeout(TIMEOUT):
        with pytest.raises((ApiForbidden, ApiNotFound)):
            await Resync(kube, Store(WorkQueue(), CONFIG, lambda: NOW), "team", 0.01, 600).run()


async def test_a_claim_that_is_gone_without_an_event_is_forgotten(rig: Rig) -> None:
    rig.store.instances.observe(rig.api.put(resources.INSTANCES.path("team", "alpha"), instance_json()))
    labels = {"efrit.dev/instance": "alpha"}
    for name in ("efrit-alpha-queue", "efrit-alpha-workspace"):
        claim = {"metadata": {"name": name, "namespace": "team", "uid": name, "labels": labels}}
        rig.store.children.observe_claim(claim)
    rig.api.put(f"{CLAIMS_OF_TEAM}/efrit-alpha-workspace", claim)

    await rig.resync.sweep_instances()

    assert [claim.name for claim in rig.instance.claims] == ["efrit-alpha-workspace"]


async def test_without_the_definition_of_pools_all_else_is_listed_and_the_log_says_once_what_to_apply(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    rig.place("instance", "plan", "request")
    rig.api.fail("GET", ALL_POOLS, 404, times=3)

    await rig.list_all()
    await rig.resync.sweep_pools()
    with pytest.raises(ApiNotFound):
        await rig.resync.list_watched(POOLS)

    assert rig.instance.instance.metadata.name == "alpha"
    assert rig.store.plans.open_uids() == {("team", "app"): "uid-app"}
    assert rig.store.requests.open_uids() == {KEY: "uid-work"}
    (line,) = [record.getMessage() for record in caplog.records if "efritpools" in record.getMessage()]
    assert line.startswith("the CustomResourceDefinition efritpools.efrit.dev is missing")
    assert "efrit.dev_efritpools.yaml" in line


async def test_pools_are_served_once_their_definition_is_there_and_asked_for_once_it_is_deleted(rig: Rig) -> None:
    rig.api.fail("GET", ALL_POOLS, 404)
    await rig.list_all()
    rig.api.put(resources.POOLS.path("team", "crew"), pool_json())

    assert await rig.resync.list_watched(POOLS)
    assert rig.store.pools.open_uids() == {("team", "crew"): "uid-crew"}

    rig.api.fail("GET", ALL_POOLS, 404)
    await rig.resync.sweep_pools()
    assert rig.store.pools.must_verify(("team", "crew")) == "uid-crew"


async def test_what_was_kept_while_standing_by_is_taken_in_by_the_first_lists_only_as_it_is_now(
    api: FakeApi, kube: Kube
) -> None:
    store, warm = Store(WorkQueue(), CONFIG, lambda: NOW), WarmObjects(1 << 20)
    resync = Resync(kube, store, None, 60, 600, warm=warm)
    instances, pods = Place(INSTANCES, None), Place(PODS, None)
    warm.put(instances, api.put(resources.INSTANCES.path("team", "alpha"), instance_json()))
    warm.put(instances, api.put(resources.INSTANCES.path("team", "beta"), instance_json("beta")))
    warm.put(pods, api.put(PODS_OF_TEAM, POD))
    api.put(PODS_OF_TEAM, child(uid="pod", podIP="10.0.0.2"))
    del api.objects[resources.INSTANCES.path("team", "beta")]
    for place in (instances, pods):
        warm.listed(place, {("team", name) for name in ("alpha", "beta", "efrit-alpha-0")})

    await resync.list_all()

    assert store.instances.uids() == {ALPHA: "uid-alpha"}
    assert [call.accept == METADATA_LIST for call in api.calls if call.path == INSTANCES.path()] == [True]
    # Nothing was kept of these.
    assert all(call.accept != METADATA_LIST for call in api.calls if call.path == STATEFULSETS.path())
    assert (await resync.list_watched(PODS), await resync.list_watched(VOLUME_CLAIMS)) == (str(api.version),) * 2
    assert (len(warm), warm.held_bytes, warm.is_listed(instances)) == (0, 0, False)
    # A sweep is there for what nobody has reported: it believes nothing that was kept.
    api.calls.clear()
    await resync.sweep_instances()
    assert METADATA_LIST not in {call.accept for call in api.calls}


async def test_the_pod_of_the_first_list_is_the_one_of_now_where_another_was_kept(api: FakeApi, kube: Kube) -> None:
    store, warm = Store(WorkQueue(), CONFIG, lambda: NOW), WarmObjects(1 << 20)
    api.put(resources.INSTANCES.path("team", "alpha"), instance_json())
    api.put(SETS_OF_TEAM, STATEFULSET)
    place = Place(PODS, None)
    warm.put(place, api.put(PODS_OF_TEAM, POD))
    warm.listed(place, {("team", "efrit-alpha-0")})
    api.put(PODS_OF_TEAM, child(uid="pod", podIP="10.0.0.2"))

    await Resync(kube, store, None, 60, 600, warm=warm).list_all()

    snapshot = store.instances.snapshot(ALPHA)
    assert snapshot is not None
    assert snapshot.pod is not None
    assert snapshot.pod.ip == "10.0.0.2"


async def test_lists_that_fail_keep_what_was_kept_for_the_next_try(api: FakeApi, kube: Kube) -> None:
    store, warm = Store(WorkQueue(), CONFIG, lambda: NOW), WarmObjects(1 << 20)
    place = Place(INSTANCES, None)
    warm.put(place, api.put(resources.INSTANCES.path("team", "alpha"), instance_json()))
    warm.listed(place, {ALPHA})
    resync = Resync(kube, store, None, 60, 600, warm=warm)
    api.fail("GET", ALL_PODS, 503)

    with pytest.raises(ApiUnavailable):
        await resync.list_all()
    assert warm.count(place) == 1
    await resync.list_all()

    assert store.instances.uids() == {ALPHA: "uid-alpha"}
    assert len(warm) == 0
