"""Without renewals no controller leads, and no time counts against it."""

from __future__ import annotations

from tests.support.faults.availability import merge_spans, silent_spans, total_seconds


def test_a_leader_that_renews_its_lease_leads_all_the_time() -> None:
    assert silent_spans([0.0, 5.0, 10.0, 15.0], 20.0) == ()


def test_a_gap_between_renewals_is_without_a_leader() -> None:
    assert silent_spans([2.0, 7.0, 40.0, 45.0], 50.0) == ((7.0, 40.0),)


def test_before_the_first_renewal_and_after_the_last_nobody_leads_either() -> None:
    assert silent_spans([30.0], 60.0) == ((0.0, 30.0), (30.0, 60.0))


def test_what_was_renewed_in_any_order_is_put_in_order() -> None:
    assert silent_spans([9.0, 1.0, 5.0], 12.0) == ()


def test_what_comes_after_the_end_is_not_counted() -> None:
    assert silent_spans([1.0, 30.0], 20.0) == ((1.0, 20.0),)


def test_spans_are_added_up() -> None:
    assert total_seconds(((0.0, 2.5), (10.0, 11.0))) == 3.5


def test_spans_that_overlap_are_one() -> None:
    assert merge_spans([(30.0, 50.0), (2.0, 20.0), (15.0, 18.0), (20.0, 25.0)]) == ((2.0, 25.0), (30.0, 50.0))
