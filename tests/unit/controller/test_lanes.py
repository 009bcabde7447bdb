"""lanes.py: whose key is next."""

from __future__ import annotations

from collections.abc import Callable
from math import nextafter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from efrit.controller.lanes import FIRST, MAX_DEBT_SECONDS, QUANTUM_SECONDS, Lanes
from efrit.controller.model.keys import WorkKey


def key(namespace: str, name: object = "one", kind: str = "EfritRequest") -> WorkKey:
    return WorkKey(kind, namespace, str(name))


def anyone(namespace: str) -> bool:
    return True


def filled(*counts: tuple[str, int]) -> Lanes:
    lanes = Lanes()
    for namespace, count in counts:
        for number in range(count):
            lanes.put(key(namespace, number), 0)
    return lanes


def order(lanes: Lanes, most: int, may_begin: Callable[[str], bool] = anyone) -> list[str]:
    """Take keys out; return their namespaces."""
    turns = [lanes.take(may_begin) for _ in range(most)]
    return [turn.key.namespace for turn in turns if turn is not None]


def test_namespaces_take_turns_whatever_their_number() -> None:
    lanes = filled(*((f"team-{number}", 2) for number in range(10_000)))

    assert len(set(order(lanes, 10_000))) == 10_000
    assert lanes.lanes == 10_000
    order(lanes, 10_000)
    assert (len(lanes), lanes.lanes) == (0, 0)


def test_keys_that_go_first_take_turns_with_the_kinds_of_their_namespace() -> None:
    lanes = filled(("team", 3000))
    for name in ("new", "other"):
        lanes.put(key("team", name), 0, FIRST)
    lanes.promote(key("team", 2999), FIRST)
    lanes.put(key("team", "one", "EfritInstance"), 0)

    names = [turn.key.name for _ in range(7) if (turn := lanes.take(anyone))]

    assert names == ["0", "new", "one", "1", "other", "2", "2999"]
    lanes.put(key("team", "gone"), 0, FIRST)
    lanes.discard(key("team", "gone"))
    assert len(lanes) == 2996


@pytest.mark.parametrize(
    ("took", "shares"),
    [
        (0.0, {"dear": 50, "cheap": 50}),
        (QUANTUM_SECONDS, {"dear": 50, "cheap": 50}),
        (4 * QUANTUM_SECONDS, {"dear": 20, "cheap": 80}),
    ],
)
def test_keys_that_take_long_come_less_often(took: float, shares: dict[str, int]) -> None:
    lanes = filled(("dear", 100), ("cheap", 100))
    namespaces = []
    for _ in range(100):
        (namespace,) = order(lanes, 1)
        namespaces.append(namespace)
        if namespace == "dear":
            lanes.charge("dear", took)

    assert {namespace: namespaces.count(namespace) for namespace in shares} == pytest.approx(shares, abs=2)


def test_a_debt_has_an_end_and_keeps_nobody_waiting_who_is_alone() -> None:
    lanes = filled(("dear", 10))
    lanes.charge("dear", 1_000_000)

    assert order(lanes, 1) == ["dear"]
    lanes.put(key("cheap", 0), 0)
    lanes.charge("dear", 1_000_000)
    turns = round(MAX_DEBT_SECONDS / QUANTUM_SECONDS)
    for number in range(1, 2 * turns):
        lanes.put(key("cheap", number), 0)
    assert "dear" in order(lanes, turns + 2)


@pytest.mark.parametrize("turns", range(1, 100))
def test_a_debt_that_is_no_whole_number_of_turns_by_a_rounding_is_paid(turns: int) -> None:
    lanes = filled(("team", 1))
    lanes.charge("team", nextafter(turns * QUANTUM_SECONDS, 9) + QUANTUM_SECONDS)

    assert lanes.take(anyone) is not None


def test_a_lane_that_is_empty_is_gone_with_its_debt() -> None:
    lanes = filled(("team", 1))
    lanes.charge("team", 1_000_000)
    order(lanes, 1)
    lanes.charge("team", 1_000_000)

    assert lanes.lanes == 0
    for namespace in ("other", "team"):
        lanes.put(key(namespace), 0)
    assert order(lanes, 2) == ["other", "team"]


def test_who_may_not_begin_is_passed_over_and_keeps_its_place() -> None:
    lanes = filled(("held", 2), ("other", 3))

    assert order(lanes, 2, lambda namespace: namespace != "held") == ["other", "other"]
    assert order(lanes, 2) == ["held", "other"]
    assert lanes.take(lambda _: False) is None


def test_a_key_that_is_discarded_is_not_served() -> None:
    lanes = filled(("team", 2))
    lanes.discard(key("team", 0))
    lanes.discard(key("team", "unknown"))
    lanes.discard(key("nobody"))

    turn = lanes.take(anyone)

    assert turn is not None
    assert turn.key == key("team", 1)
    assert lanes.lanes == 0


steps = st.lists(
    st.tuples(st.sampled_from(["put", "take", "discard", "charge"]), st.integers(0, 3), st.integers(0, 4)),
    max_size=60,
)


@given(steps)
def test_every_key_is_served_once_and_none_is_made_up(given_steps: list[tuple[str, int, int]]) -> None:
    lanes, waiting = Lanes(), set[WorkKey]()
    for step, namespace, name in given_steps:
        one = key(f"n{namespace}", name, ("EfritRequest", "EfritInstance")[name % 2])
        if step == "put" and one not in waiting:
            lanes.put(one, 0)
            waiting.add(one)
        elif step == "discard":
            lanes.discard(one)
            waiting.discard(one)
        elif step == "charge":
            lanes.charge(one.namespace, float(name))
        elif step == "take":
            turn = lanes.take(anyone)
            assert (turn is None) == (not waiting)
            if turn is not None:
                waiting.remove(turn.key)
        assert len(lanes) == len(waiting)
        assert lanes.lanes == len({key.namespace for key in waiting})
