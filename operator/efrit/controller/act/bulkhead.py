"""The calls to one bridge: few at a time, and none of a kind that does not get through. Makes no call itself.

What travels in batches counts by the element: there are more places for those than for calls of their own.

A key that would have to wait for its call is parked instead, without a worker: when a call ends, the key that has
waited longest is invited, which is to say reconciled again. An invitation that is not used, as its request is gone by
now, goes to the next.

Calls have a `Depth`: what is read from memory gets through where a sync to the disk hangs, and an answer can be
acknowledged where there is no room for another request. What fails time and again opens the circuit breaker for calls
of its depth and beyond; only a call as deep closes it. closed -> open -> one probe -> closed, or open for longer. The
probe is the call of a key that waits, as that is what has to work, or one of our own where none waits.
"""

from __future__ import annotations

import asyncio
import random
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from typing import NamedTuple, Protocol

from efrit.controller.model.actions import Parked
from efrit.controller.model.keys import WorkKey
from efrit.protocol.handover import MAX_BATCH_ELEMENTS

MAX_CALLS = 4
"""Calls to one bridge at a time: what arrives together is synced to its disk together."""
MAX_TOGETHER = 2 * MAX_BATCH_ELEMENTS
"""Elements of batches that wait, or whose answer does: one batch gathers while another is under way."""
FAILURES = 3
"""Calls in a row that open the circuit breaker, or streams that cannot be read."""
FIRST_PAUSE_SECONDS = 2.0
LAST_PAUSE_SECONDS = 60.0
"""How long the circuit breaker stays open: at first, and after many probes that failed."""


class Depth(IntEnum):
    """How much of a bridge a call needs; one that succeeds proves that all above it works."""

    READ = 0
    WRITE = 1
    """Its disk."""
    SUBMIT = 2
    """Room on its disk."""


class _Kind(NamedTuple):
    """What a key waits for: a call of this depth, as an element of a batch or one of its own."""

    depth: Depth
    together: bool


class BulkheadCallbacks(Protocol):
    """What a bulkhead has done by those who have the connection and the work queue."""

    def requeue(self, key: WorkKey) -> None:
        """Have a parked key reconciled, to learn why it waits."""

    def invite(self, key: WorkKey) -> None:
        """Have a parked key reconciled and its end reported to `Bulkhead.key_reconciled`."""

    def probe(self, depth: Depth) -> None:
        """Make a call of this depth, for nobody waits to make one."""

    def changed(self, problem: str | None) -> None:
        """Report why the bridge does not answer; None: it does."""


class Bulkhead:
    """Who may call one bridge. Close it with the connection."""

    def __init__(self, callbacks: BulkheadCallbacks) -> None:
        self._callbacks = callbacks
        self.places = MAX_CALLS
        """Calls and elements of batches at a time: more once the bridge takes batches."""
        self._in_flight = 0
        self._alone = 0
        """Those of them that are not elements of batches."""
        self._parked: dict[_Kind, OrderedDict[WorkKey, None]] = {
            _Kind(depth, together): OrderedDict() for depth in Depth for together in (False, True)
        }
        self._invited: dict[WorkKey, _Kind] = {}
        self._failures = dict.fromkeys(Depth, 0)
        self._unreadable = 0
        self._broken: dict[Depth, str] = {}
        """Why the breaker is open, by the depth of what has failed."""
        self._reported = False
        """Whether it was reported that the bridge does not answer."""
        self._probing = False
        self._opened = 0
        """How often it was opened in a row."""
        self._retry_at = 0.0
        self._closed_at = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._is_ended = False
        """Whether the connection is closed: a call that fails with it says nothing of the next one."""

    @property
    def parked(self) -> int:
        """How many keys wait."""
        return sum(map(len, self._parked.values()))

    @property
    def problem(self) -> str | None:
        """Why the bridge counts as not answering, None while it does. A full queue is not a reason."""
        return next((self._broken[depth] for depth in (Depth.READ, Depth.WRITE) if depth in self._broken), None)

    @contextmanager
    def call(self, key: WorkKey | None, depth: Depth = Depth.READ, *, together: bool = False) -> Iterator[None]:
        """Make a call in this block, for `key` or as a probe. Raises Parked once the key has its place.

        together: as an element of a batch.
        """
        probing = self._enter(key, _Kind(depth, together))
        self._in_flight += 1
        self._alone += not together
        try:
            yield
        finally:
            self._in_flight -= 1
            self._alone -= not together
            if probing:
                self._probing = False
            self._invite_next()

    def take_batches(self, taken: bool) -> None:
        """Take in whether the bridge takes batches."""
        places = MAX_TOGETHER if taken else MAX_CALLS
        if places != self.places:
            self.places = places
            self._invite_next()

    def _enter(self, key: WorkKey | None, kind: _Kind) -> bool:
        probing = self._blocks(kind.depth)
        if probing:
            others = len(self._invited) - (key in self._invited)
            if _now() < self._retry_at or self._probing or others:
                self._park(key, kind)
            self._probing = True
        elif not self._has_place(kind, key):  # gate: few-calls
            self._park(key, kind)
        if key is not None:
            self._unpark(key)
            self._invited.pop(key, None)
        return probing

    def _has_place(self, kind: _Kind, key: WorkKey | None = None) -> bool:
        """Return whether one call more of this kind may be made, beside those of others that are invited."""
        others = len(self._invited) - (key in self._invited)
        if self._in_flight + others >= self.places:
            return False
        if kind.together:
            return True
        alone = sum(invited != key and not other.together for invited, other in self._invited.items())
        return self._alone + alone < MAX_CALLS

    def _blocks(self, depth: Depth) -> bool:
        return any(broken_depth <= depth for broken_depth in self._broken)

    def _park(self, key: WorkKey | None, kind: _Kind) -> None:
        if key is not None and key not in self._parked[kind]:
            self._unpark(key)
            self._parked[kind][key] = None
        problem = min(((level, why) for level, why in self._broken.items() if level <= kind.depth), default=None)
        if problem is None:
            raise Parked("too many calls to its bridge are under way", None)
        raise Parked("calls to its bridge do not get through", problem[1], no_room=problem[0] is Depth.SUBMIT)

    def _unpark(self, key: WorkKey) -> None:
        for keys in self._parked.values():
            keys.pop(key, None)

    def key_reconciled(self, key: WorkKey) -> None:
        """Take in that an invited key was reconciled, whether or not it has made a call."""
        self._invited.pop(key, None)
        self._invite_next()  # gate: unused-invitation

    def succeeded(self, depth: Depth = Depth.READ) -> None:
        """Take in that the bridge has answered a call of this depth."""
        working_depths = [working_depth for working_depth in Depth if working_depth <= depth]  # gate: as-deep
        for working_depth in working_depths:
            self._failures[working_depth] = 0
        if self._broken.keys() & working_depths:
            self._broken = {
                working_depth: why
                for working_depth, why in self._broken.items()
                if working_depth not in working_depths
            }
            self._recovered()

    def failed(self, problem: str, depth: Depth = Depth.READ) -> None:
        """Take in that the bridge did not answer a call, or not the one that was made."""
        self._failures[depth] += 1
        if (self._probing and self._blocks(depth)) or self._failures[depth] >= FAILURES:
            self._open(problem, depth)

    def queue_full(self, problem: str) -> None:
        """Take in that there is no room for a request, which once is enough to know."""
        self._open(problem, Depth.SUBMIT)

    def queue_has_space(self) -> None:
        """Take in that there may be room again: the next request finds out."""
        if self._broken.keys() == {Depth.SUBMIT}:
            self._due()

    def unreadable(self, problem: str) -> None:
        """Take in that the bridge's event stream was given up because of what it said."""
        self._unreadable += 1
        if self._unreadable >= FAILURES:
            self._open(problem, Depth.READ)

    def stream_opened(self) -> None:
        """Take in that its event stream has begun anew: perhaps another process, which the next calls will show."""
        if self._broken and self._unreadable < FAILURES:
            for depth in self._broken:
                self._failures[depth] = FAILURES - 1
            self._broken.clear()
            self._recovered()

    def stream_lasted(self) -> None:
        """Take in that its event stream was readable for a while."""
        self._unreadable = 0

    def close(self) -> None:
        """Let go of all keys: the connection is closed."""
        self._is_ended = True
        if self._timer is not None:
            self._timer.cancel()
        self._broken.clear()
        self._report_problem()
        waiting = [*(key for keys in self._parked.values() for key in keys), *self._invited]
        for keys in self._parked.values():
            keys.clear()
        self._invited.clear()
        for key in waiting:
            self._callbacks.requeue(key)

    def _open(self, problem: str, depth: Depth) -> None:
        if self._is_ended or (self._blocks(depth) and not self._probing):  # gate: connection-ended
            return
        if not self._broken and _now() - self._closed_at > LAST_PAUSE_SECONDS:
            self._opened = 0
        self._opened += 1
        pause = min(FIRST_PAUSE_SECONDS * 2 ** min(self._opened - 1, 30), LAST_PAUSE_SECONDS)
        pause *= random.uniform(0.75, 1.25)  # noqa: S311
        self._retry_at = _now() + pause
        self._stop_timer()
        self._timer = asyncio.get_running_loop().call_later(pause, self._due)
        newly = [depth_below for depth_below in Depth if depth_below >= depth and not self._blocks(depth_below)]
        self._broken.setdefault(depth, problem)
        self._report_problem()
        for key in [key for kind, keys in self._parked.items() if kind.depth in newly for key in keys]:
            self._callbacks.requeue(key)

    def _due(self) -> None:
        self._retry_at = 0.0
        self._invite_next()

    def _recovered(self) -> None:
        """Take in that less is broken than before, or nothing."""
        if not self._broken:
            self._stop_timer()
            self._closed_at = _now()
            self._unreadable = 0
        self._report_problem()
        self._invite_next()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _report_problem(self) -> None:
        problem = self.problem
        if self._reported != (problem is not None):
            self._reported = problem is not None
            self._callbacks.changed(problem)

    def _invite_next(self) -> None:
        """Invite keys that may call now: first what ends work, as it makes room."""
        for kind, keys in self._parked.items():
            while keys and not self._blocks(kind.depth) and self._has_place(kind):
                self._invite(kind)
        if not self._broken or _now() < self._retry_at or self._probing or self._invited:
            return
        waiting = next((kind for kind, keys in self._parked.items() if keys and self._blocks(kind.depth)), None)
        silent = [depth for depth in self._broken if depth is not Depth.SUBMIT]
        if waiting is not None:
            self._invite(waiting)
        elif silent:
            self._callbacks.probe(max(silent))

    def _invite(self, kind: _Kind) -> None:
        key, _ = self._parked[kind].popitem(last=False)
        self._invited[key] = kind
        self._callbacks.invite(key)


def _now() -> float:
    return asyncio.get_running_loop().time()
