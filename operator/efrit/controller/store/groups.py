"""Sets of members by what they belong to, none of them empty."""

from __future__ import annotations

from typing import TypeVar

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
