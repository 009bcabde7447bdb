"""support/bench/flow_history.py: what a request of a pool waited for, and how equal the shares of flows were."""

from __future__ import annotations

import pytest

from tests.support.bench.flow_history import FlowHistory, Seen, Waits, jain_of, windows


def seen(sent: float, bound: float, ended: float, member: str = "m0", flow: str = "loud", work: float = 2.0) -> Seen:
    return Seen(flow, sent, sent + 0.5, bound, member, ended, work)


def waits(history: FlowHistory, **requests: Seen) -> Waits:
    history.requests |= requests
    return history.waits("mine")


def test_alone_a_request_waits_for_the_processors_alone() -> None:
    assert waits(FlowHistory(1, 1), mine=seen(0, 1, 4)) == Waits(place=0, behind=0, work=2, processors=2)


def test_where_all_places_are_taken_it_waits_until_one_is_free() -> None:
    before, mine = seen(-3, -2, 3), seen(0, 3.25, 6)
    assert waits(FlowHistory(1, 1), before=before, mine=mine) == Waits(2.5, 0, 2, 1.5)
    assert waits(FlowHistory(2, 1), before=before, mine=mine) == Waits(0, 0, 2, 4)


def test_at_a_member_with_two_places_it_waits_behind_what_that_was_given_before() -> None:
    before, mine, elsewhere = seen(-3, -2, 3), seen(0, 1, 6), seen(-3, -2, 4, "m1")
    assert waits(FlowHistory(2, 2), before=before, mine=mine, elsewhere=elsewhere) == Waits(0, 2, 2, 2)


def test_what_has_not_ended_has_no_waits() -> None:
    with pytest.raises(ValueError, match="has not ended"):
        waits(FlowHistory(1, 1), mine=Seen("quiet", 0, 1))


def test_shares_are_compared_while_each_flow_has_some_that_wait() -> None:
    history = FlowHistory(1, 1)
    history.requests = {
        name: seen(0, bound, bound + 1, flow=name[0])
        for name, bound in (("a0", 1.0), ("b0", 2.0), ("a1", 3.0), ("b1", 4.0), ("b2", 5.0))
    }
    assert history.ends_while_all_wait("ab") == ["a", "b"]


def test_the_index_is_1_for_equal_shares_and_smaller_the_less_equal_they_are() -> None:
    assert jain_of("abab", "ab") == 1
    assert jain_of("aaaa", "ab") == 0.5
    assert [jain_of(window, "ab") for window in windows("aabb", 2)] == [0.5, 1, 0.5]
