"""One key at a time does what takes memory; the others come back by themselves, and hold no worker meanwhile."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from efrit.controller.model.keys import WorkKey


class Turn:
    """Who has it, and who waits for it, in order. One event loop only."""

    def __init__(self, requeue: Callable[[WorkKey], None]) -> None:
        self._requeue = requeue
        self._waiting: OrderedDict[WorkKey, None] = OrderedDict()
        self._taken = False

    def __len__(self) -> int:
        return len(self._waiting)

    @contextmanager
    def take(self, key: WorkKey) -> Iterator[bool]:
        """Have the turn in this block, if it is free; otherwise the key is requeued when it may be."""
        if self._taken:
            self._waiting[key] = None
            yield False
            return
        self._waiting.pop(key, None)
        self._taken = True
        try:
            yield True
        finally:
            self._taken = False

    def pass_on(self) -> None:
        """Requeue who waits longest, if nobody has the turn. Call it after each reconciliation of such keys.

        Also after one that did not take it: it may have been requeued for the turn and have no use for it any more.
        """
        if not self._taken and self._waiting:
            self._requeue(self._waiting.popitem(last=False)[0])
