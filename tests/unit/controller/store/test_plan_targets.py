"""store/plan_targets.py and what the store makes of it: which open plans an instance has."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from efrit.controller.store.plan_targets import PlanCount, PlansByTarget, PlanTarget
from tests.support.factory import (
    NAMESPACE,
    NOW,
    final_status,
    instance_json,
    part_json,
    plan_json,
    request_json,
    seconds,
)
from tests.unit.controller.store.world import World
from tests.unit.controller.virtual_time import elapse

pytestmark = pytest.mark.virtual_time

ALPHA = (NAMESPACE, "alpha")
BETA = (NAMESPACE, "beta")
APP = (NAMESPACE, "app")
POOLED: dict[str, Any] = {"target": None, "poolRef": {"name": "many"}}
KEY = ("Instance", "alpha")

KEYS = st.tuples(st.just(NAMESPACE), st.sampled_from("abcd"))
HOMES = st.one_of(st.none(), st.builds(PlanTarget, st.sampled_from(["instance", "pool"]), KEYS))


@given(st.lists(st.tuples(KEYS, HOMES, st.booleans())))
def test_it_agrees_with_counting(steps: list[tuple[tuple[str, str], PlanTarget | None, bool]]) -> None:
    targets = PlansByTarget()
    expected: dict[tuple[str, str], tuple[PlanTarget, bool]] = {}
    for plan, target, suspended in steps:
        before = Counter(expected.values())
        if target is None:
            expected.pop(plan, None)
        else:
            expected[plan] = target, suspended
        after = Counter(expected.values())
        changed = {place for (place, _), _ in (before - after).items() | (after - before).items()}
        assert targets.set_target(plan, target, suspended=suspended) == changed
        for place, _ in after:
            assert targets.count(place) == PlanCount(after[place, False], after[place, True])


def counts(world: World, key: tuple[str, str] = ALPHA) -> tuple[int, int]:
    instance_snapshot = world.instance(key)
    return instance_snapshot.active_plans, instance_snapshot.suspended_plans


def world(*, listed: bool = True) -> World:
    made = World()
    for name in ("alpha", "beta"):
        made.store.instances.observe(instance_json(name, labels={"efrit.dev/pool": "many"}))
    if listed:
        made.store.first_list_complete(None)
    return made


async def test_open_plans_count_at_their_instance_and_suspended_ones_apart() -> None:
    made = world()
    specs: tuple[tuple[str, dict[str, Any]], ...]
    specs = (("a", {}), ("b", {"suspend": True}), ("c", {"suspend": True, "cancel": True}))
    for name, spec in specs:
        made.store.plans.observe(plan_json(name, **spec))
    made.store.plans.observe(plan_json("d", status={"phase": "Failed"}))

    assert counts(made) == (2, 1)
    assert counts(made, BETA) == (0, 0)


async def test_a_plan_that_is_suspended_resumed_ended_or_deleted_is_counted_anew() -> None:
    made = world()
    for manifest, expected in (
        (plan_json(), (1, 0)),
        (plan_json(version="31", suspend=True), (0, 1)),
        (plan_json(version="32"), (1, 0)),
        (plan_json(version="33", status={"phase": "Succeeded"}), (0, 0)),
        (plan_json(uid="uid-second", version="40"), (1, 0)),
    ):
        made.store.plans.observe(manifest)
        assert counts(made) == expected

    made.store.plans.observe_gone(APP, "uid-second")
    assert counts(made) == (0, 0)


async def test_a_plan_of_a_pool_counts_where_its_first_request_was_bound() -> None:
    made = world()
    made.store.plans.observe(plan_json(**POOLED))
    made.list_parts()
    assert counts(made, BETA) == (0, 0)

    made.store.requests.observe(part_json("one", target=None, status={"instanceName": "beta"}))
    made.store.requests.observe(
        part_json("one", target=None, version="21", status=final_status(instance_name="beta"))
    )

    assert (counts(made), counts(made, BETA)) == ((0, 0), (1, 0))


async def test_a_pools_plan_from_before_the_start_may_live_on_any_member_until_its_requests_are_listed() -> None:
    made = world(listed=False)
    made.store.plans.observe(plan_json(**POOLED))
    made.store.first_list_complete(None)
    await made.settle()
    assert not made.instance().listed
    assert not made.instance(BETA).listed

    made.list_parts(part_json("one", status=final_status(instance_name="beta")))

    assert {("Instance", "alpha"), ("Instance", "beta")} <= await made.due_keys()
    assert made.instance().listed
    assert made.instance(BETA).listed
    assert (counts(made), counts(made, BETA)) == ((0, 0), (1, 0))


async def test_a_pools_plan_from_after_the_start_keeps_nobody_waiting() -> None:
    made = world()

    made.store.plans.observe(plan_json(**POOLED))

    assert made.instance().listed


async def test_nothing_is_known_to_be_listed_before_the_first_list_is_complete() -> None:
    made = world(listed=False)
    assert not made.instance().listed

    made.store.first_list_complete("other")
    assert not made.instance().listed
    await made.settle()

    made.store.first_list_complete(NAMESPACE)
    assert made.instance().listed
    assert KEY in await made.due_keys()


@pytest.mark.parametrize(
    "ending", [{"status": {"phase": "Succeeded"}}, {"suspend": True}], ids=["ended", "suspended"]
)
async def test_the_end_of_the_last_plan_starts_the_time_of_idleness(ending: Any) -> None:
    made = world()
    made.store.plans.observe(plan_json())
    await elapse(500)
    await made.settle()

    made.store.plans.observe(plan_json(version="31", **ending))

    assert made.instance().facts.last_activity == made.now()
    assert KEY in await made.due_keys(within=2)


async def test_the_end_of_a_suspended_plan_starts_the_time_of_idleness() -> None:
    made = world()
    made.store.plans.observe(plan_json(suspend=True))
    await elapse(500)

    made.store.plans.observe_gone(APP, "uid-app")

    assert made.instance().facts.last_activity == made.now()


async def test_a_request_that_is_deleted_after_a_long_wait_starts_the_time_of_idleness() -> None:
    made = world()
    made.store.requests.observe(request_json(created=NOW))
    await elapse(500)

    made.store.requests.observe_gone((NAMESPACE, "work"), "uid-work")

    assert made.instance().facts.last_activity == NOW + seconds(500)


async def test_a_plan_that_goes_on_wakes_its_sleeping_instance() -> None:
    made = World()
    made.store.instances.observe(instance_json(status={"suspendedIdle": True}))
    made.store.plans.observe(plan_json(suspend=True))
    await made.settle()

    made.store.plans.observe(plan_json(version="31"))

    assert KEY in await made.due_keys()


async def test_a_decision_about_an_instance_costs_no_scan_of_a_thousand_plans() -> None:
    made = world()
    for number in range(1_000):
        made.store.plans.observe(plan_json(f"p{number}", target="alpha" if number % 2 else "beta"))
    made.store.plans._records = None  # type: ignore[assignment]

    assert counts(made) == (500, 0)
