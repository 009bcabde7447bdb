"""A member that its pool deletes, and what happens to it and comes for it meanwhile; through store and actor."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime

import pytest

from efrit import resources
from efrit.controller.model.keys import WorkKey
from efrit.errors import ApiError
from tests.support.factory import Json, request_json, view
from tests.unit.controller.fake_bridge import INSTANCE
from tests.unit.controller.reconciling import ALPHA, PLAN, WORK, Rig
from tests.unit.controller.store.test_pools import member_json, pool_json
from tests.unit.controller.test_reconcile_pools import CREW, POOL, load, wait_for_pool

PLANS = resources.PLANS.path("team")
PUT = ("PUT", "/v1/requests/uid-work")
KEY = WorkKey("EfritRequest", "team", "work")


async def lone_member(rig: Rig, replicas: int) -> None:
    """Show a pool that is to have so many members and has one, which is ready."""
    rig.store.pools.observe(rig.api.put(POOL, pool_json(replicas=replicas)))
    sidecar = {"ports": [{"name": "bridge", "containerPort": rig.bridge.port}]}
    rig.ready(pod={"spec": {"initContainers": [sidecar]}}, template=rig.wanted_template(member_json()))
    member = {**rig.api.objects[ALPHA], "metadata": member_json()["metadata"]}
    rig.store.instances.observe(rig.api.put(ALPHA, member))
    rig.store.first_list_complete(None)
    rig.bridge.answers[PUT] = (201, view("uid-work").to_json())
    await rig.reconcile("EfritInstance", "alpha")


@asynccontextmanager
async def deleting(rig: Rig, held: str) -> AsyncIterator[None]:
    """Have the pool delete its member; its call to this path waits until the end of the block."""
    gate = rig.api.gates[held] = asyncio.Event()
    task = asyncio.create_task(rig.reconcile("EfritPool", "crew"))
    await rig.api.until(lambda: any(call.path == held and call.method != "PATCH" for call in rig.api.calls))
    yield
    gate.set()
    with suppress(ApiError):
        await task


def bound(rig: Rig) -> None:
    """Show a request that got the member in the very moment, as one does that continues its session."""
    rig.store.requests.observe(rig.api.put(WORK, bound_request()))


def bound_request() -> Json:
    return request_json(
        target=None, poolRef={"name": "crew"}, created=datetime.now(UTC), status={"instanceName": "alpha"}
    )


@pytest.mark.parametrize("held", [PLANS, ALPHA], ids=["while it is asked for work", "while it is deleted"])
async def test_nothing_is_handed_to_it_whatever_is_decided_about_the_member_itself(rig: Rig, held: str) -> None:
    await lone_member(rig, 0)
    async with deleting(rig, held):
        # Emacs has come back, or anything else.
        await rig.reconcile("EfritInstance", "alpha")
        bound(rig)
        await rig.reconcile()
        assert rig.bridge_calls == []
        assert rig.api.made("PATCH")[-1].path != f"{WORK}/status", "it says nothing of the moment"
    await rig.reconcile()
    # What was written of the member meanwhile keeps it.
    assert (PUT in rig.bridge_calls) is (ALPHA in rig.api.objects)


async def test_a_hand_over_that_was_decided_on_before_does_not_begin(rig: Rig) -> None:
    await lone_member(rig, 0)
    async with deleting(rig, PLANS):
        bound(rig)
        handover = rig.instance.facts.handover_id
        assert not rig.store.handovers.submit_begins(INSTANCE, ("team", "work"), "uid-work", handover)


async def test_a_member_that_is_being_deleted_has_no_room(rig: Rig) -> None:
    await lone_member(rig, 1)
    # By the rule of its own template: it does not drain before.
    assert rig.store.instances.removal_begins(INSTANCE, only_idle=True)
    wait_for_pool(rig)
    await rig.reconcile()
    assert load(rig) == 0
    # Nor does it hide another one that a claim or a request could have.
    assert rig.store.requests._index.pool_lines.room(CREW).members == ()
    rig.queue.settled(KEY)
    before = rig.queue.backlog("team")
    rig.store.instances.removal_ended(INSTANCE)
    assert rig.queue.backlog("team") == before + 1
    await rig.reconcile()
    assert load(rig) == 1


@pytest.mark.parametrize("status", [409, 500], ids=["it has changed", "nobody knows"])
async def test_a_member_that_is_not_deleted_after_all_takes_requests_again(rig: Rig, status: int) -> None:
    await lone_member(rig, 0)
    rig.api.fail("DELETE", ALPHA, status)
    async with deleting(rig, PLANS):
        bound(rig)
        await rig.reconcile()
        rig.queue.settled(KEY)
        before = rig.queue.backlog("team")
    assert rig.queue.backlog("team") > before
    await rig.reconcile()
    assert PUT in rig.bridge_calls


async def test_a_member_whose_work_the_api_server_knows_of_stays_and_gets_it(rig: Rig) -> None:
    await lone_member(rig, 0)
    rig.api.put(WORK, bound_request())
    await rig.reconcile("EfritPool", "crew")
    assert rig.api.made("DELETE") == []
    await rig.reconcile()
    assert PUT in rig.bridge_calls


async def test_a_member_that_has_got_work_since_the_decision_is_not_asked_for_at_the_api_server(rig: Rig) -> None:
    await lone_member(rig, 0)
    bound(rig)
    assert not rig.store.instances.removal_begins(INSTANCE, only_idle=True)
    assert rig.store.instances.removal_begins(INSTANCE, only_idle=False), "its time is over"


async def test_the_first_of_two_deletions_that_ends_does_not_open_it(rig: Rig) -> None:
    await lone_member(rig, 0)
    for _ in range(2):
        rig.store.instances.removal_begins(INSTANCE, only_idle=True)
    rig.store.instances.removal_ended(INSTANCE)
    assert not rig.instance.accepts_requests
    rig.store.instances.removal_ended(INSTANCE)
    assert rig.instance.accepts_requests


async def test_a_plan_that_is_bound_to_it_keeps_it(rig: Rig) -> None:
    await lone_member(rig, 0)
    plan = {"spec": {"poolRef": {"name": "crew"}}, "status": {"instanceName": "alpha", "phase": "Running"}}
    rig.api.put(PLAN, {"metadata": {"name": "app", "namespace": "team"}, **plan})
    async with deleting(rig, PLANS):
        pass
    assert ALPHA in rig.api.objects
