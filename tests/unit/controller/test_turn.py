"""turn.py: one key at a time, the others come back in order, namespaces in turns, and nobody is forgotten."""

from __future__ import annotations

import pytest

from efrit.controller.model.keys import WorkKey
from efrit.controller.turn import Turn

ONE, TWO, THREE = (WorkKey("EfritPlan", "team", name) for name in ("one", "two", "three"))
OTHER = WorkKey("EfritPlan", "other", "one")


class Rig:
    def __init__(self) -> None:
        self.requeued: list[WorkKey] = []
        self.turn = Turn(self.requeued.append)

    def wait(self, *keys: WorkKey) -> None:
        for key in keys:
            with self.turn.take(key) as taken:
                assert not taken

    def serve(self, key: WorkKey, *others: WorkKey) -> None:
        """Have `key` take the turn, which the others want meanwhile, and pass it on."""
        with self.turn.take(key) as taken:
            assert taken
            self.wait(*others)
        self.turn.pass_on(key)


@pytest.fixture
def rig() -> Rig:
    return Rig()


def test_one_has_the_turn_and_the_others_are_requeued_one_by_one_when_it_is_over(rig: Rig) -> None:
    with rig.turn.take(ONE):
        rig.wait(TWO, THREE, TWO)
        rig.turn.pass_on(TWO)
        assert rig.requeued == []
    rig.turn.pass_on(ONE)
    assert rig.requeued == [TWO]

    rig.turn.pass_on(TWO)
    assert rig.requeued == [TWO, THREE], "the one before had no use for it"
    assert len(rig.turn) == 0


def test_a_failure_gives_the_turn_back(rig: Rig) -> None:
    for key in (ONE, TWO):
        try:
            with rig.turn.take(key) as taken:
                assert taken
                raise TimeoutError
        except TimeoutError:
            pass


def test_many_plans_of_one_namespace_do_not_keep_that_of_another_waiting(rig: Rig) -> None:
    many = [WorkKey("EfritPlan", "team", str(number)) for number in range(100)]

    rig.serve(ONE, *many, OTHER)
    rig.serve(rig.requeued[-1])

    assert OTHER in rig.requeued[:2]


def test_one_that_takes_the_turn_as_it_comes_puts_its_namespace_last(rig: Rig) -> None:
    with rig.turn.take(ONE):
        rig.wait(TWO, OTHER)

    rig.serve(THREE)

    assert rig.requeued == [OTHER]


def test_whose_turn_has_come_keeps_its_place_where_another_was_faster(rig: Rig) -> None:
    rig.serve(ONE, OTHER)
    assert rig.requeued == [OTHER]

    rig.serve(TWO, THREE, OTHER)

    assert rig.requeued == [OTHER, OTHER]


def test_it_keeps_no_place_twice(rig: Rig) -> None:
    rig.serve(ONE, OTHER)
    rig.serve(OTHER, TWO, OTHER)

    assert rig.requeued == [OTHER, TWO]
