"""reconcile.py with the key of a plan, through the real store, decisions and actor."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from efrit.controller.model.keys import WorkKey
from efrit.resources import PLANS
from tests.support.factory import Json, final_status, part_json, plan_json, wire_time
from tests.support.timeout import TIMEOUT
from tests.unit.controller.reconciling import PLAN, REQUESTS, Rig

APP = ("team", "app")


def crowd_out_plans(rig: Rig) -> None:
    """Show as many large plans and requests of theirs as it takes to have no room for the content of another."""
    for number in range(80):
        large: Json = {"intent": {"description": "d" * 16_000}, "amendments": ["m" * 2048] * 64}
        rig.store.plans.observe(plan_json(f"p{number}", namespace="other", **large))
        rig.store.requests.observe(
            part_json(f"z{number}", plan=f"p{number}", namespace="other", content="z" * 240_000)
        )


async def reconcile(rig: Rig, times: int = 1) -> None:
    for _ in range(times):
        await rig.reconcile("EfritPlan", "app")


async def test_a_plan_learns_which_requests_it_has_before_it_does_anything(rig: Rig) -> None:
    rig.api.put(f"{REQUESTS}/one", part_json("one"))
    rig.store.plans.observe(rig.api.put(PLAN, plan_json()))

    await reconcile(rig)

    snapshot = rig.store.plans.snapshot(APP)
    assert snapshot is not None
    assert set(snapshot.requests or {}) > {"one"}
    methods = [call.method for call in rig.api.calls]
    assert methods.index("POST") > methods.index("GET") == 0


async def test_a_plan_whose_content_was_dropped_is_decided_about_exactly_as_before(rig: Rig) -> None:
    for name in ("one", "two"):
        ended = part_json(name, content="z" * 1000, status={**final_status(), "result": "r" * 1000})
        rig.api.put(f"{REQUESTS}/{name}", ended)
    rig.store.plans.observe(rig.api.put(PLAN, plan_json(amendments=["More."])))
    await reconcile(rig, times=3)
    before, written = rig.store.plans.snapshot(APP), dict(rig.api.objects)

    crowd_out_plans(rig)
    dropped = rig.store.plans.snapshot(APP)
    assert dropped is not None
    assert (dropped.requests, dropped.plan.spec.amendments) == (None, ())
    await reconcile(rig)

    assert rig.store.plans.snapshot(APP) == before
    assert rig.api.objects == written, "nothing is created or written twice"


@pytest.mark.parametrize("version", ["30", "999"], ids=["cannot be read", "is older than what was seen"])
async def test_a_plan_that_cannot_be_had_again_is_asked_for_once_and_its_requests_are_not_listed(
    rig: Rig, version: str
) -> None:
    rig.store.plans.observe(plan_json(version=version))
    crowd_out_plans(rig)
    rig.api.put(PLAN, plan_json() if version == "999" else plan_json(intent="no object"))
    reconciled = 0
    quiet = asyncio.Event()

    async def reconcile(work: WorkKey) -> None:
        nonlocal reconciled
        if work == WorkKey("EfritPlan", *APP):
            await rig.reconciler.reconcile(work)
            reconciled += 1
        if reconciled > 1 or not len(rig.queue):
            quiet.set()

    working = asyncio.create_task(rig.queue.run(reconcile, 1))
    await asyncio.wait_for(quiet.wait(), TIMEOUT)
    working.cancel()
    await asyncio.gather(working, return_exceptions=True)

    assert [call.path for call in rig.api.calls] == [PLAN]


@pytest.mark.parametrize(
    ("stored", "open_uids"),
    [(None, {}), (plan_json(status=final_status()), {}), (plan_json(), {APP: "uid-app"})],
    ids=["deleted", "finished by somebody else", "by mistake"],
)
async def test_a_plan_that_left_is_looked_up_and_goes_on_only_if_it_left_by_mistake(
    rig: Rig, stored: Json | None, open_uids: dict[tuple[str, str], str]
) -> None:
    rig.store.plans.observe(plan_json(version="1"))
    rig.store.plans.observe_left(rig.api.put(PLAN, stored) if stored else plan_json(version="1"))

    await reconcile(rig)

    assert rig.store.plans.open_uids() == open_uids
    assert (rig.store.plans.snapshot(APP) is not None) is bool(open_uids)
    assert rig.store.plans.must_verify(APP) is None


async def test_a_final_plan_past_its_time_to_live_is_deleted_and_forgotten(rig: Rig) -> None:
    old = final_status(ended=datetime.now(UTC) - timedelta(seconds=10))
    rig.store.plans.observe(rig.api.put(PLAN, plan_json(status=old, ttlSecondsAfterFinished=5)))

    await reconcile(rig)

    assert PLAN not in rig.api.objects
    assert rig.store.plans.snapshot(APP) is None


async def test_a_plan_that_is_cancelled_is_deleted_when_its_time_to_live_is_over(rig: Rig) -> None:
    rig.store.plans.observe(rig.api.put(PLAN, plan_json(ttlSecondsAfterFinished=5, cancel=True)))

    await reconcile(rig, times=4)

    assert rig.store.plans.snapshot(APP) is None
    assert len(rig.store.expirations) == 1


async def test_a_namespace_whose_lists_hang_keeps_no_plan_of_another_from_being_read(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("efrit.controller.fair_semaphore.SLOW_SECONDS", 0)
    for namespace in ("team", "other"):
        path = f"{PLANS.path(namespace)}/app"
        rig.store.plans.observe(rig.api.put(path, plan_json(namespace=namespace, uid=f"uid-{namespace}")))
    rig.api.gates[REQUESTS] = asyncio.Event()
    hanging = asyncio.create_task(reconcile(rig))
    await rig.api.until(lambda: any(call.path == REQUESTS for call in rig.api.calls))

    await rig.reconciler.reconcile(WorkKey("EfritPlan", "other", "app"))

    snapshot = rig.store.plans.snapshot(("other", "app"))
    assert snapshot is not None
    assert snapshot.requests is not None
    rig.api.gates[REQUESTS].set()
    await hanging


async def begun(rig: Rig, **fields: Any) -> tuple[str, str]:
    """Return name and UID of the one request of a plan that has begun."""
    rig.store.plans.observe(rig.api.put(PLAN, plan_json(**fields)))
    await reconcile(rig, times=2)
    (path,) = (path for path in rig.api.objects if path.startswith(f"{REQUESTS}/"))
    meta = rig.api.objects[path]["metadata"]
    return meta["name"], meta["uid"]


async def delete_request(rig: Rig, name: str, uid: str) -> None:
    """Delete a request as the garbage collector does, and report that, but nothing of its plan."""
    del rig.api.objects[f"{REQUESTS}/{name}"]
    rig.api.calls.clear()
    rig.store.requests.observe_gone(("team", name), uid)
    await reconcile(rig)


@pytest.mark.parametrize(
    "there",
    [None, plan_json(uid="uid-second"), plan_json(deleting=True)],
    ids=["gone", "another", "being deleted"],
)
async def test_a_request_is_not_made_again_for_a_plan_that_was_deleted_though_only_its_request_is_reported(
    rig: Rig, there: Json | None
) -> None:
    name, uid = await begun(rig)
    del rig.api.objects[PLAN]
    if there is not None:
        rig.api.put(PLAN, there)

    await delete_request(rig, name, uid)

    assert rig.api.made("POST") == []
    known = rig.store.plans.snapshot(APP)
    assert known is None or known.plan.metadata.deletion_timestamp is not None


async def test_a_request_that_somebody_deleted_is_made_again_after_one_look_at_its_plan(rig: Rig) -> None:
    name, uid = await begun(rig)

    await delete_request(rig, name, uid)

    assert [(call.method, call.path) for call in rig.api.calls][:2] == [("GET", PLAN), ("POST", REQUESTS)]
    assert f"{REQUESTS}/{name}" in rig.api.objects


async def test_a_controller_that_has_just_started_makes_no_request_for_a_plan_that_was_deleted_meanwhile(
    rig: Rig,
) -> None:
    begun_before = plan_json(status={"phase": "Running", "startTime": wire_time(datetime.now(UTC))})
    rig.store.plans.observe(begun_before)

    await reconcile(rig, times=2)

    assert rig.api.made("POST") == []
    assert rig.store.plans.snapshot(APP) is None


async def test_a_request_that_goes_while_its_plan_is_asked_for_has_the_plan_asked_for_again(rig: Rig) -> None:
    name, uid = await begun(rig)
    rig.api.gates[PLAN] = asyncio.Event()
    making_again = asyncio.create_task(delete_request(rig, name, uid))
    await rig.api.until(lambda: any(call.path == PLAN for call in rig.api.calls))
    rig.store.requests.observe(part_json("other", uid="uid-other"))
    rig.store.requests.observe_gone(("team", "other"), "uid-other")
    rig.api.gates[PLAN].set()
    await making_again

    known = rig.store.plans.snapshot(APP)
    assert known is not None
    assert known.unconfirmed
