"""A table of a page has a head: GitHub shows rows that an empty line cuts off from theirs as text."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.cluster.paths import REPOSITORY

PAGES = sorted(
    path.relative_to(REPOSITORY).as_posix()
    for path in [*REPOSITORY.glob("*.md"), *(REPOSITORY / "docs").rglob("*.md")]
)
_BELOW_HEAD = re.compile(r"\|( *:?-+:? *\|)+ *")


def headless(text: str) -> Iterator[int]:
    """Yield the number of each line that begins a table without a line such as `|---|---|` below it."""
    before, in_code = "", False
    lines = text.splitlines()
    for number, (line, below) in enumerate(zip(lines, [*lines[1:], ""], strict=True), start=1):
        in_code ^= line.lstrip().startswith("```")
        if not in_code and line.startswith("|") and not before.startswith("|") and not _BELOW_HEAD.fullmatch(below):
            yield number
        before = line


@pytest.mark.parametrize("page", PAGES)
def test_each_table_of_a_page_has_a_head(page: str) -> None:
    assert list(headless((REPOSITORY / page).read_text())) == []


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("| a | b |\n|---|---|\n| 1 | 2 |\n", []),
        ("| a | b |\n|---|---|\n| 1 | 2 |\n\n| 3 | 4 |\n", [5]),
        ("text\n| 1 | 2 |\n", [2]),
        ("| a | b |\n| --- | :-: |\n| 1 | 2 |\n", []),
        ("```\n| 1 | 2 |\n```\n", []),
        ("| a |", [1]),
    ],
)
def test_rows_without_a_head_are_found(text: str, lines: list[int]) -> None:
    assert list(headless(text)) == lines
