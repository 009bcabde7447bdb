"""store/held_answers.py: answers in memory are bounded over all bridges, and one that is dropped is read again."""

from __future__ import annotations

import pytest

from efrit.controller.store.held_answers import ANSWER_BYTES, MAX_BYTES, HeldAnswer, HeldAnswers
from tests.unit.controller.factory import answered, request_json, response
from tests.unit.controller.store.world import ALPHA, World

pytestmark = pytest.mark.virtual_time

TEXT = "x" * 60_000


def held(number: int) -> HeldAnswer:
    return HeldAnswer(ALPHA, f"uid-r{number}")


def test_the_oldest_answers_are_dropped_first_and_the_newest_never() -> None:
    answers = HeldAnswers(max_bytes=3 * ANSWER_BYTES + 300_000)
    dropped = [answers.hold(held(number), response(held(number).uid, result=TEXT)) for number in range(4)]
    assert dropped == [[], [], [held(0)], [held(1)]]

    assert answers.hold(held(9), response(held(9).uid, result=TEXT * 10)) == [held(2), held(3)]
    for number in range(10):
        answers.discard(held(number))
    assert (len(answers), answers.held_bytes) == (0, 0)


@pytest.mark.parametrize("known", [True, False])
async def test_a_bridge_that_answers_everything_at_once_does_not_fill_the_memory(world: World, known: bool) -> None:
    for number in range(300):
        if known:
            world.store.requests.observe(request_json(f"r{number}"))
    world.open_bridge(*(answered(f"uid-r{number}", result=TEXT, metadata={"x": TEXT}) for number in range(300)))

    views = [
        view for number in range(300) if (view := world.store._index.instances[ALPHA].views.get(f"uid-r{number}"))
    ]

    whole = [view for view in views if view.response is not None]
    assert sum(len(view.to_json()) for view in views) < MAX_BYTES
    assert bool(whole) == known
    if known:
        assert whole[-1].id == "uid-r299"
        assert world.store.held_bytes()["answers"] <= MAX_BYTES
    world.open_bridge()
    assert world.store.held_bytes()["answers"] == 0
