"""UIDs of objects that the store has forgotten: a late version of one is not taken for a new object.

A list that was read before, the reply to an earlier call and an event of a slow watch all may come after that.
"""

from __future__ import annotations

MAX_TOMBSTONES = 10_000
"""The oldest goes first; what comes later than so many deletions and ends is not late but lost."""


class Tombstones:
    """Each costs a UID, and the same time however many there are."""

    def __init__(self) -> None:
        self._deleted: dict[str, bool] = {}
        """By UID, the newest last: whether the object was deleted; otherwise it is final."""

    def add(self, uid: str, *, deleted: bool) -> None:
        """Remember that an object is deleted, or that it is final and forgotten."""
        before = self._deleted.pop(uid, False)
        self._deleted[uid] = deleted or before
        if len(self._deleted) > MAX_TOMBSTONES:
            del self._deleted[next(iter(self._deleted))]

    def is_late(self, uid: str, *, final: bool) -> bool:
        """Return whether a version of an object is late: any of a deleted one, an open one of one that is final."""
        deleted = self._deleted.get(uid)
        return deleted is not None and (deleted or not final)
