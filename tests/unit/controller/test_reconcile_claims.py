"""reconcile.py: exclusive claims, through the real store, decisions and actor."""

from __future__ import annotations

import asyncio
import contextlib
from datetime import timedelta

import pytest

from efrit import resources
from efrit.controller.model.claims import FORBIDDEN_SECONDS, STATUS_ATTEMPTS
from efrit.controller.model.keys import WorkKey
from efrit.errors import ApiError
from tests.support.factory import Json, condition_json
from tests.support.timeout import TIMEOUT
from tests.unit.controller.reconciling import ALPHA, Rig
from tests.unit.controller.store.test_claims import claim_json, claimed_json
from tests.unit.controller.store.test_pools import member_json, pool_json

ONE: Json = {"generation": 2, "version": "2", "replicas": 1, "updateStrategy": {"type": "OnDelete"}}
POOL, CLAIMS, INSTANCES = (
    resources.POOLS.path("team", "crew"),
    resources.EXCLUSIVE_CLAIMS.path("team"),
    resources.INSTANCES.path("team"),
)


def begin(rig: Rig, *claims: str) -> None:
    """Show a pool of one ready member, and claims."""
    rig.store.first_list_complete(None)
    rig.store.pools.observe(rig.api.put(POOL, pool_json()))
    rig.ready()
    opened = rig.api.objects[ALPHA]["status"]
    status = {**opened, "conditions": [condition_json("Ready", "True", "Ready")]}
    member = {**rig.api.objects[ALPHA], "metadata": member_json()["metadata"], "status": status}
    rig.store.instances.observe(rig.api.put(ALPHA, member))
    for number, name in enumerate(claims):
        rig.store.claims.observe(rig.api.put(f"{CLAIMS}/{name}", claim_json(name, created=number)))


def owner(rig: Rig) -> str:
    (reference,) = rig.api.objects[ALPHA]["metadata"]["ownerReferences"]
    return f"{reference['kind']} {reference['name']}"


def status(rig: Rig, name: str) -> Json:
    found: Json = rig.api.objects[f"{CLAIMS}/{name}"].get("status", {})
    return found


async def test_a_claim_is_bound_by_two_writes(rig: Rig) -> None:
    begin(rig, "one")
    await rig.reconcile("EfritClaim", "one")
    assert [call.path for call in rig.api.made("PATCH")] == [ALPHA, f"{CLAIMS}/one/status"]
    assert (owner(rig), status(rig, "one")["phase"]) == ("EfritClaim one", "Bound")
    await rig.reconcile("EfritClaim", "one")
    assert len(rig.api.made("PATCH")) == 2


async def test_two_claims_that_are_decided_about_at_once_do_not_get_one_member(rig: Rig) -> None:
    begin(rig, "one", "two")
    await asyncio.gather(rig.reconcile("EfritClaim", "one"), rig.reconcile("EfritClaim", "two"))
    assert [call.path for call in rig.api.made("PATCH")].count(ALPHA) == 1
    assert {status(rig, "one")["phase"], status(rig, "two")["phase"]} == {"Bound", "Pending"}


async def test_two_controllers_do_not_give_one_member_to_two_claims(rig: Rig, other: Rig) -> None:
    # The second has not learned yet what the first has written.
    for controller, name in ((rig, "one"), (other, "two")):
        begin(controller, name)
    member = rig.api.objects[ALPHA]
    rig.store.instances.observe(member)
    await rig.reconcile("EfritClaim", "one")
    await other.reconcile("EfritClaim", "two")
    await other.reconcile("EfritClaim", "two")
    assert owner(rig) == "EfritClaim one"
    assert (status(rig, "one")["phase"], status(rig, "two")["phase"]) == ("Bound", "Pending")


async def test_a_claim_waits_for_the_spare_that_starts_and_makes_no_instance_of_its_own(rig: Rig) -> None:
    begin(rig, "one")
    rig.store.pools.observe(rig.api.put(POOL, pool_json(**ONE)))
    ready = rig.api.objects[ALPHA]
    starting = {**ready["status"], "conditions": [condition_json("Ready", "False", "Starting")]}
    rig.store.instances.observe(rig.api.put(ALPHA, {**ready, "status": starting}))
    await rig.reconcile("EfritClaim", "one")
    await rig.reconcile("EfritPool", "crew")
    assert status(rig, "one")["phase"] == "Pending"
    assert not [call for call in rig.api.made("POST") if call.path == INSTANCES]

    rig.store.instances.observe(rig.api.put(ALPHA, {**ready, "metadata": rig.api.objects[ALPHA]["metadata"]}))
    await rig.reconcile("EfritClaim", "one")
    assert (status(rig, "one")["phase"], status(rig, "one")["instanceName"]) == ("Bound", "alpha")
    assert not [call for call in rig.api.made("POST") if call.path == INSTANCES]


async def test_a_member_that_has_changed_is_read_and_taken_by_the_next_decision(rig: Rig) -> None:
    begin(rig, "one")
    rig.api.put(ALPHA, {**rig.api.objects[ALPHA], "spec": {"limits": {"maxToolCalls": 5}}})
    await rig.reconcile("EfritClaim", "one")
    assert owner(rig) == "EfritPool crew"
    await rig.reconcile("EfritClaim", "one")
    assert owner(rig) == "EfritClaim one"


@pytest.mark.parametrize("refusal", [409, 500])
async def test_a_claim_is_decided_about_again_where_the_watch_knew_its_member_before_the_write_was_refused(
    rig: Rig, refusal: int
) -> None:
    begin(rig, "one")
    rig.api.gates[ALPHA] = asyncio.Event()
    rig.api.fail("PATCH", ALPHA, refusal)
    bound = asyncio.Event()

    async def reconcile(work: WorkKey) -> None:
        if work.kind == "EfritClaim":
            await rig.reconciler.reconcile(work)
            if status(rig, "one").get("phase") == "Bound":
                bound.set()

    working = asyncio.create_task(rig.queue.run(reconcile, 1))
    await rig.api.until(lambda: rig.api.made("PATCH"))
    # A write that the API server was asked for twice.
    rig.store.instances.observe(
        rig.api.put(ALPHA, {**rig.api.objects[ALPHA], "metadata": claimed_json()["metadata"]})
    )
    rig.api.gates[ALPHA].set()
    await asyncio.wait_for(bound.wait(), TIMEOUT)
    assert owner(rig) == "EfritClaim one"
    working.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await working


async def test_an_answer_that_is_lost_keeps_the_member_from_others_until_it_is_known_whose_it_is(rig: Rig) -> None:
    begin(rig, "one", "two")
    rig.api.fail("PATCH", ALPHA, 500)
    with pytest.raises(ApiError):
        await rig.reconcile("EfritClaim", "one")
    await rig.reconcile("EfritClaim", "two")
    assert status(rig, "two")["phase"] == "Pending"
    await rig.reconcile("EfritClaim", "one")
    assert (owner(rig), status(rig, "one")["phase"]) == ("EfritClaim one", "Bound")


async def test_a_refusal_is_said_and_not_tried_again_at_once(rig: Rig) -> None:
    begin(rig, "one")
    rig.api.fail("PATCH", ALPHA, 403, {"message": "denied: no", "reason": "Forbidden", "code": 403})
    await rig.reconcile("EfritClaim", "one")
    await rig.reconcile("EfritClaim", "one")
    assert [call.path for call in rig.api.made("PATCH")].count(ALPHA) == 1
    (condition,) = status(rig, "one")["conditions"]
    assert condition["reason"] == "Refused"
    assert "denied: no" in condition["message"]


@pytest.mark.parametrize("refusal", [413, 422])
async def test_a_claim_whose_status_is_always_refused_does_not_keep_its_member_and_stands_in_nobodys_way(
    rig: Rig, refusal: int
) -> None:
    begin(rig, "one")
    rig.api.fail("PATCH", f"{CLAIMS}/one/status", refusal, times=STATUS_ATTEMPTS + 5)
    path = f"{CLAIMS}/one"
    spec = {**rig.api.objects[path]["spec"], "release": "Return"}
    rig.store.claims.observe(rig.api.put(path, {**rig.api.objects[path], "spec": spec}))
    for attempt in range(STATUS_ATTEMPTS + 3):
        with pytest.raises(ApiError):
            await rig.reconcile("EfritClaim", "one")
        assert owner(rig) == ("EfritClaim one" if attempt < STATUS_ATTEMPTS else "EfritPool crew")
    assert [call.body["reason"] for call in rig.api.made("POST")] == ["StatusRefused"]

    rig.store.claims.observe(rig.api.put(f"{CLAIMS}/two", claim_json("two", created=1)))
    await rig.reconcile("EfritClaim", "two")
    assert (owner(rig), status(rig, "two")["phase"]) == ("EfritClaim two", "Bound")


async def test_a_claim_whose_status_was_refused_for_a_while_keeps_its_member(rig: Rig) -> None:
    begin(rig, "one")
    for _ in range(2):
        rig.api.fail("PATCH", f"{CLAIMS}/one/status", 403, times=STATUS_ATTEMPTS - 1)
        for _ in range(STATUS_ATTEMPTS - 1):
            with pytest.raises(ApiError):
                await rig.reconcile("EfritClaim", "one")
        await rig.reconcile("EfritClaim", "one")
        assert (owner(rig), status(rig, "one")["phase"]) == ("EfritClaim one", "Bound")
        unbound = {**rig.api.objects[f"{CLAIMS}/one"], "status": {}}
        rig.store.claims.observe(rig.api.put(f"{CLAIMS}/one", unbound))


async def test_a_right_that_is_missing_for_some_minutes_ends_no_claim(rig: Rig) -> None:
    begin(rig, "one")
    rig.api.fail("PATCH", f"{CLAIMS}/one/status", 403, times=3 * STATUS_ATTEMPTS + 1)
    for _ in range(3):
        for _ in range(STATUS_ATTEMPTS):
            with pytest.raises(ApiError):
                await rig.reconcile("EfritClaim", "one")
        assert rig.api.made("POST") == []
        rig.clock.passed += timedelta(seconds=FORBIDDEN_SECONDS / 3 + 1)

    # It may be a policy that says no for ever: then it is given up after all.
    with pytest.raises(ApiError):
        await rig.reconcile("EfritClaim", "one")
    await rig.reconcile("EfritClaim", "one")
    assert status(rig, "one")["phase"] == "Failed"
    assert [call.body["reason"] for call in rig.api.made("POST")] == ["StatusRefused"]


async def test_a_controller_that_dies_between_the_writes_is_made_up_for(rig: Rig) -> None:
    begin(rig, "one")
    rig.api.fail("PATCH", f"{CLAIMS}/one/status", 500)
    with pytest.raises(ApiError):
        await rig.reconcile("EfritClaim", "one")
    assert owner(rig) == "EfritClaim one"
    await rig.reconcile("EfritClaim", "one")
    assert status(rig, "one")["instanceName"] == "alpha"
    assert [call.path for call in rig.api.made("PATCH")].count(ALPHA) == 1


async def test_the_end_returns_the_member_and_then_says_so(rig: Rig) -> None:
    begin(rig, "one")
    await rig.reconcile("EfritClaim", "one")
    path = f"{CLAIMS}/one"
    spec = {**rig.api.objects[path]["spec"], "release": "Return", "released": True}
    rig.store.claims.observe(rig.api.put(path, {**rig.api.objects[path], "spec": spec}))
    await rig.reconcile("EfritClaim", "one")
    assert (owner(rig), status(rig, "one")["phase"]) == ("EfritPool crew", "Released")
    assert "efrit.dev/claim" not in rig.api.objects[ALPHA]["metadata"]["labels"]
    await rig.reconcile("EfritClaim", "one")
    assert rig.store.claims.snapshot(("team", "one")) is None


async def test_a_member_that_changed_before_the_end_is_not_deleted_by_what_was_decided_before(rig: Rig) -> None:
    begin(rig, "one")
    await rig.reconcile("EfritClaim", "one")
    path = f"{CLAIMS}/one"
    spec = {**rig.api.objects[path]["spec"], "released": True}
    rig.store.claims.observe(rig.api.put(path, {**rig.api.objects[path], "spec": spec}))
    # Somebody else's by now, which no watch has reported yet.
    rig.api.put(ALPHA, {**rig.api.objects[ALPHA], "metadata": member_json()["metadata"]})
    await rig.reconcile("EfritClaim", "one")
    assert ALPHA in rig.api.objects
    await rig.reconcile("EfritClaim", "one")
    assert (ALPHA in rig.api.objects, status(rig, "one")["phase"]) == (True, "Released")
