"""When Emacs is interrupted and when it is killed: a table of moments."""

import pytest

from efrit.bridge.overrun import (
    EmacsAlive,
    Interrupt,
    Kill,
    Order,
    Patience,
    Run,
    Step,
    Wake,
    decide,
    next_look,
)
from efrit.protocol import Reason, request_id

A = request_id("a")
PATIENCE = Patience(grace=5, stall=120)
EMACS = EmacsAlive(since=0, heard=100)
TIMED_OUT = Order(A, Reason.TIMED_OUT)


@pytest.mark.parametrize(
    ("run", "interrupted", "now", "expected"),
    [
        pytest.param(Run(A, 100, 30), {}, 129.9, [], id="in time"),
        pytest.param(Run(A, 100, 30), {}, 130, [TIMED_OUT], id="over its time"),
        pytest.param(Run(A, 100, 30, 130), {}, 130, [Interrupt(A)], id="order written"),
        pytest.param(Run(A, 100, 30, 130), {A: 130}, 130.9, [], id="interrupted a moment ago"),
        pytest.param(Run(A, 100, 30, 130), {A: 130}, 131, [Interrupt(A)], id="interrupted a second ago"),
        pytest.param(Run(A, 100, 30, 130), {A: 134}, 135, [Kill(A)], id="grace is over"),
        pytest.param(Run(A, 100, 30, 110), {}, 110, [Interrupt(A)], id="cancelled before its time"),
        pytest.param(Run(A, 100, 30, 50), {}, 110, [Interrupt(A)], id="never killed before it was asked"),
    ],
)
def test_one_request_at_one_moment(run: Run, interrupted: dict[str, float], now: float, expected: list[Step]) -> None:
    assert decide([run], EMACS, {request_id(k): v for k, v in interrupted.items()}, PATIENCE, now) == expected


def test_without_emacs_nothing_is_done() -> None:
    assert decide([Run(A, 0, 1, 0)], None, {}, PATIENCE, 1000) == []
    assert next_look([Run(A, 0, 1, 0)], None, {}, 5) is None


def test_a_new_emacs_gets_the_whole_time_again() -> None:
    young = EmacsAlive(since=200, heard=200)
    assert decide([Run(A, 100, 30)], young, {}, PATIENCE, 229) == []
    assert decide([Run(A, 100, 30, 130)], young, {A: 201}, PATIENCE, 204.9) == [Interrupt(A)]
    assert decide([Run(A, 100, 30, 130)], young, {A: 204}, PATIENCE, 205) == [Kill(A)]


def test_silence_is_believed_only_while_nothing_runs() -> None:
    assert decide([], EMACS, {}, PATIENCE, 102.9) == []
    assert decide([], EMACS, {}, PATIENCE, 103) == [Wake()]
    assert decide([], EMACS, {}, PATIENCE, 219) == [Wake()]
    assert decide([], EMACS, {}, PATIENCE, 220) == [Kill(None)]
    assert decide([Run(A, 100, 500)], EMACS, {}, PATIENCE, 300) == []


def test_the_next_look_is_at_the_next_deadline() -> None:
    assert next_look([], EMACS, {}, 5) is None
    assert next_look([Run(A, 100, 30)], EMACS, {}, 5) == 130
    assert next_look([Run(A, 100, 30, 130)], EMACS, {A: 133.5}, 5) == 134.5
    assert next_look([Run(A, 100, 30, 130)], EMACS, {A: 134.5}, 5) == 135
