"""The line in front of one instance: requests it is to get and does not have yet, in the order they go."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Set
from datetime import UTC, datetime, timedelta

from efrit.api import EfritRequest
from efrit.controller.model.keys import Key

POINT_OF_PRIORITY = timedelta(seconds=60)
BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)

Rank = tuple[datetime, str]


def rank(request: EfritRequest) -> Rank:
    """Return where a request stands: each point of priority is worth a minute of waiting, so that none starves."""
    created = request.metadata.creation_timestamp or BEGINNING
    return created - request.spec.priority * POINT_OF_PRIORITY, request.metadata.name


def _entry(key: Key, place: Rank) -> tuple[float, str, Key]:
    """Return what a key is sorted by: moments take twenty times as long to compare as numbers do."""
    return place[0].timestamp(), place[1], key


class Backlog:
    """Keys sorted by rank. Position and change cost the logarithm of its length, but for a move in memory."""

    def __init__(self) -> None:
        self._sorted: list[tuple[float, str, Key]] = []
        self._ranks: dict[Key, Rank] = {}

    def __len__(self) -> int:
        return len(self._sorted)

    @property
    def keys(self) -> Set[Key]:
        """Those that are in, in no order."""
        return self._ranks.keys()

    def add(self, key: Key, place: Rank) -> None:
        """Put `key` at its place; once is enough."""
        if self._ranks.get(key) == place:
            return
        self.discard(key)
        self._ranks[key] = place
        insort(self._sorted, _entry(key, place))

    def discard(self, key: Key) -> None:
        """Take `key` out, if it is in."""
        place = self._ranks.pop(key, None)
        if place is not None:
            del self._sorted[bisect_left(self._sorted, _entry(key, place))]

    def ahead_of(self, key: Key) -> int:
        """Return how many go before `key`; all of them where it is not in the line."""
        place = self._ranks.get(key)
        return len(self._sorted) if place is None else bisect_left(self._sorted, _entry(key, place))

    def rank_of(self, key: Key) -> Rank:
        """Return the place of a key that is in. Raises KeyError."""
        return self._ranks[key]

    def at(self, index: int) -> Key:
        """Return the one that so many go before. Raises IndexError."""
        return self._sorted[index][2]

    def first(self, count: int) -> list[Key]:
        """Return the `count` that go first."""
        return [key for _, _, key in self._sorted[: max(count, 0)]]
