"""What whoever waits on this machine does about an Emacs whose self-check fails."""

from __future__ import annotations

import signal
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, cast

import pytest

from efrit.backend.local.daemon import Daemon
from efrit.backend.local.health import STALL_SECONDS, Health
from efrit.queue.process_sample import Sample


@dataclass
class Running:
    """An Emacs that only takes signals."""

    pid: int = 2**22
    stopped: bool = False
    signals: list[signal.Signals] = field(default_factory=list)

    def send(self, number: signal.Signals) -> bool:
        self.signals.append(number)
        return True


@dataclass
class Machine:
    """The edge of this machine: one Emacs, its heartbeat, how many requests it has begun."""

    emacs: Running = field(default_factory=Running)
    kills: int = 0
    begun: int = 0
    seconds: int = 0
    fields: dict[str, Any] = field(default_factory=dict)

    @property
    def files(self) -> Machine:
        return self

    def running(self) -> Running:
        return self.emacs

    def kill(self) -> None:
        self.kills += 1

    def counts(self) -> tuple[int, int, float]:
        return 0, self.begun, 0.0

    def heartbeat(self) -> dict[str, Any]:
        now = datetime.fromtimestamp(self.seconds, UTC).isoformat()
        return {"boot": "one", "time": now, "state": "idle", "current": None, **self.fields}


def check(problem: str | None = None) -> dict[str, Any]:
    return {"self_check": {"passed": problem is None, "time": "2026-01-03T18:30:00.000Z", "problem": problem}}


def looked(machine: Machine, seconds: int = 0) -> Health:
    """Return a health that has looked each second, from the first until so many have passed."""
    health = Health(cast(Daemon, machine))
    for second in range(seconds + 1):
        machine.seconds = second
        health.check(float(second))
    return health


def test_an_idle_emacs_whose_self_check_fails_is_ended() -> None:
    machine = Machine(fields=check("an answer was wrong"))
    assert (looked(machine).problem, machine.kills) == ("an answer was wrong", 1)


@pytest.mark.parametrize(
    ("begun", "fields"),
    [
        pytest.param(0, check(), id="it passes"),
        pytest.param(0, {}, id="an older Emacs"),
        pytest.param(0, {"self_check": "broken"}, id="no report"),
        pytest.param(0, {"self_check": None, "attended": True}, id="a person works in it"),
        pytest.param(1, {**check("wrong"), "state": "busy", "current": "a"}, id="a request runs"),
        pytest.param(1, {**check("wrong"), "state": "busy"}, id="a session waits for its model"),
    ],
)
def test_others_are_left_alone(begun: int, fields: dict[str, Any]) -> None:
    machine = Machine(begun=begun, fields=fields)
    assert (looked(machine, 30).problem, machine.kills) == (None, 0)


def silent(machine: Machine, cpu: float, pause: float) -> float:
    """Return after how many seconds an Emacs that uses so much CPU is ended, looked at again after each PAUSE."""
    health, now = Health(cast(Daemon, machine), lambda pid: Sample("R", now * cpu)), 0.0
    while not machine.kills:
        assert now < STALL_SECONDS + 2 * pause
        health.check(now)
        now += pause
    return now - pause


@pytest.mark.parametrize("pause", [1.0, 1.2])
def test_a_hung_emacs_is_ended_early_enough_for_the_next_to_answer_within_ten_seconds(
    pause: float,
) -> None:
    machine = Machine()
    ended = silent(machine, 1.0, pause)
    assert machine.emacs.signals.count(signal.SIGUSR2) >= 3
    assert signal.SIGUSR1 in machine.emacs.signals[1:], "code may have set debug-on-event"
    # Whoever waits looks first after a quarter of a second; another Emacs serves within two.
    assert 0.25 + ended + 2 < 10


def test_a_silent_emacs_that_gets_no_cpu_is_spared() -> None:
    assert silent(Machine(), 0.0, 1.0) == STALL_SECONDS


def test_sessions_that_do_not_end_keep_an_emacs_that_fails_for_a_while_only() -> None:
    machine = Machine(begun=1, fields={**check("wrong"), "state": "busy"})
    looked(machine, int(STALL_SECONDS))
    assert machine.kills == 1


def test_an_idle_emacs_that_makes_no_self_check_is_ended() -> None:
    machine = Machine(fields=check())
    assert "no self-check for 60 s" in str(looked(machine, 60).problem)
    assert machine.kills == 1
