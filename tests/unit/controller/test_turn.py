"""turn.py: one key at a time, the others come back in order and nobody is forgotten."""

from __future__ import annotations

from efrit.controller.model.keys import WorkKey
from efrit.controller.turn import Turn

ONE, TWO, THREE = (WorkKey("EfritPlan", "team", name) for name in ("one", "two", "three"))


def test_one_has_the_turn_and_the_others_are_requeued_one_by_one_when_it_is_over() -> None:
    requeued: list[WorkKey] = []
    turn = Turn(requeued.append)

    with turn.take(ONE) as taken:
        assert taken
        for key in (TWO, THREE, TWO):
            with turn.take(key) as taken:
                assert not taken
        turn.pass_on()
        assert requeued == []
    turn.pass_on()
    assert requeued == [TWO]

    turn.pass_on()
    assert requeued == [TWO, THREE], "the one before had no use for it"
    assert len(turn) == 0


def test_a_failure_gives_the_turn_back() -> None:
    turn = Turn(lambda _: None)
    for key in (ONE, TWO):
        try:
            with turn.take(key) as taken:
                assert taken
                raise TimeoutError
        except TimeoutError:
            pass
