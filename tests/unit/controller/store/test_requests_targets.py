"""store/: which instance a request counts for, and whom a change of one concerns."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from efrit.controller import portions
from efrit.controller.model import names
from efrit.controller.model.keys import WorkKey
from efrit.controller.store import index
from efrit.controller.store.packed_spec import MAX_LABELS
from tests.support.factory import (
    NAMESPACE,
    NOW,
    POD_UID,
    QUEUE_ID,
    Json,
    condition_json,
    final_status,
    instance_json,
    request_json,
    seconds,
    stats,
    view,
)
from tests.unit.controller.store.world import ALPHA, UID, WORK, World
from tests.unit.controller.test_work_queue import running
from tests.unit.controller.virtual_time import elapse

pytestmark = pytest.mark.virtual_time


async def test_only_open_requests_count_as_load(world: World) -> None:
    world.store.instances.observe(instance_json())
    for number in range(3):
        world.store.requests.observe(request_json(f"open-{number}"))
    world.store.requests.observe(request_json("done", status=final_status()))

    assert (world.instance().open_requests, world.instance().load) == (3, 3)
    assert world.store.counts() == (1, 3)


@pytest.mark.parametrize(("queue", "unfinished"), [({"ephemeral": True}, 1), ({"storage": {}}, 0)])
async def test_a_request_recorded_on_an_ephemeral_queue_is_unfinished_until_it_is_final(
    world: World, queue: Json, unfinished: int
) -> None:
    world.store.instances.observe(instance_json("alpha", spec={"queue": queue}))
    recorded = {"phase": "Queued", "queueID": QUEUE_ID, "instanceName": "alpha"}
    counts = []
    for version, status in (("1", {}), ("2", recorded), ("3", final_status())):
        made = request_json(status=status)
        made["metadata"]["resourceVersion"] = version
        world.store.requests.observe(made)
        counts.append(world.instance().unfinished)
    assert counts == [0, unfinished, 0]


async def test_the_last_activity_is_the_latest_creation_or_end_of_a_request(world: World) -> None:
    world.store.instances.observe(instance_json())

    world.store.requests.observe(request_json("one", created=NOW - seconds(60)))
    world.store.requests.observe(request_json("two", created=NOW - seconds(90), status=final_status(ended=NOW)))

    assert world.instance().facts.last_activity == NOW


async def test_the_end_of_the_last_request_requeues_an_instance_that_may_fall_asleep(world: World) -> None:
    world.store.instances.observe(instance_json(spec={"idle": {"suspendAfterSeconds": 60}}))
    world.store.requests.observe(request_json())
    await world.settle()

    world.store.requests.observe(request_json(version="21", status=final_status()))

    assert ("Instance", "alpha") in await world.due_keys(within=2)


async def test_of_thousands_that_wait_for_one_instance_a_few_are_reconciled_at_a_time(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(portions, "AT_ONCE", 2)
    world.store.instances.observe(instance_json())
    for number in range(7):
        world.store.requests.observe(request_json(f"r{number}"))
        world.store.requests.observe(request_json(f"s{number}", target=None, selector={"matchLabels": {"a": "b"}}))
    await world.settle()

    the_instance = 1
    world.store.instances.observe_gone(ALPHA, "uid-alpha")
    assert world.queue.ready <= 2 + the_instance
    assert {f"r{number}" for number in range(7)} <= {name for _, name in await world.due_keys(within=2)}

    world.store.instances.observe(instance_json(uid="another", labels={"a": "b"}))
    assert world.queue.ready <= 2 * 2 + the_instance
    assert {f"s{number}" for number in range(7)} <= {name for _, name in await world.due_keys(within=2)}


async def test_a_sweep_of_thousands_lets_others_have_a_turn(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "SPREAD_AT_ONCE", 2)
    for number in range(7):
        world.store.instances.observe(instance_json(f"i{number}"))
        world.store.requests.observe(request_json(f"r{number}", target=f"i{number}"))
    turns = 0

    async def work() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    others = asyncio.create_task(work())
    for sweep in (world.store.requests.requeue_open(600), world.store.instances.resync_all(600)):
        before = turns
        await sweep
        assert turns - before >= 7 // 2
    others.cancel()


BOTH = {"a": "1", "b": "2"}
POOL = {names.POOL_LABEL: "big"}


@pytest.mark.parametrize(
    ("labels", "target", "candidates"),
    [
        ({**BOTH, "c": "3"}, {"selector": {"matchLabels": BOTH}}, ["match"]),
        ({"a": "1"}, {"selector": {"matchLabels": BOTH}}, []),
        (POOL, {"poolRef": {"name": "big"}}, ["match"]),
        ({names.POOL_LABEL: "small"}, {"poolRef": {"name": "big"}}, []),
        (BOTH, {}, []),
    ],
    ids=["all labels and more", "one label of two", "a member of the pool", "of another pool", "nothing is named"],
)
async def test_a_request_sees_the_instances_of_its_namespace_that_it_asks_for(
    world: World, labels: Json, target: Json, candidates: list[str]
) -> None:
    world.store.instances.observe(instance_json("match", labels=labels))
    world.store.instances.observe(instance_json("abroad", labels=labels, namespace="other"))
    world.store.requests.observe(request_json(target=None, **target))

    assert [candidate.instance.metadata.name for candidate in world.request().candidates] == candidates


async def test_a_bound_request_belongs_to_the_instance_in_its_status(world: World) -> None:
    world.store.instances.observe(instance_json())
    selector = {"matchLabels": {"a": "b"}}

    world.store.requests.observe(request_json(target=None, selector=selector, status={"instanceName": "alpha"}))

    target = world.request().target
    assert target is not None
    assert target.open_requests == 1


async def test_a_request_without_room_for_its_status_is_remembered_as_such(world: World) -> None:
    world.store.requests.observe(request_json())
    world.store.requests.status_too_large(WORK, "of an earlier request")
    assert not world.request().reduced_status
    world.store.requests.status_too_large(WORK, UID)
    assert world.request().reduced_status


@pytest.mark.parametrize(
    ("written", "taken_back", "load"),
    [(False, False, 1), (False, True, 0), (True, True, 1)],
    ids=["being written", "not written", "written, which counts once"],
)
async def test_a_binding_counts_as_load(world: World, written: bool, taken_back: bool, load: int) -> None:
    free = request_json("free", target=None, selector={"matchLabels": {"a": "b"}})
    world.store.instances.observe(instance_json())
    world.store.requests.observe(free)

    world.store.requests.assume((NAMESPACE, "free"), ALPHA)
    if written:
        world.store.requests.observe({**free, "status": {"instanceName": "alpha"}})
    if taken_back:
        world.store.requests.assume((NAMESPACE, "free"), None)

    assert world.instance().load == load


FIGURES: Json = {"queue": {"pending": 3, "processed": 7}, "lastActivityTime": "2026-03-01T12:00:00Z"}
READY = condition_json("Ready", "True", "Ready")
BOTH_REQUESTS = {("Request", "work"), ("Request", "unbound")}


async def _keys(*versions: Json) -> set[tuple[str, str]]:
    """Return what is reconciled because of the last of these versions of an instance."""
    world = World()
    world.store.requests.observe(request_json())
    world.store.requests.observe(request_json("unbound", target=None, selector={"matchLabels": {"a": "b"}}))
    for number, version in enumerate(versions):
        await world.settle()
        # A reconciliation of a request takes back what it was assumed to be bound to, which must not lose it.
        world.store.requests.assume((NAMESPACE, "unbound"), None)
        world.store.instances.observe(instance_json(version=str(10 + number), **version))
    return await world.due_keys()


@pytest.mark.parametrize(
    "after",
    [
        {"generation": 2},
        {"uid": "made-anew"},
        {"labels": {"a": "b"}},
        {"deleting": True},
        {"status": {"suspendedIdle": True}},
        {"status": {"conditions": [READY]}},
    ],
    ids=lambda after: next(iter(after)),
)
async def test_a_change_that_requests_may_wait_for_is_reconciled_by_all_of_them(after: Json) -> None:
    assert await _keys({}, after) == {("Instance", "alpha")} | BOTH_REQUESTS


async def test_an_instance_that_appears_is_reconciled_by_all_that_may_wait_for_it() -> None:
    assert await _keys({}) == {("Instance", "alpha")} | BOTH_REQUESTS


async def test_new_figures_of_an_instance_concern_no_request() -> None:
    before = {"status": {"conditions": [READY]}}
    queue: Json = {**READY, "type": "QueueHealthy", "reason": "Working"}
    after = {"status": {"conditions": [{**READY, "message": "moved"}, queue], **FIGURES}}

    assert await _keys(before, after) == {("Instance", "alpha")}


async def test_new_figures_of_an_instance_with_more_labels_than_are_kept_concern_no_request() -> None:
    labels = {f"l{number}": "" for number in range(MAX_LABELS + 1)}
    status: Json = {"conditions": [READY]}

    assert await _keys({"labels": labels, "status": status}, {"labels": labels, "status": {**status, **FIGURES}}) == {
        ("Instance", "alpha")
    }


async def test_an_unbound_request_is_no_more_reconciled_for_others_once_it_is_bound_final_or_gone(
    world: World,
) -> None:
    selector: dict[str, Any] = {"selector": {"matchLabels": {"a": "b"}}}
    for name in ("bound", "final", "gone"):
        world.store.requests.observe(request_json(name, target=None, **selector))
    world.store.requests.observe(
        request_json("bound", target=None, version="21", status={"instanceName": "x"}, **selector)
    )
    world.store.requests.observe(request_json("final", target=None, version="21", status=final_status(), **selector))
    world.store.requests.observe_gone((NAMESPACE, "gone"), "uid-gone")
    await world.settle()

    world.store.instances.observe(instance_json())

    assert await world.due_keys() == {("Instance", "alpha")}


async def test_figures_alone_are_a_reason_to_reconcile_twice_a_second_at_most(world: World) -> None:
    world.store.instances.observe(instance_json())
    world.open_bridge()
    await world.settle()
    due = 0

    async def reconcile(key: WorkKey) -> None:
        nonlocal due
        due += 1

    async with running(world.queue, reconcile):
        for number in range(1000):
            world.store.bridges.event(ALPHA, POD_UID, stats(processed=number))
            await elapse(0.01)
        assert 15 <= due <= 21
        await elapse(1)

    assert world.instance().bridge.stats == stats(processed=999)


async def test_a_view_that_is_reported_again_is_no_reason_to_reconcile(world: World) -> None:
    world.store.instances.observe(instance_json())
    world.store.requests.observe(request_json())
    world.open_bridge(view())
    await world.settle()

    world.store.bridges.event(ALPHA, POD_UID, view())

    assert await world.due_keys() == set()


async def test_a_bridge_that_does_not_answer_stays_one_when_its_stream_begins_anew(world: World) -> None:
    world.store.instances.observe(instance_json())
    world.open_bridge()
    await world.settle()

    world.store.bridges.bridge_responsive(ALPHA, "no answer.")
    assert ("Instance", "alpha") in await world.due_keys()
    world.open_bridge()

    assert world.instance().bridge.unresponsive == "no answer."
    world.store.bridges.bridge_disconnected(ALPHA)
    assert world.instance().bridge.unresponsive is None


async def test_all_open_requests_are_reconciled_and_all_children_applied_again_spread_over_the_period(
    world: World,
) -> None:
    for number in range(20):
        world.store.requests.observe(request_json(f"r{number}"))
        world.store.instances.observe(instance_json(f"i{number}"))
    world.store.requests.observe(request_json("done", status=final_status()))
    await world.settle()

    await world.store.requests.requeue_open(600)
    await world.store.instances.resync_all(600)

    early, late = await world.due_keys(300), await world.due_keys(300)
    for kind, letter in (("Request", "r"), ("Resync", "i")):
        halves = [{name for of, name in half if of == kind} for half in (early, late)]
        assert all(halves)
        assert (halves[0] | halves[1]) - {"alpha"} == {f"{letter}{number}" for number in range(20)}
