"""The calls to one bridge: few at a time, and none while it does not answer. Makes no call itself.

A key that would have to wait for its call is parked instead, without a worker: when a call ends, the key that has
waited longest is invited, which is to say reconciled again. An invitation that is not used, as its request is gone by
now, goes to the next. What fails time and again opens the circuit breaker: closed -> open -> one probe -> closed, or
open for longer. The probe is the call of a key that waits, as that is what has to work, or one of our own where none
waits.
"""

from __future__ import annotations

import asyncio
import random
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from efrit.controller.model.actions import Parked
from efrit.controller.model.keys import WorkKey

MOST_CALLS = 4
"""Calls to one bridge at a time: what arrives together is synced to its disk together."""
FAILURES = 3
"""Calls in a row that open the circuit breaker, or streams that cannot be read."""
FIRST_PAUSE_SECONDS = 2.0
LAST_PAUSE_SECONDS = 60.0
"""How long the circuit breaker stays open: at first, and after many probes that failed."""


class Surroundings(Protocol):
    """Where keys and news go to."""

    def requeue(self, key: WorkKey) -> None:
        """Have a parked key reconciled, to learn why it waits."""

    def invite(self, key: WorkKey) -> None:
        """Have a parked key reconciled and its end told to `Bulkhead.settled`."""

    def probe(self) -> None:
        """Make a call, for nobody waits to make one."""

    def changed(self, problem: str | None) -> None:
        """Say that the bridge does not answer, and why; None: that it does."""


class Bulkhead:
    """Who may call one bridge. Close it with the connection."""

    def __init__(self, surroundings: Surroundings) -> None:
        self._around = surroundings
        self._in_flight = 0
        self._parked: OrderedDict[WorkKey, None] = OrderedDict()
        self._invited: set[WorkKey] = set()
        self._failures = 0
        self._unreadable = 0
        self._problem: str | None = None
        """Why the breaker is open, None while it is closed."""
        self._probing = False
        self._opened = 0
        """How often it was opened in a row."""
        self._retry_at = 0.0
        self._closed_at = 0.0
        self._timer: asyncio.TimerHandle | None = None

    @property
    def parked(self) -> int:
        """How many keys wait."""
        return len(self._parked)

    @property
    def in_flight(self) -> int:
        """How many calls are under way."""
        return self._in_flight

    @property
    def problem(self) -> str | None:
        """Why no calls are made, None while they are."""
        return self._problem

    @contextmanager
    def call(self, key: WorkKey | None) -> Iterator[None]:
        """Make a call in this block, for `key` or as a probe. Raises Parked once the key has its place."""
        probing = self._enter(key)
        self._in_flight += 1
        try:
            yield
        finally:
            self._in_flight -= 1
            if probing:
                self._probing = False
            self._advance()

    def _enter(self, key: WorkKey | None) -> bool:
        others = len(self._invited) - (key in self._invited)
        if self._problem is not None:
            if _now() < self._retry_at or self._probing or others:
                self._park(key)
            self._probing = True
        elif self._in_flight + others >= MOST_CALLS:  # gate: few-calls
            self._park(key)
        if key is not None:
            self._parked.pop(key, None)
            self._invited.discard(key)
        return self._problem is not None

    def _park(self, key: WorkKey | None) -> None:
        if key is not None:
            self._parked.setdefault(key)
        raise Parked("too many calls to its bridge are under way", self._problem)

    def settled(self, key: WorkKey) -> None:
        """Take in that an invited key was reconciled, whether or not it has made a call."""
        self._invited.discard(key)
        self._advance()  # gate: unused-invitation

    def succeeded(self) -> None:
        """Take in that the bridge has answered a call."""
        self._failures = 0
        if self._problem is not None:
            self._close()

    def failed(self, problem: str) -> None:
        """Take in that the bridge did not answer a call, or not the one that was made."""
        self._failures += 1
        if self._probing or self._failures >= FAILURES:
            self._open(problem)

    def unreadable(self, problem: str) -> None:
        """Take in that the bridge's event stream was given up because of what it said."""
        self._unreadable += 1
        if self._unreadable >= FAILURES:
            self._open(problem)

    def stream_opened(self) -> None:
        """Take in that its event stream has begun anew: perhaps another process, which the next calls will show."""
        if self._problem is not None and self._unreadable < FAILURES:
            self._close()
            self._failures = FAILURES - 1

    def stream_lasted(self) -> None:
        """Take in that its event stream was readable for a while."""
        self._unreadable = 0

    def close(self) -> None:
        """Let go of all keys: the connection is closed."""
        if self._timer is not None:
            self._timer.cancel()
        if self._problem is not None:
            self._problem = None
            self._around.changed(None)
        waiting = [*self._parked, *self._invited]
        self._parked.clear()
        self._invited.clear()
        for key in waiting:
            self._around.requeue(key)

    def _open(self, problem: str) -> None:
        if self._problem is not None and not self._probing:
            return
        newly = self._problem is None
        if newly and _now() - self._closed_at > LAST_PAUSE_SECONDS:
            self._opened = 0
        self._opened += 1
        pause = min(FIRST_PAUSE_SECONDS * 2 ** min(self._opened - 1, 30), LAST_PAUSE_SECONDS)
        pause *= random.uniform(0.75, 1.25)  # noqa: S311
        self._retry_at = _now() + pause
        self._timer = asyncio.get_running_loop().call_later(pause, self._due)
        if newly:
            self._problem = problem
            self._around.changed(problem)
            for key in list(self._parked):
                self._around.requeue(key)

    def _due(self) -> None:
        self._retry_at = 0.0
        self._advance()

    def _close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._problem, self._failures, self._closed_at = None, 0, _now()
        self._unreadable = 0
        self._around.changed(None)
        self._advance()

    def _advance(self) -> None:
        """Invite whoever may call now."""
        if self._problem is None:
            while self._parked and self._in_flight + len(self._invited) < MOST_CALLS:
                self._invite()
        elif _now() >= self._retry_at and not self._probing and not self._invited:
            if self._parked:
                self._invite()
            else:
                self._around.probe()

    def _invite(self) -> None:
        key, _ = self._parked.popitem(last=False)
        self._invited.add(key)
        self._around.invite(key)


def _now() -> float:
    return asyncio.get_running_loop().time()
