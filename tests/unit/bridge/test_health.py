"""What the probes say of each situation."""

import pytest

from efrit.bridge import health
from efrit.protocol.view import EmacsStats


def test_loops_that_go_round_are_alive_and_stuck_ones_are_named() -> None:
    assert health.liveness({"the queue": 100, "the supervisor": 99}, 101) == []
    assert "the queue" in health.liveness({"the queue": 0}, 100)[0]


@pytest.mark.parametrize(
    ("queue_open", "emacs", "word"),
    [
        (False, EmacsStats(alive=True, responsive=True), "queue"),
        (True, EmacsStats(), "not running"),
        (True, EmacsStats(alive=True), "respond"),
    ],
)
def test_each_obstacle_to_work_is_named(queue_open: bool, emacs: EmacsStats, word: str) -> None:
    assert word in health.readiness(queue_open=queue_open, emacs=emacs)[0]


def test_an_open_queue_and_a_responsive_emacs_are_ready() -> None:
    assert health.readiness(queue_open=True, emacs=EmacsStats(alive=True, responsive=True)) == []
