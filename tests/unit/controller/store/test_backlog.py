"""The line in front of an instance."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from efrit.controller.store.backlog import BEGINNING, Backlog

KEYS = st.tuples(st.just("default"), st.sampled_from("abcdefgh"))


def at(minutes: int, name: str) -> tuple[datetime, str]:
    return BEGINNING + timedelta(minutes=minutes), name


def test_who_came_first_goes_first() -> None:
    line = Backlog()
    line.add(("default", "b"), at(2, "b"))
    line.add(("default", "a"), at(1, "a"))
    assert line.first(9) == [("default", "a"), ("default", "b")]
    assert (line.ahead_of(("default", "a")), line.ahead_of(("default", "b"))) == (0, 1)


class Moment(datetime):
    """A time that nobody may compare: that takes twenty times as long as to compare numbers."""

    __hash__ = datetime.__hash__

    def __eq__(self, other: object) -> bool:
        raise AssertionError("compared")

    def __lt__(self, other: object) -> bool:
        raise AssertionError("compared")


def test_thousands_are_put_in_line_without_comparing_moments() -> None:
    line, keys = Backlog(), [("default", f"{number:05}") for number in range(100)]
    for number, key in enumerate(reversed(keys)):
        moment = Moment.fromtimestamp(1_700_000_000 - number // 2, UTC)
        line.add(key, (moment, key[1]))
    line.discard(keys[50])
    assert line.first(100) == [*keys[:50], *keys[51:]]
    assert line.ahead_of(keys[51]) == 50


def test_a_stranger_stands_behind_all() -> None:
    line = Backlog()
    line.add(("default", "a"), at(1, "a"))
    assert line.ahead_of(("default", "z")) == 1


def test_no_room_takes_nobody() -> None:
    line = Backlog()
    line.add(("default", "a"), at(1, "a"))
    assert line.first(-3) == []


@given(st.lists(st.tuples(KEYS, st.one_of(st.none(), st.integers(0, 5)))))
def test_it_agrees_with_sorting(steps: list[tuple[tuple[str, str], int | None]]) -> None:
    line = Backlog()
    expected: dict[tuple[str, str], tuple[datetime, str]] = {}
    for key, minutes in steps:
        if minutes is None:
            line.discard(key)
            expected.pop(key, None)
        else:
            line.add(key, at(minutes, key[1]))
            expected[key] = at(minutes, key[1])
    in_order = sorted(expected, key=lambda key: expected[key])
    assert line.first(len(expected)) == in_order
    assert len(line) == len(in_order)
    assert [line.ahead_of(key) for key in in_order] == list(range(len(in_order)))
