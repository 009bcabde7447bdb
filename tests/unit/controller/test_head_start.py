"""The first answers after a start: what they wait for, and what they do not."""

from __future__ import annotations

import asyncio
import functools
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from efrit.controller import head_start, resync
from efrit.controller.act.actor import Actor
from efrit.controller.act.bridges import Bridges
from efrit.controller.act.kube import Kube
from efrit.controller.head_start import (
    HEAD_START_SECONDS,
    MAX_INSTANCES,
    MAX_PAGES,
    MAX_REQUESTS,
    PAGE_REQUESTS,
    read_first,
)
from efrit.controller.manifests import Identity
from efrit.controller.model.config import HEAD_START_INSTANCES, ControllerConfig, RolloutLimits
from efrit.controller.model.keys import Key, WorkKey
from efrit.controller.reconcile import Reconciler
from efrit.controller.resync import Resync
from efrit.controller.store.store import Store
from efrit.controller.warm_objects import Place, WarmObjects
from efrit.controller.work_queue import WorkQueue
from efrit.errors import ApiUnavailable
from efrit.resources import INSTANCES, PODS, REQUESTS, STATEFULSETS
from tests.support.factory import (
    CONFIG,
    NAMESPACE,
    POD_UID,
    Json,
    answered,
    final_status,
    instance_json,
    request_json,
    statefulset_json,
    wire_time,
)
from tests.support.timeout import TIMEOUT
from tests.unit.controller.fake_api import FakeApi
from tests.unit.controller.fake_bridge import INSTANCE, fake_bridge
from tests.unit.controller.store.world import World
from tests.unit.controller.virtual_time import on_virtual_time

WORK = f"{REQUESTS.path(NAMESPACE)}/work"
ALPHA = WorkKey("EfritInstance", *INSTANCE)
STARTED = wire_time(datetime.now(UTC) - timedelta(hours=1))
ALL_PODS = PODS.path(None)


def ready(updated: str = "True") -> Json:
    """Return what an earlier controller said of an instance that it found Ready."""
    about = {"reason": "Known", "message": "", "lastTransitionTime": STARTED}
    conditions = [{"type": "Ready", "status": "True", **about}, {"type": "Updated", "status": updated, **about}]
    return {"conditions": conditions, "podName": "efrit-alpha-0", "startTime": STARTED}


def place(api: FakeApi, port: int = 8443, *, pod: bool = True, **fields: Any) -> None:
    """Place an instance that runs and whose request waits."""
    api.put(f"{INSTANCES.path(NAMESPACE)}/alpha", instance_json(**{"status": ready(), **fields}))
    api.put(f"{STATEFULSETS.path(NAMESPACE)}/efrit-alpha", statefulset_json())
    api.put(WORK, request_json(created=datetime.now(UTC)))
    meta: Json = {"name": "efrit-alpha-0", "namespace": NAMESPACE, "uid": POD_UID}
    meta |= {"labels": {"efrit.dev/instance": "alpha"}, "ownerReferences": [{"uid": "ss", "controller": True}]}
    spec = {"initContainers": [{"name": "bridge", "ports": [{"name": "bridge", "containerPort": port}]}]}
    running = [{"name": "emacs", "ready": True, "restartCount": 0, "state": {"running": {"startedAt": STARTED}}}]
    status = {"phase": "Running", "podIP": "127.0.0.1", "startTime": STARTED, "containerStatuses": running}
    if pod:
        api.put(f"{PODS.path(NAMESPACE)}/efrit-alpha-0", {"metadata": meta, "spec": spec, "status": status})


def place_others(api: FakeApi, count: int = HEAD_START_INSTANCES) -> None:
    for number in range(count):
        api.put(f"{INSTANCES.path(NAMESPACE)}/aa-{number:03}", instance_json(f"aa-{number:03}"))


class Controller:
    """All of it but the watches, over a fake API server."""

    def __init__(self, kube: Kube, identity: Identity, config: ControllerConfig = CONFIG) -> None:
        self.queue = WorkQueue()
        self.store = Store(self.queue, config, lambda: datetime.now(UTC))
        self.resync = Resync(kube, self.store, None, 60, 600)
        self.bridges = Bridges(identity, self.store)
        actor = Actor(kube, self.bridges, self.store, lambda: datetime.now(UTC), "pod-1", lambda: True)
        self.reconciler = Reconciler(self.store, actor, identity, lambda: datetime.now(UTC), lambda _: False)


@pytest.fixture(autouse=True)
def long_time_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow the machine is, what is read at first is read, and answered."""
    monkeypatch.setattr(head_start, "READ_SECONDS", TIMEOUT)


async def test_the_first_answer_waits_for_no_other_instance_and_none_of_their_children(
    api: FakeApi, kube: Kube, identity: Identity, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resync, "read_first", functools.partial(read_first, seconds=TIMEOUT))
    controller = Controller(kube, identity)
    api.gates[ALL_PODS] = asyncio.Event()
    place_others(api, 2 * HEAD_START_INSTANCES)
    async with fake_bridge(identity, tmp_path) as bridge:
        place(api, bridge.port)
        bridge.answers["PUT", "/v1/requests/uid-work"] = (201, answered().to_json())
        working = asyncio.create_task(controller.queue.run(controller.reconciler.reconcile, 4))
        listing = asyncio.create_task(controller.resync.list_all())

        stream = await bridge.reader()
        await stream.whole_picture()
        await api.until(lambda: api.objects[WORK].get("status", {}).get("phase") == "Succeeded")

        assert not listing.done()
        listing.cancel()
        working.cancel()
        await asyncio.gather(listing, working, return_exceptions=True)
        await controller.bridges.close()
    paths = [call.path for call in api.calls]
    before = Counter(paths[: paths.index(f"{WORK}/status")])
    assert (before[INSTANCES.path(None)], before[REQUESTS.path(None)], before[STATEFULSETS.path(None)]) == (1, 1, 0)
    written = [f"{call.path} {call.body}" for call in api.calls if call.method != "GET"]
    assert not any("aa-0" in name for name in written)


@on_virtual_time
async def test_the_lists_of_all_wait_for_the_first_answer_for_two_seconds_at_most() -> None:
    await World().store.early.first_answer(HEAD_START_SECONDS)

    assert asyncio.get_running_loop().time() == HEAD_START_SECONDS == 2


async def test_a_few_instances_of_a_page_of_requests_are_read_at_first_and_no_more(api: FakeApi, kube: Kube) -> None:
    for number in range(3 * MAX_REQUESTS):
        api.put(f"{REQUESTS.path(NAMESPACE)}/r{number:03}", request_json(f"r{number:03}", target=f"i{number:03}"))

    await read_first(kube, Store(WorkQueue(), CONFIG, lambda: datetime.now(UTC)), None)

    reads = Counter(call.path for call in api.calls)
    assert reads.pop(REQUESTS.path(None)) == 1
    requests = [path for path in reads if path.startswith(f"{REQUESTS.path(NAMESPACE)}/")]
    assert [reads.pop(path) for path in requests] == [1] * MAX_REQUESTS
    assert sum(reads.values()) == 5 * MAX_INSTANCES


def put_request(api: FakeApi, namespace: str, name: str, age: int) -> None:
    created = datetime.now(UTC) - timedelta(minutes=age)
    request = request_json(name, target=name, namespace=namespace, created=created)
    api.put(f"{REQUESTS.path(namespace)}/{name}", request)


async def first_requests(kube: Kube, first: str = "") -> list[Key]:
    """Return the requests that are read at first; the lot falls on the namespace `first`."""
    store = Store(WorkQueue(), CONFIG, lambda: datetime.now(UTC))

    await read_first(
        kube, store, None, shuffle=lambda namespaces: namespaces.sort(key=lambda namespace: namespace != first)
    )

    return list(store.requests.open_uids())


async def test_requests_of_one_namespace_keep_none_of_another_from_being_among_the_first(
    api: FakeApi, kube: Kube
) -> None:
    for number in range(3 * PAGE_REQUESTS):
        put_request(api, "aa-loud", f"r{number:03}", age=500)
    put_request(api, "quiet", "new", age=1)
    put_request(api, "quiet", "old", age=2)
    put_request(api, "zz", "one", age=0)

    keys = await first_requests(kube)

    assert keys[:5] == [
        ("aa-loud", "r000"),
        ("quiet", "old"),
        ("zz", "one"),
        ("aa-loud", "r001"),
        ("quiet", "new"),
    ]
    assert len(keys) == MAX_REQUESTS


async def test_the_lot_decides_which_of_many_namespaces_is_first(api: FakeApi, kube: Kube) -> None:
    for number in range(3 * MAX_REQUESTS):
        put_request(api, f"team-{number:03}", "one", age=number)

    assert (await first_requests(kube, "team-047"))[0] == ("team-047", "one")
    assert len({(await first_requests(kube, f"team-{number:03}"))[0] for number in range(3)}) == 3


async def test_of_a_namespace_the_oldest_requests_are_first(api: FakeApi, kube: Kube) -> None:
    for number in range(PAGE_REQUESTS):
        put_request(api, NAMESPACE, f"r{number:03}", age=number)

    assert await first_requests(kube) == [(NAMESPACE, f"r{99 - number:03}") for number in range(MAX_REQUESTS)]


async def test_few_pages_are_read_however_many_namespaces_have_very_many_requests(api: FakeApi, kube: Kube) -> None:
    for number in range((MAX_PAGES + 2) * PAGE_REQUESTS):
        put_request(api, f"team-{number // PAGE_REQUESTS}", f"r{number:03}", age=1)

    keys = await first_requests(kube)

    lists = [call for call in api.calls if call.path == REQUESTS.path(None)]
    assert [call.query["limit"] for call in lists] == [str(PAGE_REQUESTS)] * MAX_PAGES
    assert {namespace for namespace, _ in keys} == {f"team-{number}" for number in range(MAX_PAGES)}


async def test_a_request_that_is_gone_since_it_was_listed_is_left_out(api: FakeApi, kube: Kube) -> None:
    for name in ("gone", "there"):
        put_request(api, NAMESPACE, name, age=1)
    api.fail("GET", f"{REQUESTS.path(NAMESPACE)}/gone", 404)

    assert await first_requests(kube) == [(NAMESPACE, "there")]


async def test_where_there_are_few_instances_nothing_is_read_twice(
    api: FakeApi, kube: Kube, identity: Identity
) -> None:
    place(api)
    place_others(api, HEAD_START_INSTANCES - 2)

    await Controller(kube, identity).resync.list_all()

    assert [call.path for call in api.calls if call.path.startswith(REQUESTS.path(None))] == []
    assert max(Counter(call.path for call in api.calls).values()) == 1


async def test_where_many_instances_were_kept_while_standing_by_the_head_start_waits_for_no_list(
    api: FakeApi, kube: Kube, identity: Identity
) -> None:
    place(api)
    place_others(api)
    controller, instances = Controller(kube, identity), Place(INSTANCES, None)
    warm = WarmObjects(1 << 20)
    for obj in [obj for path, obj in api.objects.items() if "/efritinstances/" in path]:
        warm.put(instances, obj)
    warm.listed(instances, {(NAMESPACE, name) for _, name in warm._objects[instances]})
    listing = Resync(kube, controller.store, None, 60, 600, warm=warm)

    await listing.list_all()

    lists = [call.path for call in api.calls if call.path in (REQUESTS.path(None), INSTANCES.path(None))]
    assert lists[0] == REQUESTS.path(None)
    assert set(lists[1:]) == {INSTANCES.path(None)}


@pytest.mark.parametrize(
    ("fields", "early"),
    [
        ({}, True),
        ({"status": {}}, False),
        ({"status": ready(updated="Unknown")}, False),
        ({"status": ready(updated="False")}, False),
        ({"deleting": True}, False),
        ({"pod": False}, False),
    ],
)
async def test_only_an_instance_that_was_ready_and_up_to_date_is_served_before_the_others_are_known(
    api: FakeApi, kube: Kube, identity: Identity, fields: Json, early: bool
) -> None:
    place(api, **fields)
    store = Controller(kube, identity).store

    await read_first(kube, store, None, 0)

    served = {
        kind: store.early.serves(WorkKey(kind, NAMESPACE, name))
        for kind, name in (("EfritInstance", "alpha"), ("EfritRequest", "work"), ("EfritPlan", "alpha"))
    }
    assert served == {"EfritInstance": early, "EfritRequest": early, "EfritPlan": False}
    assert not store.early.serves(WorkKey("EfritInstance", NAMESPACE, "other"))


async def test_an_update_that_depends_on_the_others_waits_until_they_are_known(
    api: FakeApi, kube: Kube, identity: Identity
) -> None:
    at_once = replace(CONFIG, rollout=RolloutLimits(max_hold=timedelta(0)))
    controller = Controller(kube, identity, at_once)
    place(api)
    await read_first(kube, controller.store, None, 0)

    await controller.reconciler.reconcile(ALPHA)

    assert not controller.store.rollouts.is_reserved(INSTANCE)
    assert {call.method for call in api.calls} == {"GET"}


@pytest.mark.parametrize("fails", [False, True])
async def test_once_the_lists_are_complete_or_have_failed_no_instance_is_served_before_its_namespace(
    api: FakeApi, kube: Kube, identity: Identity, fails: bool
) -> None:
    controller = Controller(kube, identity)
    place_others(api)
    place(api)
    api.gates[ALL_PODS] = asyncio.Event()
    listing = asyncio.create_task(controller.resync.list_all())
    async with asyncio.timeout(TIMEOUT):
        while not controller.store.early.serves(ALPHA):  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(0)
    controller.store.requests.observe(request_json(status=final_status(), version="999"))
    controller.store.early.reconciled(WorkKey("EfritRequest", NAMESPACE, "work"))
    await api.until(lambda: any(call.path == ALL_PODS for call in api.calls))
    assert controller.store.early.serves(ALPHA)

    if fails:
        api.fail("GET", ALL_PODS, 503)
    api.gates[ALL_PODS].set()
    [error] = await asyncio.gather(listing, return_exceptions=True)

    assert isinstance(error, ApiUnavailable) is fails
    assert not controller.store.early.serves(ALPHA)


async def test_a_request_that_was_read_at_first_and_is_gone_when_all_are_listed_is_asked_about(
    api: FakeApi, kube: Kube, identity: Identity
) -> None:
    controller = Controller(kube, identity)
    place(api)
    await read_first(kube, controller.store, None, 0)
    del api.objects[WORK]

    await controller.resync.list_requests()

    assert controller.store.requests.must_verify((NAMESPACE, "work")) == "uid-work"


@pytest.mark.parametrize("path", [REQUESTS.path(None), PODS.path(NAMESPACE), f"{INSTANCES.path(NAMESPACE)}/alpha"])
@pytest.mark.parametrize("status", [503, None], ids=str)
async def test_what_cannot_be_read_at_first_or_not_soon_keeps_no_list_from_being_read(
    api: FakeApi, kube: Kube, identity: Identity, monkeypatch: pytest.MonkeyPatch, path: str, status: int | None
) -> None:
    controller, answer = Controller(kube, identity), asyncio.Event()
    place_others(api)
    place(api)
    if status is None:
        monkeypatch.setattr(head_start, "READ_SECONDS", 0)
        api.gates[path] = answer
    else:
        api.fail("GET", path, status)

    await controller.resync.list_all()

    answer.set()
    assert not controller.store.early.serves(ALPHA)
    assert INSTANCE in controller.store.instances.uids()
    assert any(call.path == ALL_PODS for call in api.calls)
