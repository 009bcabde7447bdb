"""decide/placement.py: which instance gets a request that names none."""

from __future__ import annotations

from efrit.controller.decide.placement import instance_to_wake, least_loaded
from tests.unit.controller.factory import away, connected, instance, ready

ASLEEP = {"suspendedIdle": True}


def names(chosen: object) -> list[str]:
    return [each.instance.metadata.name for each in chosen]  # type: ignore[attr-defined]


def test_the_instance_with_the_fewest_open_requests_is_chosen() -> None:
    candidates = [ready(instance(name), open_requests=load) for name, load in [("a", 5), ("b", 2), ("c", 3)]]

    assert names([least_loaded(candidates)]) == ["b"]


def test_of_equally_loaded_instances_the_first_by_name_is_chosen() -> None:
    assert names([least_loaded([ready(instance("b")), ready(instance("a"))])]) == ["a"]


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
