"""store/: who is ahead of whom while an instance has no room for all."""

from __future__ import annotations

import pytest

from efrit.api import EfritRequest
from efrit.controller.store.backlog import rank
from efrit.controller.store.index import HELD_BACK_AT_ONCE
from efrit.protocol.view import DiskProblem, DiskStats, RequestView
from tests.support.factory import (
    NAMESPACE,
    NOW,
    POD_UID,
    instance_json,
    request,
    request_json,
    seconds,
    stats,
    view,
)
from tests.unit.controller.store.world import ALPHA, World

pytestmark = pytest.mark.virtual_time


def aged(age: float) -> EfritRequest:
    return request("b", created=NOW - seconds(age))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (aged(1), request("a")),
        (request("a", priority=1), aged(59)),
        (aged(61), request("a", priority=1)),
        (request("a"), request("b")),
    ],
    ids=["older", "a point of priority is worth a minute", "and no more", "equal, by name"],
)
def test_who_goes_first(first: EfritRequest, second: EfritRequest) -> None:
    assert rank(first) < rank(second)


def full(world: World, *views: RequestView, room: int) -> None:
    world.store.instances.observe(instance_json(spec={"queue": {"ephemeral": True, "maxPending": 10}}))
    world.open_bridge(*views, pending=10 - room)


async def test_all_that_waits_is_reconciled_when_the_queue_volume_fills_up_and_when_it_has_room_again(
    world: World,
) -> None:
    full(world, room=10)
    for name in ("a", "b"):
        world.store.requests.observe(request_json(name, uid=f"uid-{name}"))
    await world.settle()
    for disk in (DiskStats(problem=DiskProblem.FULL), DiskStats()):
        world.store.bridges.event(ALPHA, POD_UID, stats(disk=disk, pending=10))
        assert {("Request", "a"), ("Request", "b")} <= await world.due_keys()


async def test_requests_that_wait_longer_are_ahead_and_priority_jumps_the_line(world: World) -> None:
    full(world, room=0)
    for name, age, priority in [("old", 90, 0), ("new", 10, 0), ("urgent", 0, 2)]:
        world.store.requests.observe(request_json(name, created=NOW - seconds(age), priority=priority))

    assert [world.request((NAMESPACE, name)).ahead for name in ("urgent", "old", "new")] == [0, 1, 2]


@pytest.mark.parametrize(("room", "views"), [(0, [view("uid-old")]), (10, [])], ids=["on the queue", "room for all"])
async def test_nobody_is_ahead_whom_the_bridge_has_or_while_there_is_room(
    world: World, room: int, views: list[RequestView]
) -> None:
    for name, age in (("old", 60), ("new", 0)):
        world.store.requests.observe(request_json(name, created=NOW - seconds(age)))
    full(world, *views, room=room)

    assert world.request((NAMESPACE, "new")).ahead == 0


async def test_room_on_the_queue_requeues_those_who_are_next(world: World) -> None:
    world.store.instances.observe(instance_json(spec={"queue": {"ephemeral": True, "maxPending": 10}}))
    queued = [f"queued-{number}" for number in range(8)]
    for name in queued:
        world.store.requests.observe(request_json(name))
    for number in range(5):
        world.store.requests.observe(request_json(f"work-{number}", created=NOW - seconds(60 - number)))
    world.open_bridge(*(view(f"uid-{name}") for name in queued), pending=10)
    await world.settle()

    world.store.bridges.event(ALPHA, POD_UID, stats(pending=8))

    assert await world.due_keys() == {("Instance", "alpha"), ("Request", "work-0"), ("Request", "work-1")}


async def test_figures_requeue_no_more_requests_than_may_be_on_their_way_at_a_time(world: World) -> None:
    world.store.instances.observe(instance_json())
    names = [f"work-{number:03}" for number in range(HELD_BACK_AT_ONCE + 10)]
    for name in names:
        world.store.requests.observe(request_json(name))
    world.open_bridge(pending=1)
    await world.settle()

    world.store.bridges.event(ALPHA, POD_UID, stats(pending=2))
    assert await world.due_keys() == {
        ("Instance", "alpha"),
        *(("Request", name) for name in names[:HELD_BACK_AT_ONCE]),
    }

    world.store.bridges.event(ALPHA, POD_UID, view("uid-work-000"))
    world.store.bridges.event(ALPHA, POD_UID, stats(pending=3))
    assert ("Request", names[HELD_BACK_AT_ONCE]) in await world.due_keys()


async def test_figures_requeue_no_request_where_none_is_held_back(world: World) -> None:
    world.store.instances.observe(instance_json())
    world.store.requests.observe(request_json())
    world.open_bridge(view(), pending=1)
    await world.settle()

    world.store.bridges.event(ALPHA, POD_UID, stats(pending=1, processed=7))

    assert await world.due_keys() == {("Instance", "alpha")}


async def test_figures_requeue_no_request_that_is_parked_until_it_was_decided_about_again(world: World) -> None:
    world.store.instances.observe(instance_json())
    for name in ("parked", "other"):
        world.store.requests.observe(request_json(name))
    world.open_bridge(pending=1)
    await world.settle()
    world.store.requests.parked((NAMESPACE, "parked"), "uid-parked")

    world.store.bridges.event(ALPHA, POD_UID, stats(pending=2))
    assert await world.due_keys() == {("Instance", "alpha"), ("Request", "other")}

    world.request((NAMESPACE, "parked"))
    world.store.bridges.event(ALPHA, POD_UID, stats(pending=3))
    assert ("Request", "parked") in await world.due_keys()
