"""samples/demo.py: its steps side by side, and what it waits for before it shows the objects."""

from __future__ import annotations

from pathlib import Path

import pytest

from samples.demo import DemoError, are_all_counted, run_side_by_side


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


def test_steps_side_by_side_do_not_wait_for_each_other(tmp_path: Path) -> None:
    # Each waits for the file that the other makes.
    met = "touch {0}/{1}; until test -e {0}/{2}; do sleep 0.01; done"
    run_side_by_side(["sh", "-c", met.format(tmp_path, "a", "b")], ["sh", "-c", met.format(tmp_path, "b", "a")])


def test_a_step_that_fails_ends_the_one_beside_it() -> None:
    with pytest.raises(DemoError, match="this step failed: false"):
        run_side_by_side(["sleep", "600"], ["false"])
