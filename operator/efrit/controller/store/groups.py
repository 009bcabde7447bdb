"""Sets of members by what they belong to, none of them empty."""

from __future__ import annotations

from collections.abc import Set
from typing import Generic, TypeVar

Owner = TypeVar("Owner")
Member = TypeVar("Member")


def regroup(groups: dict[Owner, set[Member]], member: Member, before: Owner | None, owner: Owner | None) -> None:
    """Move a member from the set of one owner to that of another; None where there is none."""
    if before is not None and before != owner:
        members = groups.get(before, set())
        members.discard(member)
        if not members:
            groups.pop(before, None)
    if owner is not None:
        groups.setdefault(owner, set()).add(member)


class BoundedGroups(Generic[Owner, Member]):
    """Sets of members of which no more than so many are looked at; of the others the next one that came follows."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._counted: dict[Owner, set[Member]] = {}
        self._others: dict[Owner, dict[Member, None]] = {}

    def of(self, owner: Owner) -> Set[Member]:
        """Return the members of an owner, those that count."""
        return self._counted.get(owner, frozenset())

    def has_others(self, owner: Owner) -> bool:
        """Return whether an owner has more members than count."""
        return owner in self._others

    def move(self, member: Member, before: Owner | None, owner: Owner | None) -> None:
        """Move a member from one owner to another; None where there is none."""
        if before is not None and before != owner:
            self._remove(member, before)
        if owner is None or member in self.of(owner):
            return
        if len(self.of(owner)) >= self._most:  # gate: members-bound
            self._others.setdefault(owner, {})[member] = None
        else:
            self._counted.setdefault(owner, set()).add(member)

    def _remove(self, member: Member, owner: Owner) -> None:
        others, counted = self._others.get(owner, {}), self._counted.get(owner, set())
        if member in others:
            del others[member]
        elif member in counted:
            counted.discard(member)
            if others:
                following = next(iter(others))
                del others[following]
                counted.add(following)  # gate: members-follow
        if not others:
            self._others.pop(owner, None)
        if not counted:
            self._counted.pop(owner, None)
