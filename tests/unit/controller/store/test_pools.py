"""Pools in the store: whose members are whose, which requests are reconciled when something changes, what is kept."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from efrit.api.pool import MAX_FLOW_CHARS, REQUESTER
from efrit.controller import portions
from efrit.controller.model.pools import PoolSnapshot
from efrit.controller.model.rollout import UpdateCause
from efrit.controller.store import pool_lines
from efrit.controller.store.backlog import BEGINNING
from efrit.controller.store.store import Store
from efrit.controller.work_queue import WorkQueue
from efrit.protocol.view import DiskProblem, DiskStats, EmacsStats
from tests.support.factory import (
    CONFIG,
    NAMESPACE,
    NOW,
    POD_UID,
    Json,
    condition_json,
    instance_json,
    plan_json,
    request_json,
    seconds,
    statefulset_json,
    stats,
)
from tests.unit.controller.store.world import ALPHA, World, child
from tests.unit.controller.virtual_time import elapse

pytestmark = pytest.mark.virtual_time

CREW = (NAMESPACE, "crew")
LONG = 5.0
BOUND: Json = {"instanceName": "alpha", "phase": "Running"}


def pool_json(uid: str = "uid-crew", *, generation: int = 1, version: str = "1", **spec: Any) -> Json:
    metadata = {
        "name": "crew",
        "namespace": NAMESPACE,
        "uid": uid,
        "generation": generation,
        "resourceVersion": version,
    }
    return {"metadata": metadata, "spec": {"replicas": 2, **spec}, "status": {}}


def member_json(name: str = "alpha", pool: str = "uid-crew", **fields: Any) -> Json:
    obj = instance_json(name, **fields)
    owner = {"kind": "EfritPool", "name": "crew", "uid": pool, "controller": True}
    obj["metadata"]["ownerReferences"] = [owner]
    obj["metadata"]["labels"] = {"efrit.dev/pool": "crew", "efrit.dev/pool-revision": "r"}
    return obj


def pool_request(name: str, *, labels: Json | None = None, **spec: Any) -> Json:
    obj = request_json(name, target=None, poolRef={"name": "crew"}, **spec)
    obj["metadata"]["labels"] = labels or {}
    return obj


def pool_of(world: World) -> PoolSnapshot:
    snapshot = world.store.pools.snapshot(CREW)
    assert snapshot is not None
    return snapshot


def names(world: World) -> list[str]:
    return [member.name for member in pool_of(world).members]


async def test_the_members_are_the_instances_that_the_pool_controls(world: World) -> None:
    world.store.pools.observe(pool_json())
    world.store.instances.observe(member_json())
    world.store.instances.observe(member_json("other", pool="uid-earlier"))
    by_label = instance_json("by-label")
    by_label["metadata"]["labels"] = {"efrit.dev/pool": "crew"}
    world.store.instances.observe(by_label)
    assert names(world) == ["alpha"]

    world.store.instances.observe_gone((NAMESPACE, "alpha"), "uid-alpha")
    assert names(world) == []


async def test_an_instance_of_another_namespace_is_no_member_whatever_owner_it_names(world: World) -> None:
    world.store.pools.observe(pool_json())
    foreign = member_json()
    foreign["metadata"]["namespace"] = "other"
    world.store.instances.observe(foreign)
    world.store.first_list_complete(None)
    world.store.requests.observe(pool_request("one"))

    assert (names(world), world.candidates()) == ([], [])


async def test_a_member_has_been_ready_since_its_condition_says_so(world: World) -> None:
    world.store.pools.observe(pool_json())
    for kind, since in (("True", 60), ("False", 5)):
        conditions = [condition_json("Ready", kind, "Said", NOW - seconds(since))]
        world.store.instances.observe(member_json(version=f"{100 - since}", status={"conditions": conditions}))
        (member,) = pool_of(world).members
        assert (member.ready, member.ready_changed) == (kind == "True", NOW - seconds(since))


async def test_a_member_that_was_listed_before_its_pool_is_found(world: World) -> None:
    world.store.instances.observe(member_json())
    world.store.pools.observe(pool_json())
    assert names(world) == ["alpha"]


async def test_a_pool_made_anew_under_the_name_has_none_of_the_members_of_the_first(world: World) -> None:
    world.store.pools.observe(pool_json())
    world.store.instances.observe(member_json())
    world.store.pools.observe(pool_json("uid-second", version="5"))
    assert names(world) == []


async def test_a_pool_made_anew_shares_its_members_as_it_says_though_its_generation_is_the_same(world: World) -> None:
    world.store.pools.observe(pool_json())
    world.store.requests.observe(pool_request("one", labels={"team": "a"}))
    world.store.pools.observe(pool_json("uid-second", version="5", fairness={"flowLabel": "team"}))
    assert pool_of(world).flows == (("a", 0, 1),)


async def test_as_many_requests_are_reconciled_as_a_member_has_room_for(world: World) -> None:
    world.store.pools.observe(pool_json(placement={"maxLoadPerInstance": 2}))
    for number in range(50):
        world.store.requests.observe(pool_request(f"r{number:02}"))
    await world.settle()

    conditions = [condition_json("Ready", "True", "Ready")]
    world.store.instances.observe(member_json(status={"conditions": conditions}))

    assert await world.due_names("Request", LONG) == {"r00", "r01"}


async def test_a_request_that_ends_has_the_next_one_reconciled_and_no_other(world: World) -> None:
    world.store.pools.observe(pool_json(placement={"maxLoadPerInstance": 1}))
    world.store.instances.observe(member_json())
    for number in range(20):
        world.store.requests.observe(pool_request(f"r{number:02}"))
    bound = pool_request("r00", version="21", status={"instanceName": "alpha", "phase": "Running"})
    world.store.requests.observe(bound)
    assert pool_of(world).pending == 19
    assert world.place("r01").waiting == 19
    await world.settle()

    world.store.requests.observe_gone((NAMESPACE, "r00"), bound["metadata"]["uid"])

    assert await world.due_names("Request", LONG) == {"r00", "r01"}


async def test_a_request_whose_flow_had_all_that_it_may_have_is_reconciled_once_it_has_not(world: World) -> None:
    limits = {"flowLabel": "team", "maxRunningPerFlow": 2}
    world.store.pools.observe(pool_json(placement={"maxLoadPerInstance": 1}, fairness=limits))
    world.store.instances.observe(member_json())
    for name, status in (("a0", BOUND), ("a1", BOUND), ("b0", BOUND), ("a2", {}), ("a3", {}), ("b1", {})):
        world.store.requests.observe(pool_request(name, labels={"team": name[0]}, status=status))
    world.store.first_list_complete(None)
    assert world.place("a2").flow_has_all
    await world.settle()

    world.store.requests.observe_gone((NAMESPACE, "a0"), "uid-a0")
    assert await world.due_names("Request", LONG) == {"a0", "a2"}
    world.store.requests.observe_gone((NAMESPACE, "b0"), "uid-b0")
    assert await world.due_names("Request", LONG) == {"b0"}


@pytest.mark.parametrize("limits", [{"maxRunningPerFlow": 2}, {}])
async def test_no_request_gets_a_member_before_it_is_known_what_each_member_has(world: World, limits: Json) -> None:
    def place() -> tuple[bool, bool]:
        return world.place("waits").flow_has_all, bool(world.candidates("waits"))

    world.store.pools.observe(pool_json(placement={"maxLoadPerInstance": 1}, fairness=limits))
    for member in ("alpha", "beta"):
        world.store.instances.observe(member_json(member, status={"suspendedIdle": True}))
    world.store.requests.observe(pool_request("waits"))
    assert place() == (bool(limits), False)

    world.store.requests.observe(pool_request("z-bound", status=BOUND))
    await world.settle()
    world.store.first_list_complete(None)
    assert place() == (False, True)
    # One of those that are bound may have to move.
    assert await world.due_names("Request") == {"waits", "z-bound"}


async def test_room_that_a_session_does_not_take_is_for_the_next(world: World) -> None:
    world.store.pools.observe(pool_json(placement={"maxLoadPerInstance": 1}))
    world.store.instances.observe(member_json())
    world.store.instances.observe(member_json("home"))
    world.store.first_list_complete(None)
    for name in ("continues", "next", "other"):
        world.store.requests.observe(pool_request(name))
    world.open_bridge()
    await world.settle()

    world.store.requests.assume((NAMESPACE, "continues"), (NAMESPACE, "home"), in_turn=False)
    assert await world.due_names("Request", LONG) == {"next"}


async def test_what_happens_to_instances_of_no_pool_has_no_request_of_a_pool_reconciled(world: World) -> None:
    world.store.pools.observe(pool_json())
    world.store.requests.observe(pool_request("one"))
    await world.settle()
    world.store.instances.observe(instance_json("beta"))
    assert ("Request", "one") not in await world.due_keys(LONG)


async def test_without_a_pool_of_the_name_instances_with_its_label_are_candidates(world: World) -> None:
    obj = instance_json("by-label")
    obj["metadata"]["labels"] = {"efrit.dev/pool": "crew"}
    world.store.instances.observe(obj)
    world.store.requests.observe(pool_request("one"))
    assert world.request((NAMESPACE, "one")).pool is None
    assert world.candidates() == ["by-label"]

    world.store.pools.observe(pool_json())
    assert (world.place().waiting, world.candidates()) == (1, [])


async def test_the_deletion_of_a_pool_has_its_requests_look_for_labelled_instances(world: World) -> None:
    world.store.pools.observe(pool_json())
    world.store.requests.observe(pool_request("one"))
    await world.settle()
    world.store.pools.observe_left(pool_json())
    assert ("Request", "one") in await world.due_keys(LONG)
    assert world.store.pools.snapshot(CREW) is None


async def test_of_thousands_that_wait_a_few_at_a_time_hear_that_their_pool_comes_or_goes(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(portions, "AT_ONCE", 2)
    world.store.pools.observe(pool_json(fairness={"maxPendingPerFlow": 5}))
    for number in range(7):
        world.store.requests.observe(pool_request(f"r{number}"))
    await world.settle()
    world.store.first_list_complete(None)
    pool_and_claims = 1
    assert world.queue.ready <= 2 + pool_and_claims
    await world.due_keys(LONG)

    world.store.pools.observe_left(pool_json())
    assert world.queue.ready <= 2 + pool_and_claims
    assert {f"r{number}" for number in range(7)} <= {name for _, name in await world.due_keys(LONG)}


async def test_a_member_that_drains_is_no_candidate(world: World) -> None:
    world.store.pools.observe(pool_json())
    world.store.first_list_complete(None)
    world.store.instances.observe(member_json(status={"suspendedIdle": True}))
    world.store.requests.observe(pool_request("one"))
    assert world.candidates() == ["alpha"]
    world.store.pools.drain(CREW, "uid-crew", frozenset({"alpha"}))
    assert world.candidates() == []


async def test_flows_follow_the_label_that_the_pool_names_whenever_it_is_named(world: World) -> None:
    world.store.pools.observe(pool_json())
    for number, team in enumerate(("a", "a", "b")):
        world.store.requests.observe(pool_request(f"r{number}", labels={"team": team}))
    assert pool_of(world).flows == (("", 0, 3),)
    world.store.pools.observe(pool_json(generation=2, version="9", fairness={"flowLabel": "team"}))
    assert pool_of(world).flows == (("a", 0, 2), ("b", 0, 1))


async def test_a_label_that_changes_all_the_time_has_the_line_made_anew_once_a_second_and_the_last_one_counts(
    world: World,
) -> None:
    world.store.pools.observe(pool_json())
    world.store.requests.observe(pool_request("r0", labels={"one": "a", "two": "b", "three": "c"}))
    for generation, label in enumerate(("one", "two", "three"), 2):
        changed = pool_json(generation=generation, version=str(generation), fairness={"flowLabel": label})
        world.store.pools.observe(changed)
    assert pool_of(world).flows == (("a", 0, 1),)
    assert ("Pool", "crew") in await world.due_keys(LONG)
    assert pool_of(world).flows == (("c", 0, 1),)


async def test_thousands_are_put_in_line_anew_a_few_at_a_time_for_another_label(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool_lines, "REFILED_AT_ONCE", 2)
    world.store.pools.observe(pool_json(fairness={"flowLabel": "one"}))
    for number in range(7):
        world.store.requests.observe(pool_request(f"r{number}", labels={"one": "a", "two": "b"}))
    assert pool_of(world).flows == (("a", 0, 7),)
    world.store.pools.observe(pool_json(generation=2, version="9", fairness={"flowLabel": "two"}))
    # Those that leave, or come, meanwhile.
    world.store.requests.observe_gone((NAMESPACE, "r0"), "uid-r0")
    world.store.requests.observe(pool_request("new", labels={"one": "a", "two": "b"}))
    assert {name: waiting for name, _, waiting in pool_of(world).flows} == {"a": 2, "b": 5}
    assert ("Pool", "crew") in await world.due_keys(LONG)
    assert pool_of(world).flows == (("b", 0, 7),)
    await world.due_keys(LONG)
    assert pool_of(world).pending == 7


@pytest.mark.parametrize(
    ("fairness", "first"),
    [
        ({}, {"a0", "a1", "b0", "b1"}),
        ({"weights": {"b": 3}}, {"a0", "b0", "b1", "b2"}),
        ({"maxRunningPerFlow": 1}, {"a0", "b0"}),
    ],
)
async def test_flows_share_by_the_weights_of_the_spec_and_have_no_more_than_it_allows(
    world: World, fairness: Json, first: set[str]
) -> None:
    shared = {"flowLabel": "team", **fairness}
    world.store.pools.observe(pool_json(placement={"maxLoadPerInstance": 4}, fairness=shared))
    for number in range(5):
        for team in "ab":
            world.store.requests.observe(pool_request(f"{team}{number}", labels={"team": team}))
    await world.settle()
    world.store.instances.observe(member_json(status={"conditions": [condition_json("Ready", "True", "Ready")]}))
    assert await world.due_names("Request", LONG) == first


@pytest.mark.parametrize(("strategy", "first"), [("Packed", "m1"), ("Spread", "m0")])
async def test_the_fullest_member_goes_first_where_the_pool_packs_and_the_emptiest_where_it_spreads(
    world: World, strategy: str, first: str
) -> None:
    world.store.pools.observe(pool_json(placement={"strategy": strategy, "maxLoadPerInstance": 3}))
    world.store.first_list_complete(None)
    for name in ("m0", "m1"):
        world.store.instances.observe(member_json(name, status={"suspendedIdle": True}))
    busy = {"instanceName": "m1", "phase": "Running"}
    world.store.requests.observe(pool_request("busy", status=busy))
    world.store.requests.observe(pool_request("one"))
    assert world.candidates()[0] == first


async def test_a_request_with_more_labels_than_a_flow_is_worth_has_no_flow(world: World) -> None:
    world.store.pools.observe(pool_json(fairness={"flowLabel": "team"}))
    labels = {f"label-{number}": "x" * 60 for number in range(50)}
    world.store.requests.observe(pool_request("many", labels={**labels, "team": "a"}))
    assert pool_of(world).flows == (("", 0, 1),)


def made_by(requester: str, name: str, *, labels: Json | None = None) -> Json:
    obj = pool_request(name, labels=labels)
    obj["metadata"]["annotations"] = {REQUESTER: requester, "of-kubectl": "x" * 5000}
    return obj


async def test_without_a_label_the_flow_is_who_made_the_request_where_the_api_server_notes_that(world: World) -> None:
    world.store = Store(world.queue, replace(CONFIG, is_requester_noted=True), world.now)
    world.store.pools.observe(pool_json())
    for number, requester in enumerate(("kim", "kim", "lee")):
        # A label of the same name is the user's, and is nobody's requester.
        world.store.requests.observe(made_by(requester, f"r{number}", labels={REQUESTER: "mine"}))
    assert pool_of(world).flows == (("kim", 0, 2), ("lee", 0, 1))


async def test_nobody_leaves_their_flow_by_many_labels_or_a_long_name(world: World) -> None:
    world.store = Store(world.queue, replace(CONFIG, is_requester_noted=True), world.now)
    world.store.pools.observe(pool_json())
    labels = {f"label-{number}": "x" * 60 for number in range(50)}
    world.store.requests.observe(made_by("kim", "many", labels=labels))
    world.store.requests.observe(made_by("l" * 5000, "long"))
    assert pool_of(world).flows == (("kim", 0, 1), ("l" * MAX_FLOW_CHARS, 0, 1))


async def test_who_made_a_request_is_not_believed_where_users_can_write_it(world: World) -> None:
    world.store.pools.observe(pool_json())
    for number in range(3):
        world.store.requests.observe(made_by(f"user-{number}", f"r{number}"))
    assert pool_of(world).flows == (("", 0, 3),)


async def test_one_request_more_than_may_wait_is_turned_away_and_those_before_it_are_not(world: World) -> None:
    world.store.first_list_complete(None)
    world.store.pools.observe(pool_json(fairness={"maxPendingPerFlow": 2}))
    for number in range(3):
        world.store.requests.observe(pool_request(f"r{number}"))
    # A change of one that waits does not have it judged anew.
    world.store.requests.observe(pool_request("r0", version="27"))
    places = [world.request((NAMESPACE, f"r{number}")).pool for number in range(3)]
    assert [place.turned_away if place else None for place in places] == [None, None, 2]


async def test_a_request_that_was_deleted_keeps_no_place_from_the_next_one_before_that_is_confirmed(
    world: World,
) -> None:
    world.store.first_list_complete(None)
    world.store.pools.observe(pool_json(fairness={"maxPendingPerFlow": 2}))
    old, other = pool_request("old"), pool_request("other")
    world.store.requests.observe(old)
    world.store.requests.observe(other)
    world.store.requests.observe_left(old)
    world.store.requests.observe(pool_request("next"))
    assert turned_away(world, "next") == [None]

    # It was there after all: what comes now finds as many as may wait, and one more.
    world.store.requests.verification_begins((NAMESPACE, "old"), old["metadata"]["uid"])
    world.store.requests.observe_verified((NAMESPACE, "old"), old["metadata"]["uid"], old)
    world.store.requests.observe_left(other)
    world.store.requests.observe(pool_request("last"))
    assert turned_away(world, "old", "last") == [None, 2]


async def test_requests_that_were_deleted_before_their_pool_was_known_keep_no_place(world: World) -> None:
    world.store.first_list_complete(None)
    old = pool_request("old")
    world.store.requests.observe(old)
    world.store.requests.observe(pool_request("next"))
    world.store.requests.observe_left(old)
    world.store.pools.observe(pool_json(fairness={"maxPendingPerFlow": 1}))
    assert turned_away(world, "next") == [None]


def turned_away(world: World, *requests: str) -> list[int | None]:
    places = [world.request((NAMESPACE, name)).pool for name in requests]
    return [place.turned_away if place else None for place in places]


def request_of(number: int, reason: str | None = None) -> Json:
    """Return a request that was created after all of smaller numbers."""
    obj = pool_request(f"r{number}", labels={"flow": "ab"[number % 2]})
    obj["metadata"]["creationTimestamp"] = (NOW + timedelta(seconds=number)).isoformat()
    return obj | ({"status": {"phase": "Pending", "reason": reason}} if reason else {})


async def test_the_next_process_turns_nothing_away_that_was_let_wait(world: World) -> None:
    # Meanwhile its user let fewer wait, and one was interrupted and waits again.
    for reason in ("Backpressure", "Preempted"):
        for number in range(2):
            obj = pool_request(f"{reason}-{number}".lower())
            obj["status"] = {"phase": "Pending", "reason": reason}
            world.store.requests.observe(obj)
    world.store.requests.observe(pool_request("new"))
    world.store.pools.observe(pool_json(fairness={"maxPendingPerFlow": 1}))
    world.store.first_list_complete(None)
    world.store.requests.observe(pool_request("newer"))
    assert turned_away(world, "backpressure-0", "backpressure-1", "preempted-0", "preempted-1") == [None] * 4
    assert turned_away(world, "new", "newer") == [1, 1]


async def test_of_requests_that_are_seen_before_their_pool_the_oldest_wait(world: World) -> None:
    world.store.first_list_complete(None)
    for number in (3, 2, 1, 0):
        # Why they wait without a pool does not say that one let them wait.
        world.store.requests.observe(request_of(number, "InstanceNotReady"))
    await world.due_keys()
    world.store.pools.observe(pool_json(fairness={"flowLabel": "flow", "maxPendingPerFlow": 1}))
    assert turned_away(world, "r0", "r1", "r2", "r3") == [None, None, 1, 1]
    assert {("Request", "r2"), ("Request", "r3")} <= await world.due_keys()


async def test_of_requests_that_are_seen_after_their_pool_at_a_start_the_oldest_wait(world: World) -> None:
    world.store.pools.observe(pool_json(fairness={"flowLabel": "flow", "maxPendingPerFlow": 1}))
    for number in (3, 2, 1, 0):
        world.store.requests.observe(request_of(number, "Backpressure" if number == 3 else None))
    world.store.first_list_complete(None)
    # Of flow b the youngest was let wait before.
    assert turned_away(world, "r0", "r1", "r2", "r3") == [None, 1, 1, None]


async def test_a_request_that_is_being_bound_is_in_line_no_more_and_comes_back_where_that_fails(world: World) -> None:
    world.store.pools.observe(pool_json())
    world.store.instances.observe(member_json())
    world.store.requests.observe(pool_request("one"))
    world.store.requests.assume((NAMESPACE, "one"), (NAMESPACE, "alpha"))
    assert (pool_of(world).pending, pool_of(world).flows) == (0, (("", 1, 0),))
    assert pool_of(world).members[0].load == 1
    world.store.requests.assume((NAMESPACE, "one"), None)
    assert (pool_of(world).pending, pool_of(world).flows) == (1, (("", 0, 1),))
    assert pool_of(world).members[0].load == 0


async def test_a_pool_keeps_the_size_that_an_earlier_process_chose_as_long_as_it_is_to_wait(world: World) -> None:
    autoscaling = {"maxReplicas": 9, "scaleDown": {"stabilizationSeconds": 60}}
    obj = pool_json(autoscaling=autoscaling)
    del obj["spec"]["replicas"]
    world.store.pools.observe({**obj, "status": {"desiredReplicas": 5}})
    assert (pool_of(world).desired, [needed.members for needed in pool_of(world).recommendations]) == (5, [5])
    world.store.pools.scale(CREW, "uid-crew", 1, 5)
    assert [needed.members for needed in pool_of(world).recommendations] == [5, 1]
    world.store.pools.scale(CREW, "uid-crew", 7, 7)
    assert [needed.members for needed in pool_of(world).recommendations] == [7]
    assert [growth.members for growth in pool_of(world).growths] == [2]


async def test_a_template_that_changes_has_another_digest_and_one_that_is_too_large_is_not_kept(world: World) -> None:
    world.store.pools.observe(pool_json())
    before = pool_of(world).revision
    template = {"spec": {"limits": {"requestTimeoutSeconds": 7}}}
    world.store.pools.observe(pool_json(generation=2, version="2", template=template))
    assert pool_of(world).revision != before
    assert pool_of(world).template == template
    env = [{"name": f"A{number}", "value": "x" * 4000} for number in range(40)]
    large = {"spec": {"podTemplate": {"env": env}}}
    world.store.pools.observe(pool_json(generation=3, version="3", template=large))
    assert pool_of(world).template is None


async def test_a_refusal_is_remembered_until_a_member_is_made_or_the_pool_is_another(world: World) -> None:
    world.store.pools.observe(pool_json())
    world.store.pools.refused(CREW, "uid-crew", "exceeded quota")
    refusal = pool_of(world).refusal
    assert refusal is not None
    assert refusal.remaining(refusal.when) == timedelta(seconds=10)
    world.store.pools.created(CREW, "uid-crew")
    assert pool_of(world).refusal is None
    world.store.pools.refused(CREW, "uid-earlier", "late")
    assert pool_of(world).refusal is None


async def test_a_decision_chooses_between_a_few_members_and_knows_the_room_of_all(world: World) -> None:
    world.store.pools.observe(pool_json(placement={"maxLoadPerInstance": 3}))
    world.store.first_list_complete(None)
    for number in range(40):
        world.store.instances.observe(member_json(f"m{number:02}", status={"suspendedIdle": True}))
    world.store.requests.observe(pool_request("one"))
    assert (world.place().awake, world.place().asleep) == (0, 120)
    assert world.candidates() == [f"m{number:02}" for number in range(16)]


async def test_a_member_whose_disk_takes_no_work_has_no_room_and_keeps_none_asleep(world: World) -> None:
    world.store.pools.observe(pool_json(placement={"maxLoadPerInstance": 3}))
    world.store.first_list_complete(None)
    world.store.instances.observe(member_json())
    world.store.instances.observe(member_json("sleeper", status={"suspendedIdle": True}))
    world.store.requests.observe(pool_request("one"))
    world.open_bridge()

    for problem, room in ((DiskProblem.FULL, (0, 3)), (None, (3, 3))):
        world.store.bridges.event(ALPHA, POD_UID, stats(disk=DiskStats(problem=problem)))
        assert ("Request", "one") in await world.due_keys(LONG)
        assert (world.place().awake, world.place().asleep) == room


def _bound_to(member: str) -> Json:
    return pool_request("one", status={"instanceName": member, "phase": "Pending"})


def _leaves(world: World) -> str | None:
    place = world.request((NAMESPACE, "one")).pool
    return place.leaves if place is not None else None


async def test_the_requests_of_a_member_that_begins_to_drain_look_for_another_and_the_time_is_kept(
    world: World,
) -> None:
    world.store.pools.observe(pool_json())
    world.store.instances.observe(member_json())
    world.store.requests.observe(_bound_to("alpha"))
    assert _leaves(world) is None
    await world.settle()

    world.store.pools.drain(CREW, "uid-crew", frozenset({"alpha"}))
    assert ("Request", "one") in await world.due_keys(LONG)
    assert _leaves(world) == "alpha"
    began = pool_of(world).drain_began
    world.store.pools.drain(CREW, "uid-crew", frozenset({"alpha", "beta"}))
    assert pool_of(world).drain_began["alpha"] == began["alpha"]
    world.store.pools.drain(CREW, "uid-crew", frozenset())
    assert (_leaves(world), pool_of(world).drain_began) == (None, {})


def test_the_time_that_a_member_drains_goes_on_while_the_clock_is_set() -> None:
    clock, elapsed = NOW, 0.0
    store = Store(WorkQueue(), CONFIG, lambda: clock, lambda: elapsed)
    store.pools.observe(pool_json())
    store.pools.drain(CREW, "uid-crew", frozenset({"alpha"}))
    elapsed += 30
    for hours in (-1, 1):
        clock = NOW + timedelta(hours=hours)
        snapshot = store.pools.snapshot(CREW)
        assert snapshot is not None
        assert clock - snapshot.drain_began["alpha"] == timedelta(seconds=30)


async def test_the_request_of_a_member_that_is_gone_looks_for_another_once_all_members_are_listed(
    world: World,
) -> None:
    world.store.pools.observe(pool_json())
    world.store.requests.observe(_bound_to("gone"))
    assert _leaves(world) is None
    world.store.first_list_complete(None)
    assert _leaves(world) == "gone"


async def test_a_request_that_moves_counts_for_both_members_while_that_is_written(world: World) -> None:
    world.store.pools.observe(pool_json())
    world.store.instances.observe(member_json())
    world.store.instances.observe(member_json("beta"))
    world.store.requests.observe(_bound_to("alpha"))
    request, beta = (NAMESPACE, "one"), (NAMESPACE, "beta")
    world.store.requests.assume(request, beta)
    assert [member.load for member in pool_of(world).members] == [1, 1]
    world.store.requests.assume(request, None)
    assert [member.load for member in pool_of(world).members] == [1, 0]


async def test_a_request_may_leave_its_session_only_while_the_member_that_has_it_is_away(world: World) -> None:
    affinity = {"sessionAffinity": "Preferred", "affinityWaitSeconds": 5}
    world.store.pools.observe(pool_json(placement=affinity))
    world.store.instances.observe(member_json())
    chat = pool_request("chat", type="chat", session={"id": "s-1"})
    for obj in (chat, pool_request("eval")):
        world.store.requests.observe({**obj, "status": {"instanceName": "alpha"}})
    assert (world.place("chat").leaves, world.place("chat").affinity_wait) == ("alpha", seconds(5))
    assert world.request((NAMESPACE, "eval")).pool is None

    world.store.pools.observe(pool_json(version="2"))
    assert world.request((NAMESPACE, "chat")).pool is None


def working_since(world: World) -> datetime | None:
    (member,) = pool_of(world).members
    return member.working_since


async def test_a_member_works_since_it_has_the_oldest_of_its_requests(world: World) -> None:
    world.store.first_list_complete(None)
    world.store.pools.observe(pool_json())
    world.store.instances.observe(member_json())
    world.open_bridge()
    for name, pause in (("one", 3.0), ("two", 4.0)):
        world.store.requests.observe(pool_request(name))
        world.store.requests.assume((NAMESPACE, name), ALPHA)
        await elapse(pause)
    assert working_since(world) == NOW
    # That the API server has said so, and what it says later, changes nothing.
    for version in ("21", "22"):
        world.store.requests.observe(pool_request("one", status={"instanceName": "alpha"}, version=version))
    assert working_since(world) == NOW
    world.store.requests.observe_gone((NAMESPACE, "one"), "uid-one")
    assert working_since(world) == NOW + timedelta(seconds=3)
    world.store.requests.assume((NAMESPACE, "two"), None)
    assert working_since(world) is None


async def test_a_request_that_an_earlier_process_has_placed_and_a_plan_are_there_for_long(world: World) -> None:
    world.store.pools.observe(pool_json())
    world.store.instances.observe(member_json())
    world.store.requests.observe(pool_request("one", status={"instanceName": "alpha"}))
    world.store.first_list_complete(None)
    assert working_since(world) == BEGINNING
    world.store.requests.observe_gone((NAMESPACE, "one"), "uid-one")
    assert working_since(world) is None
    world.store.plans.observe(plan_json())
    assert working_since(world) == BEGINNING


async def test_a_resync_has_the_budget_of_each_pool_applied_again(world: World) -> None:
    world.store.pools.observe(pool_json())
    await world.settle()
    world.store.pools.budget_applied(CREW, "uid-earlier", {"kind": "PodDisruptionBudget"})
    assert pool_of(world).budget is None
    world.store.pools.budget_applied(CREW, "uid-crew", {"kind": "PodDisruptionBudget"})
    assert (pool_of(world).budget, pool_of(world).budget_written) == ({"kind": "PodDisruptionBudget"}, world.now())
    await world.store.pools.resync_all(LONG, "other")
    assert pool_of(world).budget is not None
    await world.store.pools.resync_all(LONG, NAMESPACE)
    assert pool_of(world).budget is None
    assert await world.due_keys(LONG) == {("Pool", "crew")}


async def test_the_oldest_request_that_waits_is_known_until_a_member_has_it(world: World) -> None:
    world.store.pools.observe(pool_json())
    world.store.requests.observe(pool_request("low", priority=-10, created=NOW - seconds(90)))
    world.store.requests.observe(pool_request("high", priority=10, created=NOW - seconds(30)))
    assert pool_of(world).oldest_pending == NOW - seconds(90)

    bound = pool_request("low", version="21", created=NOW - seconds(90), status={"instanceName": "alpha"})
    world.store.requests.observe(bound)
    assert pool_of(world).oldest_pending == NOW - seconds(30)


async def test_what_members_have_counts_for_its_flow_though_it_was_seen_before_its_pool(world: World) -> None:
    world.store.requests.observe(pool_request("one", labels={"team": "a"}, status={"instanceName": "alpha"}))
    world.store.requests.observe(pool_request("two", labels={"team": "a"}))
    world.store.pools.observe(pool_json(fairness={"flowLabel": "team", "maxRunningPerFlow": 1}))
    assert pool_of(world).flows == (("a", 1, 1),)

    world.store.instances.observe(member_json())
    world.store.instances.observe(member_json("beta"))
    assert world.place("two").ahead >= world.place("two").awake

    world.store.requests.observe_gone((NAMESPACE, "one"), "uid-one")
    assert pool_of(world).flows == (("a", 0, 1),)


async def test_a_request_that_comes_while_its_pool_is_made_anew_is_in_the_flow_that_the_pool_says(
    world: World,
) -> None:
    pool = pool_json(fairness={"flowLabel": "team"})
    world.store.pools.observe(pool)
    world.store.requests.observe(pool_request("one", labels={"team": "a"}))
    world.store.pools.observe_gone(CREW, "uid-crew")
    world.store.requests.observe(pool_request("two", labels={"team": "b"}))
    world.store.pools.observe(pool_json("uid-second", version="9", fairness={"flowLabel": "team"}))
    assert pool_of(world).flows == (("a", 0, 1), ("b", 0, 1))


async def test_a_member_has_room_once_its_emacs_claims_requests_and_those_that_wait_are_reconciled_then(
    world: World,
) -> None:
    world.store.pools.observe(pool_json(placement={"maxLoadPerInstance": 1}))
    world.store.first_list_complete(None)
    world.store.instances.observe(member_json())
    world.store.requests.observe(pool_request("first"))
    world.open_bridge(emacs=EmacsStats())
    await world.due_keys(LONG)
    assert world.candidates("first") == []

    world.store.bridges.event((NAMESPACE, "alpha"), POD_UID, stats())
    assert ("Request", "first") in await world.due_keys(LONG)
    assert world.candidates("first") == ["alpha"]

    # It says again what is known.
    world.store.bridges.event((NAMESPACE, "alpha"), POD_UID, stats(processed=1))
    assert ("Request", "first") not in await world.due_keys(LONG)


async def test_a_request_that_a_member_cannot_take_has_its_pool_reconciled_no_more_often_for_being_reconciled(
    world: World,
) -> None:
    world.store.pools.observe(pool_json())
    world.store.instances.observe(member_json())
    world.open_bridge()
    world.store.requests.observe(pool_request("first"))
    await world.due_keys(LONG)
    # As each reconciliation of a request begins.
    world.store.requests.assume((NAMESPACE, "first"), None)
    assert await world.due_keys(LONG) == set()


async def test_a_member_whose_pod_is_being_stopped_has_no_room(world: World) -> None:
    world.store.pools.observe(pool_json())
    world.store.first_list_complete(None)
    world.store.instances.observe(member_json())
    world.open_bridge()
    world.store.requests.observe(pool_request("first"))
    assert world.candidates("first") == ["alpha"]
    stopped = child()
    stopped["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    world.store.children.observe_pod(stopped)
    assert world.candidates("first") == []


def _updated(status: str, reason: str) -> Json:
    return {"conditions": [condition_json("Updated", status, reason)]}


@pytest.mark.parametrize(
    ("status", "template", "held"),
    [
        ({}, "t", False),
        (_updated("Unknown", "UpdateDraining"), "t", True),
        (_updated("Unknown", "Updating"), "t", False),
        (_updated("True", "UpToDate"), "former", True),
        (_updated("False", "UpdateFailed"), "former", False),
    ],
)
async def test_a_member_that_waits_for_its_update_has_no_room(
    world: World, status: Json, template: str, held: bool
) -> None:
    world.store.pools.observe(pool_json(placement={"maxLoadPerInstance": 3}))
    world.store.first_list_complete(None)
    world.store.instances.observe(member_json(status=status))
    statefulset, pod = statefulset_json(), child(phase="Running")
    for made, digest in ((statefulset, "t"), (pod, template)):
        made["metadata"]["annotations"] = {"efrit.dev/template-hash": digest}
    world.store.children.observe_statefulset(statefulset)
    world.store.children.observe_pod(pod)
    world.open_bridge()
    world.store.requests.observe(pool_request("one"))
    assert world.instance().held_for_update is held
    assert (world.place().awake, len(world.candidates())) == ((0, 0) if held else (3, 1))


async def test_a_member_has_no_room_while_its_pod_is_replaced_and_those_that_wait_are_reconciled_then(
    world: World,
) -> None:
    world.store.pools.observe(pool_json(placement={"maxLoadPerInstance": 1}))
    world.store.first_list_complete(None)
    world.store.instances.observe(member_json())
    world.open_bridge()
    world.store.requests.observe(pool_request("one"))
    assert world.place().awake == 1
    world.store.rollouts.reserve(ALPHA, UpdateCause.SPEC, world.now())
    assert world.place().awake == 0
    world.store.rollouts.cancel_reservation(ALPHA)
    assert world.store.instances.replace_begins(ALPHA)
    assert world.place().awake == 0
    await world.due_keys(LONG)
    world.store.instances.replace_ended(ALPHA)
    assert ("Request", "one") in await world.due_keys(LONG)
    assert world.place().awake == 1


async def test_of_instances_that_anybody_has_made_for_a_pool_no_more_count_than_it_can_have(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool_lines, "MAX_COUNTED", 3)
    world.store.pools.observe(pool_json(template={"spec": {}}))
    for name in ("a", "b", "c"):
        world.store.instances.observe(member_json(name))
    assert not pool_of(world).has_too_many
    for name in ("d", "e"):
        world.store.instances.observe(member_json(name))
    assert (names(world), pool_of(world).has_too_many) == (["a", "b", "c"], True)
    world.store.instances.observe_gone((NAMESPACE, "b"), "uid-b")
    assert (names(world), pool_of(world).has_too_many) == (["a", "c", "d"], True)
    world.store.instances.observe_gone((NAMESPACE, "a"), "uid-a")
    assert (names(world), pool_of(world).has_too_many) == (["c", "d", "e"], False)


async def test_a_pool_that_is_gone_is_reconciled_once_more_for_what_it_leaves(world: World) -> None:
    world.store.pools.observe(pool_json())
    await world.due_keys(LONG)
    world.store.pools.observe_gone(CREW, "uid-crew")
    assert ("Pool", "crew") in await world.due_keys()
    world.store.pools.forget_left(CREW, "another")
    assert world.store.pools.left(CREW) == "uid-crew"
    world.store.pools.forget_left(CREW, "uid-crew")
    assert world.store.pools.left(CREW) is None


async def test_a_status_of_a_pool_ends_no_pause_after_a_refusal_and_another_spec_does(world: World) -> None:
    world.store.pools.observe(pool_json())
    world.store.pools.refused(CREW, "uid-crew", "exceeded quota")
    world.store.pools.observe({**pool_json(version="2"), "status": {"pending": 20}})
    assert pool_of(world).refusal is not None
    world.store.pools.observe(pool_json(version="3", generation=2))
    assert pool_of(world).refusal is None
