"""samples/demo.py: what it waits for before it shows the objects."""

from __future__ import annotations

import pytest

from samples.demo import are_all_counted


@pytest.mark.parametrize(
    ("figures", "counted"),
    [
        ({"pending": 0, "processing": 0, "processed": 2}, True),
        ({"pending": 0, "processing": 0, "processed": 0}, False),
        ({"pending": 2, "processing": 0, "processed": 0}, False),
        ({"pending": 0, "processing": 1, "processed": 7}, False),
        ({}, False),
    ],
)
def test_the_figures_are_shown_once_they_count_both_answers(figures: dict[str, int], counted: bool) -> None:
    assert are_all_counted(figures) is counted
