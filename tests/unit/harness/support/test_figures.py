"""The benchmarks tell what got worse since the last release from what is noise, and draw it."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.support import figures, plot
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


def test_the_table_says_by_how_much_a_figure_is_worse_and_by_how_much_its_share_of_the_floor() -> None:
    _, row = figures.table([Figure("eval", 20.0, "ms", "<= 12", floor=10.0)], SLOW_DAY)
    assert row.split() == ["eval", "<=", "12", "20.0", "ms", "2.00", "10.0", "ms", "+100%", "+0%"]


def test_the_figures_in_the_repository_have_units_that_are_known() -> None:
    assert {former["unit"] for former in figures.load()["figures"].values()} <= NOISE.keys()


def test_rows_for_people_become_figures_with_names_of_their_own() -> None:
    rows = [
        ("x, p50 (n=5)", "<= 1 s", "0.22 s (row)"),
        ("the same, p95", "", "1,234 ms"),
        ("y", "", "61.5 MB"),
        ("z", "", "71 ms, 63 ms of a processor"),
    ]
    assert [(one.name, one.value, one.unit) for one in figures.of_rows(rows)] == [
        ("x, p50", 0.22, "s"),
        ("x, p50: the same, p95", 1234, "ms"),
        ("y", 61.5, "MB"),
        ("z", 71, "ms"),
    ]


def test_a_plot_is_well_formed_and_has_each_part_of_each_bar_and_each_point(tmp_path: Path) -> None:
    bars = plot.Bars("<bars>", "ms", {"one": {"a": 1.0, "b": 2.0}, "two": {"a": 3.0}})
    curves = plot.Curves("curves", "ms", "size", {"a": [(1, 1.0), (1000, 0.0)], "b": [(1, 2.0)]})
    plot.write(tmp_path / "plot.svg", [bars, curves, plot.Curves("none", "ms", "size", {})])
    tips = [tip.text for tip in ElementTree.parse(tmp_path / "plot.svg").iter("{http://www.w3.org/2000/svg}title")]  # noqa: S314
    assert tips == [
        "one, a: 1.00",
        "one, b: 2.00",
        "two, a: 3.00",
        "two, b: 0.00",
        "1: 1.00",
        "1,000: 0.00",
        "1: 2.00",
    ]
