"""store/bridge_events.py: what somebody waits for goes before what is to be begun."""

from __future__ import annotations

import asyncio

import pytest

from efrit.controller.model.keys import WorkKey
from efrit.protocol import RequestState
from tests.unit.controller.factory import instance_json, request_json, view
from tests.unit.controller.store.world import SOON, World
from tests.unit.controller.virtual_time import elapse, on_virtual_time


@pytest.mark.parametrize(("state", "early"), [(RequestState.ANSWERED, True), (RequestState.QUEUED, False)])
@on_virtual_time
async def test_an_instance_that_connects_and_an_answer_do_not_wait_for_all_that_is_to_be_begun(
    state: RequestState, early: bool
) -> None:
    world, seen = World(), list[str]()
    for number in range(300):
        world.store.requests.observe(request_json(f"r{number:03}"))
        world.store.instances.observe(instance_json(f"other{number:03}"))
    world.store.instances.observe(instance_json())
    world.open_bridge(view("uid-r299", state))

    async def look(key: WorkKey) -> None:
        seen.append(key.name)

    task = asyncio.create_task(world.queue.run(look, 1))
    await elapse(SOON)
    task.cancel()

    assert seen.index("alpha") < 10
    assert (seen.index("r299") < 10) is early
