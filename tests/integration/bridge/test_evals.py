"""The table of evals behind the bridge: each ends as its row says, and the next eval is answered rightly.

The rows that end Emacs are in test_evals_ends.py, which runs beside this file.
"""

from __future__ import annotations

from tests.integration.bridge.conftest import Make
from tests.support.eval_player import problems, staying


def test_each_eval_ends_as_the_table_says_and_the_next_is_answered_rightly(make: Make) -> None:
    assert not (wrong := problems(make(), staying())), wrong
