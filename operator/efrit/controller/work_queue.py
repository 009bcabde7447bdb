"""The keyed work queue: a key says "reconcile again", never what happened.

A key waits at most once, is worked on by at most one worker, and is worked on again if it was added meanwhile.
Failures come back with exponential backoff and jitter per key. The semantics are those of client-go's workqueue.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
import random
from collections import deque
from collections.abc import Awaitable, Callable

from efrit.controller.model.keys import WorkKey
from efrit.errors import ApiNamespaceTerminating, ApiUnavailable, EfritError

log = logging.getLogger(__name__)

FIRST_BACKOFF_SECONDS = 0.05
LAST_BACKOFF_SECONDS = 30.0
LONGEST_RETRY_AFTER_SECONDS = 120.0
"""A server that asks for a longer pause is asked again after this one."""
COMPACT_ABOVE = 64
"""Stale entries of delayed keys are removed once they outnumber the live ones, but not below this size."""


class WorkQueue:
    """Ready keys in order of arrival, delayed ones in order of time."""

    def __init__(self) -> None:
        self._ready: deque[WorkKey] = deque()
        self._dirty: set[WorkKey] = set()
        self._active: set[WorkKey] = set()
        self._due: dict[WorkKey, float] = {}
        self._heap: list[tuple[float, WorkKey]] = []
        self._failures: dict[WorkKey, int] = {}
        self._wake = asyncio.Event()
        self._heap_changed = asyncio.Event()
        self.done = 0
        self.failed = 0

    def __len__(self) -> int:
        return len(self._dirty)

    @property
    def delayed_entries(self) -> int:
        """How many entries are kept for delayed keys, stale ones included."""
        return len(self._heap)

    def add(self, key: WorkKey) -> None:
        """Have `key` reconciled as soon as possible."""
        if key in self._dirty:
            return
        self._dirty.add(key)
        if key not in self._active:
            self._ready.append(key)
            self._wake.set()

    def add_after(self, key: WorkKey, seconds: float) -> None:
        """Have `key` reconciled in `seconds`; an earlier request for it stands."""
        if seconds <= 0:
            self.add(key)
            return
        at = asyncio.get_running_loop().time() + seconds
        if key in self._due and self._due[key] <= at:
            return
        self._due[key] = at
        heapq.heappush(self._heap, (at, key))
        self._compact()
        self._heap_changed.set()

    def forget(self, key: WorkKey) -> None:
        """Drop what is remembered of a key whose object is gone."""
        self._due.pop(key, None)
        self._failures.pop(key, None)
        self._compact()

    def _compact(self) -> None:
        """Remove the entries of keys that have an earlier one by now, or none: amortized, a constant for each."""
        if len(self._heap) > max(COMPACT_ABOVE, 2 * len(self._due)):
            self._heap = [(at, key) for key, at in self._due.items()]
            heapq.heapify(self._heap)

    async def run(self, work: Callable[[WorkKey], Awaitable[None]], workers: int) -> None:
        """Work for ever with this many workers."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._tick(), name="work-queue-clock")
            for number in range(workers):
                group.create_task(self._work(work), name=f"work-queue-{number}")

    async def _tick(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            self._heap_changed.clear()
            now = loop.time()
            while self._heap and self._heap[0][0] <= now:
                at, key = heapq.heappop(self._heap)
                if self._due.get(key) == at:
                    del self._due[key]
                    self.add(key)
            wait = self._heap[0][0] - now if self._heap else None
            try:
                async with asyncio.timeout(wait):
                    await self._heap_changed.wait()
            except TimeoutError:
                continue

    async def _work(self, work: Callable[[WorkKey], Awaitable[None]]) -> None:
        while True:
            while not self._ready:
                self._wake.clear()
                await self._wake.wait()
            key = self._ready.popleft()
            self._dirty.discard(key)
            self._active.add(key)
            try:
                await work(key)
            except EfritError as error:
                self._retry(key, error)
            except Exception as error:
                log.exception("%s %s/%s: unexpected", *key)
                self._retry(key, error, quiet=True)
            else:
                self._failures.pop(key, None)
            finally:
                self.done += 1
                self._active.discard(key)
                if key in self._dirty:
                    self._ready.append(key)
                    self._wake.set()

    def _retry(self, key: WorkKey, error: Exception, *, quiet: bool = False) -> None:
        self.failed += 1
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        backoff = min(FIRST_BACKOFF_SECONDS * 2 ** min(failures - 1, 30), LAST_BACKOFF_SECONDS)
        delay = backoff * random.uniform(0.75, 1.25)  # noqa: S311
        if isinstance(error, ApiUnavailable) and error.retry_after is not None:
            asked = min(error.retry_after, LONGEST_RETRY_AFTER_SECONDS)
            # Never earlier than asked, and not all keys at the same moment.
            delay = max(delay, asked * random.uniform(1, 1.25))  # noqa: S311
        if not quiet:
            level = logging.WARNING if failures > 3 else logging.INFO
            if isinstance(error, ApiNamespaceTerminating):
                level = logging.DEBUG
            log.log(level, "%s %s/%s: %s (failure %d, again in %.2f s)", *key, error, failures, delay)
        self.add_after(key, delay)
