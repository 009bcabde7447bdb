"""Without renewals no controller leads, and no time counts against it."""

from __future__ import annotations

import pytest

from tests.support.faults.availability import merge_spans, silent_spans, total_seconds


@pytest.mark.parametrize(
    ("renewals", "end", "silent"),
    [
        ([0.0, 5.0, 10.0, 15.0], 20.0, ()),
        ([2.0, 7.0, 40.0, 45.0], 50.0, ((7.0, 40.0),)),
        ([30.0], 60.0, ((0.0, 30.0), (30.0, 60.0))),
        ([9.0, 1.0, 5.0], 12.0, ()),
        ([1.0, 30.0], 20.0, ((1.0, 20.0),)),
    ],
    ids=["renewed", "a gap", "before the first and after the last", "in any order", "what comes after the end"],
)
def test_between_renewals_that_are_far_apart_nobody_leads(
    renewals: list[float], end: float, silent: tuple[tuple[float, float], ...]
) -> None:
    assert silent_spans(renewals, end) == silent


def test_spans_that_overlap_are_one_and_are_added_up() -> None:
    assert merge_spans([(30.0, 50.0), (2.0, 20.0), (15.0, 18.0), (20.0, 25.0)]) == ((2.0, 25.0), (30.0, 50.0))
    assert total_seconds(((0.0, 2.5), (10.0, 11.0))) == 3.5
