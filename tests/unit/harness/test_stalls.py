"""What is stopped on a machine that is made to look busy, and that all of it goes on."""

from __future__ import annotations

import random
import sys
from dataclasses import dataclass

import psutil
import pytest

from tests import stalls
from tests.support.kube import until


@dataclass(eq=False)
class Stoppable:
    """A process. The edge: signals."""

    pid: int = 0
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


STOPPED_AGAIN = {7}
"""The process that a test stops while it is stopped."""


def made(share: float) -> stalls.Stalls[Stoppable]:
    return stalls.Stalls(random.Random(7), share, 2.0, STOPPED_AGAIN.__contains__)  # noqa: S311 - no secret


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


def test_what_a_test_has_stopped_meanwhile_stays_stopped() -> None:
    processes = [Stoppable(pid) for pid in range(6, 9)]
    stopping = made(1.0)
    stopping.step(processes, 0.0)
    stopping.step([], 2.0)
    assert [process.pid for process in processes if process.stopped] == [7]
    stopping.step(processes, 2.0)
    stopping.end()
    assert [process.pid for process in processes if process.stopped] == [7]


def test_a_process_that_is_stopped_a_second_time_is_told_from_one_that_is_stopped_once() -> None:
    with psutil.Popen(["sleep", "600"]) as process:
        try:
            assert not stalls.is_stopped_again(process.pid)
            process.suspend()
            until(lambda: process.status() == psutil.STATUS_STOPPED, "it is not stopped")
            assert not stalls.is_stopped_again(process.pid)
            process.suspend()
            assert stalls.is_stopped_again(process.pid)
        finally:
            process.kill()
    assert not stalls.is_stopped_again(process.pid)


def test_a_process_that_has_not_come_to_stop_yet_counts_as_stopped_once() -> None:
    with psutil.Popen(["sh", "-c", "while :; do :; done"]) as process:
        try:
            for _ in range(100):
                process.suspend()
                assert not stalls.is_stopped_again(process.pid)
                process.resume()
        finally:
            process.kill()


@pytest.mark.parametrize("code", [0, 3])
def test_the_exit_code_is_that_of_the_command_whose_own_words_are_left_alone(code: int) -> None:
    program = "import sys; sys.exit(int(sys.argv[1] == '--seed') * int(sys.argv[2]))"
    words = ["--seed", "5", "--longest", "0.01", sys.executable, "-c", program, "--seed", str(code)]
    assert stalls.main(words) == code
