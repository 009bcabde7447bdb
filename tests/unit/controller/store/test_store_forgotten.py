"""watch/: nothing is kept of what is gone, and of what a tenant makes up no more than has a bound."""

from __future__ import annotations

import pytest

from efrit.controller.store import bridge_events
from efrit.protocol import RequestState
from efrit.protocol.events import Reset
from efrit.protocol.view import RequestView
from tests.support.factory import NAMESPACE, POD_UID, QUEUE_ID, instance_json, request_json, stats, view
from tests.unit.controller.store.world import ALPHA, UID, WORK, World, child

pytestmark = pytest.mark.virtual_time

LOST = (NAMESPACE, "lost")


def made_up(name: str) -> RequestView:
    return view(f"uid-{name}", RequestState.RUNNING, attempt=1, metadata={"name": name, "namespace": NAMESPACE})


async def test_work_without_a_request_is_forgotten_with_its_instance(world: World) -> None:
    world.store.instances.observe(instance_json())
    world.open_bridge(made_up("lost"))
    assert world.store.bridges.orphans(LOST) == [(ALPHA, "uid-lost")]

    world.store.instances.observe_gone(ALPHA, "uid-alpha")
    world.store.bridges.bridge_disconnected(ALPHA)
    world.store.instances.drop(ALPHA)

    assert world.store.bridges.orphans(LOST) == []
    assert world.store.instances.keys() == []


@pytest.mark.parametrize("is_orphan_left", [False, True])
async def test_a_request_that_is_done_is_reconciled_again_only_where_work_of_an_earlier_one_is_left(
    world: World, is_orphan_left: bool
) -> None:
    world.store.requests.observe(request_json(uid="uid-earlier"))
    if is_orphan_left:
        world.open_bridge(view("uid-earlier"))
    await world.settle()
    world.store.requests.observe(request_json(version="21"))

    world.store.requests.drop(WORK)

    due = {key for key in await world.due_keys() if key[0] == "Request"}
    assert due == ({("Request", "work")} if is_orphan_left else set())


async def test_a_bridge_that_starts_over_again_and_again_leaves_no_work_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bridge_events, "MAX_UNKNOWN", 5)
    world = World()
    world.store.instances.observe(instance_json(spec={"queue": {"maxPending": 5}}))
    await world.settle()
    names = [f"n{number}" for number in range(200)]
    for start in range(0, len(names), 10):
        world.store.bridges.event(ALPHA, POD_UID, Reset(queue_id=QUEUE_ID, epoch="e"))
        for name in names[start : start + 10]:
            world.store.bridges.event(ALPHA, POD_UID, made_up(name))

    assert [name for name in names if world.store.bridges.orphans((NAMESPACE, name))] == names[-10:]
    assert await world.due_keys(within=60) == {("Request", name) for name in names[-10:]}


async def test_work_that_another_instance_reports_survives_when_a_bridge_starts_over(world: World) -> None:
    world.store.instances.observe(instance_json())
    world.store.instances.observe(instance_json("beta"))
    world.open_bridge(made_up("lost"))
    world.store.bridges.event((NAMESPACE, "beta"), "pod", made_up("lost"))

    world.store.bridges.event(ALPHA, POD_UID, Reset(queue_id=QUEUE_ID, epoch="e"))

    assert world.store.bridges.orphans(LOST) == [((NAMESPACE, "beta"), "uid-lost")]


async def test_work_that_a_bridge_calls_by_another_name_again_and_again_is_kept_once(world: World) -> None:
    world.store.instances.observe(instance_json())
    world.open_bridge()
    for name in ("one", "two", "three"):
        metadata = {"name": name, "namespace": NAMESPACE}
        world.store.bridges.event(ALPHA, POD_UID, view(state=RequestState.RUNNING, attempt=1, metadata=metadata))

    names = [name for name in ("one", "two", "three") if world.store.bridges.orphans((NAMESPACE, name))]
    assert names == ["three"]


async def test_work_on_a_bridge_that_cannot_be_reached_is_checked_last(world: World) -> None:
    world.store.instances.observe(instance_json())
    world.store.instances.observe(instance_json("beta"))
    world.open_bridge(made_up("lost"))
    second = view("uid-second", RequestState.RUNNING, attempt=1, metadata={"name": "lost", "namespace": NAMESPACE})
    beta = (NAMESPACE, "beta")
    world.store.bridges.event(beta, "pod", Reset(queue_id="q", epoch="e"))
    world.store.bridges.event(beta, "pod", second)
    world.store.bridges.event(beta, "pod", stats(queue_id="q"))
    assert world.store.bridges.orphans(LOST) == [(ALPHA, "uid-lost"), (beta, "uid-second")]

    world.store.bridges.bridge_lost(ALPHA, POD_UID, "no route")

    assert world.store.bridges.orphans(LOST) == [(beta, "uid-second"), (ALPHA, "uid-lost")]


async def test_a_deleted_request_is_forgotten_when_the_instance_that_ran_it_is_gone(world: World) -> None:
    world.store.instances.observe(instance_json())
    world.store.requests.observe(request_json())
    world.open_bridge(view(state=RequestState.RUNNING, attempt=1))
    world.store.requests.observe_gone(WORK, UID)
    await world.settle()
    assert not world.store.requests.is_done(WORK)

    world.store.instances.observe_gone(ALPHA, "uid-alpha")
    world.store.bridges.bridge_disconnected(ALPHA)
    await world.settle()
    world.store.instances.drop(ALPHA)

    assert ("Request", "work") in await world.due_keys()
    assert world.store.requests.is_done(WORK)
    world.store.requests.drop(WORK)
    world.store.instances.drop(ALPHA)
    assert world.store.instances.keys() == []


async def test_an_instance_that_is_gone_is_forgotten_once_its_last_hand_over_has_ended(world: World) -> None:
    world.store.instances.observe(instance_json())
    instance_snapshot = world.instance()
    opened = {"handover": {"state": "Open", "id": instance_snapshot.facts.handover_id}}
    world.store.instances.observe(instance_json(version="11", status=opened))
    world.store.requests.observe(request_json())
    assert world.store.handovers.submit_begins(ALPHA, WORK, UID, instance_snapshot.facts.handover_id)
    world.store.requests.observe_gone(WORK, UID)
    world.store.instances.observe_gone(ALPHA, "uid-alpha")
    await world.settle()
    world.store.instances.drop(ALPHA)

    world.store.handovers.submit_ended(ALPHA, WORK, UID)

    assert ("Instance", "alpha") in await world.due_keys()
    world.store.instances.drop(ALPHA)
    assert world.store.instances.keys() == []


async def test_an_open_request_keeps_what_a_bridge_said_of_it_when_its_instance_is_gone(world: World) -> None:
    world.store.instances.observe(instance_json())
    world.store.requests.observe(request_json())
    world.open_bridge(view(state=RequestState.RUNNING, attempt=1))

    world.store.instances.observe_gone(ALPHA, "uid-alpha")
    world.store.instances.drop(ALPHA)

    assert world.request().bridge_view is not None


async def test_nothing_is_kept_of_a_namespace_whose_last_request_without_an_instance_is_gone(world: World) -> None:
    world.store.requests.observe(request_json(target=None, selector={"matchLabels": {"team": "a"}}))
    assert world.store._index.unbound == {NAMESPACE: {WORK}}

    world.store.requests.observe_gone(WORK, UID)
    world.store.instances.observe(instance_json(namespace="other"))

    assert world.store._index.unbound == {}


async def test_nothing_is_kept_of_a_pool_whose_last_request_is_gone(world: World) -> None:
    world.store.requests.observe(request_json(target=None, poolRef={"name": "many"}))
    assert world.store._index.pool_lines.backlog((NAMESPACE, "many")) == 1

    world.store.requests.observe_gone(WORK, UID)

    assert world.store._index.pool_lines._lines == {}


async def test_claims_that_only_carry_the_label_of_an_instance_are_not_kept(world: World) -> None:
    world.store.instances.observe(instance_json())
    record = world.store._index.instances[ALPHA]
    for number in range(50):
        claim = child("claim", uid=f"c{number}", name=f"mine-{number}", version=str(100 + number), phase="Bound")
        world.store.children.observe_claim(claim)
        if number % 2:
            world.store.children.forget_claim(claim)
    world.store.children.observe_claim(
        child("claim", uid="q", name="efrit-alpha-queue", version="300", phase="Bound")
    )
    await world.settle()

    assert [claim.name for claim in world.instance().claims] == ["efrit-alpha-queue"]
    assert len(record.children_seen) == 1
