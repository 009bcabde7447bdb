"""store/groups.py: members by what they belong to, bounded where anybody may make some."""

from __future__ import annotations

from efrit.controller.store.groups import BoundedGroups


def test_no_more_members_count_than_allowed_and_the_next_one_follows_on_one_that_goes() -> None:
    groups = BoundedGroups[str, int](2)
    for member in range(5):
        groups.move(member, None, "a")
    assert groups.of("a") == {0, 1}
    assert groups.has_others("a")
    # One that is seen again stays where it is.
    for member in range(5):
        groups.move(member, "a", "a")
    assert groups.of("a") == {0, 1}
    groups.move(0, "a", None)
    assert groups.of("a") == {1, 2}
    groups.move(3, "a", "b")
    assert (groups.of("a"), groups.of("b")) == ({1, 2}, {3})
    groups.move(1, "a", "b")
    assert (groups.of("a"), groups.has_others("a")) == ({2, 4}, False)


def test_nothing_is_kept_of_an_owner_without_members() -> None:
    groups = BoundedGroups[str, int](1)
    groups.move(1, None, "a")
    groups.move(2, None, "a")
    for member in (1, 2):
        groups.move(member, "a", None)
        groups.move(member, None, None)
    assert (groups.of("a"), groups.has_others("a")) == (set(), False)
    groups.move(3, None, "a")
    assert groups.of("a") == {3}
