"""Which members of a pool an eviction leaves alone, and when that is written."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from efrit.api import EfritPool
from efrit.controller.decide.pool_disruption import disruption_budget
from efrit.controller.decide.pools import decide_pool
from efrit.controller.manifests.disruption_budget import build_disruption_budget
from efrit.controller.model.actions import ApplyDisruptionBudget, Record, RequeueAfter
from efrit.controller.model.pools import MemberView, PoolSnapshot
from efrit.controller.model.snapshots import Refusal
from tests.unit.controller.decide.test_pools import NOW, member, of, pool, snapshot

SECOND = timedelta(seconds=1)
LONG_AGO = NOW - timedelta(hours=1)


def budget(*members: str) -> dict[str, Any]:
    return build_disruption_budget(pool(), members)


def busy(name: str, seconds: float = 3600, **facts: Any) -> MemberView:
    return member(name, load=1, working_since=NOW - timedelta(seconds=seconds), **facts)


def apply(*members: str, create: bool = True) -> ApplyDisruptionBudget:
    return ApplyDisruptionBudget(("ns", "crew"), "u", budget(*members), create)


def unguarded(*members: MemberView, **facts: Any) -> PoolSnapshot:
    """Return a pool that guards nobody."""
    spec = {"replicas": 2, "disruptionBudget": "None"}
    crew = EfritPool.model_validate({**pool().model_dump(by_alias=True, exclude_unset=True), "spec": spec})
    return PoolSnapshot(crew, template={}, revision="new", members=members, listed=True, **facts)


@pytest.mark.parametrize(
    ("members", "claimed", "guarded"),
    [
        ([member("a"), busy("b")], (), ["b"]),
        ([busy("a", 2), busy("b", 1.9)], (), ["a"]),
        # Who drains has work to end; who is being deleted is not evicted any more.
        ([busy("a"), busy("b", deleting=True)], (), ["a"]),
        # Whoever has claimed a member may work in it without a request.
        ([member("a"), busy("b")], ("c",), ["b", "c"]),
    ],
)
def test_members_with_a_request_for_some_time_and_claimed_ones_are_guarded(
    members: list[MemberView], claimed: tuple[str, ...], guarded: list[str]
) -> None:
    actions = disruption_budget(snapshot(2, *members, claimed=claimed), NOW)
    assert of(actions, ApplyDisruptionBudget) == [apply(*guarded)]


def test_a_member_with_newer_work_is_reconciled_again_when_its_work_is_old_enough() -> None:
    assert disruption_budget(snapshot(2, busy("a", 0.5), busy("b", 1.5)), NOW) == [RequeueAfter(SECOND / 2)]


def test_a_clock_that_was_set_back_delays_nobodys_guard_for_longer_than_usual() -> None:
    assert disruption_budget(snapshot(1, busy("a", -3600)), NOW) == [apply("a")]
    written = NOW + timedelta(hours=1)
    assert disruption_budget(snapshot(1, busy("a"), budget_written=written), NOW) == [apply("a")]
    refused = snapshot(1, busy("a"), budget=None, budget_refusal=Refusal("exceeded quota", written))
    assert apply("a") in disruption_budget(refused, NOW)


def test_a_budget_is_written_only_when_it_changes() -> None:
    assert disruption_budget(snapshot(1, busy("a"), budget=budget("a")), NOW) == []


def test_a_budget_is_written_every_few_seconds_at_most() -> None:
    picture = snapshot(1, busy("a"), busy("b"), budget=budget("a"), budget_written=NOW - 2 * SECOND)
    assert disruption_budget(picture, NOW) == [RequeueAfter(3 * SECOND)]
    assert disruption_budget(picture, NOW + 3 * SECOND) == [apply("a", "b")]


def test_one_that_is_not_known_is_written_though_nobody_is_guarded() -> None:
    assert disruption_budget(snapshot(1, member("a"), budget=None), NOW) == [apply()]


def test_nothing_is_written_before_all_open_requests_are_known() -> None:
    picture = snapshot(1, member("a"), budget=None, listed=False)
    assert of(decide_pool(picture, NOW), ApplyDisruptionBudget) == []


def test_a_refused_one_is_tried_again_after_a_pause_and_an_event_says_why() -> None:
    refused = {"budget": None, "budget_refusal": Refusal("exceeded quota: few", NOW - 4 * SECOND)}
    picture = snapshot(1, busy("a"), **refused)
    assert disruption_budget(picture, NOW) == [RequeueAfter(6 * SECOND)]
    record, written = disruption_budget(picture, NOW + 6 * SECOND)
    assert written == apply("a")
    assert isinstance(record, Record)
    assert (record.type, record.reason) == ("Warning", "DisruptionBudgetRefused")
    assert "exceeded quota: few" in record.message


def test_a_pool_that_guards_nobody_creates_none_and_empties_the_one_that_there_is() -> None:
    picture = unguarded(busy("a"), claimed=("c",), budget=budget("a"), budget_written=LONG_AGO)
    assert disruption_budget(picture, NOW) == [apply(create=False)]
    assert disruption_budget(unguarded(busy("a", 1), budget=budget()), NOW) == []
