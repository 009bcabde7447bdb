"""Keys whose time is yet to come, each with one moment: the earliest that was asked for. Pure: no clock, no loop."""

from __future__ import annotations

import heapq

from efrit.controller.model.keys import WorkKey

COMPACT_ABOVE = 64
"""Stale entries are removed once they outnumber the live ones, but not below this size."""


class Delays:
    """A heap of moments; entries of keys that have an earlier one by now, or none, are stale."""

    def __init__(self) -> None:
        self._due: dict[WorkKey, float] = {}
        self._heap: list[tuple[float, WorkKey]] = []

    def put(self, key: WorkKey, at: float) -> bool:
        """Have `key` due at this moment; False where an earlier one stands."""
        if key in self._due and self._due[key] <= at:
            return False
        self._due[key] = at
        heapq.heappush(self._heap, (at, key))
        self._compact()
        return True

    def forget(self, key: WorkKey) -> None:
        """Drop the moment of a key."""
        self._due.pop(key, None)
        self._compact()

    def pop(self, now: float) -> WorkKey | None:
        """Take a key out that is due, None where none is."""
        while self._heap and self._heap[0][0] <= now:
            at, key = heapq.heappop(self._heap)
            if self._due.get(key) == at:
                del self._due[key]
                return key
        return None

    def next_moment(self) -> float | None:
        """Return when the next entry is due, None without entries."""
        return self._heap[0][0] if self._heap else None

    def _compact(self) -> None:
        """Remove stale entries: amortized, a constant for each."""
        if len(self._heap) > max(COMPACT_ABOVE, 2 * len(self._due)):
            self._heap = [(at, key) for key, at in self._due.items()]
            heapq.heapify(self._heap)
