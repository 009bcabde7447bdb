"""pace.py: few at a time while the loop is late, as many as may be while it is not."""

from __future__ import annotations

import pytest

from efrit.controller.pace import EVERY_SECONDS, FORGET_SECONDS, LATE_SECONDS, MIN_LIMIT, Pace

LATE = 2 * LATE_SECONDS


@pytest.mark.parametrize(
    ("turns", "limit"),
    [
        ([], 8.0),
        ([0.0] * 10, 8.0),
        ([LATE], 5.6),
        ([LATE] * 100, MIN_LIMIT),
        ([LATE] * 100 + [0.0] * 30, 8.0),
        ([LATE] * 100 + [0.0] * 5, 3.0),
    ],
)
def test_the_limit_falls_fast_and_grows_slowly_within_its_bounds(turns: list[float], limit: float) -> None:
    pace = Pace(8)

    for turn in turns:
        pace.observe(turn)

    assert pace.limit == pytest.approx(limit)
    assert pace.lowered == (limit < 8)


def test_a_turn_is_measured_now_and_then_and_forgotten_after_a_while() -> None:
    pace = Pace(8)
    assert [pace.is_due(now) for now in (0.0, 0.01, EVERY_SECONDS, 1.5 * EVERY_SECONDS)] == [True, False, True, False]
    pace.observe(LATE)
    assert pace.lowered

    assert pace.is_due(EVERY_SECONDS + FORGET_SECONDS)
    assert not pace.lowered
