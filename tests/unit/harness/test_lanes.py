"""Tiers side by side: one failure ends everything, and so does whoever ends the run."""

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
from tests.lanes import Lanes
from tests.support.processes import is_running
from tests.support.timeout import TIMEOUT

FOR_EVER = "sleep 1000"


def script(path: Path, text: str) -> str:
    """Write a program of that name and return the command that runs it."""
    path.write_text(f"#!/bin/bash\nset -eu\ncd {path.parent}\n{text}\n")
    path.chmod(0o755)
    return str(path)


def until_there(name: str) -> str:
    return f"until [ -e {name} ]; do sleep 0.02; done"


def sleeps(pid: Path) -> bool:
    """Whether the process of this number has become the program that it is to run."""
    return pid.exists() and Path(f"/proc/{pid.read_text().strip()}/comm").read_text() == "sleep\n"


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
    assert not is_running(int((tmp_path / "pid").read_text()))


def test_what_does_not_end_when_it_is_interrupted_is_killed_with_what_it_has_started(tmp_path: Path) -> None:
    deaf = script(tmp_path / "deaf", f"trap '' INT; {FOR_EVER} & echo $! >pid; touch running; wait")
    failing = script(tmp_path / "failing", f"{until_there('running')}; exit 3")
    assert Lanes([[deaf], [failing]], print, grace=0.2).run() == 3
    pid = int((tmp_path / "pid").read_text())
    wait_until(lambda: not is_running(pid), "the end of what it has started", timeout=TIMEOUT)


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
    assert not is_running(int((tmp_path / "pid").read_text()))
