"""The time that the controller goes by is the API server's, whatever the clock of its own node says."""

from __future__ import annotations

from datetime import datetime, timedelta
from email.utils import format_datetime

import pytest

from efrit.controller.cluster_clock import LONGEST_CALL_SECONDS, ClusterClock
from tests.support.factory import NOW

HOUR = timedelta(hours=1)
SECOND = timedelta(seconds=1)


class Clocks:
    """The clocks of the node and of the API server, each as far off as a test says."""

    def __init__(self) -> None:
        self.passed = 0.0
        self.node_off = self.server_off = timedelta()
        self.clock = ClusterClock(self.node, lambda: self.passed)

    @property
    def now(self) -> datetime:
        return NOW + timedelta(seconds=self.passed)

    def node(self) -> datetime:
        return self.now + self.node_off

    def answer(self, seconds: float = 0.1, *, date: str | None = None) -> None:
        """Have the API server answer a call at its end."""
        server = (self.now + self.server_off).replace(microsecond=0)
        self.passed += seconds
        self.clock.observe(date or format_datetime(server, usegmt=True), seconds)

    @property
    def off(self) -> timedelta:
        return self.clock() - self.now


@pytest.fixture
def clocks() -> Clocks:
    return Clocks()


def test_before_the_first_answer_it_is_the_time_of_the_node(clocks: Clocks) -> None:
    assert clocks.clock() == NOW
    clocks.passed += 0.25
    assert clocks.clock() == NOW + timedelta(seconds=0.25)


@pytest.mark.parametrize("hours", [-24, -1, 1, 24])
def test_a_clock_of_the_node_that_is_set_changes_nothing(clocks: Clocks, hours: int) -> None:
    clocks.answer()
    clocks.node_off = timedelta(hours=hours)
    clocks.passed += 30.4
    assert clocks.off == timedelta()
    for _ in range(3):
        clocks.answer()
        clocks.passed += 600
        assert clocks.off == timedelta()


@pytest.mark.parametrize("hours", [-24, -1, 1, 24])
def test_a_clock_of_the_node_that_is_wrong_from_the_beginning_is_put_right_by_the_first_answer(
    clocks: Clocks, hours: int
) -> None:
    clocks.node_off = timedelta(hours=hours)
    clocks.answer()
    assert abs(clocks.off) <= SECOND


def test_the_time_of_the_node_counts_where_the_api_server_agrees(clocks: Clocks) -> None:
    clocks.answer()
    clocks.node_off = timedelta(milliseconds=800)
    clocks.answer()
    assert clocks.off == timedelta(milliseconds=800)


def test_a_machine_that_has_slept_goes_on_at_the_time_of_the_api_server(clocks: Clocks) -> None:
    clocks.answer()
    clocks.node_off = clocks.server_off = 8 * HOUR
    clocks.answer()
    assert clocks.off == 8 * HOUR


def test_an_answer_that_was_long_on_its_way_changes_nothing(clocks: Clocks) -> None:
    clocks.answer()
    clocks.answer(LONGEST_CALL_SECONDS)
    assert clocks.off == timedelta()
    clocks.server_off = HOUR
    clocks.answer(LONGEST_CALL_SECONDS + 1)
    assert clocks.off == timedelta()


@pytest.mark.parametrize("date", ["-", "yesterday", "Sat, 99 Nov 2026 00:00:00 GMT"])
def test_where_no_answer_says_the_time_it_is_that_of_the_node(clocks: Clocks, date: str) -> None:
    clocks.node_off = HOUR
    clocks.answer(date=date)
    assert clocks.off == HOUR


@pytest.mark.parametrize("date", ["-", "yesterday", "Sat, 99 Nov 2026 00:00:00 GMT"])
def test_one_answer_that_does_not_say_the_time_makes_that_of_the_node_count_no_more(
    clocks: Clocks, date: str
) -> None:
    clocks.node_off = HOUR
    clocks.answer()
    for _ in range(3):
        clocks.answer(date=date)
        clocks.passed += 600
        assert abs(clocks.off) <= SECOND
