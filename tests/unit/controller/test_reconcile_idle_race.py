"""Idle instances and work that comes in the same moment, through store, decisions and actor."""

from __future__ import annotations

import asyncio
import contextlib
from datetime import UTC, datetime, timedelta

import pytest

from efrit import resources
from efrit.errors import ApiUnavailable
from tests.support.factory import Json, plan_json, request_json, view
from tests.unit.controller.fake_bridge import INSTANCE
from tests.unit.controller.reconciling import ALPHA, PLAN, WORK, Rig

STATEFULSET = resources.STATEFULSETS.path("team", "efrit-alpha")
PUT = ("PUT", "/v1/requests/uid-work")
SUSPEND = {"suspendAfterSeconds": 10}
DELETE = {"deleteAfterSeconds": 10}


def idle(rig: Rig, rules: Json) -> None:
    """Show a ready instance that has been idle for an hour; requests may be handed to it at once."""
    sidecar = {"ports": [{"name": "bridge", "containerPort": rig.bridge.port}]}
    born = datetime.now(UTC) - timedelta(hours=1)
    fields: Json = {"created": born, "spec": {"idle": rules}}
    rig.ready(pod={"spec": {"initContainers": [sidecar]}}, template=rig.wanted_template(**fields), **fields)
    rig.store.first_list_complete(None)
    rig.bridge.answers[PUT] = (201, view().to_json())


async def reconcile(rig: Rig) -> None:
    await rig.reconcile("EfritInstance", "alpha")


def replicas(rig: Rig) -> int:
    replicas: int = rig.api.objects[STATEFULSET]["spec"]["replicas"]
    return replicas


# Suspension.


async def test_a_request_that_comes_while_its_instance_is_scaled_down_waits_and_wakes_it(rig: Rig) -> None:
    idle(rig, SUSPEND)
    suspending = asyncio.create_task(reconcile(rig))
    await rig.api.until(lambda: rig.api.made("PATCH"))
    rig.observe()
    await rig.reconcile()
    await suspending
    assert PUT not in rig.bridge_calls
    assert replicas(rig) == 0

    await reconcile(rig)
    assert replicas(rig) == 1
    await rig.reconcile()
    assert PUT in rig.bridge_calls


async def test_a_request_that_came_before_keeps_its_instance_from_being_scaled_down(rig: Rig) -> None:
    idle(rig, SUSPEND)
    rig.observe()
    await reconcile(rig)
    assert replicas(rig) == 1
    await rig.reconcile()
    assert PUT in rig.bridge_calls


async def test_a_scale_down_without_an_answer_is_undone_though_nobody_knows_whether_it_took_effect(rig: Rig) -> None:
    idle(rig, SUSPEND)
    rig.api.fail("PATCH", STATEFULSET, 0)
    with pytest.raises(ApiUnavailable):
        await reconcile(rig)
    rig.observe()
    await rig.reconcile()
    assert PUT not in rig.bridge_calls

    await reconcile(rig)
    assert replicas(rig) == 1
    await rig.reconcile()
    assert PUT in rig.bridge_calls


# Deletion.


async def test_an_idle_instance_is_deleted_and_late_news_of_it_change_nothing(rig: Rig) -> None:
    idle(rig, DELETE)
    late = rig.api.objects[ALPHA]
    await reconcile(rig)
    assert ALPHA not in rig.api.objects
    assert [call.body["reason"] for call in rig.api.made("POST")] == ["IdleDeleted"]

    rig.store.instances.observe({**late, "metadata": {**late["metadata"], "resourceVersion": "9999"}})
    assert rig.store.instances.snapshot(INSTANCE) is None
    rig.observe()
    await rig.reconcile()
    assert PUT not in rig.bridge_calls


@pytest.mark.parametrize(
    ("where", "work"),
    [
        (WORK, request_json()),
        (WORK, request_json(target=None, selector={"matchLabels": {"a": "b"}}, status={"instanceName": "alpha"})),
        (PLAN, plan_json()),
        (PLAN, plan_json(suspend=True)),
        (PLAN, plan_json(target=None, poolRef={"name": "many"}, status={"instanceName": "alpha"})),
    ],
    ids=["a request", "a bound request", "a plan", "a suspended plan", "a bound plan"],
)
async def test_work_that_the_watch_has_not_reported_keeps_an_instance_from_being_deleted(
    rig: Rig, where: str, work: Json
) -> None:
    idle(rig, DELETE)
    rig.api.put(where, work)

    await reconcile(rig)

    assert rig.api.made("DELETE") == []
    assert rig.api.made("POST") == []
    instance_snapshot = rig.instance
    assert instance_snapshot.open_requests + instance_snapshot.active_plans + instance_snapshot.suspended_plans == 1
    await reconcile(rig)
    assert not rig.instance.facts.handover_paused


async def test_work_of_others_does_not_keep_an_instance_from_being_deleted(rig: Rig) -> None:
    idle(rig, DELETE)
    rig.api.put(WORK, request_json(target="beta"))
    rig.api.put(resources.REQUESTS.path("team", "done"), request_json("done", status={"phase": "Succeeded"}))
    rig.api.put(PLAN, plan_json(status={"phase": "Failed"}))

    await reconcile(rig)

    assert ALPHA not in rig.api.objects


async def test_a_request_that_comes_while_its_instance_is_checked_is_not_handed_over(rig: Rig) -> None:
    idle(rig, DELETE)
    deleting = asyncio.create_task(reconcile(rig))
    await rig.api.until(lambda: rig.api.calls)
    rig.observe()
    await rig.reconcile()
    await deleting
    assert PUT not in rig.bridge_calls


async def test_an_instance_that_was_changed_since_it_was_decided_about_is_not_deleted(rig: Rig) -> None:
    idle(rig, DELETE)
    rig.api.put(ALPHA, {**rig.api.objects[ALPHA], "spec": {}})

    await reconcile(rig)

    assert ALPHA in rig.api.objects
    assert rig.instance.instance.spec.idle is None


async def test_an_instance_is_not_deleted_while_the_check_cannot_be_made(rig: Rig) -> None:
    idle(rig, DELETE)
    rig.api.fail("GET", resources.PLANS.path("team"), 503)

    with contextlib.suppress(ApiUnavailable):
        await reconcile(rig)

    assert rig.api.made("DELETE") == []
