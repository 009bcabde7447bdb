"""Tiers side by side: what runs when, what is printed, and that one failure ends everything."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cluster.paths import REPOSITORY
from tests.cluster.progress import wait_until
from tests.lanes import SUBREAPER, Lanes, main, parse
from tests.support.timeout import TIMEOUT

FOR_EVER = "sleep 1000"


def script(path: Path, text: str) -> str:
    """Write a program of that name and return the command that runs it."""
    path.write_text(f"#!/bin/bash\nset -eu\ncd {path.parent}\n{text}\n")
    path.chmod(0o755)
    return str(path)


def until_there(name: str) -> str:
    return f"until [ -e {name} ]; do sleep 0.02; done"


def alive(pid: int) -> bool:
    """Whether it runs: one that waits to be reaped does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def sleeps(pid: Path) -> bool:
    """Whether the process of this number has become the program that it is to run."""
    return pid.exists() and Path(f"/proc/{pid.read_text().strip()}/comm").read_text() == "sleep\n"


def test_lanes_are_separated_by_two_dashes_and_empty_ones_left_out() -> None:
    assert parse(["--", "a b", "c", "--", "--", "d"]) == [["a b", "c"], ["d"]]


@pytest.mark.parametrize("words", ["", "--abreast", "--abreast 2", "--abreast 0 true", "--abreast many true"])
def test_what_asks_for_no_lane_is_reported_as_wrong_usage(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words.split()) == 64
    assert "python -m tests.lanes" in capsys.readouterr().err


def test_lanes_run_side_by_side(tmp_path: Path) -> None:
    # Each waits for what only the other makes.
    one = script(tmp_path / "one", f"touch from-one; {until_there('from-two')}")
    two = script(tmp_path / "two", f"touch from-two; {until_there('from-one')}")
    assert Lanes([[one], [two]], print).run() == 0


def test_commands_of_one_lane_run_one_after_the_other(tmp_path: Path) -> None:
    lane = [script(tmp_path / name, f"echo begin {name} >>log; echo end {name} >>log") for name in ("a", "b", "c")]
    assert Lanes([lane], print).run() == 0
    assert (tmp_path / "log").read_text().split("\n")[:-1] == [
        f"{what} {name}" for name in ("a", "b", "c") for what in ("begin", "end")
    ]


def test_a_wide_lane_begins_the_next_command_when_any_of_those_abreast_has_ended(tmp_path: Path) -> None:
    # The first ends last: the others get by it one after the other, and never two of them at a time.
    long = script(tmp_path / "long", until_there("c-ended"))
    others = [
        script(tmp_path / name, f"mkdir turn; rmdir turn; touch {name}-ended; echo {name} >>log")
        for name in ("a", "b", "c")
    ]
    assert main(["--abreast", "2", long, *others]) == 0
    assert (tmp_path / "log").read_text().split() == ["a", "b", "c"]


def test_each_line_says_whose_it_is(tmp_path: Path) -> None:
    lines: list[str] = []
    commands = script(tmp_path / "short", "echo out; echo err >&2"), script(tmp_path / "longer-one", "printf unended")
    assert Lanes([list(commands)], lines.append).run() == 0
    assert [line for line in lines if " | " in line] == [
        "short      | out",
        "short      | err",
        "longer-one | unended",
    ]


def test_a_line_is_reported_before_its_command_ends(tmp_path: Path) -> None:
    def tell(line: str) -> None:
        if "| first" in line:
            (tmp_path / "reported").touch()

    assert Lanes([[script(tmp_path / "slow", f"echo first; {until_there('reported')}")]], tell).run() == 0


def test_what_passed_is_reported_with_its_time_at_the_end(tmp_path: Path) -> None:
    lines: list[str] = []
    busy = "while read -r -a stat </proc/$$/stat && ((stat[13] + stat[14] < 60)); do :; done"
    Lanes([[script(tmp_path / "one", busy), script(tmp_path / "two", "")]], lines.append).run()
    assert [line.partition("  passed in ")[0] for line in lines[-2:]] == ["one", "two"]
    one, two = (int(line.split()[-5]) for line in lines[-2:])
    assert one > two, "the processor's time of what a command has started is in it"


@pytest.mark.parametrize("then", ["exit", f"exec {FOR_EVER}"], ids=["ended", "runs"])
def test_what_has_lost_its_parent_counts_for_the_command_that_has_started_it(tmp_path: Path, then: str) -> None:
    # In hundredths of a second; what else is counted may be less than one, which the kernel rounds down to none.
    busy = "while read -r -a stat </proc/$$/stat && ((stat[13] + stat[14] < 20)); do :; done"
    script(tmp_path / "orphan", f"echo $$ >pid; {busy}; touch done; {then}")
    # Its parent is gone at once; where it ends, its end is waited for.
    waits = (
        f"{until_there('done')}; while [ {then.split()[0]} = exit ] && [ -e /proc/$(cat pid) ]; do sleep 0.02; done"
    )
    starts = script(tmp_path / "starts", f"(setsid ./orphan </dev/null >/dev/null 2>&1 &); {waits}")
    reading, writing = os.pipe()
    try:
        subprocess.run(
            [sys.executable, SUBREAPER, str(writing), starts], check=True, timeout=TIMEOUT, pass_fds=[writing]
        )
    finally:
        os.close(writing)
        if then != "exit":
            os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)
    with os.fdopen(reading) as source:
        assert float(source.read()) >= 0.2


def test_a_failure_ends_what_else_runs_and_begins_nothing_more(tmp_path: Path) -> None:
    lines: list[str] = []
    endless = script(tmp_path / "endless", f"echo $$ >pid; touch running; exec {FOR_EVER}")
    failing = script(tmp_path / "failing", f"{until_there('running')}; exit 3")
    lanes = [
        [endless, script(tmp_path / "next", "touch begun")],
        [failing, script(tmp_path / "other", "touch begun")],
    ]
    assert Lanes(lanes, lines.append).run() == 3
    assert any("failing FAILED" in line for line in lines)
    assert not any("passed" in line for line in lines)
    assert not (tmp_path / "begun").exists()
    assert not alive(int((tmp_path / "pid").read_text()))


def test_what_does_not_end_when_it_is_interrupted_is_killed_with_what_it_has_started(tmp_path: Path) -> None:
    deaf = script(tmp_path / "deaf", f"trap '' INT; {FOR_EVER} & echo $! >pid; touch running; wait")
    failing = script(tmp_path / "failing", f"{until_there('running')}; exit 3")
    assert Lanes([[deaf], [failing]], print, grace=0.2).run() == 3
    pid = int((tmp_path / "pid").read_text())
    wait_until(lambda: not alive(pid), "the end of what it has started", timeout=TIMEOUT)


def test_what_is_interrupted_after_a_failure_puts_its_things_away_unheard(tmp_path: Path) -> None:
    lines: list[str] = []
    # A shell that waits in the foreground may end of what its child ended of, before it has looked at its traps; and
    # a signal that comes right before a long wait would be noticed after it.
    waits = "while :; do sleep 0.05 >/dev/null & wait; done"
    tidy = f"trap 'echo tidying; >tidied; exit 1' INT; >running; {waits}"
    failing = script(tmp_path / "failing", f"{until_there('running')}; echo why; exit 1")
    assert Lanes([[script(tmp_path / "tidy", tidy)], [failing]], lines.append).run() == 1
    assert (tmp_path / "tidied").exists()
    assert [line for line in lines if " | " in line] == ["failing | why"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_who_ends_the_run_ends_all_of_it(tmp_path: Path, number: signal.Signals) -> None:
    # A shell that is not interactive starts background jobs with SIGINT ignored.
    endless = script(tmp_path / "endless", f"echo $$ >pid.part; mv pid.part pid; exec {FOR_EVER}")
    words = shlex.join([sys.executable, "-m", "tests.lanes", endless])
    shell = subprocess.Popen(["bash", "-c", f"{words} & echo $!; wait $!"], cwd=REPOSITORY, stdout=subprocess.PIPE)
    try:
        assert shell.stdout is not None
        runner = int(shell.stdout.readline())
        # A shell forgets a signal that comes while one of its programs ends.
        wait_until(lambda: sleeps(tmp_path / "pid"), "its beginning", timeout=TIMEOUT)
        os.kill(runner, number)
        assert shell.wait(TIMEOUT) == 128 + number
    finally:
        shell.kill()
        shell.communicate()
    assert not alive(int((tmp_path / "pid").read_text()))
