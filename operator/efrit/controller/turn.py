"""One key at a time does what takes memory; the others come back by themselves, and hold no worker meanwhile.

Namespaces have the turn one after the other, however many keys of one wait.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from efrit.controller.model.keys import WorkKey


class Turn:
    """Who has it, and who waits for it, by namespace and in order. One event loop only."""

    def __init__(self, requeue: Callable[[WorkKey], None]) -> None:
        self._requeue = requeue
        self._waiting: OrderedDict[str, OrderedDict[WorkKey, None]] = OrderedDict()
        self._requeued: set[WorkKey] = set()
        """Those whose turn has come and that have not come back yet."""
        self._taken = False

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))

    @contextmanager
    def take(self, key: WorkKey) -> Iterator[bool]:
        """Have the turn in this block, if it is free; otherwise the key is requeued when it may be."""
        if self._taken:
            self._wait(key)
            yield False
            return
        self._remove(key)
        self._requeued.discard(key)
        self._taken = True
        try:
            yield True
        finally:
            self._taken = False

    def pass_on(self, reconciled: WorkKey) -> None:
        """Requeue the next that waits, if nobody has the turn. Call it after each reconciliation of such keys.

        Also after one that did not take it: it may have been requeued for the turn and have no use for it any more.
        """
        self._requeued.discard(reconciled)
        if not self._taken and self._waiting:
            key = next(iter(next(iter(self._waiting.values()))))
            self._remove(key)
            self._requeued.add(key)
            self._requeue(key)

    def _wait(self, key: WorkKey) -> None:
        keys = self._waiting.setdefault(key.namespace, OrderedDict())
        keys[key] = None
        if key in self._requeued:
            # Another was faster, which must not cost it its place.
            self._requeued.discard(key)
            keys.move_to_end(key, last=False)
            self._waiting.move_to_end(key.namespace, last=False)  # gate: plan-turn-kept

    def _remove(self, key: WorkKey) -> None:
        """Take a key out, whose namespace comes last now."""
        keys = self._waiting.get(key.namespace)
        if keys is None:
            return
        keys.pop(key, None)
        if keys:
            self._waiting.move_to_end(key.namespace)  # gate: plan-turn
        else:
            del self._waiting[key.namespace]
