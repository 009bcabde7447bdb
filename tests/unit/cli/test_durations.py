"""Durations as people write them."""

from __future__ import annotations

import pytest

from efrit.cli.durations import WEEK, parse, up_to


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30", 30), ("1.5", 1.5), ("30s", 30), ("5m", 300), ("1h30m", 5400), ("500ms", 0.5), ("2d", 172_800), ("0", 0)],
)
def test_a_duration_has_units_or_is_a_number_of_seconds(text: str, seconds: float) -> None:
    assert parse(text) == seconds


@pytest.mark.parametrize("text", ["", "soon", "5 m", "-5s", "1e3", "nan", "inf", "5M", "5s!", "٣s", "9" * 400])
def test_anything_else_is_refused_with_what_to_write(text: str) -> None:
    with pytest.raises(ValueError, match="write 30s, 5m or 1h30m"):
        parse(text)


@pytest.mark.parametrize("text", ["0", "0s", "7d1s", "200h"])
def test_a_duration_out_of_range_is_refused_with_the_range(text: str) -> None:
    with pytest.raises(ValueError, match="above 0, and at most 7d"):
        up_to(WEEK)(text)
