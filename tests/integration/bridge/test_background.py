"""Code that a request leaves behind is stopped or ended with its Emacs, and the next request is answered."""

from __future__ import annotations

from functools import partial

from tests.integration.bridge.conftest import Make
from tests.support.bridge_instance import Instance, until
from tests.support.lisp_forms import NEVER_ENDS

LEFT = (
    "(run-with-timer 0.05 nil (lambda () (begun) (while t)))",
    f"(run-with-idle-timer 0.05 nil (lambda () (begun) {NEVER_ENDS}))",
    f'(make-process :name "l" :command \'("/bin/echo" "x") :filter (lambda (&rest _) (begun) {NEVER_ENDS}))',
    f'(make-process :name "l" :command \'("/bin/true") :sentinel (lambda (&rest _) (begun) {NEVER_ENDS}))',
    f"(make-thread (lambda () (begun) {NEVER_ENDS}))",
    f"(run-with-timer 0.05 nil (lambda () (setq debug-on-event 'sigusr1) (begun) {NEVER_ENDS}))",
)
DEAF = "(let ((debug-on-event nil) (inhibit-quit t)) (while t))"


def leave(instance: Instance, rid: str, leftover: str) -> None:
    """Have a request leave `left` behind, and return once it runs."""
    begun = instance.workspace / rid
    form = f'(progn (defun begun () (write-region "" nil "{begun}")) {leftover} 1)'
    assert instance.eval(rid, form).result == "1"
    until(begun.exists)


def log(instance: Instance, name: str) -> str:
    return (instance.place / f"{name}.log").read_text()


def logs(instance: Instance, text: str) -> bool:
    return text in log(instance, "emacs")


def test_what_a_request_leaves_running_is_stopped_and_emacs_keeps_its_state(make: Make) -> None:
    instance = make()
    pid = instance.emacs_pid()
    instance.eval("state", "(defvar kept 5)")
    for number, leftover in enumerate(LEFT):
        leave(instance, f"left{number}", leftover)
        assert instance.eval(f"next{number}", "(list kept (+ 1 2))").result == "(5 3)"
        until(partial(logs, instance, f"left behind by request left{number}"))
    assert instance.emacs_pid() == pid


def test_what_hears_no_signal_is_ended_with_its_emacs_and_the_next_one_answers(make: Make) -> None:
    instance = make(EFRIT_KILL_GRACE_SECONDS="2")
    pid = instance.emacs_pid()
    leave(instance, "left", f"(run-with-timer 0.05 nil (lambda () (begun) {DEAF}))")
    assert instance.eval("next", "(+ 1 2)").result == "3"
    assert instance.emacs_pid() != pid
    assert "the last answer was that of left" in log(instance, "bridge")


def test_an_overflow_of_the_c_stack_ends_emacs_at_once(make: Make) -> None:
    instance = make()
    overflow = (
        "(progn (setq max-lisp-eval-depth 100000000 max-specpdl-size 100000000) (defun f (x) (1+ (f x))) (f 1))"
    )
    assert instance.put("over", overflow, options={"timeout": 600}).status_code == 201
    assert instance.answer("over").reason == "Interrupted"
    assert instance.eval("next", "(+ 1 2)").result == "3"
