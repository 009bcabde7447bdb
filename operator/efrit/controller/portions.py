"""Keys of one namespace that are to be reconciled for the same reason, a few at a time. Pure: no clock, no loop.

A pool that goes, or an instance that is Ready, may have ten thousand of them: others have a turn in between.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from itertools import islice

from efrit.controller.model.keys import Key, WorkKey

AT_ONCE = 500
"""Keys that are added before all others have a turn."""
PAUSE_SECONDS = 0.05


class Portions:
    """What is left of each namespace and kind; they take turns, and each keeps the order in which its keys came."""

    def __init__(self) -> None:
        self._left: OrderedDict[tuple[str, str], dict[Key, None]] = OrderedDict()

    def __len__(self) -> int:
        """Return how many keys are left."""
        return sum(map(len, self._left.values()))

    def __bool__(self) -> bool:
        return bool(self._left)

    def put(self, kind: str, namespace: str, keys: Iterable[Key]) -> list[WorkKey]:
        """Take keys in, and return those that are to be added now: the first ones, unless earlier ones are left.

        One that is left already keeps its place: another reason comes too late for none.
        """
        group = kind, namespace
        if group in self._left:
            self._left[group].update(dict.fromkeys(keys))
            return []
        self._left[group] = dict.fromkeys(keys)
        return self._taken(group)

    def take(self) -> list[WorkKey]:
        """Take the next portion out: that of the group whose turn it is."""
        return self._taken(next(iter(self._left))) if self._left else []

    def _taken(self, group: tuple[str, str]) -> list[WorkKey]:
        left = self._left[group]
        portion = list(islice(left, AT_ONCE))  # gate: portion
        for key in portion:
            del left[key]
        self._end_turn(group)
        return [WorkKey(group[0], *key) for key in portion]

    def forget(self, key: WorkKey) -> None:
        """Take a key out whose object is gone."""
        left = self._left.get((key.kind, key.namespace))
        if left is not None:
            left.pop((key.namespace, key.name), None)
            if not left:
                del self._left[key.kind, key.namespace]

    def _end_turn(self, group: tuple[str, str]) -> None:
        if self._left[group]:
            self._left.move_to_end(group)  # gate: portion-turn
        else:
            del self._left[group]
