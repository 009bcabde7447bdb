"""How often a test that waits asks: its polls take processor time from what it waits for."""

from __future__ import annotations

from tests.support.timeout import LONGEST_POLL_SECONDS, SHORTEST_POLL_SECONDS, poll_interval


def test_a_condition_is_polled_often_at_first() -> None:
    assert poll_interval(0.0) == poll_interval(0.2) == SHORTEST_POLL_SECONDS


def test_the_polls_delay_a_wait_by_a_fifth_at_most() -> None:
    assert all(poll_interval(waited) <= waited / 5 for waited in (0.25, 0.5, 1.0, 10.0, 60.0))


def test_a_wait_of_ten_seconds_has_fewer_than_fifty_polls() -> None:
    waited, polls = 0.0, 0
    while waited < 10:
        waited += poll_interval(waited)
        polls += 1
    assert polls < 50


def test_a_long_wait_is_polled_at_a_steady_rate() -> None:
    assert poll_interval(60) == poll_interval(3600) == LONGEST_POLL_SECONDS
