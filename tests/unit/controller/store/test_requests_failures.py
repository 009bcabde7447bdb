"""store/requests.py: what the store keeps of an action that fails."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from efrit.controller.model.snapshots import ActionFailure
from efrit.controller.store.requests import MAX_SENTENCE_CHARS, SENTENCE_KEPT
from efrit.controller.store.store import Store
from efrit.errors import ApiRefused, BridgeUnreachable, EfritError, NoSpace, QueueFull
from efrit.protocol import RequestState
from tests.support.factory import NOW, instance_json, request_json, seconds, view
from tests.unit.controller.store.world import ALPHA, UID, WORK, World
from tests.unit.controller.virtual_time import elapse

pytestmark = pytest.mark.virtual_time


@pytest.fixture
async def world() -> World:
    made = World()
    made.store.instances.observe(instance_json())
    made.store.requests.observe(request_json())
    return made


def fail(world: World, action: str, error: EfritError, uid: str = UID, **more: bool) -> None:
    world.store.requests.action_failed(WORK, uid, action, error, **more)


def failure(world: World) -> ActionFailure:
    request_failure = world.request().failure
    assert request_failure is not None
    return request_failure


async def test_a_failure_that_goes_on_is_counted_from_its_beginning(world: World) -> None:
    fail(world, "Submit", NoSpace("the volume is full"))
    await elapse(5)
    fail(world, "Submit", NoSpace("the volume is full, still"))

    request_failure = failure(world)
    assert (request_failure.first, request_failure.last, request_failure.sentence) == (
        NOW,
        NOW + seconds(5),
        "the volume is full",
    )


async def test_a_failure_of_another_kind_is_reported_in_its_own_words_after_a_while(world: World) -> None:
    fail(world, "Submit", QueueFull("it is full"))
    codes = []
    for _ in range(3):
        await elapse(SENTENCE_KEPT.total_seconds() - 4)
        fail(world, "Submit", BridgeUnreachable("gone"))
        codes.append(failure(world).code)

    assert codes == ["QueueFull", "Unreachable", "Unreachable"]


async def test_only_refusals_are_counted(world: World) -> None:
    for refused in (False, True, True, False):
        fail(world, "StoreResult", ApiRefused("403: no", sentence="no"), refused=refused)

    assert (failure(world).refusals, failure(world).sentence) == (2, "no")


ANSWERED = view(state=RequestState.ANSWERED, attempt=1, response_bytes=100_000)
NEIGHBOUR = ("team", "neighbour")


@pytest.mark.parametrize(
    ("action", "after", "ends"),
    [
        ("StoreResult", lambda store: store.requests.result_stored(WORK, UID), True),
        ("Submit", lambda store: store.bridges.view(ALPHA, view()), True),
        ("Submit", lambda store: store.bridges.view(NEIGHBOUR, view()), False),
        ("FetchAnswer", lambda store: store.bridges.view(ALPHA, view(state=RequestState.RUNNING)), False),
        ("FetchAnswer", lambda store: store.bridges.view(ALPHA, ANSWERED), False),
    ],
    ids=["the result is stored", "its bridge answers", "another bridge answers", "a late view", "no text yet"],
)
async def test_what_ends_a_failure(world: World, action: str, after: Callable[[Store], None], ends: bool) -> None:
    if action == "FetchAnswer":
        world.store.bridges.view(ALPHA, ANSWERED)
    fail(world, action, NoSpace("full"))

    after(world.store)

    assert (world.request().failure is None) is ends


async def test_a_failure_of_an_earlier_request_of_the_name_is_ignored(world: World) -> None:
    fail(world, "Submit", NoSpace("full"), uid="uid-before")

    assert world.request().failure is None


async def test_a_long_sentence_is_kept_up_to_its_bound(world: World) -> None:
    fail(world, "Submit", NoSpace("x" * 100_000))

    assert len(failure(world).sentence) == MAX_SENTENCE_CHARS
