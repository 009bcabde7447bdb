"""cli/top.py: keys, and what they show."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from typing import cast

import pytest

from efrit.backend.interface import Backend, Instance
from efrit.cli.exit_codes import Exit
from efrit.cli.top import MAX_PRINTED, View, after_key, run_top, screen
from tests.unit.cli.listed import NOW, Listed, over


class Kept(Listed):
    """A backend without instances that keeps finished requests."""

    async def instances(self) -> Sequence[Instance]:
        return ()


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


@pytest.mark.parametrize(("given", "printed"), [(False, MAX_PRINTED), (True, MAX_PRINTED + 10)])
async def test_where_there_is_no_screen_the_first_requests_are_printed_unless_all_are_asked_for(
    given: bool, printed: int, capsys: pytest.CaptureFixture[str]
) -> None:
    backend = cast("Backend", Kept(MAX_PRINTED + 10))
    assert await run_top(backend, Namespace(once=True, all=given)) is Exit.DONE

    text, hint = capsys.readouterr()
    names = [line.split()[0] for line in text.splitlines() if line.startswith("r")]
    assert names == [f"r{number}" for number in reversed(range(MAX_PRINTED + 10))][:printed]
    assert (f"only {MAX_PRINTED} of {MAX_PRINTED + 10} requests are printed" in hint) is not given
    assert ("--all prints all" in hint) is not given
