"""How many members a pool is to have: by its open requests, within bounds, at once upwards and slowly downwards."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from efrit.api import EfritPool
from efrit.controller.decide.pool_scaling import scaling
from efrit.controller.model.pools import Growth, MemberView, PoolSnapshot, Recommendation

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


def picture(
    *,
    pending: int = 0,
    loads: tuple[int, ...] = (),
    warm: int | str = 0,
    autoscaling: dict[str, Any] | None = None,
    **facts: Any,
) -> PoolSnapshot:
    limits = {"maxReplicas": 10, "scaleDown": {"stabilizationSeconds": 60}, **(autoscaling or {})}
    spec = {"autoscaling": limits, "warm": {"spares": warm}}
    pool = EfritPool.model_validate({"metadata": {"name": "crew", "namespace": "ns"}, "spec": spec})
    members = tuple(MemberView(f"m{number}", "u", "1", "r", load=load) for number, load in enumerate(loads))
    known: dict[str, Any] = {"listed": True, "desired": len(loads), **facts}
    return PoolSnapshot(pool, {}, "r", members, pending=pending, **known)


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        # A pool at zero wakes for one request.
        ({"pending": 1}, 1),
        ({}, 0),
        # What runs counts as well as what waits.
        ({"pending": 2, "loads": (1, 1)}, 4),
        ({"loads": (1, 1, 1)}, 3),
        ({"pending": 5, "autoscaling": {"targetLoadPerInstance": 2}}, 3),
        ({"pending": 50}, 10),
        ({"autoscaling": {"minReplicas": 2}}, 2),
        # Spares come on top of what is needed, and are not what is needed.
        ({"warm": 2}, 2),
        ({"pending": 3, "warm": 2}, 5),
        ({"loads": (1, 0, 0), "warm": 2}, 3),
        ({"pending": 50, "warm": 5}, 10),
        # A percentage is one of what is needed, rounded up.
        ({"pending": 4, "warm": "50%"}, 6),
        ({"pending": 1, "warm": "10%"}, 2),
        ({"warm": "50%"}, 0),
        ({"claims": 2, "warm": "100%"}, 4),
    ],
)
def test_as_many_members_as_open_requests_need(given: dict[str, Any], wanted: int) -> None:
    assert scaling(picture(**given), NOW).wanted == wanted


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"pending": 1}, "1 open request: more than 0 members."),
        ({"pending": 2, "loads": (1,)}, "3 open requests: more than 1 member."),
        ({"claims": 1}, "0 open requests and 1 waiting claim: more than 0 members."),
        (
            {"pending": 2, "claims": 2, "warm": 3},
            "2 open requests, 2 waiting claims and 3 spares: more than 0 members.",
        ),
        ({"loads": (1, 0)}, "1 open request: fewer than 2 members."),
    ],
)
def test_a_change_of_the_size_says_what_asks_for_it(given: dict[str, Any], reason: str) -> None:
    assert scaling(picture(**given), NOW).reason == reason


def test_a_size_that_is_given_is_the_size() -> None:
    pool = EfritPool.model_validate({"metadata": {"name": "crew"}, "spec": {"replicas": 4}})
    sized = scaling(PoolSnapshot(pool, {}, "r", pending=100, listed=True), NOW)
    assert (sized.wanted, sized.recommendation, sized.limited) == (4, None, None)


def test_the_pool_shrinks_once_it_has_needed_less_for_as_long_as_it_is_to_wait() -> None:
    needed = (Recommendation(ago(50), 5), Recommendation(ago(10), 3))
    sized = scaling(picture(loads=(1, 0, 0, 0, 0), recommendations=needed), NOW)
    assert (sized.wanted, sized.requeue_after) == (5, timedelta(seconds=10))
    later = scaling(picture(loads=(1, 0, 0, 0, 0), recommendations=needed), NOW + timedelta(seconds=10))
    assert (later.wanted, later.requeue_after) == (3, timedelta(seconds=40))
    at_last = scaling(picture(loads=(1, 0, 0), recommendations=needed), NOW + timedelta(seconds=50))
    assert (at_last.wanted, at_last.requeue_after) == (1, None)


def test_work_that_comes_and_goes_moves_no_members() -> None:
    needed = (Recommendation(ago(1), 5),)
    assert scaling(picture(loads=(0, 0, 0, 0, 0), recommendations=needed), NOW).wanted == 5
    assert scaling(picture(pending=5, loads=(0, 0, 0, 0, 0), recommendations=needed), NOW).wanted == 5


def test_work_that_comes_and_goes_for_an_hour_changes_the_size_once() -> None:
    recommendations: tuple[Recommendation, ...] = ()
    sizes = [0]
    for step in range(180):
        now, pending = NOW + timedelta(seconds=20 * step), 5 if step % 2 == 0 else 0
        loads = (0,) * sizes[-1]
        sized = scaling(picture(pending=pending, loads=loads, recommendations=recommendations), now)
        assert sized.recommendation is not None
        recommendations = (*recommendations, sized.recommendation)
        sizes.append(sized.wanted)
    assert sizes == [0, *[5] * 180]


def test_members_are_added_no_faster_than_they_may_be() -> None:
    limits = {"scaleUp": {"maxPerMinute": 3}}
    first = scaling(picture(pending=8, autoscaling=limits), NOW)
    assert (first.wanted, first.limited and first.limited.reason) == (3, "ScaleUpRate")
    growths = (Growth(ago(40), 3),)
    second = scaling(picture(pending=5, loads=(1, 1, 1), autoscaling=limits, growths=growths), NOW)
    assert (second.wanted, second.requeue_after) == (3, timedelta(seconds=20))
    third = scaling(
        picture(pending=5, loads=(1, 1, 1), autoscaling=limits, growths=growths), NOW + timedelta(seconds=20)
    )
    assert third.wanted == 6


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"pending": 50}, "AtMaximum"),
        ({"autoscaling": {"minReplicas": 2}}, "AtMinimum"),
        ({"pending": 1}, "WithinBounds"),
    ],
)
def test_the_condition_says_which_bound_holds(given: dict[str, Any], reason: str) -> None:
    limited = scaling(picture(**given), NOW).limited
    assert limited is not None
    assert limited.reason == reason


def test_before_all_requests_are_known_the_pool_keeps_its_size() -> None:
    sized = scaling(picture(loads=(0, 0, 0), desired=3, listed=False), NOW)
    assert (sized.wanted, sized.recommendation) == (3, None)
    unknown = scaling(picture(loads=(0, 0), desired=None, listed=False), NOW)
    assert unknown.wanted == 2


def test_a_pool_has_no_more_members_than_its_maximum_however_many_it_needed_before() -> None:
    """The maximum was lowered; or whoever may write the status wrote how many it had."""
    earlier = (Recommendation(NOW - timedelta(seconds=10), 8),)
    for desired in (8, 2**62):
        sized = scaling(
            picture(loads=(1,) * 8, desired=desired, recommendations=earlier, autoscaling={"maxReplicas": 3}), NOW
        )
        assert (sized.wanted, sized.limited and sized.limited.reason) == (3, "AtMaximum")
    idle = scaling(picture(desired=8, recommendations=earlier, autoscaling={"maxReplicas": 3}), NOW)
    assert (idle.wanted, idle.reason) == (3, "autoscaling.maxReplicas is 3.")
