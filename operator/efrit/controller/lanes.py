"""Keys that wait, in a lane for each namespace, and one for its exclusive claims: who is served next. Pure.

Deficit round robin (Shreedhar and Varghese, 1995), where the cost of a key is known once it is done: a lane whose
keys took longer than a turn has a debt, and passes as many turns. Within a lane the kinds take turns, so that no
number of requests keeps an instance waiting, nor the other way round. Keys that go first are one kind more: what is
nearly done does not wait for all that is to be begun, and keeps nothing else from its turn.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from math import ceil
from typing import NamedTuple

from efrit.api import EfritClaim
from efrit.controller.model.keys import WorkKey

QUANTUM_SECONDS = 0.02
"""What one turn of a lane pays for: a usual reconciliation."""
MAX_DEBT_SECONDS = 2.0
"""A lane passes no more turns than this, whatever its keys have taken."""
FIRST = "first"
"""The kind of keys that go first: what is nearly done."""
AWAITED = "awaited"
"""The kind of keys that others wait for, and that are themselves to be begun."""


def lane_of(key: WorkKey) -> str:
    """Return the name of the lane that a key waits in: its namespace, or for an exclusive claim one beside that."""
    return f"{key.namespace}/{key.kind}" if key.kind == EfritClaim.kind else key.namespace  # gate: lane-of-claims


def is_of_claims(lane: str) -> bool:
    """Return whether this is the name of a lane of exclusive claims: no namespace has a slash."""
    return "/" in lane


class Waiting(NamedTuple):
    """A key and the moment since when it waits."""

    key: WorkKey
    since: float


@dataclass(slots=True)
class _Lane:
    """The keys of one lane, by kind; the kind whose turn it is comes first."""

    kinds: OrderedDict[str, OrderedDict[WorkKey, float]] = field(default_factory=OrderedDict)
    debt: float = 0.0

    def take(self) -> Waiting:
        kind, keys = next(iter(self.kinds.items()))
        entry = Waiting(*keys.popitem(last=False))
        if keys:
            self.kinds.move_to_end(kind)
        else:
            del self.kinds[kind]
        return entry

    def pay(self, turns: int = 1) -> None:
        self.debt = max(0.0, self.debt - turns * QUANTUM_SECONDS)


class Lanes:
    """All lanes, in the order of their turns; one without keys is gone, and its debt with it."""

    def __init__(self) -> None:
        self._lanes: OrderedDict[str, _Lane] = OrderedDict()
        self._size = 0

    def __len__(self) -> int:
        """Return how many keys wait."""
        return self._size

    @property
    def lanes(self) -> int:
        """How many lanes there are."""
        return len(self._lanes)

    def length(self, name: str) -> int:
        """Return how many keys of a lane wait."""
        lane = self._lanes.get(name)
        return sum(map(len, lane.kinds.values())) if lane is not None else 0

    def put(self, key: WorkKey, since: float, kind: str | None = None) -> None:
        """Put a key that does not wait yet at the end of those of its kind in its lane; FIRST, AWAITED: of those."""
        name = lane_of(key)
        lane = self._lanes.get(name)
        if lane is None:
            lane = self._lanes[name] = _Lane()
        kind = kind or key.kind
        keys = lane.kinds.get(kind)
        if keys is None:
            keys = lane.kinds[kind] = OrderedDict()
        keys[key] = since
        self._size += 1

    def promote(self, key: WorkKey, kind: str) -> None:
        """Have a key that waits be of this kind from now on, the last of those that are already."""
        lane = self._lanes.get(lane_of(key))
        present_kind = (
            next((waiting_kind for waiting_kind, keys in lane.kinds.items() if key in keys), kind)
            if lane is not None
            else kind
        )
        if lane is not None and present_kind != kind:
            self.put(key, lane.kinds[present_kind][key], kind)
            self._discard(key, present_kind)

    def discard(self, key: WorkKey) -> None:
        """Take a key out, if it waits."""
        for kind in (key.kind, FIRST, AWAITED):
            self._discard(key, kind)

    def _discard(self, key: WorkKey, kind: str) -> None:
        name = lane_of(key)
        lane = self._lanes.get(name)
        keys = lane.kinds.get(kind) if lane is not None else None
        if lane is None or keys is None or key not in keys:
            return
        del keys[key]
        self._size -= 1
        if not keys:
            del lane.kinds[kind]
        if not lane.kinds:
            del self._lanes[name]

    def charge(self, name: str, seconds: float) -> None:
        """Have a lane pay for a key that took so long, beyond what its turn has paid for."""
        lane = self._lanes.get(name)
        if lane is not None:
            lane.debt = min(lane.debt + max(0.0, seconds - QUANTUM_SECONDS), MAX_DEBT_SECONDS)

    def can_take(self, may_begin: Callable[[str], bool]) -> bool:
        """Return whether `take` would return a key."""
        return any(map(may_begin, self._lanes))

    def take(self, may_begin: Callable[[str], bool]) -> Waiting | None:
        """Take the next key of a lane that may begin one out; None where there is none."""
        indebted: list[str] = []
        for name, lane in self._lanes.items():
            if not may_begin(name):
                # It keeps its place: that it cannot begin is not its turn.
                continue
            if lane.debt <= 0:
                return self._serve(name, lane, indebted)
            indebted.append(name)
        if not indebted:
            return None
        # All of them owe: as many rounds pass as the first needs that is out of its debt.
        first = min(indebted, key=lambda name: ceil(self._lanes[name].debt / QUANTUM_SECONDS))
        rounds = ceil(self._lanes[first].debt / QUANTUM_SECONDS)
        for name in indebted:
            self._lanes[name].pay(rounds)
        # Something may be left of it by the rounding of the division.
        self._lanes[first].debt = 0.0
        return self._serve(first, self._lanes[first], [])

    def _serve(self, name: str, lane: _Lane, passed: list[str]) -> Waiting:
        for passed_name in passed:
            self._lanes[passed_name].pay()
            self._lanes.move_to_end(passed_name)
        entry = lane.take()
        self._size -= 1
        if lane.kinds:
            self._lanes.move_to_end(name)  # gate: namespace-turn
        else:
            del self._lanes[name]
        return entry
