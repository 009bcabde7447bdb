"""store/tombstones.py: what the store has forgotten is not brought back by a late version of it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from efrit.controller.store import tombstones
from tests.support.factory import NAMESPACE, Json, final_status, part_json, plan_json, request_json
from tests.unit.controller.store.world import APP, UID, WORK, World

pytestmark = pytest.mark.virtual_time


def finished() -> World:
    """Return a world that has forgotten a request and a plan, both final."""
    world = World()
    world.store.requests.observe(request_json(version="30", status=final_status()))
    world.store.requests.observe_left(request_json(version="30"))
    world.store.plans.observe(plan_json(version="40", status={"phase": "Succeeded"}))
    assert world.store.requests.is_done(WORK)
    assert world.store.plans.snapshot(APP) is not None
    assert world.store.plans.is_done(APP)
    world.store.requests.drop(WORK)
    world.store.plans.drop(APP)
    return world


async def test_what_is_final_and_forgotten_is_not_open_again_by_a_late_version() -> None:
    world = finished()
    await world.settle()

    world.store.requests.observe(request_json(version="29", status={"phase": "Running", "instanceName": "alpha"}))
    world.store.plans.observe(plan_json(version="39", status={"phase": "Running"}))

    assert world.store.requests.snapshot(WORK) is None
    assert world.store.plans.snapshot(APP) is None
    assert not {("Request", "work"), ("Plan", "app")} & await world.due_keys()


async def test_a_final_request_or_plan_is_known_again_once_it_has_a_time_to_live() -> None:
    world = finished()

    world.store.requests.observe(request_json(version="50", status=final_status(), ttlSecondsAfterFinished=5))
    world.store.plans.observe(plan_json(version="51", status={"phase": "Succeeded"}, ttlSecondsAfterFinished=5))

    assert world.store.requests.snapshot(WORK) is not None
    assert world.store.plans.snapshot(APP) is not None


async def test_a_deleted_request_does_not_come_back_even_by_a_version_that_nobody_has_seen(world: World) -> None:
    world.store.requests.observe(request_json(version="20"))
    world.store.requests.observe_gone(WORK, UID)
    world.store.requests.drop(WORK)

    world.store.requests.observe(request_json(version="25"))

    assert world.store.requests.snapshot(WORK) is None


async def test_a_deleted_plan_does_not_come_back(world: World) -> None:
    world.store.plans.observe(plan_json(version="30"))
    world.store.plans.observe_gone(APP, "uid-app")

    world.store.plans.observe(plan_json(version="35"))

    assert world.store.plans.snapshot(APP) is None


async def test_the_deleted_request_of_a_plan_does_not_come_back_to_the_plan(world: World) -> None:
    world.store.plans.observe(plan_json())
    world.list_parts(part_json("one"))
    world.store.requests.observe_gone((NAMESPACE, "one"), "uid-one")

    world.store.requests.observe(part_json("one", version="21"))

    assert world.plan().requests == {}


async def test_a_request_that_is_deleted_while_its_plan_lists_its_requests_is_not_the_plans(world: World) -> None:
    world.store.plans.observe(plan_json())
    world.store.requests.observe_gone((NAMESPACE, "one"), "uid-one")

    world.list_parts(part_json("one"), part_json("two"))

    assert list(world.plan().requests or ()) == ["two"]


async def test_an_object_made_anew_under_the_name_is_another() -> None:
    world = finished()

    world.store.requests.observe(request_json(uid="second", version="60"))
    world.store.plans.observe(plan_json(uid="second", version="61"))

    assert world.store.requests.open_uids() == {WORK: "second"}
    assert world.store.plans.open_uids() == {APP: "second"}


@pytest.mark.parametrize(("kind", "made"), [("EfritRequest", request_json), ("EfritPlan", plan_json)])
async def test_one_whose_name_another_has_taken_does_not_come_back_after_that_one(
    kind: str, made: Callable[..., Json]
) -> None:
    objects = World().store.of(kind)
    objects.observe(made("same", uid="first", version="70"))
    objects.observe(made("same", uid="second", version="72"))
    objects.observe_gone((NAMESPACE, "same"), "second")
    objects.drop((NAMESPACE, "same"))

    objects.observe(made("same", uid="first", version="71"))

    assert objects.open_uids() == {}


def test_tombstones_are_bounded_and_a_deletion_outlasts_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tombstones, "MAX_TOMBSTONES", 2)
    made = tombstones.Tombstones()
    made.add("a", deleted=True)
    made.add("b", deleted=False)
    made.add("a", deleted=False)
    made.add("c", deleted=False)

    late = [uid for uid in "abc" if made.is_late(uid, final=False)]
    assert late == ["a", "c"]
    assert made.is_late("a", final=True)
    assert not made.is_late("c", final=True)
