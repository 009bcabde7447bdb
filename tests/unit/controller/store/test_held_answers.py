"""store/held_answers.py: answers in memory are bounded over all bridges, and one that is dropped is read again."""

from __future__ import annotations

import pytest

from efrit.controller.store.held_answers import ANSWER_BYTES, MAX_BYTES, HeldAnswer, HeldAnswers
from tests.support.factory import answered, request_json, response
from tests.unit.controller.store.world import ALPHA, World

pytestmark = pytest.mark.virtual_time

TEXT = "x" * 60_000


def held_answer(number: int) -> HeldAnswer:
    return HeldAnswer(ALPHA, f"uid-r{number}")


def test_the_oldest_answers_are_dropped_first_and_the_newest_never() -> None:
    answers = HeldAnswers(max_bytes=3 * ANSWER_BYTES + 300_000)
    dropped = [
        answers.hold(held_answer(number), response(held_answer(number).uid, result=TEXT)) for number in range(4)
    ]
    assert dropped == [[], [], [held_answer(0)], [held_answer(1)]]

    assert answers.hold(held_answer(9), response(held_answer(9).uid, result=TEXT * 10)) == [
        held_answer(2),
        held_answer(3),
    ]
    for number in range(10):
        answers.discard(held_answer(number))
    assert (len(answers), answers.held_bytes) == (0, 0)


@pytest.mark.parametrize("observed", [True, False])
async def test_a_bridge_that_answers_everything_at_once_does_not_fill_the_memory(
    world: World, observed: bool
) -> None:
    for number in range(300):
        if observed:
            world.store.requests.observe(request_json(f"r{number}"))
    world.open_bridge(*(answered(f"uid-r{number}", result=TEXT, metadata={"x": TEXT}) for number in range(300)))

    views = [
        view for number in range(300) if (view := world.store._index.instances[ALPHA].views.get(f"uid-r{number}"))
    ]

    whole = [view for view in views if view.response is not None]
    assert sum(len(view.to_json()) for view in views) < MAX_BYTES
    assert bool(whole) == observed
    if observed:
        assert whole[-1].id == "uid-r299"
        assert world.store.held_bytes()["answers"] <= MAX_BYTES
    world.open_bridge()
    assert world.store.held_bytes()["answers"] == 0
