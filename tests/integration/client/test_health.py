"""An Emacs that runs and does nothing, and a full disk: whoever waits gets an answer, or is told why."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.client.conftest import laptop
from tests.integration.client.program import Program
from tests.integration.kube import until


@pytest.fixture
def fresh() -> Iterator[Program]:
    with laptop({"one": {}}) as made:
        yield made


def pid_of(program: Program) -> int:
    heartbeat = Path(program.env["HOME"]) / ".local/state/efrit/instances/one/queue/heartbeat"
    return int(json.loads(heartbeat.read_text())["pid"])


def test_an_emacs_that_was_stopped_by_a_signal_goes_on_and_keeps_its_state(fresh: Program) -> None:
    fresh.ok("eval", "(setq kept 5)")
    pid = pid_of(fresh)
    os.kill(pid, signal.SIGSTOP)
    told = fresh.run("doctor")
    assert (told.code, "is stopped by a signal" in told.out) == (1, True), told
    assert fresh.ok("eval", "kept") == "5\n"
    assert pid_of(fresh) == pid


def test_an_emacs_that_code_outside_a_request_keeps_busy_is_ended_and_the_next_one_answers(fresh: Program) -> None:
    loop = '(lambda () (write-region "" nil "looping") (let ((debug-on-event nil) (inhibit-quit t)) (while t)))'
    fresh.ok("eval", f"(progn (run-with-timer 0.1 nil {loop}) 1)")
    pid = pid_of(fresh)
    until(lambda: (fresh.workspace("one") / "looping").exists(), "the loop does not begin")
    process = fresh.begin("eval", "(+ 1 2)")
    out, err = process.communicate(timeout=240)
    assert (process.returncode, out) == (0, "3\n"), err
    assert pid_of(fresh) != pid


def test_code_that_a_request_left_running_is_interrupted_and_emacs_keeps_its_state(fresh: Program) -> None:
    loop = '(lambda () (write-region "" nil "looping") (while t))'
    fresh.ok("eval", f"(progn (setq kept 5) (run-with-timer 0.1 nil {loop}) 1)")
    pid = pid_of(fresh)
    until(lambda: (fresh.workspace("one") / "looping").exists(), "the loop does not begin")
    assert fresh.ok("eval", "kept") == "5\n"
    assert pid_of(fresh) == pid


def test_a_form_of_another_terminal_that_does_not_stop_is_ended_by_who_waits_behind_it(fresh: Program) -> None:
    fresh.ok("eval", "1")
    # No watchdog, as on a machine that has no sleep, and nobody who waits for it.
    deaf = "(progn (efrit-watchdog-stop) (let ((debug-on-event nil) (inhibit-quit t)) (while t)))"
    name = fresh.ok("submit", "--timeout", "1", deaf).strip()
    process = fresh.begin("eval", "(+ 1 2)")
    out, err = process.communicate(timeout=240)
    assert (process.returncode, out) == (0, "3\n"), err
    assert fresh.run("wait", name).code == 5


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of a mebibyte."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place)], capture_output=True)
    if mounted.returncode:
        pytest.skip("file systems cannot be mounted here")
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


def test_a_full_disk_is_named_as_such(fresh: Program, small_disk: Path) -> None:
    Path(fresh.env["EFRIT_CONFIG"]).write_text(
        json.dumps({"instances": {"one": {"queue_dir": str(small_disk / "queue")}}})
    )
    fresh.ok("eval", "1")
    subprocess.run(["dd", "if=/dev/zero", f"of={small_disk}/filler"], capture_output=True, check=False)
    done = fresh.run("eval", "2")
    assert done.code == 9
    assert f"the disk of {small_disk / 'queue'} is full" in done.err
    told = fresh.run("doctor")
    assert (told.code, "is full" in told.out) == (1, True), told
    (small_disk / "filler").unlink()
    assert fresh.ok("eval", "3") == "3\n"
    fresh.ok("stop", "one")


def test_a_disk_too_full_to_begin_is_named_as_such(fresh: Program, small_disk: Path) -> None:
    Path(fresh.env["EFRIT_CONFIG"]).write_text(
        json.dumps({"instances": {"one": {"queue_dir": str(small_disk / "queue")}}})
    )
    subprocess.run(["dd", "if=/dev/zero", f"of={small_disk}/filler"], capture_output=True, check=False)
    done = fresh.run("eval", "2")
    assert done.code == 9
    assert f"the disk of {small_disk / 'queue'} is full" in done.err
