"""An Emacs that runs and does nothing, and a full disk: a client that waits gets an answer, or the reason."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.efrit_program import Program
from tests.support.kube import until
from tests.support.lisp_forms import NEVER_ENDS
from tests.support.timeout import TIMEOUT


def heartbeat_of(program: Program) -> dict[str, Any]:
    heartbeat = Path(program.env["HOME"]) / ".local/state/efrit/instances/one/queue/heartbeat"
    return dict(json.loads(heartbeat.read_text()))


def pid_of(program: Program) -> int:
    return int(heartbeat_of(program)["pid"])


def test_an_emacs_that_was_stopped_by_a_signal_goes_on_and_keeps_its_state(fresh: Program) -> None:
    fresh.ok("eval", "(setq kept 5)")
    pid = pid_of(fresh)
    os.kill(pid, signal.SIGSTOP)
    doctor = fresh.run("doctor")
    assert (doctor.code, "is stopped by a signal" in doctor.out) == (1, True), doctor
    assert fresh.ok("eval", "kept") == "5\n"
    assert pid_of(fresh) == pid


@pytest.mark.parametrize("words", ["cancel", "stop --now", "stop"])
def test_an_emacs_that_was_stopped_by_a_signal_goes_on_for_who_ends_its_work_or_itself(
    fresh: Program, words: str
) -> None:
    fresh.ok("eval", '(add-hook \'kill-emacs-hook (lambda () (write-region "" nil "ended")))')
    name = fresh.ok("submit", '(progn (while (not (file-exists-p "go")) (sleep-for 0.05)) 7)').strip()
    until(lambda: fresh.state(name)["phase"] == "Running", "it does not begin")
    pid = pid_of(fresh)
    os.kill(pid, signal.SIGSTOP)
    command, *options = words.split()
    if words == "stop":
        (fresh.workspace("one") / "go").touch()
    fresh.ok(command, *options, name if command == "cancel" else "one")
    # Nobody killed it: its work ended, and it said goodbye.
    assert fresh.state(name)["message"] in ("It is done.", "The request was cancelled while it ran")
    if command == "cancel":
        assert fresh.ok("eval", "(emacs-pid)") == f"{pid}\n"
    else:
        assert (fresh.workspace("one") / "ended").exists()


def test_an_emacs_that_code_outside_a_request_keeps_busy_is_ended_and_the_next_one_answers(fresh: Program) -> None:
    loop = '(lambda () (write-region "" nil "looping") (let ((debug-on-event nil) (inhibit-quit t)) (while t)))'
    fresh.ok("eval", f"(progn (run-with-timer 0.1 nil {loop}) 1)")
    pid = pid_of(fresh)
    until(lambda: (fresh.workspace("one") / "looping").exists(), "the loop does not begin")
    process = fresh.begin("eval", "(+ 1 2)")
    out, err = process.communicate(timeout=TIMEOUT)
    assert (process.returncode, out) == (0, "3\n"), err
    assert pid_of(fresh) != pid


def test_code_that_a_request_left_running_is_interrupted_and_emacs_keeps_its_state(fresh: Program) -> None:
    place = fresh.workspace("one") / "looping"
    loop = f'(defun looping () (write-region "" nil "{place}") (while t))'
    fresh.ok("eval", f"(progn (setq kept 5) {loop} (run-with-timer 0.1 nil #'looping) 1)")
    pid = pid_of(fresh)
    until(lambda: (fresh.workspace("one") / "looping").exists(), "the loop does not begin")
    assert fresh.ok("eval", "kept") == "5\n"
    assert pid_of(fresh) == pid


def test_an_emacs_that_would_answer_wrongly_is_ended_by_who_waits_and_the_next_one_answers(fresh: Program) -> None:
    quiet = "(setq comp-enable-subr-trampolines nil native-comp-enable-subr-trampolines nil)"
    wrong = '(advice-add \'prin1-to-string :override (lambda (&rest _) "7"))'
    fresh.ok("eval", f"(progn {quiet} (run-with-timer 0.1 nil (lambda () {wrong})) 1)")
    pid = pid_of(fresh)
    until(lambda: (heartbeat_of(fresh)["self_check"] or {}).get("passed") is False, "the self-check does not fail")
    doctor = fresh.run("doctor")
    assert (doctor.code, "fails its self-check: a known form was answered" in doctor.out) == (1, True), doctor
    assert fresh.ok("eval", "(+ 1 2)") == "3\n"
    assert pid_of(fresh) != pid


def test_a_form_of_another_terminal_that_does_not_stop_is_ended_by_who_waits_behind_it(fresh: Program) -> None:
    fresh.ok("eval", "1")
    # No watchdog, as on a machine that has no sleep, and nobody who waits for it.
    deaf = f"(progn (efrit-watchdog-stop) (let ((debug-on-event nil) (inhibit-quit t)) {NEVER_ENDS}))"
    name = fresh.ok("submit", "--timeout", "1", deaf).strip()
    process = fresh.begin("eval", "(+ 1 2)")
    out, err = process.communicate(timeout=TIMEOUT)
    assert (process.returncode, out) == (0, "3\n"), err
    assert fresh.run("wait", name).code == 5


OVERFLOW = "(progn (setq max-lisp-eval-depth 100000000 max-specpdl-size 100000000) (defun f (x) (1+ (f x))) (f 1))"


@pytest.mark.parametrize("form", ["(advice-add 'write-region :override #'ignore)", OVERFLOW])
def test_an_emacs_that_was_made_unable_to_answer_ends_and_the_next_one_answers(fresh: Program, form: str) -> None:
    fresh.ok("eval", "1")
    pid = pid_of(fresh)
    assert fresh.run("eval", form).code == 7
    assert fresh.ok("eval", "(+ 1 2)") == "3\n"
    assert pid_of(fresh) != pid


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Yield a file system of a mebibyte."""
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
    doctor = fresh.run("doctor")
    assert (doctor.code, "is full" in doctor.out) == (1, True), doctor
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


def test_a_disk_too_full_for_the_configuration_is_not_taken_for_missing_permissions(
    fresh: Program, small_disk: Path
) -> None:
    config = small_disk / "config.json"
    config.write_text(json.dumps({"instances": {"one": {"queue_dir": fresh.env["HOME"] + "/queue"}}}))
    subprocess.run(["dd", "if=/dev/zero", f"of={small_disk}/filler"], capture_output=True, check=False)
    done = fresh.run("--config", str(config), "rm", "one")
    assert done.code == 2
    assert done.err == (
        f"efrit: cannot write {config}: No space left on device\n       free some space on its disk, and try again\n"
    )
    (small_disk / "filler").unlink()
    assert fresh.run("--config", str(config), "rm", "one").code == 0
