"""Few keys at a time do what takes memory; the others come back by themselves, and hold no worker meanwhile.

One key has the turn, and namespaces have it one after the other (`lanes.py`), however many keys of one wait. One that
takes longer than usual keeps it from its own namespace alone: the next namespace goes beside it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from efrit.controller.lanes import Lanes
from efrit.controller.model.keys import WorkKey

SLOW_SECONDS = 1.0
"""Who has the turn for longer waits for calls that hang, and others go beside it."""
MOST_AT_A_TIME = 4
"""Those that are slow, and the one that has the turn: each may have a page of a list in memory."""

Later = Callable[[float, Callable[[], object]], asyncio.TimerHandle]


@dataclass(slots=True)
class _Place:
    """What a key has that was given the turn."""

    timer: asyncio.TimerHandle
    used: bool
    """Whether it has come back to take it."""
    slow: bool = False


class Turn:
    """Who has it, and who waits for it. One event loop only."""

    def __init__(self, requeue: Callable[[WorkKey], None], later: Later | None = None) -> None:
        """requeue: reconcile a key whose turn has come; later: call a function after so many seconds."""
        self._requeue = requeue
        self._later = later or (lambda seconds, call: asyncio.get_running_loop().call_later(seconds, call))
        self._lanes = Lanes()
        self._waiting: set[WorkKey] = set()
        self._places: dict[WorkKey, _Place] = {}

    def __len__(self) -> int:
        return len(self._lanes)

    @contextmanager
    def take(self, key: WorkKey) -> Iterator[bool]:
        """Have the turn in this block, if it is free; otherwise the key is requeued when it may be."""
        if key not in self._places and not (self._is_free() and self._may_begin(key.namespace)):
            self._wait(key)
            yield False
            return
        self._give(key, used=True)
        try:
            yield True
        finally:
            self._end(key)

    def pass_on(self, reconciled: WorkKey) -> None:
        """Take in that a reconciliation is over: a turn that was given to the key and not used goes to the next."""
        if reconciled in self._places:
            self._end(reconciled)

    def _is_free(self) -> bool:
        return len(self._places) < MOST_AT_A_TIME and all(place.slow for place in self._places.values())

    def _may_begin(self, namespace: str) -> bool:
        return all(key.namespace != namespace for key in self._places)  # gate: plan-turn-namespace

    def _wait(self, key: WorkKey) -> None:
        if key not in self._waiting:
            self._waiting.add(key)
            self._lanes.put(key, 0)

    def _give(self, key: WorkKey, *, used: bool) -> None:
        if (place := self._places.get(key)) is not None:
            place.timer.cancel()
        self._waiting.discard(key)
        self._lanes.discard(key)
        late = self._is_slow if used else self._take_back
        self._places[key] = _Place(self._later(SLOW_SECONDS, partial(late, key)), used)

    def _is_slow(self, key: WorkKey) -> None:
        self._places[key].slow = True
        self._give_next()  # gate: plan-turn-slow

    def _take_back(self, key: WorkKey) -> None:
        """Have a key wait again that did not come back: its namespace may have no worker free."""
        del self._places[key]
        self._wait(key)
        self._give_next()

    def _end(self, key: WorkKey) -> None:
        self._places.pop(key).timer.cancel()
        self._give_next()

    def _give_next(self) -> None:
        entry = self._lanes.take(self._may_begin) if self._is_free() else None
        if entry is not None:
            self._give(entry.key, used=False)
            self._requeue(entry.key)
