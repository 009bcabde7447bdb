"""Keys that are added for one reason: a few at a time, in their order, each namespace in its turn."""

from __future__ import annotations

from efrit.controller.model.keys import Key, WorkKey
from efrit.controller.portions import AT_ONCE, Portions

REQUEST, CLAIM = "EfritRequest", "EfritClaim"


def keys(count: int, namespace: str = "team") -> list[Key]:
    return [(namespace, f"work-{number:05}") for number in range(count)]


def added(portion: list[WorkKey]) -> tuple[str, str, int]:
    return portion[0].kind, portion[0].namespace, len(portion)


def test_of_many_objects_a_few_are_added_at_a_time() -> None:
    portions, many = Portions(), keys(2 * AT_ONCE + 1)

    assert portions.put(REQUEST, "team", many) == [WorkKey(REQUEST, *key) for key in many[:AT_ONCE]]
    assert portions.take() == [WorkKey(REQUEST, *key) for key in many[AT_ONCE:-1]]
    assert (len(portions), portions.take()) == (1, [WorkKey(REQUEST, *many[-1])])
    assert (bool(portions), portions.take()) == (False, [])


def test_few_are_added_at_once_and_nothing_is_kept() -> None:
    portions = Portions()
    assert len(portions.put(REQUEST, "team", keys(AT_ONCE))) == AT_ONCE
    assert portions.put(REQUEST, "team", ()) == []
    assert not portions


def test_another_reason_takes_no_place_from_those_that_are_left() -> None:
    portions, many = Portions(), keys(AT_ONCE + 2)
    portions.put(REQUEST, "team", many)
    assert portions.put(REQUEST, "team", many) == []
    assert [key.name for key in portions.take()][:3] == ["work-00500", "work-00501", "work-00000"]
    assert [key.name for key in portions.take()] == ["work-00498", "work-00499"]


def test_namespaces_and_kinds_take_turns() -> None:
    portions = Portions()
    portions.put(REQUEST, "team", keys(3 * AT_ONCE))
    assert len(portions.put(REQUEST, "other", keys(AT_ONCE + 1, "other"))) == AT_ONCE
    assert len(portions.put(CLAIM, "team", keys(AT_ONCE + 1))) == AT_ONCE
    assert [added(portions.take()) for _ in range(4)] == [
        (REQUEST, "team", AT_ONCE),
        (REQUEST, "other", 1),
        (CLAIM, "team", 1),
        (REQUEST, "team", AT_ONCE),
    ]
    assert not portions


def test_what_is_gone_is_not_added() -> None:
    portions, many = Portions(), keys(AT_ONCE + 2)
    portions.put(REQUEST, "team", many)
    portions.forget(WorkKey(REQUEST, *many[-1]))
    portions.forget(WorkKey(CLAIM, *many[-2]))
    assert portions.take() == [WorkKey(REQUEST, *many[-2])]
    portions.put(REQUEST, "team", many[: AT_ONCE + 1])
    portions.forget(WorkKey(REQUEST, *many[AT_ONCE]))
    assert not portions
