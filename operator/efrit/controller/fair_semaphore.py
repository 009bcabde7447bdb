"""A semaphore that is fair to namespaces: few keys at a time do what takes memory, and none holds a worker to wait.

One key has the permit, and namespaces get it one after the other (`lanes.py`), however many keys of one wait. A key
that holds it for longer than usual blocks its own namespace alone: the next namespace gets a permit as well.
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
"""A key that holds its permit for longer waits for calls that hang: others get one, too."""
MAX_PERMITS = 4
"""The slow holders and one that is not slow: each may have a page of a list in memory."""

Later = Callable[[float, Callable[[], object]], asyncio.TimerHandle]


@dataclass(slots=True)
class _Permit:
    """The permit of one key."""

    timer: asyncio.TimerHandle
    used: bool
    """Whether the key was reconciled and uses it; before that it is reserved for it."""
    slow: bool = False


class FairSemaphore:
    """The permits, and the keys that wait for one. One event loop only."""

    def __init__(self, requeue: Callable[[WorkKey], None], later: Later | None = None) -> None:
        """requeue: reconcile a key that has got a permit; later: call a function after so many seconds."""
        self._requeue = requeue
        self._later = later or (lambda seconds, call: asyncio.get_running_loop().call_later(seconds, call))
        self._lanes = Lanes()
        self._waiting: set[WorkKey] = set()
        self._permits: dict[WorkKey, _Permit] = {}

    def __len__(self) -> int:
        return len(self._lanes)

    @contextmanager
    def acquire(self, key: WorkKey) -> Iterator[bool]:
        """Hold a permit in this block, if one is free; else yield False, and requeue the key when it gets one."""
        if key not in self._permits and not (self._is_free() and self._may_begin(key.namespace)):
            self._wait(key)
            yield False
            return
        self._grant(key, used=True)
        try:
            yield True
        finally:
            self._release(key)

    def reconciled(self, key: WorkKey) -> None:
        """Take in that the reconciliation of a key is over: a permit that it did not use goes to the next key."""
        if key in self._permits:
            self._release(key)

    def _is_free(self) -> bool:
        return len(self._permits) < MAX_PERMITS and all(permit.slow for permit in self._permits.values())

    def _may_begin(self, namespace: str) -> bool:
        return all(key.namespace != namespace for key in self._permits)  # gate: semaphore-namespace

    def _wait(self, key: WorkKey) -> None:
        if key not in self._waiting:
            self._waiting.add(key)
            self._lanes.put(key, 0)

    def _grant(self, key: WorkKey, *, used: bool) -> None:
        if (permit := self._permits.get(key)) is not None:
            permit.timer.cancel()
        self._waiting.discard(key)
        self._lanes.discard(key)
        late = self._mark_slow if used else self._revoke
        self._permits[key] = _Permit(self._later(SLOW_SECONDS, partial(late, key)), used)

    def _mark_slow(self, key: WorkKey) -> None:
        self._permits[key].slow = True
        self._grant_next()  # gate: semaphore-slow

    def _revoke(self, key: WorkKey) -> None:
        """Have a key wait again that was not reconciled in time: its namespace may have no worker free."""
        del self._permits[key]
        self._wait(key)
        self._grant_next()

    def _release(self, key: WorkKey) -> None:
        self._permits.pop(key).timer.cancel()
        self._grant_next()

    def _grant_next(self) -> None:
        entry = self._lanes.take(self._may_begin) if self._is_free() else None
        if entry is not None:
            self._grant(entry.key, used=False)
            self._requeue(entry.key)
