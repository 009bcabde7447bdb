"""The checker of three hosts at one queue finds what it is there for."""

from __future__ import annotations

from typing import cast

import pytest

from tests.support.shared.hosts import Site, violations

DONE = {"key": "a-0", "reason": "Succeeded", "result": '"a-0"', "error": None}
RUN = [("begin", "a-0", 1), ("end", "a-0", 1)]


class Noted:
    """A site of which only the notes are known."""

    def __init__(self, notes: list[tuple[str, str, int]], keys: list[str]) -> None:
        self._notes = notes
        self.keys = keys
        self.hosts = [self]

    def notes(self) -> list[tuple[str, str, int]]:
        return self._notes


@pytest.mark.parametrize(
    ("notes", "answer", "wrong"),
    [
        (RUN, DONE, None),
        ([*RUN, ("begin", "b-0", 2), ("end", "b-0", 2)], DONE, None),
        ([], DONE, "a-0 Succeeded: began 0 times"),
        (RUN, {**DONE, "key": "b-0"}, "a-0 has no answer"),
        (RUN[:1], DONE, "ended 0"),
        (RUN * 2, DONE, "a-0 began 2 times"),
        (RUN, {**DONE, "result": "nil"}, "result nil"),
        (RUN, {**DONE, "reason": "Cancelled"}, "a-0 ended Cancelled"),
        ([], {**DONE, "reason": "Interrupted"}, None),
        (RUN * 2, {**DONE, "reason": "Interrupted"}, "a-0 began 2 times"),
        ([*RUN, ("begin", "b-0", 2), ("begin", "c-0", 1)], DONE, "c-0 began in Emacs 1, after Emacs 2"),
        ([RUN[0], ("begin", "b-0", 2), RUN[1]], DONE, None),
    ],
)
def test_what_must_not_be_is_found(
    notes: list[tuple[str, str, int]], answer: dict[str, str], wrong: str | None
) -> None:
    problems = violations(cast(Site, Noted(notes, ["a-0"])), [answer])
    assert any(wrong in text for text in problems) if wrong else problems == []
