"""store/: who is ahead of whom while an instance has no room for all."""

from __future__ import annotations

import pytest

from efrit.controller.store.backlog import rank
from efrit.protocol import DiskProblem, DiskStats
from tests.unit.controller.factory import (
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


def test_older_requests_go_first() -> None:
    assert rank(request("b", created=NOW - seconds(1))) < rank(request("a"))


def test_a_point_of_priority_is_worth_a_minute_of_waiting() -> None:
    assert rank(request("a", priority=1)) < rank(request("b", created=NOW - seconds(59)))
    assert rank(request("a", priority=1)) > rank(request("b", created=NOW - seconds(61)))


def test_equal_requests_go_by_name() -> None:
    assert rank(request("a")) < rank(request("b"))


def full(world: World, *, room: int) -> None:
    world.store.instances.observe(instance_json(spec={"queue": {"ephemeral": True, "maxPending": 10}}))
    world.open_bridge(pending=10 - room)


async def test_all_that_waits_is_looked_at_when_the_queue_volume_fills_up_and_when_it_has_room_again(
    world: World,
) -> None:
    full(world, room=10)
    for name in ("a", "b"):
        world.store.requests.observe(request_json(name, uid=f"uid-{name}"))
    await world.settle()
    for disk in (DiskStats(problem=DiskProblem.FULL), DiskStats()):
        world.store.bridges.event(ALPHA, POD_UID, stats(disk=disk, pending=10))
        assert {("Request", "a"), ("Request", "b")} <= await world.looks()


async def test_requests_that_wait_longer_are_ahead_and_priority_jumps_the_line(world: World) -> None:
    full(world, room=0)
    for name, age, priority in [("old", 90, 0), ("new", 10, 0), ("urgent", 0, 2)]:
        world.store.requests.observe(request_json(name, created=NOW - seconds(age), priority=priority))

    assert {name: world.request((NAMESPACE, name)).ahead for name in ("urgent", "old", "new")} == {
        "urgent": 0,
        "old": 1,
        "new": 2,
    }


async def test_requests_the_bridge_has_are_not_ahead(world: World) -> None:
    world.store.instances.observe(instance_json(spec={"queue": {"ephemeral": True, "maxPending": 10}}))
    world.store.requests.observe(request_json("there", created=NOW - seconds(60)))
    world.store.requests.observe(request_json("here"))
    world.open_bridge(view("uid-there"), pending=10)

    assert world.request((NAMESPACE, "here")).ahead == 0


async def test_nobody_is_ahead_while_there_is_room_for_all(world: World) -> None:
    full(world, room=10)
    world.store.requests.observe(request_json("old", created=NOW - seconds(60)))
    world.store.requests.observe(request_json("new"))

    assert world.request((NAMESPACE, "new")).ahead == 0


async def test_room_on_the_queue_looks_at_those_who_are_next(world: World) -> None:
    world.store.instances.observe(instance_json(spec={"queue": {"ephemeral": True, "maxPending": 10}}))
    queued = [f"queued-{number}" for number in range(8)]
    for name in queued:
        world.store.requests.observe(request_json(name))
    for number in range(5):
        world.store.requests.observe(request_json(f"work-{number}", created=NOW - seconds(60 - number)))
    world.open_bridge(*(view(f"uid-{name}") for name in queued), pending=10)
    await world.settle()

    world.store.bridges.event(ALPHA, POD_UID, stats(pending=8))

    assert await world.looks() == {("Instance", "alpha"), ("Request", "work-0"), ("Request", "work-1")}


async def test_figures_look_at_no_request_where_none_is_held_back(world: World) -> None:
    world.store.instances.observe(instance_json())
    world.store.requests.observe(request_json())
    world.open_bridge(view(), pending=1)
    await world.settle()

    world.store.bridges.event(ALPHA, POD_UID, stats(pending=1, processed=7))

    assert await world.looks() == {("Instance", "alpha")}


async def test_figures_look_at_no_request_that_is_parked_until_it_was_decided_about_again(world: World) -> None:
    world.store.instances.observe(instance_json())
    for name in ("parked", "other"):
        world.store.requests.observe(request_json(name))
    world.open_bridge(pending=1)
    await world.settle()
    world.store.requests.parked((NAMESPACE, "parked"), "uid-parked")

    world.store.bridges.event(ALPHA, POD_UID, stats(pending=2))
    assert await world.looks() == {("Instance", "alpha"), ("Request", "other")}

    world.request((NAMESPACE, "parked"))
    world.store.bridges.event(ALPHA, POD_UID, stats(pending=3))
    assert ("Request", "parked") in await world.looks()
