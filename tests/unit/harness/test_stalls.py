"""What is stopped on a machine that is made to look busy, and that all of it goes on."""

from __future__ import annotations

import random
import sys
from dataclasses import dataclass

import psutil
import pytest

from tests import stalls


@dataclass(eq=False)
class Stoppable:
    """A process. The edge: signals."""

    stopped: bool = False
    ended: bool = False

    def status(self) -> str:
        return psutil.STATUS_STOPPED if self.stopped else psutil.STATUS_RUNNING

    def suspend(self) -> None:
        if self.ended:
            raise psutil.NoSuchProcess(1)
        self.stopped = True

    def resume(self) -> None:
        if self.ended:
            raise psutil.NoSuchProcess(1)
        self.stopped = False


def made(share: float) -> stalls.Stalls[Stoppable]:
    return stalls.Stalls(random.Random(7), share, longest=2.0)  # noqa: S311 - no secret


def test_a_share_of_the_processes_is_stopped_at_any_time_and_each_goes_on() -> None:
    processes = [Stoppable() for _ in range(40)]
    stopping = made(0.25)
    ever: set[Stoppable] = set()
    for now in range(200):
        stopping.step(processes, now / 10)
        stopped = {process for process in processes if process.stopped}
        assert 10 <= len(stopped) <= 11
        ever |= stopped
    assert len(ever) == 40
    stopping.end()
    assert not any(process.stopped for process in processes)


def test_nobody_is_stopped_for_longer_than_was_said() -> None:
    processes = [Stoppable() for _ in range(10)]
    stopping = made(1.0)
    stopping.step(processes, 0.0)
    assert all(process.stopped for process in processes)
    stopping.step([], 2.0)
    assert not any(process.stopped for process in processes)


@pytest.mark.parametrize("code", [0, 3])
def test_the_exit_code_is_that_of_the_command_whose_own_words_are_left_alone(code: int) -> None:
    program = "import sys; sys.exit(int(sys.argv[1] == '--seed') * int(sys.argv[2]))"
    words = ["--seed", "5", "--longest", "0.01", sys.executable, "-c", program, "--seed", str(code)]
    assert stalls.main(words) == code
