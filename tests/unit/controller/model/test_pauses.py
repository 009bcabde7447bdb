"""model/pauses.py: how much is left of a pause, whatever happens to the clock."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from efrit.controller.model.pauses import pause_remaining
from tests.support.factory import NOW, seconds


@pytest.mark.parametrize(
    ("began", "remaining"),
    [(0, 10), (-4, 6), (-10, 0), (-3600, 0), (0.1, 0), (3600, 0)],
    ids=["now", "a while ago", "just over", "long ago", "the clock was set back a little", "the clock was set back"],
)
def test_a_pause_is_never_longer_than_it_was_to_be(began: float, remaining: float) -> None:
    assert pause_remaining(NOW + seconds(began), seconds(10), NOW) == seconds(remaining)


def test_no_time_is_too_late_or_too_early_for_a_pause() -> None:
    for began in (datetime.max.replace(tzinfo=UTC), datetime.min.replace(tzinfo=UTC)):
        assert pause_remaining(began, seconds(10), NOW) == timedelta(0)
