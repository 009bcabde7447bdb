"""Finished objects that are to be deleted once their time to live is over: kind, key, UID and when. Nothing else.

Bounded: of very many, those that are due first are kept. The others are found again by the sweep of finished objects.
"""

from __future__ import annotations

import heapq
from datetime import datetime
from typing import NamedTuple

from efrit.controller.model.actions import ResourceKind
from efrit.controller.model.keys import Key

MAX_EXPIRATIONS = 10_000


class Expiration(NamedTuple):
    """One object and when it is to be deleted; in the order of that."""

    due: datetime
    kind: ResourceKind
    key: Key
    uid: str


class Expirations:
    """What is due, and when. Each costs about half a kilobyte."""

    def __init__(self, limit: int = MAX_EXPIRATIONS) -> None:
        self._limit = limit
        self._heap: list[Expiration] = []
        self._known: set[str] = set()
        self._dropped = False

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, expiration: Expiration) -> None:
        """Remember an object; once is enough."""
        if expiration.uid in self._known:
            return
        heapq.heappush(self._heap, expiration)
        self._known.add(expiration.uid)
        if len(self._heap) > 2 * self._limit:
            # Sorted, which is a heap as well.
            self._heap = heapq.nsmallest(self._limit, self._heap)
            self._known = {expiration.uid for expiration in self._heap}
            self._dropped = True

    def pop_due(self, now: datetime) -> Expiration | None:
        """Return an object that is due, which is then forgotten."""
        if not self._heap or self._heap[0].due > now:
            return None
        expiration = heapq.heappop(self._heap)
        self._known.discard(expiration.uid)
        return expiration

    def needs_listing(self) -> bool:
        """Return whether there were more than fit, and there is room again: then the finished objects are swept."""
        has_space = self._dropped and len(self._heap) < self._limit // 2
        if has_space:
            self._dropped = False
        return has_space
