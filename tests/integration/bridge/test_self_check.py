"""An idle Emacs that would answer wrongly is found by its self-check and replaced, and the next request is right."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from efrit.protocol import RequestState, RestartReason
from tests.integration.bridge.conftest import Make
from tests.support.bridge_instance import Instance, until

QUIET = "(setq comp-enable-subr-trampolines nil native-comp-enable-subr-trampolines nil)"
"""Keeps an Emacs with a native compiler from compiling for each advised primitive."""

SABOTAGE = (
    '(advice-add \'prin1-to-string :override (lambda (&rest _) "7"))',
    "(advice-add 'read-from-string :override (lambda (&rest _) '(nil . 1000)))",
    "(advice-add 'secure-hash :override (lambda (&rest _) (make-string 64 ?0)))",
    '(advice-add \'json-serialize :override (lambda (&rest _) "{}"))',
    "(fset '+ #'-)",
)


def restarted(instance: Instance, count: int = 1) -> bool:
    restarts = instance.stats().emacs.restarted
    return restarts is not None and restarts.count >= count


@pytest.mark.parametrize("leftover", SABOTAGE)
def test_an_emacs_that_was_sabotaged_while_idle_is_restarted_and_the_next_answer_is_right(
    make: Make, leftover: str
) -> None:
    instance = make()
    pid = instance.emacs_pid()
    assert instance.eval("left", f"(progn {QUIET} (run-with-timer 0.1 nil (lambda () {leftover})) 1)").result == "1"
    until(partial(restarted, instance))
    assert instance.eval("next", '(list (+ 1 2) "é")').result == '(3 "é")'
    assert instance.emacs_pid() != pid
    restart = instance.stats().emacs.restarted
    assert restart is not None
    assert restart.reason is RestartReason.SELF_CHECK_FAILED
    assert "known form" in restart.message
    assert f"SelfCheckFailed: {restart.message}" in (instance.place / "bridge.log").read_text()


@pytest.fixture
def never_right(tmp_path: Path, lisp: Path) -> Iterator[Instance]:
    """Yield an instance whose init file sabotages each Emacs."""
    init = tmp_path / "init.el"
    init.write_text(f"{QUIET} {SABOTAGE[0]}")
    made = Instance(tmp_path / "instance", lisp, {"EFRIT_INIT_FILE": str(init)})
    try:
        made.start_bridge()
        made.spawn_emacs()
        yield made
    finally:
        made.stop()


def test_an_emacs_that_never_passes_claims_nothing_and_is_restarted_ever_later(
    never_right: Instance, tmp_path: Path
) -> None:
    assert never_right.put("waits", "(+ 1 2)").status_code == 201
    until(partial(restarted, never_right, 3))
    until(lambda: never_right.stats().emacs.self_check_problem)
    waiting = never_right.client.get("/readyz")
    assert (waiting.status_code, "fails its self-check" in waiting.text) == (503, True), waiting.text
    assert never_right.view("waits").state is RequestState.QUEUED
    (tmp_path / "init.el").write_text("")
    assert never_right.answer("waits").result == "3"
    assert restarted(never_right, 4)
