"""When the self-check of an Emacs is a reason to end it: heartbeats in, a cause or none out."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from efrit.protocol import RestartReason
from efrit.queue.self_check import (
    FREE_RESTARTS,
    LONGEST_DELAY_SECONDS,
    OVERDUE_SECONDS,
    RECOVERED_SECONDS,
    RestartCause,
    SelfCheck,
    SelfCheckMonitor,
)

STALL = 120.0
LISP = Path(__file__).parents[3] / "images/emacs/lisp/efrit-server-self-check.el"
FAILED = RestartCause(RestartReason.SELF_CHECK_FAILED, "wrong")


def passed(checked: object, *, idle: bool = True, boot: str = "one") -> SelfCheck:
    return SelfCheck(boot, idle, checked)


def failed(checked: object, *, idle: bool = True, boot: str = "one") -> SelfCheck:
    return SelfCheck(boot, idle, checked, passed=False, problem="wrong")


def watched(*heartbeats: tuple[float, SelfCheck]) -> SelfCheckMonitor:
    """Return a monitor that has seen these heartbeats, each with the time it came."""
    monitor = SelfCheckMonitor(STALL)
    for now, heartbeat in heartbeats:
        monitor.observe(heartbeat, now)
    return monitor


@pytest.mark.parametrize(
    ("heartbeats", "expected"),
    [
        pytest.param([], None, id="nothing heard"),
        pytest.param([(0, passed(0)), (50, passed(50)), (70, passed(70))], None, id="it passes"),
        pytest.param([(0, passed(0)), (1, failed(1))], FAILED, id="it fails while idle"),
        pytest.param([(0, failed(0))], FAILED, id="it failed before anybody looked"),
        pytest.param([(0, passed(0)), (1, failed(1)), (2, passed(2))], None, id="it passes again"),
        pytest.param([(0, failed(0)), (1, passed(0, boot="two"))], None, id="the next Emacs passes"),
        pytest.param([(0, failed(0)), (1, SelfCheck("one", idle=True))], None, id="a person has come"),
        pytest.param([(0, failed(0, idle=False)), (119, failed(119, idle=False))], None, id="sessions are under way"),
        pytest.param([(0, failed(0, idle=False)), (120, failed(120, idle=False))], FAILED, id="sessions do not end"),
        pytest.param([(0, failed(0, idle=False)), (5, failed(5))], FAILED, id="sessions have ended"),
        pytest.param([(0, passed(0)), (59.9, passed(0))], None, id="no check, not for long"),
        pytest.param([(0, passed(0)), (60, passed(0, idle=False))], None, id="no check while a request runs"),
        pytest.param(
            [(0, passed(0)), (60, passed(0, idle=False)), (61, passed(0))], None, id="no check yet after a request"
        ),
        pytest.param(
            [(0, SelfCheck("one", idle=True)), (90, SelfCheck("one", idle=True))], None, id="no checks at all"
        ),
        pytest.param([(0, passed(0)), (90, passed(0, boot="two"))], None, id="another Emacs"),
    ],
)
def test_what_heartbeats_say_of_an_emacs(
    heartbeats: list[tuple[float, SelfCheck]], expected: RestartCause | None
) -> None:
    assert watched(*heartbeats).cause(1000) == expected


def test_an_idle_emacs_that_beats_and_makes_no_check_is_ended() -> None:
    monitor = watched((0, passed(0)), (OVERDUE_SECONDS, passed(0)))
    assert monitor.cause(OVERDUE_SECONDS) == RestartCause(
        RestartReason.SELF_CHECK_OVERDUE, "no self-check for 60 s while it was idle"
    )


def test_a_silent_emacs_is_not_overdue() -> None:
    assert watched((0, passed(0)), (1, passed(0))).cause(10_000) is None


def test_the_problem_is_reported_while_the_check_fails() -> None:
    monitor = watched((0, passed(0)))
    assert monitor.problem is None
    monitor.observe(failed(1), 1)
    assert monitor.problem == "wrong"
    monitor.observe(passed(2), 2)
    assert monitor.problem is None


def restarted_at_once(monitor: SelfCheckMonitor, now: float) -> float:
    """Return when an Emacs that fails from `now` on is ended."""
    start, boot = now, f"boot{monitor.restarts}{now}"
    while monitor.cause(now) is None:
        monitor.observe(failed(now, boot=boot), now)
        now += 1
        assert now - start < 1000
    monitor.ended(now)
    return now


def test_an_emacs_that_never_passes_is_ended_less_and_less_often() -> None:
    monitor, now, waits = SelfCheckMonitor(STALL), 0.0, []
    for _ in range(FREE_RESTARTS + 7):
        ended = restarted_at_once(monitor, now)
        waits.append(round(ended - now - 1))
        now = ended + 3
    assert waits == [0, 0, 0, 10, 20, 40, 80, 160, 300, 300]
    assert monitor.restarts == FREE_RESTARTS + 7


def test_an_emacs_that_requests_have_broken_is_ended_at_once_however_often() -> None:
    """Each passes its check, answers a request, and fails after that: two failures, a second apart."""
    monitor, now = SelfCheckMonitor(STALL), 0.0
    for number in range(4 * FREE_RESTARTS):
        boot = f"boot{number}"
        monitor.observe(passed(now, boot=boot), now)
        monitor.observe(SelfCheck(boot, True, now + 1, passed=False, problem="wrong", worked=True), now + 1)
        assert monitor.cause(now + 1) == FAILED
        monitor.ended(now + 1)
        now += 4
    assert monitor.restarts == 4 * FREE_RESTARTS


def test_after_a_long_time_without_trouble_the_first_restart_comes_at_once() -> None:
    monitor, now = SelfCheckMonitor(STALL), 0.0
    for _ in range(FREE_RESTARTS + 2):
        now = restarted_at_once(monitor, now)
    now += RECOVERED_SECONDS + LONGEST_DELAY_SECONDS + 1
    assert restarted_at_once(monitor, now) == now + 1
    assert monitor.restarts == 1


def test_emacs_checks_itself_far_more_often_than_it_must() -> None:
    match = re.search(r"defconst efrit-self-check-seconds ([0-9.]+)", LISP.read_text())
    assert match is not None
    assert float(match[1]) <= OVERDUE_SECONDS / 5
