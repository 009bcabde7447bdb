"""reconcile.py: pools and their requests, through the real store, decisions and actor."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from prometheus_client import REGISTRY

from efrit import resources
from efrit.api.meta import rfc3339
from efrit.controller.act import pool_actor
from efrit.controller.model.keys import WorkKey
from efrit.controller.model.names import REVISION_LABEL
from efrit.controller.model.pools import PoolSnapshot
from efrit.controller.model.snapshots import Refusal
from efrit.controller.store.requests import MAX_BINDING_FAILURES
from efrit.errors import ApiError
from efrit.protocol import RequestReason
from tests.support.factory import POD_UID, QUEUE_ID, Json, answered, request_json, view
from tests.unit.controller.fake_bridge import INSTANCE
from tests.unit.controller.reconciling import ALPHA, WORK, Rig
from tests.unit.controller.store.test_pools import member_json, pool_json

POOL = resources.POOLS.path("team", "crew")
INSTANCES = resources.INSTANCES.path("team")
CREW = ("team", "crew")


def ready_member(rig: Rig) -> None:
    """Show a pool of one member, which is connected."""
    rig.store.pools.observe(rig.api.put(POOL, pool_json()))
    rig.ready()
    member = {**rig.api.objects[ALPHA], "metadata": member_json()["metadata"]}
    rig.store.instances.observe(rig.api.put(ALPHA, member))
    rig.store.first_list_complete(None)
    rig.bridge.answers["PUT", "/v1/requests/uid-work"] = (201, view("uid-work").to_json())


def wait_for_pool(rig: Rig, **fields: Any) -> None:
    request = request_json(target=None, poolRef={"name": "crew"}, created=datetime.now(UTC), **fields)
    rig.store.requests.observe(rig.api.put(WORK, request))


def pool_of(rig: Rig) -> PoolSnapshot:
    snapshot = rig.store.pools.snapshot(CREW)
    assert snapshot is not None
    return snapshot


def sentence(refusal: Refusal | None) -> str:
    assert refusal is not None
    return refusal.sentence


def load(rig: Rig) -> int:
    return pool_of(rig).members[0].load


async def test_a_request_of_a_pool_is_bound_to_a_member_by_one_write_and_handed_over_at_once(rig: Rig) -> None:
    ready_member(rig)
    wait_for_pool(rig)
    await rig.reconcile()
    assert [call.body["status"]["instanceName"] for call in rig.api.made("PATCH")] == ["alpha"]
    assert rig.bridge_calls == [("PUT", "/v1/requests/uid-work")]
    assert load(rig) == 1


async def test_a_request_of_a_member_with_an_ephemeral_queue_costs_no_write_more(rig: Rig) -> None:
    ready_member(rig)
    stored = rig.api.objects[ALPHA]
    rig.store.instances.observe(rig.api.put(ALPHA, {**stored, "spec": {"queue": {"ephemeral": True}}}))
    wait_for_pool(rig)
    await rig.reconcile()
    (call,) = rig.api.made("PATCH")
    assert call.body["status"]["queueID"] == QUEUE_ID
    assert rig.bridge_calls == [("PUT", "/v1/requests/uid-work")]


async def test_what_the_watch_reports_of_an_own_write_is_known(rig: Rig) -> None:
    ready_member(rig)
    wait_for_pool(rig)
    await rig.reconcile()
    written = rig.api.objects[WORK]

    def member(version: str) -> str | None:
        again = {**written, "metadata": {**written["metadata"], "resourceVersion": version}, "status": {}}
        rig.store.requests.observe_event(again)
        snapshot = rig.store.requests.snapshot(("team", "work"))
        assert snapshot is not None
        return snapshot.request.status.instance_name

    assert member(written["metadata"]["resourceVersion"]) == "alpha", "it was taken in again"
    assert member("9999") is None


async def test_a_binding_is_counted_once_it_is_written(rig: Rig) -> None:
    labels = {"pool_namespace": "team", "pool": "crew", "decision": "Awake"}

    def count() -> float:
        return REGISTRY.get_sample_value("efrit_pool_placements_total", labels) or 0

    ready_member(rig)
    wait_for_pool(rig)
    before = count()
    rig.api.fail("PATCH", f"{WORK}/status", 500)
    with pytest.raises(ApiError):
        await rig.reconcile()
    assert count() == before
    await rig.reconcile()
    assert count() == before + 1


async def test_a_request_that_cannot_be_bound_leaves_its_place_to_others(rig: Rig) -> None:
    ready_member(rig)
    wait_for_pool(rig)
    rig.api.fail("PATCH", f"{WORK}/status", 500)
    with pytest.raises(ApiError):
        await rig.reconcile()
    assert load(rig) == 0
    assert pool_of(rig).pending == 1
    await rig.reconcile()
    assert load(rig) == 1


@pytest.mark.parametrize(
    ("status", "fields"),
    [(413, {}), (403, {}), (413, {"cancel": True}), (422, {"cancel": True})],
    ids=["too large to be bound", "not to be bound", "too large to be cancelled", "not to be cancelled"],
)
async def test_a_request_whose_status_is_refused_keeps_no_place_from_others_and_is_not_tried_at_once(
    rig: Rig, status: int, fields: Json
) -> None:
    ready_member(rig)
    rig.store.pools.observe(
        rig.api.put(POOL, pool_json(generation=2, version="2", placement={"maxLoadPerInstance": 1}))
    )
    wait_for_pool(rig, **fields)
    younger = request_json(
        name="younger", target=None, poolRef={"name": "crew"}, created=datetime.now(UTC) + timedelta(seconds=5)
    )
    rig.store.requests.observe(rig.api.put(resources.REQUESTS.path("team", "younger"), younger))
    for name in ("younger", "work"):
        rig.queue.settled(WorkKey("EfritRequest", "team", name))
    before = rig.queue.backlog("team")
    rig.api.fail("PATCH", f"{WORK}/status", status)
    with pytest.raises(ApiError):
        await rig.reconcile()

    assert rig.queue.backlog("team") == before + 1
    rig.queue.settled(WorkKey("EfritRequest", "team", "younger"))
    assert rig.queue.backlog("team") == before, "the one that failed is ready, too"
    rig.bridge.answers["PUT", "/v1/requests/uid-younger"] = (201, view("uid-younger").to_json())
    await rig.reconcile(name="younger")
    assert rig.api.objects[resources.REQUESTS.path("team", "younger")]["status"]["instanceName"] == "alpha"
    assert pool_of(rig).pending == 1


def crowd(rig: Rig, count: int, room: int) -> list[str]:
    """Show so many requests that wait for a member with room for some of them; return their names, oldest first."""
    ready_member(rig)
    placement = {"maxLoadPerInstance": room}
    rig.store.pools.observe(rig.api.put(POOL, pool_json(generation=2, version="2", placement=placement)))
    queued, now = [f"work-{number}" for number in range(count)], datetime.now(UTC)
    for number, name in enumerate(queued):
        created = now + timedelta(seconds=number)
        request = request_json(name=name, uid=f"uid-{name}", target=None, poolRef={"name": "crew"}, created=created)
        rig.store.requests.observe(rig.api.put(resources.REQUESTS.path("team", name), request))
        rig.queue.settled(WorkKey("EfritRequest", "team", name))
    return queued


def ready_requests(rig: Rig, queued: list[str]) -> list[str]:
    """Return which requests wait for a worker, and let them wait no more."""
    ready = []
    for name in queued:
        before = rig.queue.backlog("team")
        rig.queue.settled(WorkKey("EfritRequest", "team", name))
        if rig.queue.backlog("team") < before:
            ready.append(name)
    return ready


async def fail_to_bind(rig: Rig, name: str, status: int, times: int = 1) -> None:
    path = resources.REQUESTS.path("team", name)
    rig.api.fail("PATCH", f"{path}/status", status, times=times)
    for _ in range(times):
        with pytest.raises(ApiError):
            await rig.reconcile(name=name)


@pytest.mark.parametrize(("status", "count"), [(429, 2_000), (500, 10), (503, 10), (0, 10)])
async def test_while_the_api_server_is_unavailable_no_binding_is_tried_before_its_pause_is_over(
    rig: Rig, status: int, count: int
) -> None:
    queued = crowd(rig, count, room=3)
    for name in queued[:3]:
        await fail_to_bind(rig, name, status)
        assert name not in ready_requests(rig, queued)
    for name in queued[:3]:
        await fail_to_bind(rig, name, status)
        assert ready_requests(rig, queued) == []
    rig.store.pools.requeue_waiting(CREW)
    assert ready_requests(rig, queued) == []
    rig.bridge.answers["PUT", "/v1/requests/uid-work-0"] = (201, view("uid-work-0").to_json())
    await rig.reconcile(name=queued[0])
    assert load(rig) == 1


async def test_a_request_whose_binding_alone_fails_leaves_its_turn_to_others_after_a_while(rig: Rig) -> None:
    queued = crowd(rig, count=2, room=1)
    await fail_to_bind(rig, queued[0], 500, times=MAX_BINDING_FAILURES - 1)
    assert ready_requests(rig, queued) == []
    await fail_to_bind(rig, queued[0], 500)
    assert ready_requests(rig, queued) == [queued[1]]
    rig.bridge.answers["PUT", "/v1/requests/uid-work-1"] = (201, view("uid-work-1").to_json())
    await rig.reconcile(name=queued[1])
    assert load(rig) == 1


async def test_members_are_created_and_one_that_is_refused_is_reported(rig: Rig) -> None:
    rig.store.pools.observe(rig.api.put(POOL, pool_json()))
    rig.store.first_list_complete(None)
    rig.api.fail("POST", INSTANCES, 403, {"message": "exceeded quota: few", "reason": "Forbidden", "code": 403})
    await rig.reconcile("EfritPool", "crew")
    assert "exceeded quota: few" in sentence(pool_of(rig).refusal)
    await rig.reconcile("EfritPool", "crew")
    conditions = rig.api.made("PATCH")[-1].body["status"]["conditions"]
    progressing = next(condition for condition in conditions if condition["type"] == "Progressing")
    assert (progressing["status"], progressing["reason"]) == ("False", "MemberRefused")


async def test_a_pool_says_of_a_member_whose_pod_a_quota_refuses_what_is_refused_and_what_to_change(rig: Rig) -> None:
    rig.store.pools.observe(rig.api.put(POOL, pool_json(replicas=1)))
    rig.store.first_list_complete(None)
    refusal = "pods is forbidden: exceeded quota: few"
    ready = {"type": "Ready", "status": "False", "reason": "ChildRefused", "observedGeneration": 1}
    ready |= {"message": f"The pod cannot be created: {refusal}", "lastTransitionTime": rfc3339(rig.clock())}
    member = {**member_json(), "status": {"conditions": [ready]}}
    member["metadata"]["labels"] |= {REVISION_LABEL: pool_of(rig).revision}
    rig.store.instances.observe(rig.api.put(ALPHA, member))

    for minutes in (1, 20):
        rig.clock.passed += timedelta(minutes=minutes)
        await rig.reconcile("EfritPool", "crew")
        conditions = rig.api.objects[POOL]["status"]["conditions"]
        progressing = next(condition for condition in conditions if condition["type"] == "Progressing")
        assert (progressing["status"], progressing["reason"]) == ("False", "MemberRefused")
        assert f"gets no pod: The pod cannot be created: {refusal}. Change what refuses it" in progressing["message"]
        assert "former" not in progressing["message"]


async def test_a_member_that_sleeps_works_though_no_further_one_is_allowed(rig: Rig) -> None:
    rig.store.first_list_complete(None)
    ready_member(rig)
    rig.store.pools.observe(rig.api.put(POOL, pool_json(generation=2, version="2", replicas=2)))
    asleep = {**rig.api.objects[ALPHA]["status"], "suspendedIdle": True}
    rig.store.instances.observe(rig.api.put(ALPHA, {**rig.api.objects[ALPHA], "status": asleep}))
    rig.api.fail("POST", INSTANCES, 403, "exceeded quota: few")
    await rig.reconcile("EfritPool", "crew")
    assert [call.path for call in rig.api.made("POST")].count(INSTANCES) == 1

    wait_for_pool(rig)
    await rig.reconcile()
    bound = [call.body["status"] for call in rig.api.made("PATCH") if call.path == f"{WORK}/status"]
    assert [status["instanceName"] for status in bound] == ["alpha"]


async def test_a_status_that_waits_reports_why_the_size_was_changed_before(rig: Rig) -> None:
    autoscaling = {"maxReplicas": 3, "scaleDown": {"stabilizationSeconds": 0}}
    stored = rig.api.put(POOL, pool_json(replicas=None, autoscaling=autoscaling))
    rig.store.pools.observe(stored)
    rig.store.first_list_complete(None)
    await rig.reconcile("EfritPool", "crew")
    rig.store.pools.observe(rig.api.objects[POOL])
    wait_for_pool(rig)
    rig.api.fail("POST", INSTANCES, 403, "exceeded quota: few")
    # The status was written this very second.
    await rig.reconcile("EfritPool", "crew")
    rig.clock.passed += timedelta(seconds=2)
    await rig.reconcile("EfritPool", "crew")
    scale = rig.api.made("PATCH")[-1].body["status"]["lastScale"]
    assert (scale["from"], scale["to"], scale["reason"]) == (0, 1, "1 open request: more than 0 members.")
    assert scale["time"]


async def test_a_request_that_is_one_too_many_of_its_flow_ends_rejected(rig: Rig) -> None:
    rig.store.first_list_complete(None)
    rig.store.pools.observe(rig.api.put(POOL, pool_json(fairness={"maxPendingPerFlow": 1})))
    rig.store.requests.observe(request_json("first", target=None, poolRef={"name": "crew"}))
    wait_for_pool(rig)
    await rig.reconcile()
    status = rig.api.made("PATCH")[-1].body["status"]
    assert (status["phase"], status["reason"]) == ("Failed", "Rejected")
    assert "spec.fairness.maxPendingPerFlow" in status["conditions"][0]["message"]


async def test_a_request_that_continues_a_session_goes_to_its_member_though_that_has_no_room(rig: Rig) -> None:
    ready_member(rig)
    for number in range(2):
        rig.store.requests.observe(request_json(f"r{number}", target="alpha", created=datetime.now(UTC)))
    continues: Json = {"type": "chat", "session": {"id": "s-1"}, "poolRef": {"name": "crew"}}
    request = request_json(target=None, created=datetime.now(UTC), **continues)
    rig.store.requests.observe(rig.api.put(WORK, request))
    rig.store.requests.session_found(("team", "work"), "uid-work", "alpha")
    await rig.reconcile()
    status = rig.api.made("PATCH")[0].body["status"]
    assert status["instanceName"] == "alpha"


async def test_a_flow_pays_for_requests_that_continue_a_session(rig: Rig) -> None:
    ready_member(rig)
    pool = pool_json(generation=2, version="2", fairness={"flowLabel": "team"}, placement={"maxLoadPerInstance": 1})
    rig.store.pools.observe(rig.api.put(POOL, pool))
    rig.store.requests.observe(request_json("held", target="alpha"))
    for number, team in enumerate("aaabbb"):
        waits = request_json(f"{team}{number}", target=None, poolRef={"name": "crew"})
        rig.store.requests.observe(waits | {"metadata": waits["metadata"] | {"labels": {"team": team}}})
    for number in range(3):
        name = f"home{number}"
        session: Json = {"session": {"id": "s-1"}, "poolRef": {"name": "crew"}}
        request = request_json(name, target=None, created=datetime.now(UTC), **session)
        request["metadata"]["labels"] = {"team": "a"}
        rig.store.requests.observe(rig.api.put(resources.REQUESTS.path("team", name), request))
        rig.store.requests.session_found(("team", name), f"uid-{name}", "alpha")
        rig.bridge.answers["PUT", f"/v1/requests/uid-{name}"] = (201, view(f"uid-{name}").to_json())
        await rig.reconcile(name=name)
    line = rig.store.requests._index.pool_lines.line(CREW)
    assert line is not None
    assert [name[0] for _, name in line.first(3)] == ["b", "b", "b"]


async def test_a_request_that_continues_a_session_waits_while_its_flow_has_all_that_it_may_have(rig: Rig) -> None:
    ready_member(rig)
    limits = {"maxRunningPerFlow": 1, "maxPendingPerFlow": 1}
    rig.store.pools.observe(rig.api.put(POOL, pool_json(generation=2, version="2", fairness=limits)))
    bound: Json = {"instanceName": "alpha", "phase": "Running"}
    rig.store.requests.observe(request_json("held", target=None, poolRef={"name": "crew"}, status=bound))
    continues: Json = {"type": "eval", "session": {"id": "s-1"}, "poolRef": {"name": "crew"}}
    for name in ("work", "more"):
        request = request_json(name, target=None, created=datetime.now(UTC) - timedelta(minutes=1), **continues)
        rig.store.requests.observe(rig.api.put(resources.REQUESTS.path("team", name), request))
        rig.store.requests.session_found(("team", name), f"uid-{name}", "alpha")
        await rig.reconcile(name=name)
    first, second = (call.body["status"] for call in rig.api.made("PATCH"))
    assert (first.get("instanceName"), first["reason"]) == (None, "Backpressure")
    assert "spec.fairness.maxRunningPerFlow" in first["conditions"][0]["message"]
    assert (second["phase"], second["reason"]) == ("Failed", "Rejected")

    rig.store.requests.observe_gone(("team", "held"), "uid-held")
    await rig.reconcile()
    assert rig.api.made("PATCH")[-1].body["status"]["instanceName"] == "alpha"


BUDGETS = resources.DISRUPTION_BUDGETS.path("team")
BUDGET = f"{BUDGETS}/efrit-crew"


async def listed_pool(rig: Rig, **spec: Any) -> None:
    rig.store.pools.observe(rig.api.put(POOL, pool_json(**{"replicas": 0, **spec})))
    rig.store.first_list_complete(None)
    await rig.reconcile("EfritPool", "crew")


def budget_calls(rig: Rig) -> list[tuple[str, str]]:
    return [(call.method, call.content_type) for call in rig.api.calls if call.path.startswith(BUDGETS)]


async def test_a_pool_has_a_budget_which_is_left_alone_until_the_resync(rig: Rig) -> None:
    await listed_pool(rig)
    owner = rig.api.objects[BUDGET]["metadata"]["ownerReferences"][0]
    assert (owner["kind"], owner["uid"]) == ("EfritPool", "uid-crew")
    rig.api.calls.clear()
    await rig.reconcile("EfritPool", "crew")
    assert budget_calls(rig) == []
    # Somebody has changed or deleted it.
    await rig.store.pools.resync_all(0)
    rig.clock.passed += timedelta(seconds=5)
    await rig.reconcile("EfritPool", "crew")
    assert budget_calls(rig) == [("PATCH", "application/apply-patch+yaml")]


async def test_a_budget_of_somebody_else_is_not_taken_and_the_rest_of_the_decision_stands(rig: Rig) -> None:
    rig.api.put(BUDGET, {"metadata": {"name": "efrit-crew"}, "spec": {"maxUnavailable": 1}})
    await listed_pool(rig)
    assert rig.api.objects[BUDGET]["spec"] == {"maxUnavailable": 1}
    assert pool_of(rig).budget is None
    assert sentence(pool_of(rig).budget_refusal).startswith(
        "PodDisruptionBudget efrit-crew already exists and does not belong to this EfritPool: delete it"
    )
    assert rig.api.objects[POOL]["status"]["desiredReplicas"] == 0


def orphan(rig: Rig, **labels: str) -> None:
    """Leave the budget of a pool behind as `kubectl delete --cascade=orphan` does."""
    stored = rig.api.objects.pop(BUDGET)
    del stored["metadata"]["ownerReferences"]
    stored["metadata"]["labels"].update(labels)
    rig.api.put(BUDGET, stored)


def selected(rig: Rig) -> list[str]:
    return [each["operator"] for each in rig.api.objects[BUDGET]["spec"]["selector"]["matchExpressions"]]


async def test_the_budget_that_a_pool_leaves_behind_selects_nothing_and_gets_an_owner_that_is_gone(rig: Rig) -> None:
    await listed_pool(rig)
    orphan(rig)
    rig.api.objects[BUDGET]["spec"] = {"selector": {"matchLabels": {"efrit.dev/pool": "crew"}}}
    rig.store.pools.observe_gone(CREW, "uid-crew")
    await rig.reconcile("EfritPool", "crew")
    (owner,) = rig.api.objects[BUDGET]["metadata"]["ownerReferences"]
    # For that the garbage collector deletes it.
    assert (owner["kind"], owner["name"], owner["uid"]) == ("EfritPool", "crew", "uid-crew")
    assert selected(rig) == ["Exists", "DoesNotExist"]
    rig.api.calls.clear()
    await rig.reconcile("EfritPool", "crew")
    assert budget_calls(rig) == []


@pytest.mark.parametrize("status", [0, 429, 500])
async def test_the_budget_that_a_pool_leaves_behind_is_released_once_the_api_server_takes_it(
    rig: Rig, status: int
) -> None:
    await listed_pool(rig)
    orphan(rig)
    rig.store.pools.observe_gone(CREW, "uid-crew")
    rig.api.fail("PATCH", BUDGET, status)
    with pytest.raises(ApiError):
        await rig.reconcile("EfritPool", "crew")
    assert "ownerReferences" not in rig.api.objects[BUDGET]["metadata"]
    await rig.reconcile("EfritPool", "crew")
    assert "ownerReferences" in rig.api.objects[BUDGET]["metadata"]


async def test_a_pool_that_goes_while_the_budget_of_one_before_is_released_has_its_own_released(rig: Rig) -> None:
    await listed_pool(rig)
    orphan(rig)
    rig.store.pools.observe_gone(CREW, "uid-crew")
    gate = rig.api.gates[BUDGET] = asyncio.Event()
    rig.api.calls.clear()
    release = asyncio.create_task(rig.reconcile("EfritPool", "crew"))
    await rig.api.until(lambda: budget_calls(rig))
    rig.store.pools.observe(pool_json(uid="another"))
    rig.store.pools.observe_gone(CREW, "another")
    gate.set()
    await release
    assert rig.store.pools.left(CREW) == "another"


async def test_the_budget_that_a_pool_leaves_behind_and_the_api_server_refuses_is_tried_at_the_next_resync(
    rig: Rig,
) -> None:
    await listed_pool(rig)
    orphan(rig)
    rig.store.pools.observe_gone(CREW, "uid-crew")
    rig.api.fail("PATCH", BUDGET, 403)
    await rig.reconcile("EfritPool", "crew")
    rig.api.calls.clear()
    await rig.reconcile("EfritPool", "crew")
    assert budget_calls(rig) == []


async def test_a_pool_without_a_budget_leaves_none(rig: Rig) -> None:
    await listed_pool(rig, disruptionBudget="None")
    rig.store.pools.observe_gone(CREW, "uid-crew")
    await rig.reconcile("EfritPool", "crew")
    assert BUDGET not in rig.api.objects


async def test_a_budget_that_was_left_behind_while_nobody_led_is_found_by_the_members_that_were(rig: Rig) -> None:
    await listed_pool(rig)
    orphan(rig)
    rig.store.pools.observe_gone(CREW, "uid-crew")
    rig.store.pools.forget_left(CREW, "uid-crew")
    metadata = {**member_json()["metadata"], "ownerReferences": []}
    metadata["labels"] = {"efrit.dev/pool": "crew", REVISION_LABEL: "digest"}
    rig.store.instances.observe({**member_json(), "metadata": metadata})
    await rig.store.pools.resync_all(0, "other")
    await rig.reconcile("EfritPool", "crew")
    assert "ownerReferences" not in rig.api.objects[BUDGET]["metadata"]
    await rig.store.pools.resync_all(0)
    await rig.reconcile("EfritPool", "crew")
    assert "ownerReferences" in rig.api.objects[BUDGET]["metadata"]
    assert selected(rig) == ["Exists", "DoesNotExist"]


async def test_a_pool_takes_over_the_budget_that_another_of_its_name_has_left_behind(rig: Rig) -> None:
    await listed_pool(rig)
    orphan(rig)
    await rig.store.pools.resync_all(0)
    rig.clock.passed += timedelta(seconds=5)
    await rig.reconcile("EfritPool", "crew")
    (owner,) = rig.api.objects[BUDGET]["metadata"]["ownerReferences"]
    assert owner["uid"] == "uid-crew"


async def test_a_budget_with_the_labels_of_another_pool_is_not_taken_over(rig: Rig) -> None:
    await listed_pool(rig)
    orphan(rig, **{"efrit.dev/pool": "other"})
    rig.api.objects[BUDGET]["metadata"]["uid"] = "made-by-somebody"
    rig.store.pools.observe_gone(CREW, "uid-crew")
    await rig.reconcile("EfritPool", "crew")
    assert "ownerReferences" not in rig.api.objects[BUDGET]["metadata"]


async def test_an_api_server_that_takes_no_budget_keeps_no_pool_from_its_members(rig: Rig) -> None:
    rig.api.fail("POST", BUDGETS, 500)
    await listed_pool(rig)
    assert rig.api.objects[POOL]["status"]["desiredReplicas"] == 0
    rig.clock.passed += timedelta(seconds=10)
    await rig.reconcile("EfritPool", "crew")
    assert BUDGET in rig.api.objects


async def test_a_pool_that_guards_nobody_makes_no_budget_and_empties_its_own(rig: Rig) -> None:
    await listed_pool(rig, disruptionBudget="None")
    assert BUDGET not in rig.api.objects
    owners = [{"kind": "EfritPool", "uid": "uid-crew", "controller": True}]
    rig.api.put(BUDGET, {"metadata": {"name": "efrit-crew", "ownerReferences": owners}, "spec": {}})
    await rig.store.pools.resync_all(0)
    rig.clock.passed += timedelta(seconds=5)
    await rig.reconcile("EfritPool", "crew")
    expressions = rig.api.objects[BUDGET]["spec"]["selector"]["matchExpressions"]
    assert [each["operator"] for each in expressions] == ["Exists", "DoesNotExist"]


def stopped(rig: Rig, *, count: int = 0) -> Json:
    """Show a request that is interrupted for another one and that its bridge has stopped."""
    mark = {"count": count, "inProgress": True, "byName": "urgent", "byUID": "uid-urgent", "instanceName": "alpha"}
    spec: Json = {"poolRef": {"name": "crew"}, "retryPolicy": "IfInterrupted"}
    status = {"instanceName": "alpha", "phase": "Running", "preemption": mark}
    obj = rig.api.put(WORK, request_json(target=None, created=datetime.now(UTC), status=status, **spec))
    rig.store.requests.observe(obj)
    answer = answered("uid-work", reason=RequestReason.CANCELLED)
    rig.store.bridges.event(INSTANCE, POD_UID, answer)
    rig.bridge.answers["POST", "/v1/requests/uid-work/cancel"] = (200, answer.to_json())
    rig.bridge.answers["DELETE", "/v1/requests/uid-work"] = (204, "")
    return obj


async def test_what_a_queue_has_of_a_run_that_was_interrupted_is_stopped_and_acknowledged(rig: Rig) -> None:
    labels = {"pool_namespace": "team", "pool": "crew"}
    before = REGISTRY.get_sample_value("efrit_pool_preemptions_total", labels) or 0
    ready_member(rig)
    stopped(rig)
    await rig.reconcile()
    assert (rig.status["reason"], rig.status["preemption"]["count"]) == ("Preempted", 1)
    assert "inProgress" not in rig.status["preemption"]
    assert "instanceName" not in rig.status
    assert REGISTRY.get_sample_value("efrit_pool_preemptions_total", labels) == before + 1
    (event,) = [call.body for call in rig.api.made("POST") if call.path.endswith("/events")]
    assert (event["reason"], event["involvedObject"]["name"]) == ("Preempted", "work")
    assert rig.bridge_calls == [("POST", "/v1/requests/uid-work/cancel"), ("DELETE", "/v1/requests/uid-work")]
    assert rig.store.bridges.orphans(("team", "work")) == []


async def test_a_run_that_was_interrupted_is_not_acknowledged_before_that_is_recorded(rig: Rig) -> None:
    ready_member(rig)
    stopped(rig)
    rig.api.fail("PATCH", f"{WORK}/status", 500)
    with pytest.raises(ApiError):
        await rig.reconcile()
    assert rig.bridge_calls == []
    await rig.reconcile()
    assert rig.status["preemption"]["count"] == 1
    assert rig.bridge_calls[-1] == ("DELETE", "/v1/requests/uid-work")


REVISIONS = resources.CONTROLLER_REVISIONS.path("team")


async def roll_out(rig: Rig, generation: int, **spec: Any) -> str:
    """Give the pool another template, and return the path of what keeps it."""
    template = {"spec": {"limits": {"requestTimeoutSeconds": generation}}}
    obj = pool_json(generation=generation, **{"replicas": 0, "template": template, **spec})
    rig.store.pools.observe(rig.api.put(POOL, obj))
    await keep(rig)
    return revision(rig)


async def keep(rig: Rig) -> None:
    """Reconcile the pool as often as it takes to read, keep and leave alone."""
    for _ in range(3):
        await rig.reconcile("EfritPool", "crew")


def revision(rig: Rig) -> str:
    return f"{REVISIONS}/crew-{pool_of(rig).revision}"


def history_calls(rig: Rig) -> list[str]:
    return [call.method for call in rig.api.calls if call.path.startswith(REVISIONS)]


def numbers(rig: Rig) -> dict[str, int]:
    return {path: obj["revision"] for path, obj in rig.api.objects.items() if path.startswith(REVISIONS)}


async def test_each_template_is_kept_by_one_write_and_none_follows(rig: Rig) -> None:
    await listed_pool(rig)
    await keep(rig)
    first = revision(rig)
    assert history_calls(rig) == ["GET", "POST"]
    second = await roll_out(rig, 2)
    assert history_calls(rig) == ["GET", "POST", "POST"]
    assert rig.api.objects[second]["data"] == {
        "spec": {"template": {"spec": {"limits": {"requestTimeoutSeconds": 2}}}}
    }
    # A template that comes back gets its own again.
    assert await roll_out(rig, 3, template={}) == first
    assert history_calls(rig) == ["GET", "POST", "POST", "DELETE", "POST"]
    assert numbers(rig) == {first: 3, second: 2}


async def test_who_leads_next_or_beside_keeps_no_template_twice(rig: Rig, other: Rig) -> None:
    await listed_pool(rig)
    await listed_pool(other)
    # Both have read that none is kept.
    await rig.reconcile("EfritPool", "crew")
    await keep(other)
    await keep(rig)
    assert numbers(rig) == {revision(rig): 1}
    assert history_calls(rig) == ["GET", "GET", "POST", "POST", "GET"]


async def test_former_templates_beyond_the_limit_are_removed_and_not_one_that_was_changed_since(rig: Rig) -> None:
    await listed_pool(rig, revisionHistoryLimit=0)
    await keep(rig)
    first = revision(rig)
    rig.api.put(first, rig.api.objects[first])
    second = await roll_out(rig, 2, revisionHistoryLimit=0)
    # It was read again, as it is by now, before it was deleted.
    assert history_calls(rig) == ["GET", "POST", "POST", "DELETE", "GET", "DELETE"]
    assert numbers(rig).keys() == {second}


async def test_what_somebody_else_has_made_by_its_name_is_left_alone_and_the_pool_goes_on(rig: Rig) -> None:
    rig.store.pools.observe(rig.api.put(POOL, pool_json(replicas=0)))
    path = revision(rig)
    theirs = {"metadata": {"name": path.rpartition("/")[2]}, "data": {}, "revision": 9}
    rig.api.put(path, theirs)
    await listed_pool(rig)
    await keep(rig)
    assert numbers(rig) == {path: 9}
    assert rig.api.objects[POOL]["status"]["desiredReplicas"] == 0
    assert "not as the operator makes it for this EfritPool: delete it" in sentence(pool_of(rig).history_refusal)
    # Once more soon, for it may have gone, and then seldom.
    rig.clock.passed += timedelta(seconds=10)
    await keep(rig)
    rig.api.calls.clear()
    rig.clock.passed += timedelta(minutes=9)
    await keep(rig)
    assert history_calls(rig) == []
    del rig.api.objects[path]
    rig.clock.passed += timedelta(minutes=1)
    await keep(rig)
    assert numbers(rig) == {path: 1}


async def test_a_pool_goes_on_where_its_templates_cannot_be_read(rig: Rig) -> None:
    rig.api.fail("GET", REVISIONS, 403, {"message": "forbidden", "reason": "Forbidden", "code": 403})
    await listed_pool(rig)
    assert rig.api.objects[POOL]["status"]["desiredReplicas"] == 0
    await keep(rig)
    assert history_calls(rig) == ["GET"]
    rig.clock.passed += timedelta(seconds=10)
    await keep(rig)
    assert numbers(rig) == {revision(rig): 1}


async def test_so_many_that_somebody_must_have_made_them_are_not_read(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool_actor, "MAX_READ", 3)
    for number in range(4):
        rig.api.put(f"{REVISIONS}/crew-{number}", {"metadata": {"name": f"crew-{number}"}, "revision": 1})
    await listed_pool(rig)
    await keep(rig)
    assert sentence(pool_of(rig).history_refusal).startswith("More than 3 ControllerRevisions")
    assert history_calls(rig) == ["GET"]


def put_kept(rig: Rig, **meta: Any) -> str:
    """Have somebody else's ControllerRevision by the name of the template's, and return its path."""
    rig.store.pools.observe(rig.api.put(POOL, pool_json(replicas=0)))
    path = revision(rig)
    rig.api.put(path, {"metadata": {"name": path.rpartition("/")[2], **meta}, "data": {}, "revision": 9})
    return path


def history_refusal(rig: Rig) -> Any:
    return pool_of(rig).history_refusal


async def test_what_a_former_pool_of_the_name_had_is_soon_gone_and_not_reported_before(rig: Rig) -> None:
    path = put_kept(rig, ownerReferences=[resources.POOLS.reference("crew", "uid-former", controller=True)])
    await listed_pool(rig)
    for reported in (False, True, True):
        await keep(rig)
        assert history_refusal(rig).sentence.endswith("of a former EfritPool of this name is not deleted yet.")
        assert history_refusal(rig).is_reported == reported
        rig.clock.passed += timedelta(seconds=10)
    del rig.api.objects[path]
    await keep(rig)
    assert numbers(rig) == {path: 1}
    assert history_refusal(rig) is None


async def test_a_template_whose_object_is_being_deleted_is_kept_once_that_is_gone(rig: Rig) -> None:
    owner = resources.POOLS.reference("crew", "uid-crew", controller=True)
    path = put_kept(rig, ownerReferences=[owner], deletionTimestamp="2026-01-01T00:00:00Z")
    await listed_pool(rig)
    await keep(rig)
    assert "is still being deleted: see its finalizers" in history_refusal(rig).sentence
    del rig.api.objects[path]
    rig.clock.passed += timedelta(seconds=10)
    await keep(rig)
    assert numbers(rig) == {path: 1}


async def test_what_is_gone_when_it_is_looked_for_is_made(rig: Rig) -> None:
    exists = {"kind": "Status", "code": 409, "reason": "AlreadyExists", "message": "already exists"}
    rig.api.fail("POST", REVISIONS, 409, exists)
    await listed_pool(rig)
    await keep(rig)
    await keep(rig)
    assert numbers(rig) == {revision(rig): 1}
    assert history_refusal(rig) is None


async def test_the_resync_has_templates_made_anew_that_somebody_has_deleted(rig: Rig) -> None:
    await listed_pool(rig)
    await keep(rig)
    del rig.api.objects[revision(rig)]
    await keep(rig)
    assert numbers(rig) == {}
    await rig.store.pools.resync_all(0)
    await keep(rig)
    assert numbers(rig) == {revision(rig): 1}


async def test_a_refusal_that_is_over_is_not_reported_with_the_resync(rig: Rig) -> None:
    await listed_pool(rig)
    await keep(rig)
    rig.api.fail("GET", REVISIONS, 403, {"message": "forbidden", "reason": "Forbidden", "code": 403})
    for _ in range(2):
        await rig.store.pools.resync_all(0)
        rig.clock.passed += timedelta(seconds=10)
        await keep(rig)
    assert history_refusal(rig) is not None
    rig.clock.passed += timedelta(minutes=10)
    await keep(rig)
    rig.api.calls.clear()
    await rig.store.pools.resync_all(0)
    await keep(rig)
    assert history_calls(rig) == ["GET"]
    assert [call.path for call in rig.api.calls if "/events" in call.path] == []


async def test_a_woken_member_whose_pod_a_quota_refuses_says_so_and_keeps_its_request(rig: Rig) -> None:
    rig.store.pools.observe(rig.api.put(POOL, pool_json(replicas=1)))
    asleep: Json = {"suspendedIdle": True, "handover": {"state": "Open", "id": "h"}}
    member = {**member_json(), "spec": {"idle": {"suspendAfterSeconds": 60}}, "status": asleep}
    rig.store.instances.observe(rig.api.put(ALPHA, member))
    rig.store.first_list_complete(None)
    wait_for_pool(rig)
    await rig.reconcile()
    await rig.reconcile("EfritInstance", "alpha")
    assert rig.api.objects[resources.STATEFULSETS.path("team", "efrit-alpha")]["spec"]["replicas"] == 1

    event = {"type": "Warning", "reason": "FailedCreate", "message": "pods is forbidden: exceeded quota: few"}
    about = {"name": "efrit-alpha", "kind": "StatefulSet"}
    metadata = {"name": "refused", "creationTimestamp": rfc3339(rig.clock())}
    rig.api.put(resources.EVENTS.path("team", "refused"), {**event, "involvedObject": about, "metadata": metadata})
    for _ in range(2):
        rig.clock.passed += timedelta(minutes=1)
        await rig.reconcile("EfritInstance", "alpha")
        rig.store.instances.observe(rig.api.objects[ALPHA])
        await rig.reconcile()
    ready = rig.api.objects[ALPHA]["status"]["conditions"][0]
    assert (ready["reason"], ready["message"]) == ("ChildRefused", f"The pod cannot be created: {event['message']}")
    assert (rig.status["instanceName"], rig.status["reason"]) == ("alpha", "InstanceNotReady")

    # The quota has room again.
    ready_member(rig)
    await rig.reconcile()
    assert rig.bridge_calls == [("PUT", "/v1/requests/uid-work")]


@pytest.mark.parametrize("there", [True, False])
async def test_a_pool_that_a_list_has_left_out_is_asked_for(rig: Rig, there: bool) -> None:
    rig.store.pools.observe(rig.api.put(POOL, pool_json(replicas=0)))
    if not there:
        del rig.api.objects[POOL]
    rig.store.pools.observe_missing(CREW, "uid-crew")

    await rig.reconcile("EfritPool", "crew")

    rig.store.pools.observe(pool_json(version="900"))
    assert (rig.store.pools.snapshot(CREW) is not None) is there
