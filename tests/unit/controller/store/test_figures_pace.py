"""store/figures_pace.py: how many writes of figures there are over all instances."""

from __future__ import annotations

from efrit.controller.decide.figures import LONGEST_TURN
from efrit.controller.store.figures_pace import AT_ONCE, REMEMBERED, WRITES_A_SECOND, FiguresPace
from tests.support.factory import NOW, seconds


def test_after_a_rest_some_come_together_and_the_others_one_after_the_other() -> None:
    pace = FiguresPace()

    turns = [pace.take(NOW, "team") for _ in range(AT_ONCE + 3 * WRITES_A_SECOND)]

    assert turns[:AT_ONCE] == [NOW] * AT_ONCE
    later = [seconds(number / WRITES_A_SECOND) for number in range(1, 3 * WRITES_A_SECOND + 1)]
    assert turns[AT_ONCE:] == [NOW + wait for wait in later]


def test_a_namespace_with_few_instances_does_not_wait_for_one_with_a_thousand_and_both_have_half() -> None:
    pace = FiguresPace()
    last = [pace.take(NOW, "many") for _ in range(1000)][-1]

    turns = [pace.take(NOW, "few") for _ in range(3)]

    assert turns == [NOW + seconds(2 * number / WRITES_A_SECOND) for number in range(3)]
    assert pace.take(NOW, "many") == last + seconds(2 / WRITES_A_SECOND)


def test_namespaces_that_had_no_turn_come_one_after_the_other_and_then_have_equal_shares() -> None:
    pace, count = FiguresPace(), 100
    for _ in range(1000):
        pace.take(NOW, "many")
    for number in range(count):
        assert pace.take(NOW, f"few-{number}") == NOW + seconds(number / WRITES_A_SECOND)

    assert pace.take(NOW, "few-0") == NOW + seconds((count + 1) / WRITES_A_SECOND)
    later = NOW + 2 * REMEMBERED
    for _ in range(1000):
        pace.take(later, "many")
    # Of the others nobody counts any more.
    assert [pace.take(later, "few-0") for _ in range(2)] == [later, later + seconds(2 / WRITES_A_SECOND)]


def test_a_turn_that_is_looked_at_is_not_taken() -> None:
    pace = FiguresPace()
    for _ in range(AT_ONCE):
        pace.take(NOW, "team")

    assert pace.next_turn(NOW) == pace.next_turn(NOW) == NOW + seconds(1 / WRITES_A_SECOND)


def test_no_instance_waits_for_turns_of_a_clock_that_was_set_back_since() -> None:
    pace = FiguresPace()
    ahead = NOW + LONGEST_TURN + seconds(1)
    for _ in range(AT_ONCE):
        pace.take(ahead, "team")

    assert pace.take(NOW, "team") == NOW
    assert pace.next_turn(NOW) == NOW
