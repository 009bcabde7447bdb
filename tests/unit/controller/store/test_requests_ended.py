"""store/: what is left of a request that has its final status."""

from __future__ import annotations

import pytest

from efrit.controller.decide.requests import decide_ended, decide_request
from efrit.controller.model.actions import Acknowledge, DeleteLater
from efrit.protocol.events import Reset
from tests.support.factory import NOW, POD_UID, QUEUE_ID, answered, final_status, instance_json, request_json, seconds
from tests.unit.controller.store.world import ALPHA, UID, WORK, World

pytestmark = pytest.mark.virtual_time
TTL = 60


@pytest.mark.parametrize("instance_exists", [True, False])
@pytest.mark.parametrize("has_answer", [True, False])
async def test_what_is_left_of_a_request_is_decided_as_from_its_whole_picture(
    world: World, instance_exists: bool, has_answer: bool
) -> None:
    if instance_exists:
        world.store.instances.observe(instance_json())
    world.store.requests.observe(request_json(ttlSecondsAfterFinished=TTL))
    if has_answer:
        world.store.bridges.event(ALPHA, POD_UID, Reset(queue_id=QUEUE_ID, epoch="e"))
        world.store.bridges.event(ALPHA, POD_UID, answered())
    world.store.requests.observe(request_json(version="21", ttlSecondsAfterFinished=TTL, status=final_status()))

    ended, snapshot = world.store.requests.ended(WORK), world.store.requests.snapshot(WORK)

    assert ended is not None
    assert snapshot is not None
    acknowledged = [Acknowledge(ALPHA, UID)] if instance_exists and has_answer else []
    expected = [*acknowledged, DeleteLater("EfritRequest", WORK, UID, NOW + seconds(TTL))]
    assert decide_ended(ended, NOW) == decide_request(snapshot, NOW) == expected


async def test_a_request_that_is_open_gone_or_unknown_has_not_ended(world: World) -> None:
    assert world.store.requests.ended(WORK) is None

    world.store.requests.observe(request_json())
    assert world.store.requests.ended(WORK) is None

    world.store.requests.observe(request_json(version="21", status=final_status()))
    world.store.requests.observe_gone(WORK, UID)
    assert world.store.requests.ended(WORK) is None


async def test_a_call_that_an_ended_request_waited_for_is_forgotten(world: World) -> None:
    world.store.requests.observe(request_json(status=final_status()))
    world.store.requests.parked(WORK, UID)

    world.store.requests.ended(WORK)

    assert not world.store.requests._index.requests[WORK].parked
