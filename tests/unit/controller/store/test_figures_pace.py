"""store/figures_pace.py: how many writes of figures there are over all instances."""

from __future__ import annotations

from efrit.controller.decide.figures import LONGEST_TURN
from efrit.controller.store.figures_pace import AT_ONCE, WRITES_A_SECOND, FiguresPace
from tests.support.factory import NOW, seconds


def test_after_a_rest_some_come_together_and_the_others_one_after_the_other() -> None:
    pace = FiguresPace()

    turns = [pace.take(NOW) for _ in range(AT_ONCE + 3 * WRITES_A_SECOND)]

    assert turns[:AT_ONCE] == [NOW] * AT_ONCE
    later = [seconds(number / WRITES_A_SECOND) for number in range(1, 3 * WRITES_A_SECOND + 1)]
    assert turns[AT_ONCE:] == [NOW + wait for wait in later]


def test_a_turn_that_is_looked_at_is_not_taken() -> None:
    pace = FiguresPace()
    for _ in range(AT_ONCE):
        pace.take(NOW)

    assert pace.next_turn(NOW) == pace.next_turn(NOW) == NOW + seconds(1 / WRITES_A_SECOND)


def test_no_instance_waits_for_turns_of_a_clock_that_was_set_back_since() -> None:
    pace = FiguresPace()
    ahead = NOW + LONGEST_TURN + seconds(1)
    for _ in range(AT_ONCE):
        pace.take(ahead)

    assert pace.take(NOW) == NOW
    assert pace.next_turn(NOW) == NOW
