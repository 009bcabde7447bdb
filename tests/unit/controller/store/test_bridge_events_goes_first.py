"""store/bridge_events.py: what somebody waits for goes before what is to be begun."""

from __future__ import annotations

import asyncio

import pytest

from efrit.controller.model.keys import WorkKey
from efrit.protocol import RequestState
from efrit.protocol.events import Reset
from tests.support.factory import POD_UID, QUEUE_ID, instance_json, request_json, stats, view
from tests.unit.controller.store.world import SOON, World
from tests.unit.controller.virtual_time import elapse

pytestmark = pytest.mark.virtual_time


@pytest.mark.parametrize(("state", "early"), [(RequestState.ANSWERED, True), (RequestState.QUEUED, False)])
async def test_an_instance_that_connects_and_an_answer_do_not_wait_for_all_that_is_to_be_begun(
    state: RequestState, early: bool
) -> None:
    world, order = World(), list[str]()
    for number in range(300):
        world.store.requests.observe(request_json(f"r{number:03}"))
        world.store.instances.observe(instance_json(f"other{number:03}"))
    world.store.instances.observe(instance_json())
    world.open_bridge(view("uid-r299", state))

    async def reconcile(key: WorkKey) -> None:
        order.append(key.name)

    task = asyncio.create_task(world.queue.run(reconcile, 1))
    await elapse(SOON)
    task.cancel()

    assert order.index("alpha") < 10
    assert (order.index("r299") < 10) is early


class Cluster:
    """API server and bridges that do at once what is asked: each reconciliation of a key is one step on its way."""

    def __init__(self, instances: int, requests: int) -> None:
        self.world = World()
        self.steps = 0
        self.answered = asyncio.Event()
        for number in range(instances):
            self.world.store.instances.observe(instance_json(f"i{number:04}"))
        for number in range(requests):
            on = f"i{instances - 1 - number % instances:04}"
            self.world.store.requests.observe(request_json(f"r{number:05}", target=on))

    async def reconcile(self, key: WorkKey) -> None:
        self.steps += not self.answered.is_set()
        instances, name = self.world.store._index.instances, (key.namespace, key.name)
        if key.kind == "EfritRequest":
            snapshot = self.world.request(name)
            if snapshot.bridge_view is not None:
                self.answered.set()
            elif snapshot.target is not None and snapshot.target.handover_open:
                target = (key.namespace, snapshot.target.instance.metadata.name)
                self.world.store.bridges.view(target, view(f"uid-{key.name}", RequestState.ANSWERED))
        elif not instances[name].bridge.connected:
            self.world.store.bridges.event(name, POD_UID, Reset(epoch="e", queue_id=QUEUE_ID))
            self.world.store.bridges.event(name, POD_UID, stats())
        elif instances[name].open_requests and not self.world.instance(name).handover_open:
            opened = {"state": "Open", "id": instances[name].facts.handover_id}
            self.world.store.instances.observe(instance_json(key.name, version="90", status={"handover": opened}))


@pytest.mark.parametrize(("instances", "requests"), [(1, 2000), (300, 1), (300, 600)])
async def test_the_first_answer_after_a_start_takes_as_many_steps_however_much_there_is(
    instances: int, requests: int
) -> None:
    cluster = Cluster(instances, requests)

    task = asyncio.create_task(cluster.world.queue.run(cluster.reconcile, 1))
    await cluster.answered.wait()
    task.cancel()

    # Five keys one after the other, each in turns with three other kinds and with what others have got so far.
    assert cluster.steps <= 30
