"""Ctrl-C and SIGTERM while Emacs starts and hangs: the command ends, and so does an Emacs nobody else waits for."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.efrit_program import Program
from tests.support.kube import until
from tests.support.laptop import laptop
from tests.support.processes import is_running
from tests.support.timeout import TIMEOUT

HUNG = """#!/bin/sh
trap '' TERM
echo $$ >>"$HOME/begun"
while [ ! -e "$HOME/go" ]; do sleep 0.05; done
trap - TERM
exec {emacs} "$@"
"""
"""An Emacs that heeds no SIGTERM and starts only when the test says so."""


@dataclass
class Laptop:
    """A machine whose Emacs hangs as it starts, for the program `hung`; for `program` it does not."""

    program: Program
    hung: Program
    home: Path

    def begun(self) -> list[int]:
        """Return the process ids of those that began."""
        with suppress(FileNotFoundError):
            return [int(line) for line in (self.home / "begun").read_text().split()]
        return []

    def until_begun(self) -> int:
        return until(lambda: self.begun()[-1:], "no Emacs is started")[0]


@pytest.fixture
def machine() -> Iterator[Laptop]:
    # With an init file a start may take five minutes: nobody waits for that here.
    with laptop({"one": {"init": True}}) as program:
        home = Path(program.env["HOME"])
        emacs = home / "hung-emacs"
        emacs.write_text(HUNG.format(emacs=shutil.which("emacs")))
        emacs.chmod(0o700)
        hung = Program("local", {**program.env, "EFRIT_EMACS": str(emacs)}, workspace=program.workspace, cwd=home)
        made = Laptop(program, hung, home)
        try:
            yield made
        finally:
            for pid in filter(is_running, made.begun()):
                with suppress(ProcessLookupError):
                    os.killpg(os.getpgid(pid), signal.SIGKILL)


def waits_for_the_start(pid: int) -> bool:
    """Return whether the process has come to the lock of a start, which another one holds."""
    names = []
    for fd in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):
            names.append(fd.readlink().name)
    return "daemon.lock" in names


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.parametrize("words", ["eval 1", "submit 1", "start one", "chat hello", "command hello"])
def test_a_signal_during_a_start_ends_the_command_and_its_emacs(
    machine: Laptop, words: str, number: signal.Signals, code: int
) -> None:
    process = machine.hung.begin(*words.split())
    pid = machine.until_begun()
    process.send_signal(number)
    out, err = process.communicate(timeout=TIMEOUT)
    assert (process.returncode, out, "Traceback" in err) == (code, "", False), err
    until(lambda: not is_running(pid), "its Emacs goes on")
    assert machine.program.ok("eval", "(+ 1 2)") == "3\n"
    assert machine.begun() == [pid]


def test_an_emacs_that_another_command_waits_for_goes_on(machine: Laptop) -> None:
    first = machine.hung.begin("eval", "1")
    pid = machine.until_begun()
    second = machine.hung.begin("eval", "(+ 1 2)")
    until(lambda: waits_for_the_start(second.pid), "the second one does not wait")
    first.send_signal(signal.SIGINT)
    first.communicate(timeout=TIMEOUT)
    assert first.returncode == 130
    assert is_running(pid)
    (machine.home / "go").touch()
    out, err = second.communicate(timeout=TIMEOUT)
    assert (second.returncode, out) == (0, "3\n"), err
    queue = next(machine.home.rglob("heartbeat"))
    assert (json.loads(queue.read_text())["pid"], machine.begun()) == (pid, [pid])


def test_the_last_command_that_gives_up_ends_the_emacs(machine: Laptop) -> None:
    first = machine.hung.begin("eval", "1")
    pid = machine.until_begun()
    second = machine.hung.begin("submit", "1")
    until(lambda: waits_for_the_start(second.pid), "the second one does not wait")
    # As a terminal sends it to all of a pipeline.
    for process in (first, second):
        process.send_signal(signal.SIGINT)
    for process in (first, second):
        process.communicate(timeout=TIMEOUT)
        assert process.returncode == 130
    until(lambda: not is_running(pid), "their Emacs goes on")
    assert machine.program.ok("eval", "(+ 1 2)") == "3\n"


def test_an_emacs_whose_command_was_killed_is_ended_by_the_next_start(machine: Laptop) -> None:
    process = machine.hung.begin("eval", "1")
    pid = machine.until_begun()
    # Before that is written nothing can know of it.
    until(lambda: any(path.stat().st_size for path in machine.home.rglob("daemon.starting")), "it is not recorded")
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=TIMEOUT)
    assert machine.program.ok("eval", "(+ 1 2)") == "3\n"
    until(lambda: not is_running(pid), "it goes on")


def test_who_leaves_a_request_does_not_wait_for_its_new_emacs(machine: Laptop) -> None:
    name = machine.program.ok("submit", "--retry", '(progn (while (not (file-exists-p "go")) (sleep-for 0.05)) 7)')
    heartbeat = until(lambda: [*machine.home.rglob("heartbeat")], "there is no heartbeat")[0]
    until(lambda: machine.program.state(name.strip())["phase"] == "Running", "it does not begin")
    os.kill(json.loads(heartbeat.read_text())["pid"], signal.SIGKILL)
    process = machine.hung.begin("wait", name.strip())
    machine.until_begun()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=TIMEOUT)
    assert process.returncode == 130
    assert "goes on" in err
    (machine.home / "go").touch()
    assert machine.program.ok("wait", name.strip()) == "7\n"
