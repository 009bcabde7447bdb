"""store/plan_contents.py: a budget in bytes across plans, and what happens to plans that have no room in it."""

from __future__ import annotations

from typing import Any

import pytest

from efrit.api import PlanReason
from efrit.controller.decide.plans import decide_plan
from efrit.controller.model.actions import ListRequests, PatchStatus, RequeueAfter
from efrit.controller.store.plan_contents import MAX_BYTES, PART_BYTES, PlanContents
from efrit.controller.store.plans import MAX_REQUESTS, TOO_LARGE_PAUSE
from tests.support.factory import NAMESPACE, Json, final_status, part_json, plan_json
from tests.unit.controller.store.world import APP, World
from tests.unit.controller.virtual_time import elapse

pytestmark = pytest.mark.virtual_time

A, B, C = ((NAMESPACE, name) for name in "abc")
LARGEST = 240_000


def put(contents: PlanContents, key: tuple[str, str], size: int) -> bool:
    contents.begin(key)
    content = contents.find(key)
    assert content is not None
    content.plan, content.listed = b"x" * (size - PART_BYTES), True
    return contents.changed(key)


def test_the_least_recently_used_goes_first_the_pinned_one_never_and_no_more_is_held_than_the_budget() -> None:
    contents = PlanContents(1000)
    put(contents, A, 400)
    put(contents, B, 600)
    assert contents.held_bytes == 1000
    assert contents.use(A) is not None

    put(contents, C, 300)
    assert [contents.find(key) is not None for key in (A, B, C)] == [True, False, True]

    with contents.pinned(A):
        put(contents, B, 601)
        assert [contents.find(key) is not None for key in (A, B, C)] == [True, False, False]
    assert not put(contents, C, 1001), "it has no room alone"
    contents.discard(A)
    assert (len(contents), contents.held_bytes) == (0, 0)


def test_what_is_not_begun_or_not_whole_is_nothing_to_decide_with() -> None:
    contents = PlanContents()
    assert contents.use(A) is None
    contents.begin(A)
    assert contents.use(A) is None


def tree() -> list[Json]:
    plain = {"type": "atomic", "description": "d" * 120, "state": "done"}
    return [{"id": f"task-{number}", **plain} for number in range(400)]


async def test_two_hundred_plans_of_the_largest_size_stay_within_the_budget(world: World) -> None:
    large = {"description": "d" * 16_384}
    obj = plan_json(intent=large, amendments=["a" * 2048] * 64, status={"phase": "Running", "tree": tree()})
    for number in range(200):
        name = f"p{number}"
        world.store.plans.observe(obj | {"metadata": {**obj["metadata"], "name": name, "uid": f"uid-{name}"}})
        part: Json = part_json(f"{name}-0-act", plan=name, content="z" * LARGEST, status=final_status())
        world.list_parts(part, plan=(NAMESPACE, name), uid=f"uid-{name}")
        assert world.store.held_bytes()["plans"] <= MAX_BYTES

    whole = [key for key in world.store.plans.open_uids() if _requests(world, key) is not None]
    assert world.store.records()["plans"] == 200
    assert 0 < len(whole) < 200
    assert whole[-1] == (NAMESPACE, "p199")


def _requests(world: World, key: tuple[str, str] = APP) -> Any:
    return world.plan(key).requests


def crowd_out(world: World) -> None:
    """Have other plans take all of the budget."""
    for number in range(80):
        plan = f"large{number // 40}"
        world.store.plans.observe(plan_json(plan))
        world.store.requests.observe(part_json(f"r{number}", plan=plan, content="z" * LARGEST))


async def test_a_dropped_plan_keeps_its_home_and_hears_of_its_requests_without_their_content() -> None:
    world = World()
    running = {"phase": "Running", "instanceName": "beta"}
    world.store.plans.observe(plan_json(target=None, poolRef={"name": "many"}))
    world.list_parts(part_json("one", target=None, status=running))
    crowd_out(world)
    assert _requests(world) is None
    assert world.store._index.plans_of((NAMESPACE, "beta")).active == 1
    await world.due_keys()

    changed_part = part_json("one", target=None, version="21", status={**running, "progress": {"step": 2}})
    world.store.requests.observe(changed_part)
    assert ("Plan", "app") not in await world.due_keys()
    ended = part_json("one", target=None, version="22", status=final_status(instance_name="beta"))
    world.store.requests.observe(ended)
    assert ("Plan", "app") in await world.due_keys()

    assert decide_plan(world.plan(), world.now()) == [ListRequests(APP, "uid-app")]


async def test_a_plan_that_does_not_fit_alone_says_so_and_is_tried_again_later(world: World) -> None:
    many = [part_json(f"r{number}", content="z") for number in range(MAX_REQUESTS + 1)]
    large = [part_json(f"r{number}", content="z" * LARGEST) for number in range(MAX_BYTES // LARGEST + 1)]
    for version, parts in (("40", many), ("50", large)):
        uid = f"uid-{len(parts)}"
        world.store.plans.observe(plan_json(uid=uid, version=version))
        with world.store.plans.pinned(APP):
            for part in parts:
                part["metadata"]["ownerReferences"][0]["uid"] = uid
                part["metadata"]["uid"] += uid
                world.store.plans.observe_listed(part)
        assert world.store.plans.is_too_large(APP, uid)
        assert world.store.held_bytes()["plans"] == 0
        assert len(world.store._index.plans[APP].parts) <= MAX_REQUESTS

        snapshot = world.plan()
        patch, again = decide_plan(snapshot, world.now())
        assert isinstance(patch, PatchStatus)
        assert patch.status["reason"] == PlanReason.BLOCKED
        assert again == RequeueAfter(TOO_LARGE_PAUSE)
        await elapse(TOO_LARGE_PAUSE.total_seconds())
        assert [type(action) for action in decide_plan(snapshot, world.now())] == [ListRequests]


async def test_a_plan_with_too_many_requests_goes_on_once_some_are_deleted(world: World) -> None:
    many = [part_json(f"r{number}", status=final_status()) for number in range(MAX_REQUESTS + 1)]
    world.store.plans.observe(plan_json())
    for part in many:
        world.store.plans.observe_listed(part)
    assert world.store.plans.is_too_large(APP, "uid-app")

    rest = many[MAX_REQUESTS // 2 :]
    with world.store.plans.pinned(APP):
        world.store.plans.observe(plan_json())
        world.list_parts(*rest)
    assert _requests(world).keys() == {part["metadata"]["name"] for part in rest}
