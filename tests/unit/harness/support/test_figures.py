"""The benchmarks tell what got worse since the last release from what is noise."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import figures
from tests.support.figures import NOISE, Figure

KEPT = {"figures": {"a": {"value": 10.0, "unit": "ms"}, "b": {"value": 100.0, "unit": "/s"}}}


@pytest.mark.parametrize(
    ("figure", "is_worse"),
    [
        (Figure("a", 9.9 * (1 + NOISE["ms"]), "ms"), False),
        (Figure("a", 10.1 * (1 + NOISE["ms"]), "ms"), True),
        (Figure("a", 1.0, "ms"), False),
        (Figure("b", 101.0 / (1 + NOISE["/s"]), "/s"), False),
        (Figure("b", 99.0 / (1 + NOISE["/s"]), "/s"), True),
        (Figure("b", 900.0, "/s"), False),
        (Figure("b", 0.0, "/s"), True),
        (Figure("a", 0.0, "ms"), False),
        (Figure("new", 900.0, "ms"), False),
    ],
)
def test_worse_is_what_differs_by_more_than_the_noise_in_the_bad_direction(figure: Figure, is_worse: bool) -> None:
    assert bool(list(figures.worse([figure], KEPT))) == is_worse


def test_a_run_that_is_kept_is_what_the_next_one_is_compared_with(tmp_path: Path) -> None:
    figures.keep([Figure("a", 12.34, "ms", floor=6.17)], "1.0.0", "0123", "2026-01-02", tmp_path / "kept.json")
    kept = figures.load(tmp_path / "kept.json")
    assert figures.change(Figure("a", 12.34, "ms"), kept) == 0
    assert figures.change_by_floor(Figure("a", 24.68, "ms", floor=6.17), kept) == 1
    assert (kept["release"], kept["day"]) == ("1.0.0", "2026-01-02")


SLOW_DAY = {
    "figures": {
        "eval": {"value": 10.0, "unit": "ms", "floor": 5.0},
        "burst": {"value": 100.0, "unit": "/s", "floor": 200.0},
        "its floor": {"value": 5.0, "unit": "ms", "floor": 5.0},
        "start": {"value": 1.0, "unit": "s"},
    }
}


@pytest.mark.parametrize(
    ("figure", "expected"),
    [
        (Figure("eval", 20.0, "ms", floor=10.0), False),
        (Figure("eval", 20.0, "ms", floor=5.0), True),
        (Figure("eval", 10.0, "ms", floor=2.5), True),
        (Figure("eval", 20.0, "ms"), True),
        (Figure("burst", 50.0, "/s", floor=100.0), False),
        (Figure("burst", 50.0, "/s", floor=200.0), True),
        (Figure("its floor", 10.0, "ms", floor=10.0), False),
        (Figure("start", 2.0, "s", floor=2.0), True),
    ],
)
def test_what_has_a_floor_in_both_runs_is_worse_only_by_its_share_of_it(figure: Figure, expected: bool) -> None:
    assert bool(list(figures.worse([figure], SLOW_DAY))) == expected


@pytest.mark.parametrize(("value", "floor", "expected"), [(0.3, 10.0, False), (0.5, 10.0, True), (8.0, 1.0, True)])
def test_what_hardly_takes_anything_is_worse_only_by_an_amount_that_counts(
    value: float, floor: float, expected: bool
) -> None:
    kept = {"figures": {"part": {"value": 0.1 if value < 1 else 8.0, "unit": "processor ms", "floor": 10.0}}}
    assert bool(list(figures.worse([Figure("part", value, "processor ms", floor=floor)], kept))) == expected


def test_the_floors_say_how_much_slower_the_machine_is() -> None:
    found = [Figure("its floor", 10.0, "ms", floor=10.0), Figure("eval", 70.0, "ms", floor=10.0)]
    assert figures.slower(found, SLOW_DAY) == 2.0
    assert figures.slower(found[1:], SLOW_DAY) is None


def test_what_was_kept_and_is_not_in_the_run_is_listed() -> None:
    assert figures.missing([Figure("eval", 1.0, "ms"), Figure("new", 1.0, "ms")], SLOW_DAY) == [
        "burst",
        "its floor",
        "start",
    ]
