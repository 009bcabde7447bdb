"""Code that a request leaves behind is stopped or ended with its Emacs, and the next request is answered."""

from __future__ import annotations

from tests.integration.bridge.conftest import Make
from tests.support.bridge_instance import Instance, until

LEFT = "(run-with-timer 0.05 nil (lambda () (begun) (while t)))"
"""How each kind of it is stopped is in images/emacs/test/efrit-eval-background-test.el."""
DEAF = "(let ((debug-on-event nil) (inhibit-quit t)) (while t))"


def leave(instance: Instance, rid: str, leftover: str) -> None:
    """Have a request leave `left` behind, and return once it runs."""
    begun = instance.workspace / rid
    form = f'(progn (defun begun () (write-region "" nil "{begun}")) {leftover} 1)'
    assert instance.eval(rid, form).result == "1"
    until(begun.exists)


def log(instance: Instance, name: str) -> str:
    return (instance.place / f"{name}.log").read_text()


def test_what_a_request_leaves_running_is_stopped_and_emacs_keeps_its_state(make: Make) -> None:
    instance = make()
    pid = instance.emacs_pid()
    instance.eval("state", "(defvar kept 5)")
    leave(instance, "left", LEFT)
    assert instance.eval("next", "(list kept (+ 1 2))").result == "(5 3)"
    until(lambda: "left behind by request left" in log(instance, "emacs"))
    assert instance.emacs_pid() == pid


def test_what_hears_no_signal_is_ended_with_its_emacs_and_the_next_one_answers(make: Make) -> None:
    instance = make(EFRIT_KILL_GRACE_SECONDS="2")
    pid = instance.emacs_pid()
    leave(instance, "left", f"(run-with-timer 0.05 nil (lambda () (begun) {DEAF}))")
    assert instance.eval("next", "(+ 1 2)").result == "3"
    assert instance.emacs_pid() != pid
    assert "the last answer was that of left" in log(instance, "bridge")
