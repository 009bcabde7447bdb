"""decide/placement.py: which instance gets a request that names none."""

from __future__ import annotations

from typing import Any

import pytest

from efrit.api.pool import PlacementStrategy
from efrit.controller.decide.placement import choose_member, instance_to_wake, least_loaded
from efrit.controller.model.snapshots import PoolPlace
from efrit.protocol.view import EmacsStats
from tests.support.factory import away, connected, instance, ready, stats

ASLEEP = {"suspendedIdle": True}


def names(chosen: object) -> list[str]:
    return [instance_snapshot.instance.metadata.name for instance_snapshot in chosen]  # type: ignore[attr-defined]


def test_the_instance_with_the_fewest_open_requests_is_chosen() -> None:
    candidates = [ready(instance(name), open_requests=load) for name, load in [("a", 5), ("b", 2), ("c", 3)]]

    assert names([least_loaded(candidates)]) == ["b"]


def test_of_equally_loaded_instances_the_first_by_name_is_chosen() -> None:
    assert names([least_loaded([ready(instance("b")), ready(instance("a"))])]) == ["a"]


@pytest.mark.parametrize("emacs", [EmacsStats(), EmacsStats(alive=True, self_check_problem="prin1 is another")])
def test_an_instance_whose_emacs_claims_nothing_is_never_chosen(emacs: EmacsStats) -> None:
    broken = ready(instance("a"), bridge=connected(bridge_stats=stats(emacs=emacs)))

    assert names([least_loaded([broken, ready(instance("b"), open_requests=1)])]) == ["b"]
    assert choose_member([broken], place(awake=2)) is None


def test_an_instance_that_is_not_available_is_never_chosen() -> None:
    lost = ready(instance("a"), bridge=connected(pod_uid="an earlier pod"))

    assert names([least_loaded([away(instance("b")), lost, ready(instance("c"), open_requests=9)])]) == ["c"]


def test_none_is_chosen_where_none_is_available() -> None:
    assert least_loaded([away()]) is None
    assert least_loaded([]) is None


def test_one_sleeping_instance_is_woken_the_first_by_name() -> None:
    candidates = [away(instance(name, status=ASLEEP)) for name in ("c", "a", "b")]

    assert names(instance_to_wake(candidates)) == ["a"]


def test_an_instance_suspended_by_its_owner_is_not_woken() -> None:
    assert instance_to_wake([away(instance(spec={"operatingMode": "Suspended"}, status=ASLEEP))]) == []


def test_an_instance_that_is_starting_is_not_woken() -> None:
    assert instance_to_wake([away()]) == []


def place(strategy: str = "Spread", **facts: Any) -> PoolPlace:
    return PoolPlace("crew", PlacementStrategy(strategy), 2, **facts)


MEMBERS = [
    ready(instance("full"), open_requests=2),
    ready(instance("half"), open_requests=1),
    ready(instance("idle"), open_requests=0),
    away(instance("asleep", status=ASLEEP), open_requests=0),
    away(instance("waking", status=ASLEEP), open_requests=1),
]


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        (place(awake=3, asleep=3), "idle"),
        (place("Packed", awake=3, asleep=3), "half"),
        # Those ahead get what is awake: this one wakes a member that sleeps.
        (place(ahead=2, awake=3, asleep=3), "idle"),
        (place(ahead=3, awake=3, asleep=3), "asleep"),
        (place("Packed", ahead=3, awake=3, asleep=3), "waking"),
        (place(ahead=6, awake=3, asleep=3), None),
        (place(), None),
    ],
)
def test_a_request_of_a_pool_gets_a_member_with_room_one_that_is_awake_first(
    place: PoolPlace, expected: str | None
) -> None:
    chosen = choose_member(MEMBERS, place)
    assert (chosen.instance.metadata.name if chosen else None) == expected


def test_a_member_that_turns_out_to_take_no_requests_is_not_replaced_by_one_that_sleeps() -> None:
    assert (
        choose_member([away(instance("a")), away(instance("asleep", status=ASLEEP))], place(awake=2, asleep=2))
        is None
    )
