"""closest_word.py: a slip of the pen, and what is like no word at all."""

from __future__ import annotations

import pytest

from efrit.closest_word import closest_word


@pytest.mark.parametrize(
    ("written", "closest"),
    [("timeot", "timeout"), ("stat", "start"), ("xyz", None), ("", None), ("timeout" * 100_000, None)],
)
def test_the_word_that_is_most_like_it_is_found_if_one_is(written: str, closest: str | None) -> None:
    assert closest_word(written, (word for word in ("timeout", "start"))) == closest
