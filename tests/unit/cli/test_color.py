"""cli/color.py: who gets colours, and that they change no column."""

from __future__ import annotations

import io

import pytest

from efrit.cli import color
from efrit.cli.output import table


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stream", "environment", "expected"),
    [
        (Screen(), {"TERM": "xterm"}, True),
        (Screen(), {"TERM": "xterm", "NO_COLOR": ""}, True),
        (Screen(), {"TERM": "xterm", "NO_COLOR": "1"}, False),
        (Screen(), {"TERM": "dumb"}, False),
        (Screen(), {}, False),
        (io.StringIO(), {"TERM": "xterm"}, False),
    ],
)
def test_colours_are_for_terminals_that_want_them(
    stream: io.StringIO, environment: dict[str, str], expected: bool
) -> None:
    assert color.color_enabled(stream, environment) is expected


def test_a_coloured_table_has_the_same_columns() -> None:
    rows = [("one", "Ready", "x"), ("other", "EvalError", "y")]
    plain, colored = (table(("NAME", "REASON", "WHAT"), rows, colored=colored) for colored in (False, True))
    assert "\x1b[32mReady\x1b[0m" in colored
    assert "\x1b[31mEvalError\x1b[0m" in colored
    for sequence in ("\x1b[32m", "\x1b[31m", "\x1b[0m"):
        colored = colored.replace(sequence, "")
    assert colored == plain
