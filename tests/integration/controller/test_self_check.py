"""An instance whose Emacs would answer wrongly: it is restarted, and its condition and one event say so."""

from __future__ import annotations

from tests.support.kube import Json, until
from tests.support.site import Site

WRONG = (
    "(progn (setq comp-enable-subr-trampolines nil native-comp-enable-subr-trampolines nil)"
    ' (run-with-timer 0.1 nil (lambda () (advice-add \'prin1-to-string :override (lambda (&rest _) "7")))) 1)'
)


def test_an_emacs_that_would_answer_wrongly_is_restarted_and_the_instance_says_so(site: Site) -> None:
    site.operator().start()
    site.instance()
    assert site.answer(site.ask(WRONG))["result"] == "1"
    condition = site.until_condition("one", "SelfCheckPassed", status="True")
    assert condition["reason"] == "Passed"
    assert "Emacs was restarted at " in condition["message"]
    assert "a known form was answered with" in condition["message"]

    def restarts() -> list[Json]:
        events = site.kube.list("events", site.namespace, fieldSelector="involvedObject.name=one")
        return [event for event in events if event["reason"] == "EmacsRestarted"]

    (event,) = until(restarts, "no event tells of it")
    assert event["type"] == "Warning"
    assert event["message"] in condition["message"]
    assert site.answer(site.ask("(+ 1 2)"))["result"] == "3"
    site.until_condition("one", "Ready", status="True")
