"""Preemption in the store: who may be interrupted for whom, and what is left of a run that is over."""

from __future__ import annotations

from typing import Any

import pytest

from efrit.api.plan import PLAN_UID_LABEL
from efrit.controller.model.snapshots import PoolPlace, Victim
from efrit.controller.store.index import Orphan
from efrit.protocol import RequestReason, RequestState
from efrit.protocol.view import RequestView
from tests.support.factory import NAMESPACE, NOW, POD_UID, Json, answered, seconds, statefulset_json, view
from tests.unit.controller.store.test_pools import member_json, pool_json, pool_of, pool_request
from tests.unit.controller.store.world import ALPHA, World, child
from tests.unit.controller.virtual_time import elapse

pytestmark = pytest.mark.virtual_time

LONG, URGENT = (NAMESPACE, "long"), (NAMESPACE, "urgent")
AGAIN: Json = {"retryPolicy": "IfInterrupted"}
BOUND: Json = {"instanceName": "alpha", "phase": "Running"}


def runs(name: str = "long", **fields: Any) -> RequestView:
    return view(f"uid-{name}", RequestState.RUNNING, attempt=1, started_time=NOW, **fields)


def show_pool(world: World, *views: RequestView, **spec: Any) -> None:
    """Show a pool whose member runs a request that may run twice."""
    fields = {"preemption": "LowerPriority", "placement": {"maxLoadPerInstance": 1}, **spec}
    world.store.pools.observe(pool_json(**fields))
    world.store.instances.observe(member_json())
    world.store.children.observe_statefulset(statefulset_json())
    world.store.children.observe_pod(child(phase="Running", podIP="127.0.0.1"))
    world.store.first_list_complete(None)
    world.store.requests.observe(pool_request("long", status=BOUND, **AGAIN))
    world.open_bridge(*(views or (runs(),)))


def ask(world: World, name: str = "urgent", priority: int = 5, **fields: Any) -> PoolPlace:
    world.store.requests.observe(pool_request(name, priority=priority, **fields))
    return world.place(name)


def victim(world: World, name: str = "urgent", **fields: Any) -> Victim | None:
    return ask(world, name, **fields).victim


async def test_running_work_of_lower_priority_is_interrupted_where_the_pool_says_so(world: World) -> None:
    show_pool(world)
    chosen = victim(world)
    assert chosen is not None
    assert (chosen.request.key, chosen.member.instance.key, chosen.marked) == (LONG, ALPHA, False)
    assert victim(world, "as-urgent", priority=0) is None
    world.store.pools.observe(pool_json(generation=2, version="2", placement={"maxLoadPerInstance": 1}))
    assert world.place("urgent").victim is None


async def test_nothing_is_interrupted_while_a_member_has_room(world: World) -> None:
    show_pool(world, placement={"maxLoadPerInstance": 2})
    assert victim(world) is None


async def test_nothing_is_interrupted_before_all_open_requests_are_known(world: World) -> None:
    world.store.pools.observe(pool_json(preemption="LowerPriority", placement={"maxLoadPerInstance": 1}))
    world.store.instances.observe(member_json())
    world.store.children.observe_statefulset(statefulset_json())
    world.store.children.observe_pod(child(phase="Running", podIP="127.0.0.1"))
    world.store.requests.observe(pool_request("long", status=BOUND, **AGAIN))
    world.open_bridge(runs())
    assert victim(world) is None
    world.store.first_list_complete(None)
    assert world.place("urgent").victim is not None


async def test_nothing_is_interrupted_for_a_request_whose_status_the_api_server_refuses(world: World) -> None:
    show_pool(world)
    assert victim(world) is not None
    world.store.requests.status_refused(URGENT, "uid-urgent")
    assert world.place("urgent").victim is None


async def test_work_is_interrupted_again_for_a_request_whose_status_is_accepted_by_now(world: World) -> None:
    show_pool(world)
    assert victim(world) is not None
    world.store.requests.status_refused(URGENT, "uid-urgent")

    world.store.requests.observe_written(pool_request("urgent", priority=5, version="9", status={"phase": "Pending"}))

    assert world.place("urgent").victim is not None


async def test_what_has_not_begun_may_be_interrupted_later(world: World) -> None:
    show_pool(world, view("uid-long"))
    pool_place = ask(world)
    assert (pool_place.victim, pool_place.victim_may_come) == (None, True)
    world.store.bridges.event(ALPHA, POD_UID, runs())
    assert world.place("urgent").victim is not None


async def test_what_goes_first_for_its_age_is_not_interrupted_for_what_waited_beside_it(world: World) -> None:
    world.store.pools.observe(pool_json(preemption="LowerPriority", placement={"maxLoadPerInstance": 1}))
    world.store.first_list_complete(None)
    world.store.requests.observe(pool_request("urgent", priority=5))
    await elapse(1)
    show_pool(world)
    pool_place = world.place("urgent")
    assert (pool_place.victim, pool_place.victim_may_come) == (None, False)


async def test_a_member_that_would_go_on_with_other_work_is_left_alone(world: World) -> None:
    show_pool(world, runs(), view("uid-next"), placement={"maxLoadPerInstance": 2})
    world.store.requests.observe(pool_request("next", status=BOUND, created=NOW - seconds(600)))
    # Six minutes of waiting are worth more than five points of priority.
    assert victim(world) is None
    assert victim(world, "more-urgent", priority=1000) is not None


@pytest.mark.parametrize("held", ["it drains", "a claim waits for it", "its bridge is away"])
async def test_a_member_that_takes_nothing_more_is_left_alone(world: World, held: str) -> None:
    show_pool(world)
    match held:
        case "it drains":
            world.store.pools.drain(("team", "crew"), "uid-crew", frozenset({"alpha"}))
        case "a claim waits for it":
            meta = {"name": "ada", "namespace": NAMESPACE, "uid": "uid-ada", "resourceVersion": "1"}
            world.store.claims.observe({"metadata": meta, "spec": {"poolRef": {"name": "crew"}}, "status": {}})
        case _:
            world.store.bridges.bridge_lost(ALPHA, POD_UID, "it does not answer")
    assert victim(world) is None


async def test_the_request_of_a_plan_stays_on_the_member_that_has_the_plan(world: World) -> None:
    show_pool(world)
    labels = {PLAN_UID_LABEL: "uid-app"}
    world.store.requests.observe(pool_request("long", status=BOUND, version="22", labels=labels, **AGAIN))
    assert victim(world) is None


async def test_a_flow_takes_from_another_only_what_that_has_beyond_its_share(world: World) -> None:
    spec = {"placement": {"maxLoadPerInstance": 2}, "fairness": {"flowLabel": "team"}}
    show_pool(world, runs(), runs("second"), **spec)
    world.store.requests.observe(pool_request("long", status=BOUND, version="22", labels={"team": "a"}, **AGAIN))
    world.store.requests.observe(pool_request("second", status=BOUND, labels={"team": "a"}, **AGAIN))
    assert victim(world, labels={"team": "b"}) is not None
    # One of the two is being interrupted for another flow already.
    mark = {"preemption": {"inProgress": True, "byUID": "uid-first", "byName": "first"}}
    status = {**BOUND, **mark}
    world.store.requests.observe(pool_request("second", status=status, version="23", labels={"team": "a"}, **AGAIN))
    assert world.place("urgent").victim is None
    assert victim(world, "mine", labels={"team": "a"}) is not None


@pytest.mark.parametrize(
    ("teams", "weights", "taken"),
    [
        # With the place that it takes, flow b would have two, and flow a one.
        ("aab", {}, False),
        ("aab", {"a": 2}, False),
        ("aab", {"b": 2}, True),
        # One each.
        ("aa", {}, True),
        ("aa", {"a": 2}, False),
        ("aa", {"b": 2}, True),
    ],
)
async def test_shares_go_by_the_weights_of_the_flows(world: World, teams: str, weights: Json, taken: bool) -> None:
    fairness = {"flowLabel": "team", "weights": weights}
    show_pool(world, runs(), runs("r1"), runs("r2"), placement={"maxLoadPerInstance": len(teams)}, fairness=fairness)
    for number, team in enumerate(teams):
        name, policy = f"r{number}" if number else "long", AGAIN if team == "a" else {}
        obj = pool_request(name, status=BOUND, version=f"{22 + number}", labels={"team": team}, **policy)
        world.store.requests.observe(obj)
    assert (victim(world, labels={"team": "b"}) is not None) == taken


async def test_what_an_earlier_process_interrupts_for_a_request_is_found_again(world: World) -> None:
    mark = {"preemption": {"inProgress": True, "byUID": "uid-urgent", "byName": "urgent"}}
    show_pool(world)
    world.store.requests.observe(pool_request("long", status={**BOUND, **mark}, version="22", **AGAIN))
    chosen = victim(world)
    assert chosen is not None
    assert (chosen.request.key, chosen.marked) == (LONG, True)
    assert victim(world, "other", priority=9) is None
    world.store.bridges.bridge_lost(ALPHA, POD_UID, "it does not answer")
    pool_place = world.place("urgent")
    assert (pool_place.victim, pool_place.victim_may_come) == (None, True)


def put_back(world: World) -> None:
    """Show the request as one that was stopped and waits to run again."""
    status = {"phase": "Pending", "reason": "Preempted", "preemption": {"count": 1, "byName": "urgent"}}
    world.store.requests.observe(pool_request("long", status=status, version="30", **AGAIN))


async def test_what_a_queue_says_of_a_run_that_is_over_is_settled_and_no_answer_of_the_next_run(world: World) -> None:
    show_pool(world)
    stopped = answered("uid-long", reason=RequestReason.CANCELLED)
    world.store.bridges.event(ALPHA, POD_UID, stopped)
    put_back(world)
    assert pool_of(world).pending == 1
    assert world.store.bridges.orphans(LONG) == [Orphan(ALPHA, "uid-long")]

    # Bound to the same member again.
    world.store.requests.observe(
        pool_request("long", version="31", status={**BOUND, "preemption": {"count": 1}}, **AGAIN)
    )
    snapshot = world.request(LONG)
    assert (snapshot.bridge_view, snapshot.handover) == (None, None)
    world.store.bridges.event(ALPHA, POD_UID, stopped)
    assert world.request(LONG).bridge_view is None
    second = view("uid-long.1", RequestState.RUNNING, attempt=1)
    world.store.bridges.event(ALPHA, POD_UID, second)
    shown = world.request(LONG).bridge_view
    assert shown is not None
    assert shown.id == "uid-long.1"

    world.store.bridges.answer_acknowledged(ALPHA, "uid-long")
    world.store.bridges.orphan_settled(LONG, ALPHA, "uid-long")
    assert world.store.bridges.orphans(LONG) == []
    assert world.request(LONG).bridge_view == shown


async def test_a_late_word_of_a_former_run_after_a_restart_is_settled_too(world: World) -> None:
    world.store.first_list_complete(None)
    put_back(world)
    late = view("uid-long", RequestState.RUNNING, metadata={"name": "long", "namespace": NAMESPACE}, attempt=1)
    world.open_bridge(late)
    assert world.store.bridges.orphans(LONG) == [Orphan(ALPHA, "uid-long")]
    assert world.request(LONG).bridge_view is None


async def test_what_is_taken_out_of_turn_is_paid_for_and_costs_nobody_else_their_credit(world: World) -> None:
    spec: Json = {"placement": {"maxLoadPerInstance": 3}, "fairness": {"flowLabel": "team"}}
    world.store.pools.observe(pool_json(**spec))
    world.store.instances.observe(member_json())
    for name, team in (("a0", "a"), ("a1", "a"), ("a2", "a"), ("b0", "b"), ("b1", "b")):
        world.store.requests.observe(pool_request(name, labels={"team": team}))
    for name in ("a0", "a1"):
        world.store.requests.assume((NAMESPACE, name), ALPHA, in_turn=False)
    line = world.store.requests._index.pool_lines.line(("team", "crew"))
    assert line is not None
    assert [key[1] for key in line.first(3)] == ["b0", "b1", "a2"]
