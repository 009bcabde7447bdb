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
    figures.keep([Figure("a", 12.34, "ms")], "1.0.0", tmp_path / "kept.json")
    kept = figures.load(tmp_path / "kept.json")
    assert figures.change(Figure("a", 12.34, "ms"), kept) == 0
    assert "1.0.0" in kept["release"]


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
