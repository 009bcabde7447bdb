"""cli/top.py: keys, and what they show."""

from __future__ import annotations

import pytest

from efrit.cli.top import View, after_key, screen
from tests.unit.cli.listed import NOW, over


@pytest.mark.parametrize(
    ("key", "view"),
    [
        ("q", View(1, over=True)),
        ("\x03", View(1, over=True)),
        ("p", View(1, paused=True)),
        ("f", View(1, finished=False)),
        ("down", View(1, first=1)),
        ("up", View(1)),
        ("+", View(2)),
        ("-", View(0.5)),
        ("x", View(1)),
    ],
)
def test_keys_change_what_top_shows(key: str, view: View) -> None:
    assert after_key(View(1), key) == view


def test_the_delay_of_top_stays_within_its_bounds() -> None:
    short = long = View(1)
    for _ in range(40):
        short, long = after_key(short, "-"), after_key(long, "+")
    assert (short.delay, long.delay) == (0.1, 3600)


def test_a_view_scrolls_and_hides_finished_work_and_its_note_is_the_last_line() -> None:
    states = [over(number) for number in range(5)]

    def shown(view: View) -> list[str]:
        lines = screen("local", "here", [], states, NOW, (80, 13), view=view, note="q quit").splitlines()
        assert lines[-1] == "q quit"
        return [line.split()[0] for line in lines if line.startswith("r")]

    assert shown(View(1)) == ["r4", "r3", "r2", "r1", "r0"]
    assert shown(View(1, first=3)) == ["r1", "r0"]
    assert shown(View(1, first=99)) == ["r0"]
    assert shown(View(1, finished=False)) == []
