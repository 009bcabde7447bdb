"""api/conditions.py: a condition of ours has its place among those that somebody else has written."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from efrit.api import ConditionStatus, claim, instance, pool, request, with_condition
from efrit.api.conditions import MAX_CONDITIONS, OWN_TYPES, Condition

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def foreign(count: int) -> tuple[Condition, ...]:
    return tuple(
        Condition(type=f"X{number}", status=ConditionStatus.TRUE, reason="R", message="", last_transition_time=NOW)
        for number in range(count)
    )


def with_ours(conditions: tuple[Condition, ...], *kinds: str, most: int = MAX_CONDITIONS) -> tuple[Condition, ...]:
    for kind in kinds:
        conditions = with_condition(
            conditions, kind, ConditionStatus.TRUE, "R", "", generation=1, now=NOW + timedelta(days=1), most=most
        )
    return conditions


@pytest.mark.parametrize("first", [(), ("Complete",), ("Complete", "Succeeded")])
def test_ours_take_the_place_of_others_where_there_are_as_many_as_may_be(first: tuple[str, ...]) -> None:
    """Otherwise no status could be written any more: an answer would never be."""
    full = (*with_ours((), *first), *foreign(MAX_CONDITIONS - len(first)))

    types = [condition.type for condition in with_ours(full, "Complete", "Succeeded")]

    assert len(types) == len(set(types)) == MAX_CONDITIONS
    assert {"Complete", "Succeeded"} < set(types)


def test_others_keep_their_place_where_there_is_room() -> None:
    assert len(with_ours(foreign(6), "Complete", "Succeeded")) == MAX_CONDITIONS
    assert len(with_ours(foreign(12), "Ready", "Updated", most=instance.MAX_CONDITIONS)) == 14


def test_all_types_that_the_operator_writes_are_known() -> None:
    of_instances = (instance.READY, instance.QUEUE_HEALTHY, instance.MODEL_READY, instance.SELF_CHECK_PASSED)
    more_of_instances = (instance.EMACS_RESPONSIVE, instance.SUSPENDED, instance.UPDATED)
    of_pools = (pool.AVAILABLE, pool.PROGRESSING, pool.BACKLOGGED, pool.SCALING_ACTIVE, pool.SCALING_LIMITED)
    of_requests = (request.COMPLETE, request.SUCCEEDED)

    assert {*of_instances, *more_of_instances, *of_pools, *of_requests, claim.CLAIM_READY} == OWN_TYPES
