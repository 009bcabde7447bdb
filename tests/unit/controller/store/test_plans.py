"""store/plans.py: what is remembered of plans and their requests, and which changes have a plan reconciled."""

from __future__ import annotations

from typing import Any

import pytest

from efrit.api.pool import MAX_FLOW_CHARS, REQUESTER
from tests.support.factory import NAMESPACE, final_status, instance_json, part, part_json, plan_json
from tests.unit.controller.store.world import APP, World

pytestmark = pytest.mark.virtual_time

KEY = ("Plan", "app")


def world_with_plan(*parts: Any, **fields: Any) -> World:
    """Return a world with a plan whose requests are listed."""
    world = World()
    world.store.plans.observe(plan_json(**fields))
    world.list_parts(*parts)
    return world


def confirm_plan(world: World) -> None:
    """Take in that the API server was asked for the plan, and has it."""
    world.store.plans.confirmation_begins(APP, "uid-app")
    world.store.plans.confirmed(APP, "uid-app")
    assert not world.plan().unconfirmed


def names(world: World) -> set[str] | None:
    requests = world.plan().requests
    return None if requests is None else set(requests)


async def test_a_plan_is_reconciled_and_nobody_has_asked_for_its_requests_yet(world: World) -> None:
    world.store.plans.observe(plan_json())

    assert await world.due_keys() == {KEY}
    assert names(world) is None


async def test_requests_that_are_listed_are_the_plans_and_no_others_are() -> None:
    world = world_with_plan(part_json("one"), part_json("foreign", plan_uid="uid-other"))

    assert names(world) == {"one"}


async def test_a_request_of_another_namespace_is_not_the_plans_whatever_owner_it_names() -> None:
    world = world_with_plan(part_json("one"))
    await world.due_keys()
    foreign = part_json("one", version="21", status=final_status())
    foreign["metadata"] |= {"namespace": "other", "uid": "uid-foreign"}

    world.store.requests.observe(foreign)
    world.store.requests.observe_gone(("other", "one"), "uid-foreign")

    assert (world.plan().requests or {})["one"].status.phase is None
    assert KEY not in await world.due_keys()


async def test_the_end_of_a_request_is_reconciled_and_kept_though_nobody_watches_it() -> None:
    world = world_with_plan(part_json("one"))
    await world.due_keys()

    world.store.requests.observe(part_json("one", version="21", status=final_status()))

    assert KEY in await world.due_keys()
    assert (world.plan().requests or {})["one"].status.phase == "Succeeded"


async def test_how_far_a_request_has_come_is_no_reason_to_reconcile() -> None:
    running = {"phase": "Running", "instanceName": "alpha", "progress": {"step": 1}}
    world = world_with_plan(part_json("one", status=running))
    await world.due_keys()

    world.store.requests.observe(part_json("one", version="21", status={**running, "progress": {"step": 2}}))

    assert KEY not in await world.due_keys()


async def test_an_older_version_of_a_request_changes_nothing() -> None:
    world = world_with_plan(part_json("one", version="21", status=final_status()))

    world.store.requests.observe(part_json("one", version="20"))

    assert (world.plan().requests or {})["one"].status.phase == "Succeeded"


async def test_a_request_that_is_deleted_is_the_plans_no_more() -> None:
    world = world_with_plan(part_json("one"))
    world.store.requests.observe(part_json("one"))
    confirm_plan(world)
    await world.due_keys()

    world.store.requests.observe_gone((NAMESPACE, "one"), "uid-one")

    assert KEY in await world.due_keys()
    assert names(world) == set()
    assert world.plan().unconfirmed, "it may have gone with the plan"


async def test_a_request_of_a_step_long_past_that_was_deleted_says_nothing_about_the_plan() -> None:
    world = world_with_plan(part_json("one", status=final_status()))
    confirm_plan(world)

    world.store.requests.deleted((NAMESPACE, "one"), "uid-one")

    assert not world.plan().unconfirmed


async def test_a_request_that_a_list_has_no_more_may_have_gone_with_the_plan() -> None:
    world = world_with_plan(part_json("one", status=final_status()))
    confirm_plan(world)

    world.list_parts()

    assert world.plan().unconfirmed


async def test_a_deleted_request_is_forgotten_though_the_store_has_no_record_of_it() -> None:
    world = world_with_plan(part_json("one", status=final_status()), part_json("two"))
    await world.due_keys()

    world.store.requests.observe_gone((NAMESPACE, "one"), "uid-other")
    assert names(world) == {"one", "two"}
    world.store.requests.observe_gone((NAMESPACE, "one"), "uid-one")

    assert await world.due_keys() == {KEY}
    assert names(world) == {"two"}


async def test_a_request_that_a_list_did_not_have_or_of_a_forgotten_plan_is_known_no_more() -> None:
    world = world_with_plan(part_json("one"), part_json("two"))
    world.list_parts(part_json("two", uid="second", version="22"))
    assert world.store.plans._plans == {"second": APP}

    world.store.requests.observe_gone((NAMESPACE, "two"), "uid-two")
    assert names(world) == {"two"}
    world.store.plans.observe_gone(APP, "uid-app")
    assert world.store.plans._plans == {}
    world.store.requests.observe_gone((NAMESPACE, "two"), "second")

    assert world.store.plans.snapshot(APP) is None


async def test_a_list_forgets_what_is_not_there_any_more() -> None:
    world = world_with_plan(part_json("one"), part_json("two"))

    await world.store.plans.requeue_open(60, anew=True)
    assert names(world) is None
    world.list_parts(part_json("two"))

    assert names(world) == {"two"}


async def test_its_own_status_is_no_reason_to_reconcile_but_what_the_spec_gained_is() -> None:
    begun = {"phase": "Running", "startTime": "2026-03-01T12:00:00Z", "currentTask": "a"}
    world = world_with_plan(status=begun)
    await world.due_keys()

    world.store.plans.observe(plan_json(version="31", status={**begun, "currentTask": "b"}))
    assert await world.due_keys() == set()

    world.store.plans.observe(plan_json(version="32", generation=2, status=begun, amendments=["More."]))
    assert await world.due_keys() == {KEY}


async def test_a_plan_made_anew_under_the_name_begins_without_the_old_ones_requests() -> None:
    world = world_with_plan(part_json("one"))

    world.store.plans.observe(plan_json(uid="uid-second", version="40"))
    world.store.requests.observe(part_json("one", version="41", status=final_status()))

    assert names(world) is None
    assert world.store.plans.open_uids() == {APP: "uid-second"}


async def test_a_plan_made_anew_after_the_end_of_the_old_one_was_decided_about_is_kept(world: World) -> None:
    world.store.plans.observe(plan_json(status=final_status()))
    assert world.plan().plan.final
    await world.due_keys()

    world.store.plans.observe(plan_json(uid="uid-second", version="40"))
    world.store.plans.drop_if_done(APP)

    assert world.store.plans.open_uids() == {APP: "uid-second"}
    assert await world.due_keys() == {KEY}
    world.store.plans.observe(plan_json(version="41"))
    assert world.store.plans.open_uids() == {APP: "uid-second"}, "a late version of the old one"


async def test_a_plan_whose_end_was_decided_about_is_dropped(world: World) -> None:
    world.store.plans.observe(plan_json(status=final_status()))
    world.store.plans.drop_if_done(APP)
    assert world.plan().plan.final, "nobody had read that it is final"

    world.store.plans.drop_if_done(APP)

    assert world.store.plans.snapshot(APP) is None


async def test_a_plan_that_left_is_verified_unless_it_is_known_to_be_final() -> None:
    world = world_with_plan()
    world.store.plans.observe_left(plan_json())
    assert world.store.plans.must_verify(APP) == "uid-app"

    world.store.plans.observe(plan_json(version="31", status={"phase": "Failed"}))
    assert world.store.plans.must_verify(APP) is None
    assert not world.store.plans.is_done(APP), "nobody has read that it is final"
    assert world.store.plans.snapshot(APP) is not None
    assert world.store.plans.is_done(APP)


async def test_a_plan_that_cannot_be_read_is_left_alone(world: World) -> None:
    world.store.plans.observe({"metadata": {"name": "app", "namespace": NAMESPACE}, "spec": {}})

    assert world.store.plans.snapshot(APP) is None


async def test_a_plan_lives_where_its_spec_its_status_or_its_first_request_says() -> None:
    pooled: dict[str, Any] = {"target": None, "poolRef": {"name": "many"}}
    for fields, parts, lives in (
        ({}, (), "alpha"),
        ({"target": "nowhere"}, (), None),
        ({**pooled, "status": {"instanceName": "beta"}}, (), "beta"),
        (pooled, (part_json("one", target=None, status={"instanceName": "beta"}),), "beta"),
        (pooled, (part_json("one", target=None),), "gamma"),
    ):
        world = world_with_plan(*parts, **fields)
        for name, labels in (("alpha", {}), ("beta", {}), ("gamma", {"efrit.dev/pool": "many"})):
            world.store.instances.observe(instance_json(name, labels=labels))
        target = world.plan().target
        assert (target.metadata.name if target else None) == lives


async def test_a_refusal_holds_until_a_request_is_accepted() -> None:
    world = world_with_plan()
    world.store.plans.refused(APP, "uid-app", "exceeded quota")
    assert world.plan().refusal is not None

    world.store.plans.created(APP, "uid-app", part_json("one"))

    assert world.plan().refusal is None
    assert world.plan().requests == {"one": part("one")}


async def test_of_the_annotations_of_a_plan_its_requester_alone_is_kept(world: World) -> None:
    obj = plan_json()
    obj["metadata"]["annotations"] = {REQUESTER: "k" * 5000, "of-kubectl": "x" * 5000}
    world.store.plans.observe(obj)
    world.list_parts()

    assert world.plan().plan.metadata.annotations == {REQUESTER: "k" * MAX_FLOW_CHARS}
