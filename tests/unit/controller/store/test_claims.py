"""Exclusive claims in the store: one member for one claim, the line of those that wait, what is kept of them."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Callable
from typing import Any

import pytest

from efrit.controller import portions, work_queue
from efrit.controller.model.claims import ClaimSnapshot
from efrit.controller.model.keys import WorkKey
from efrit.controller.store.claims import MAX_LOOKED_AT
from efrit.controller.store.instances import CLAIMED_SECONDS
from efrit.controller.store.pool_record import MAX_CLAIMS_TAKEN
from efrit.protocol.view import DiskProblem, DiskStats
from tests.support.factory import NAMESPACE, Json, condition_json, plan_json, request_json
from tests.unit.controller.store.test_pools import CREW, member_json, names, pool_json, pool_of, pool_request
from tests.unit.controller.store.world import ALPHA, SOON, World
from tests.unit.controller.virtual_time import elapse

pytestmark = pytest.mark.virtual_time

LONG = 5.0
READY = {"conditions": [condition_json("Ready", "True", "Ready")]}


@pytest.fixture
def world() -> World:
    return World()


def claim_json(name: str, *, version: str = "50", status: Json | None = None, created: int = 0, **spec: Any) -> Json:
    metadata = {
        "name": name,
        "namespace": NAMESPACE,
        "uid": f"uid-{name}",
        "generation": 1,
        "resourceVersion": version,
        "creationTimestamp": f"2026-01-01T00:00:{created:02}Z",
    }
    return {"metadata": metadata, "spec": {"poolRef": {"name": "crew"}, **spec}, "status": status or {}}


def claimed_json(claim: str = "one", *, name: str = "alpha", uid: str | None = None, version: str = "60") -> Json:
    obj = member_json(name, version=version, status=READY)
    owner = {"kind": "EfritClaim", "name": claim, "uid": uid or f"uid-{claim}", "controller": True}
    obj["metadata"]["ownerReferences"] = [owner]
    return obj


def claim_of(world: World, name: str = "one") -> ClaimSnapshot:
    snapshot = world.store.claims.snapshot((NAMESPACE, name))
    assert snapshot is not None
    return snapshot


def begin(world: World) -> None:
    world.store.first_list_complete(None)
    world.store.pools.observe(pool_json())
    world.store.instances.observe(member_json(status=READY))
    world.open_bridge()


def take(world: World, name: str, instance: tuple[str, str] = ALPHA) -> bool:
    return world.store.claims.take_begins((NAMESPACE, name), f"uid-{name}", instance)


async def one_has_alpha(world: World) -> None:
    """Have the claim `one` come, and this process take the member for it."""
    begin(world)
    world.store.claims.observe(claim_json("one"))
    await world.settle()
    assert take(world, "one")


def free(world: World, name: str = "one") -> list[str]:
    return [member.instance.metadata.name for member in claim_of(world, name).candidates]


async def test_a_member_that_is_being_taken_is_no_other_claims_and_the_pools_no_more(world: World) -> None:
    begin(world)
    world.store.claims.observe(claim_json("one"))
    world.store.claims.observe(claim_json("two", created=1))
    assert (free(world), free(world, "two"), claim_of(world, "two").ahead) == (["alpha"], ["alpha"], 1)

    assert take(world, "one")

    assert not take(world, "two")
    assert (names(world), free(world, "two"), claim_of(world, "two").ahead) == ([], [], 0)
    # What the watch still tells of it does not bring it back.
    world.store.instances.observe(member_json(version="55", status=READY))
    assert names(world) == []
    assert not take(world, "two")

    world.store.instances.observe(claimed_json())
    world.store.claims.take_ended((NAMESPACE, "one"), "uid-one")
    member = claim_of(world).member
    assert member is not None
    assert member.instance.metadata.name == "alpha"
    assert member.claimed
    assert (names(world), claim_of(world).taking, pool_of(world).claims) == ([], None, 1)


async def test_a_member_that_its_claim_has_is_reconciled_after_all_else_unless_more_has_changed(world: World) -> None:
    await one_has_alpha(world)
    world.store.instances.observe(claimed_json())
    world.store.claims.take_ended((NAMESPACE, "one"), "uid-one")
    assert ("Instance", "alpha") not in await world.due_keys()
    assert ("Instance", "alpha") in await world.due_keys(CLAIMED_SECONDS)

    changed = claimed_json(version="61")
    changed["metadata"]["generation"] += 1
    world.store.instances.observe(changed)
    assert ("Instance", "alpha") in await world.due_keys()


async def test_a_claim_chooses_among_as_many_members_as_those_before_it_and_it_need(world: World) -> None:
    begin(world)
    for name in ("beta", "delta", "gamma"):
        world.store.instances.observe(member_json(name, status={**READY, "suspendedIdle": True}))
    world.store.claims.observe(claim_json("one"))
    world.store.claims.observe(claim_json("two", created=1))
    # Of alpha no pod is known: nobody can have it at once.
    assert (free(world), free(world, "two")) == (["alpha", "beta"], ["alpha", "beta", "delta"])


@pytest.mark.parametrize(("members", "ahead", "looked_at"), [(60, 0, 1), (45, 40, 32)])
async def test_claims_count_those_before_them_where_members_are_few(
    world: World, members: int, ahead: int, looked_at: int
) -> None:
    begin(world)
    for number in range(1, members):
        world.store.instances.observe(member_json(f"m{number}", status={**READY, "suspendedIdle": True}))
    for number in range(41):
        world.store.claims.observe(claim_json(f"c{number:02}", created=number))
    last = claim_of(world, "c40")
    # Of alpha no pod is known: one more is looked at.
    assert (last.ahead, len(last.candidates)) == (ahead, looked_at + 1)


async def test_members_with_plans_are_in_no_claims_way_and_no_claim_overtakes_others_because_of_them(
    world: World,
) -> None:
    begin(world)
    for number in range(60):
        name = f"busy{number:02}"
        world.store.plans.observe(plan_json(name, target=name, suspend=True))
        world.store.instances.observe(member_json(name, status={**READY, "suspendedIdle": True}))
    world.store.instances.observe(member_json("zeta", status={**READY, "suspendedIdle": True}))
    for number in range(41):
        world.store.claims.observe(claim_json(f"c{number:02}", created=number))

    # Of alpha no pod is known.
    assert free(world, "c00") == ["alpha", "zeta"]
    assert claim_of(world, "c40").ahead == 40


@pytest.mark.parametrize("cannot", ["full disk", "not Ready", "no pod"])
async def test_members_that_cannot_be_taken_hide_none_that_can(world: World, cannot: str) -> None:
    begin(world)
    count = MAX_LOOKED_AT - 2 if cannot == "no pod" else 2 * MAX_LOOKED_AT
    disk = DiskStats(problem=DiskProblem.FULL) if cannot == "full disk" else DiskStats()
    for number in range(count):
        name = f"broken{number:03}"
        world.store.instances.observe(member_json(name, status={} if cannot == "not Ready" else READY))
        world.open_bridge(of=(NAMESPACE, name), disk=disk)
    world.store.instances.observe(member_json("zeta", status={**READY, "suspendedIdle": True}))
    world.store.claims.observe(claim_json("one"))

    assert free(world)[-1] == "zeta"


async def test_a_decision_looks_at_so_many_members_and_no_more(world: World) -> None:
    begin(world)
    for number in range(MAX_LOOKED_AT):
        # Awake, and no pod is known.
        world.store.instances.observe(member_json(f"broken{number:03}", status=READY))
        world.open_bridge(of=(NAMESPACE, f"broken{number:03}"))
    world.store.instances.observe(member_json("zeta", status={**READY, "suspendedIdle": True}))
    world.store.claims.observe(claim_json("one"))

    assert len(free(world)) == MAX_LOOKED_AT


async def test_a_claim_that_this_process_has_bound_is_not_decided_about_again_unless_it_is_to_end(
    world: World,
) -> None:
    await one_has_alpha(world)
    world.store.instances.observe_written(claimed_json())
    world.store.claims.take_ended((NAMESPACE, "one"), "uid-one")
    await world.settle()
    bound = {"phase": "Bound", "instanceName": "alpha", "instanceUID": "uid-alpha"}
    world.store.claims.observe_written(claim_json("one", version="70", status=bound))
    assert ("Claim", "one") not in await world.due_keys(LONG)

    # Another process may have written it: nobody here has the moment of its end.
    world.store.claims.observe(claim_json("one", version="71", status=bound))
    assert ("Claim", "one") in await world.due_keys()
    world.store.claims.observe_written(claim_json("one", version="72", status=bound, released=True))
    assert ("Claim", "one") in await world.due_keys()
    unready = claimed_json(version="73")
    unready["status"] = {"conditions": [condition_json("Ready", "False", "Starting")]}
    world.store.instances.observe(unready)
    assert ("Claim", "one") in await world.due_keys()


async def test_a_pool_remembers_when_the_last_claims_took_a_member(world: World) -> None:
    begin(world)
    seen = []
    for number in range(MAX_CLAIMS_TAKEN + 1):
        name = f"c{number}"
        world.store.claims.observe(claim_json(name))
        assert take(world, name)
        seen.append(len(pool_of(world).claims_taken))
        # It is the pool's once more.
        world.store.claims.take_ended((NAMESPACE, name), f"uid-{name}")
        world.store.claims.deleted((NAMESPACE, name), f"uid-{name}")
    assert seen == [*range(1, MAX_CLAIMS_TAKEN + 1), MAX_CLAIMS_TAKEN]


async def test_a_pool_knows_which_members_are_on_their_way_back_and_when_the_last_ones_came(world: World) -> None:
    await one_has_alpha(world)
    world.store.instances.observe_written(claimed_json())
    world.store.claims.take_ended((NAMESPACE, "one"), "uid-one")
    assert (pool_of(world).returning, pool_of(world).claims_returned) == (0, ())
    world.store.claims.observe(claim_json("one", version="70", released=True))
    assert pool_of(world).returning == 0, "it is deleted"
    world.store.claims.observe(claim_json("one", version="71", released=True, release="Return"))
    assert pool_of(world).returning == 1

    world.store.instances.observe_written(member_json(version="80", status=READY))
    world.store.instances.observe(member_json(version="80", status=READY))

    assert (pool_of(world).returning, len(pool_of(world).claims_returned)) == (0, 1)


@pytest.mark.parametrize("ends", [{"released": True}, {}])
async def test_a_claim_that_gives_its_member_back_takes_turns_with_all_that_came_before_it(
    world: World, ends: dict[str, Any]
) -> None:
    begin(world)
    await world.settle()
    for number in range(9):
        world.store.claims.observe(claim_json(f"c{number}"))
    world.store.claims.observe(claim_json("one", **ends))
    order: list[str] = []

    async def reconcile(key: WorkKey) -> None:
        order.append(key.name)

    working = asyncio.create_task(world.queue.run(reconcile, 1))
    await elapse(SOON)
    working.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await working
    assert (order.index("one") <= 1) == bool(ends), order


async def test_a_member_that_goes_while_a_claim_has_it_does_not_count_as_one_that_came_back(world: World) -> None:
    begin(world)
    world.store.claims.observe(claim_json("one"))
    world.store.instances.observe(claimed_json())
    world.store.instances.observe_gone(ALPHA, "uid-alpha")
    assert pool_of(world).claims_returned == ()


async def test_a_claim_or_request_is_reconciled_before_its_pool_where_a_member_is_awake(world: World) -> None:
    """The pool, which counts all of its members, comes once its load has settled; without one it comes at once."""
    world.store.first_list_complete(None)
    world.store.pools.observe(pool_json())
    await world.due_keys()
    world.store.claims.observe(claim_json("none"))
    assert ("Pool", "crew") in await world.due_keys()
    world.store.instances.observe(member_json(status=READY))
    world.open_bridge()
    await world.due_keys()
    world.store.claims.observe(claim_json("one"))
    world.store.requests.observe(pool_request("two"))
    due = await world.due_keys()
    assert ("Claim", "one") in due
    assert ("Pool", "crew") not in due
    assert ("Pool", "crew") in await world.due_keys(LONG)


async def test_a_member_that_is_not_to_be_had_goes_back_and_the_first_in_line_is_reconciled(world: World) -> None:
    begin(world)
    world.store.claims.observe(claim_json("one"))
    assert take(world, "one")
    await world.settle()
    world.store.claims.take_ended((NAMESPACE, "one"), "uid-one")
    assert (names(world), free(world), claim_of(world).taking) == (["alpha"], ["alpha"], None)
    assert ("Claim", "one") in await world.due_keys()


async def test_a_claim_that_ends_or_a_member_that_goes_while_it_is_taken_leaves_nothing_behind(world: World) -> None:
    begin(world)
    world.store.claims.observe(claim_json("one"))
    assert take(world, "one")
    world.store.claims.observe_gone((NAMESPACE, "one"), "uid-one")
    assert names(world) == ["alpha"]

    world.store.claims.observe(claim_json("two"))
    assert take(world, "two")
    world.store.instances.observe_gone(ALPHA, "uid-alpha")
    assert (claim_of(world, "two").taking, claim_of(world, "two").ahead, pool_of(world).claims) == (None, 0, 1)
    world.store.claims.observe_gone((NAMESPACE, "two"), "uid-two")
    index = world.store._index
    assert (index.claims, index.claim_lines._lines, index.claim_lines._claimed) == ({}, {}, {})


async def test_a_refusal_gives_the_member_back_and_is_remembered(world: World) -> None:
    begin(world)
    world.store.claims.observe(claim_json("one"))
    assert take(world, "one")
    world.store.claims.take_refused((NAMESPACE, "one"), "uid-one", "no right")
    refusal = claim_of(world).refusal
    assert refusal is not None
    assert refusal.sentence == "no right"
    assert names(world) == ["alpha"]


async def test_a_claim_that_an_earlier_process_gave_a_member_has_it(world: World) -> None:
    world.store.pools.observe(pool_json())
    world.store.instances.observe(claimed_json())
    world.store.claims.observe(claim_json("one"))
    member = claim_of(world).member
    assert member is not None
    assert member.instance.metadata.name == "alpha"
    assert pool_of(world).claims == 0


async def test_an_owner_of_another_uid_or_namespace_has_no_member(world: World) -> None:
    world.store.claims.observe(claim_json("one"))
    world.store.instances.observe(claimed_json(uid="uid-earlier"))
    elsewhere = claimed_json(name="beta")
    elsewhere["metadata"]["namespace"] = "other"
    world.store.instances.observe(elsewhere)
    assert claim_of(world).member is None


async def test_a_forged_second_member_does_not_take_the_place_of_the_first(world: World) -> None:
    bound = {"phase": "Bound", "instanceName": "beta", "instanceUID": "uid-beta", "boundTime": "2026-01-01T00:00:00Z"}
    world.store.claims.observe(claim_json("one", status=bound))
    world.store.instances.observe(claimed_json(name="beta"))
    world.store.instances.observe(claimed_json())
    member = claim_of(world).member
    assert member is not None
    assert member.instance.metadata.name == "beta"


async def test_a_claim_that_names_the_member_of_another_does_not_have_it(world: World) -> None:
    await world.settle()
    bound = {"phase": "Bound", "instanceName": "alpha", "instanceUID": "uid-alpha"}
    world.store.instances.observe(claimed_json())
    world.store.claims.observe(claim_json("two", status={**bound, "boundTime": "2026-01-01T00:00:00Z"}))
    assert (claim_of(world, "two").member, claim_of(world, "two").instance_seen) == (None, True)


async def test_members_with_work_that_drain_or_with_other_owners_are_no_candidates(world: World) -> None:
    begin(world)
    world.store.claims.observe(claim_json("one"))
    assert free(world) == ["alpha"]
    world.store.requests.observe(request_json())
    assert free(world) == []
    world.store.requests.observe_gone((NAMESPACE, "work"), "uid-work")
    assert free(world) == ["alpha"]
    world.store.pools.drain(CREW, "uid-crew", frozenset({"alpha"}))
    assert free(world) == []
    world.store.pools.drain(CREW, "uid-crew", frozenset())
    obj = member_json(version="70", status=READY)
    obj["metadata"]["ownerReferences"].append({"kind": "ConfigMap", "name": "c", "uid": "c"})
    world.store.instances.observe(obj)
    assert free(world) == []


async def test_as_many_members_are_kept_from_requests_as_claims_wait(world: World) -> None:
    begin(world)
    world.store.requests.observe(pool_request("r"))
    assert [member.instance.metadata.name for member in world.request((NAMESPACE, "r")).candidates] == ["alpha"]
    world.store.claims.observe(claim_json("one"))
    assert world.request((NAMESPACE, "r")).candidates == ()
    await world.settle()
    world.store.claims.observe_gone((NAMESPACE, "one"), "uid-one")
    assert ("Request", "r") in await world.due_keys()
    assert len(world.request((NAMESPACE, "r")).candidates) == 1


async def test_a_claimed_instance_gets_work_by_its_name_alone(world: World) -> None:
    world.store.instances.observe(member_json(status=READY))
    selector = {"matchLabels": {"efrit.dev/pool": "crew"}}
    world.store.requests.observe(request_json(target=None, selector=selector))
    assert len(world.request().candidates) == 1
    world.store.instances.observe(claimed_json())
    assert world.request().candidates == ()


async def test_a_member_that_becomes_free_has_the_first_claim_reconciled_and_no_other(world: World) -> None:
    world.store.first_list_complete(None)
    world.store.pools.observe(pool_json())
    for number in range(5):
        world.store.claims.observe(claim_json(f"c{number}", created=number))
    await world.settle()
    world.store.instances.observe(member_json(status=READY))
    world.open_bridge()
    seen = await world.due_names("Claim")
    assert seen == {"c0"}
    assert take(world, "c0")
    assert await world.due_names("Claim") >= {"c1"}


async def test_a_status_of_the_pool_has_none_of_those_that_wait_reconciled(world: World) -> None:
    world.store.first_list_complete(None)
    world.store.pools.observe(pool_json())
    for number in range(20):
        world.store.requests.observe(pool_request(f"r{number:02}"))
        world.store.claims.observe(claim_json(f"c{number}", created=number))
    await world.settle()

    world.store.pools.observe({**pool_json(version="2"), "status": {"pending": 20}})
    assert {kind for kind, _ in await world.due_keys()} == {"Pool"}


async def test_a_pool_that_appears_or_goes_has_every_claim_that_waits_reconciled(world: World) -> None:
    for number in range(3):
        world.store.claims.observe(claim_json(f"c{number}", created=number))
    await world.settle()
    world.store.pools.observe(pool_json())
    assert await world.due_names("Claim") == {"c0", "c1", "c2"}
    assert pool_of(world).claims == 3
    world.store.pools.observe_left(pool_json())
    assert await world.due_names("Claim") == {"c0", "c1", "c2"}


async def test_a_claim_that_has_ended_is_forgotten_and_a_late_version_does_not_bring_it_back(world: World) -> None:
    world.store.claims.observe(claim_json("one"))
    world.store.claims.observe(claim_json("one", version="51", status={"phase": "Expired"}))
    world.store.claims.drop_if_done((NAMESPACE, "one"))
    assert world.store.claims.snapshot((NAMESPACE, "one")) is not None, "nobody has read that it ended"
    world.store.claims.drop_if_done((NAMESPACE, "one"))
    assert world.store.claims.open_uids() == {}
    world.store.claims.observe(claim_json("one"))
    assert world.store.claims.snapshot((NAMESPACE, "one")) is None


async def test_a_claim_made_anew_after_the_end_of_the_old_one_was_decided_about_is_kept(world: World) -> None:
    world.store.claims.observe(claim_json("one", status={"phase": "Released"}))
    assert claim_of(world).claim.final
    await world.settle()

    anew = claim_json("one", version="60")
    anew["metadata"]["uid"] = "uid-second"
    world.store.claims.observe(anew)
    world.store.claims.drop_if_done((NAMESPACE, "one"))

    assert world.store.claims.open_uids() == {(NAMESPACE, "one"): "uid-second"}
    assert ("Claim", "one") in await world.due_keys()


def claimed_from_pool(world: World) -> tuple[str, ...]:
    return pool_of(world).claimed


async def test_a_pool_knows_which_members_its_claims_have_or_are_taking_until_they_end(world: World) -> None:
    begin(world)
    world.store.claims.observe(claim_json("one"))
    world.store.claims.observe(claim_json("of-another", poolRef={"name": "other"}))
    assert claimed_from_pool(world) == ()
    assert take(world, "one")
    assert claimed_from_pool(world) == ("alpha",)
    world.store.instances.observe(claimed_json())
    world.store.claims.take_ended((NAMESPACE, "one"), "uid-one")
    assert claimed_from_pool(world) == ("alpha",)
    await world.settle()
    world.store.claims.observe_gone((NAMESPACE, "one"), "uid-one")
    assert claimed_from_pool(world) == ()


async def test_the_picture_of_a_pool_costs_no_more_however_many_claims_wait(world: World) -> None:
    begin(world)
    costs = []
    for count in (10, 300):
        for number in range(count):
            world.store.claims.observe(claim_json(f"c{number}"))
        costs.append(calls_of(lambda: pool_of(world)))
    assert costs[1] <= costs[0]


def calls_of(work: Callable[[], object]) -> int:
    """Return how many Python functions are called."""
    count = 0

    def called(_frame: object, event: str, _argument: object) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(called)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


async def test_the_end_of_a_claim_and_of_its_member_has_the_pool_reconciled(world: World) -> None:
    begin(world)
    world.store.claims.observe(claim_json("one"))
    world.store.instances.observe(claimed_json())
    await world.due_keys(LONG)
    world.store.instances.observe_gone(ALPHA, "uid-alpha")
    assert claimed_from_pool(world) == ()
    assert ("Pool", "crew") in await world.due_keys(LONG)
    world.store.claims.observe_gone((NAMESPACE, "one"), "uid-one")
    assert ("Pool", "crew") in await world.due_keys(LONG)


async def reconciled_claims(world: World, within: float = SOON) -> set[str]:
    return await world.due_names("Claim", within)


async def many_wait(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have seven claims wait, of which two at a time are reconciled because of their pool."""
    monkeypatch.setattr(portions, "AT_ONCE", 2)
    monkeypatch.setattr(work_queue, "PAUSE_SECONDS", LONG)
    for number in range(7):
        world.store.claims.observe(claim_json(f"c{number}", created=number))
    await world.settle()


async def test_of_many_claims_that_wait_a_few_at_a_time_hear_that_their_pool_comes_or_goes(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await many_wait(world, monkeypatch)
    world.store.pools.observe(pool_json())
    assert await reconciled_claims(world) == {"c0", "c1"}
    assert await reconciled_claims(world, LONG) == {"c2", "c3"}
    # What comes meanwhile waits for those that were to be next.
    world.store.pools.observe(pool_json(generation=2, version="9", replicas=0))
    assert await reconciled_claims(world, LONG) == {"c4", "c5"}
    world.store.claims.observe_gone((NAMESPACE, "c6"), "uid-c6")
    assert [await reconciled_claims(world, LONG) for _ in range(3)] == [{"c0", "c1"}, {"c2", "c3"}, set()]
    world.store.pools.observe_gone(CREW, "uid-crew")
    assert await reconciled_claims(world) == {"c0", "c1"}


async def test_a_change_of_a_pool_that_changes_no_answer_has_no_claim_reconciled(world: World) -> None:
    world.store.pools.observe(pool_json())
    for number in range(3):
        world.store.claims.observe(claim_json(f"c{number}", created=number))
    await world.settle()
    world.store.pools.observe(pool_json(generation=2, version="9", replicas=5))
    assert await reconciled_claims(world) == set()
    world.store.pools.observe(pool_json(generation=3, version="10", replicas=0))
    assert await reconciled_claims(world) == {"c0", "c1", "c2"}
