"""The evals of the table that end Emacs, behind the bridge: another Emacs answers the next one."""

from __future__ import annotations

from tests.integration.bridge.conftest import Make
from tests.support.eval_player import ending, problems


def test_each_eval_that_ends_emacs_is_answered_and_another_emacs_answers_the_next(make: Make) -> None:
    assert not (wrong := problems(make(EFRIT_KILL_GRACE_SECONDS="4"), ending())), wrong
