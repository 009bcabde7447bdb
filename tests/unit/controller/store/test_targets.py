"""store/: which instance a request counts for, and whom a change of one concerns."""

from __future__ import annotations

from typing import Any

import pytest

from efrit.controller.model import names
from efrit.controller.model.keys import WorkKey
from tests.unit.controller.factory import (
    NAMESPACE,
    NOW,
    POD_UID,
    QUEUE_ID,
    Json,
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

    snapshot = world.instance()

    assert (snapshot.open_requests, snapshot.load) == (3, 3)
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


async def test_the_end_of_the_last_request_looks_at_an_instance_that_may_fall_asleep(world: World) -> None:
    world.store.instances.observe(instance_json(spec={"idle": {"suspendAfterSeconds": 60}}))
    world.store.requests.observe(request_json())
    await world.settle()

    world.store.requests.observe(request_json(version="21", status=final_status()))

    assert ("Instance", "alpha") in await world.looks(within=2)


async def test_a_request_by_selector_sees_the_instances_of_its_namespace_with_all_the_labels(world: World) -> None:
    both = {"a": "1", "b": "2"}
    world.store.instances.observe(instance_json("match", labels={**both, "c": "3"}))
    world.store.instances.observe(instance_json("half", labels={"a": "1"}))
    world.store.instances.observe(instance_json("abroad", labels=both, namespace="other"))
    world.store.requests.observe(request_json(target=None, selector={"matchLabels": both}))

    snapshot = world.request()

    assert [each.instance.metadata.name for each in snapshot.candidates] == ["match"]


async def test_a_request_by_pool_sees_the_members_of_the_pool(world: World) -> None:
    world.store.instances.observe(instance_json("member", labels={names.POOL_LABEL: "big"}))
    world.store.instances.observe(instance_json("stranger", labels={names.POOL_LABEL: "small"}))
    world.store.requests.observe(request_json(target=None, poolRef={"name": "big"}))

    snapshot = world.request()

    assert [each.instance.metadata.name for each in snapshot.candidates] == ["member"]


async def test_a_request_that_names_nothing_has_no_candidates(world: World) -> None:
    world.store.instances.observe(instance_json())
    world.store.requests.observe(request_json(target=None))

    snapshot = world.request()

    assert snapshot.candidates == ()


async def test_a_bound_request_belongs_to_the_instance_in_its_status(world: World) -> None:
    world.store.instances.observe(instance_json())
    selector = {"matchLabels": {"a": "b"}}

    world.store.requests.observe(request_json(target=None, selector=selector, status={"instanceName": "alpha"}))

    snapshot = world.request()
    assert snapshot.target is not None
    assert snapshot.target.open_requests == 1


async def test_a_request_without_room_for_its_status_is_remembered_as_such(world: World) -> None:
    world.store.requests.observe(request_json())
    world.store.requests.status_too_large(WORK, "of an earlier request")
    assert not world.request().reduced_status
    world.store.requests.status_too_large(WORK, UID)
    assert world.request().reduced_status


async def test_a_binding_that_is_being_written_counts_as_load(world: World) -> None:
    world.store.instances.observe(instance_json())
    world.store.requests.observe(request_json("free", target=None, selector={"matchLabels": {"a": "b"}}))

    world.store.requests.assume((NAMESPACE, "free"), ALPHA)

    assert world.instance().load == 1


async def test_a_binding_that_was_not_written_is_taken_back(world: World) -> None:
    world.store.instances.observe(instance_json())
    world.store.requests.observe(request_json("free", target=None, selector={"matchLabels": {"a": "b"}}))
    world.store.requests.assume((NAMESPACE, "free"), ALPHA)

    world.store.requests.assume((NAMESPACE, "free"), None)

    assert world.instance().load == 0


async def test_a_binding_that_was_written_counts_once(world: World) -> None:
    world.store.instances.observe(instance_json())
    free = request_json("free", target=None, selector={"matchLabels": {"a": "b"}})
    world.store.requests.observe(free)
    world.store.requests.assume((NAMESPACE, "free"), ALPHA)

    world.store.requests.observe({**free, "status": {"instanceName": "alpha"}})
    world.store.requests.assume((NAMESPACE, "free"), None)

    assert world.instance().load == 1


FIGURES: Json = {"queue": {"pending": 3, "processed": 7}, "lastActivityTime": "2026-03-01T12:00:00Z"}
READY: Json = {
    "type": "Ready",
    "status": "True",
    "reason": "Ready",
    "message": "",
    "lastTransitionTime": "2026-03-01T12:00:00Z",
}
BOTH_REQUESTS = {("Request", "work"), ("Request", "unbound")}


async def _told(*versions: Json) -> set[tuple[str, str]]:
    """What is looked at because of the last of these versions of an instance."""
    world = World()
    world.store.requests.observe(request_json())
    world.store.requests.observe(request_json("unbound", target=None, selector={"matchLabels": {"a": "b"}}))
    for number, version in enumerate(versions):
        await world.settle()
        # A look at a request takes back what it was assumed to be bound to, which must not lose it.
        world.store.requests.assume((NAMESPACE, "unbound"), None)
        world.store.instances.observe(instance_json(version=str(10 + number), **version))
    return await world.looks()


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
async def test_a_change_that_requests_may_wait_for_is_looked_at_by_all_of_them(after: Json) -> None:
    assert await _told({}, after) == {("Instance", "alpha")} | BOTH_REQUESTS


async def test_an_instance_that_appears_is_looked_at_by_all_that_may_wait_for_it() -> None:
    assert await _told({}) == {("Instance", "alpha")} | BOTH_REQUESTS


async def test_new_figures_of_an_instance_concern_no_request() -> None:
    before = {"status": {"conditions": [READY]}}
    queue: Json = {**READY, "type": "QueueHealthy", "reason": "Working"}
    after = {"status": {"conditions": [{**READY, "message": "moved"}, queue], **FIGURES}}

    assert await _told(before, after) == {("Instance", "alpha")}


async def test_an_unbound_request_is_no_more_looked_at_for_others_once_it_is_bound_final_or_gone(
    world: World,
) -> None:
    selector: dict[str, Any] = {"selector": {"matchLabels": {"a": "b"}}}
    for name in ("bound", "final", "gone"):
        world.store.requests.observe(request_json(name, target=None, **selector))
    world.store.requests.observe(
        request_json("bound", target=None, version="21", status={"instanceName": "x"}, **selector)
    )
    world.store.requests.observe(request_json("final", target=None, version="21", status=final_status(), **selector))
    world.store.requests.gone((NAMESPACE, "gone"), "uid-gone")
    await world.settle()

    world.store.instances.observe(instance_json())

    assert await world.looks() == {("Instance", "alpha")}


async def test_figures_alone_are_a_reason_to_look_twice_a_second_at_most(world: World) -> None:
    world.store.instances.observe(instance_json())
    world.open_bridge()
    await world.settle()
    looks = 0

    async def look(key: WorkKey) -> None:
        nonlocal looks
        looks += 1

    async with running(world.queue, look):
        for number in range(1000):
            world.store.bridges.event(ALPHA, POD_UID, stats(processed=number))
            await elapse(0.01)
        assert 15 <= looks <= 21
        await elapse(1)

    snapshot = world.instance()
    assert snapshot.bridge.stats is not None
    assert snapshot.bridge.stats.processed == 999


async def test_a_view_that_is_told_again_is_no_reason_to_look(world: World) -> None:
    world.store.instances.observe(instance_json())
    world.store.requests.observe(request_json())
    world.open_bridge(view())
    await world.settle()

    world.store.bridges.event(ALPHA, POD_UID, view())

    assert await world.looks() == set()


async def test_a_bridge_that_does_not_answer_stays_one_when_its_stream_begins_anew(world: World) -> None:
    world.store.instances.observe(instance_json())
    world.open_bridge()
    await world.settle()

    world.store.bridges.answering(ALPHA, "no answer.")
    assert ("Instance", "alpha") in await world.looks()
    world.open_bridge()

    assert world.instance().bridge.unresponsive == "no answer."
    world.store.bridges.closed(ALPHA)
    assert world.instance().bridge.unresponsive is None


async def test_every_open_request_is_looked_at_again_within_a_sweep(world: World) -> None:
    for number in range(20):
        world.store.requests.observe(request_json(f"r{number}"))
    world.store.requests.observe(request_json("done", status=final_status()))
    await world.settle()

    world.store.requests.requeue_open(60)

    early = await world.looks(30)
    late = await world.looks(30)
    assert early
    assert late
    assert early | late == {("Request", f"r{number}") for number in range(20)}


async def test_the_children_of_all_instances_are_applied_again_spread_over_the_period(world: World) -> None:
    for number in range(20):
        world.store.instances.observe(instance_json(f"i{number}"))
    await world.settle()

    world.store.instances.resync_all(600)

    early, late = await world.looks(300), await world.looks(300)
    assert early
    assert late
    assert early | late == {("Resync", f"i{number}") for number in range(20)}
