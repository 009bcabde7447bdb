"""The keyed work queue: a key says "reconcile again", never what happened.

A key waits at most once, is worked on by at most one worker, and is worked on again if it was added meanwhile.
Failures come back with exponential backoff and jitter per key. These are the semantics of client-go's workqueue.

Namespaces share it fairly: each has a lane of its own (lanes.py), and its exclusive claims have another. None may
hold more than its share of the workers, so that calls that hang keep only their own namespace waiting. What is done
to be on the safe side, as the sweeps and the periodic re-application of children, waits in the background until no
other key is ready.
"""

from __future__ import annotations

import asyncio
import logging
import math
import random
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterable

from efrit.controller.delays import Delays
from efrit.controller.lanes import AWAITED, FIRST, Lanes, Waiting, is_of_claims, lane_of
from efrit.controller.model.keys import Key, WorkKey
from efrit.controller.pace import Pace
from efrit.controller.portions import PAUSE_SECONDS, Portions
from efrit.errors import ApiNamespaceTerminating, ApiUnavailable, EfritError

log = logging.getLogger(__name__)

FIRST_BACKOFF_SECONDS = 0.05
LAST_BACKOFF_SECONDS = 30.0
LOGGED_FAILURES = 4
LOGGED_EVERY = 10
"""Failures of a key in a row that are logged: the first ones, and after that one in so many: about five minutes."""
LONGEST_RETRY_AFTER_SECONDS = 120.0
"""A server that asks for a longer pause is asked again after this one."""
KEYS_IN_A_ROW = 32
"""After so many keys the loop has a turn, whether the work on them waits for anything or not."""
LONGEST_WORK_SECONDS = 300.0
"""Work on one key that takes longer has lost its way: it is cancelled, and comes back as a failure."""
FREE_SHARE = 1 / 4
"""A namespace may hold as many workers as this share of those that are free: seven of 32 if it is alone.

More than the calls to one bridge, so that an instance that hangs leaves some to the others of its namespace; few, as
all take turns on one loop.
"""
MAX_ASIDE = 16
ASIDE_OF_ONE = 8
"""Keys that are set aside at a time, and those of one namespace: the calls to two bridges that hang."""
YOUNG_SECONDS = 1.0
"""What is worked on for longer waits for somebody else, and does not need the loop."""
BACKGROUND_SHARE = 8
"""One worker in so many may work in the background, one at least."""
BACKGROUND_PAUSE_SECONDS = 5.0
"""While others wait, one key of the background is taken in so many seconds: it is put off, not given up."""
LOADED_LENGTH = 50
LOADED_WAIT_SECONDS = 0.5
LOADED_FOR_SECONDS = 5.0
"""A namespace is loaded while so many of its keys wait or one has waited so long, and for so long after that."""
MAX_LOADED = 1000
"""Namespaces whose load is remembered: beyond that, the one that was loaded first is forgotten."""


class WorkQueue:
    """Ready keys in fair order, delayed ones in order of time."""

    def __init__(self) -> None:
        self._ready = Lanes()
        self._background = Lanes()
        self._dirty: set[WorkKey] = set()
        """Keys that wait for a worker, or for the end of the work that is done on them."""
        self._deferred: set[WorkKey] = set()
        """Those that wait in the background, or will."""
        self._ahead: dict[WorkKey, str] = {}
        """Those that go before others of their namespace: FIRST or AWAITED."""
        self._active: dict[WorkKey, float] = {}
        """Since when each is worked on."""
        self._begun: dict[WorkKey, float] = {}
        """The same, of those whose worker has not finished its part."""
        self._held = 0
        """Workers that are held."""
        self._holding: Counter[str] = Counter()
        """Workers by lane."""
        self._aside: set[WorkKey] = set()
        """Keys that are worked on and have given their worker to others."""
        self._detaching: set[WorkKey] = set()
        """Keys whose work goes on once their worker has finished its part."""
        self._detached: set[WorkKey] = set()
        """Keys whose work goes on without a worker, and those whose worker has yet to finish its part."""
        self._in_background = 0
        self._background_taken = _now()
        """When a key of the background was taken last, or the first came after there was none."""
        self._workers = 1
        self._pace = Pace()
        self._delayed = Delays()
        self._delayed_background = Delays()
        self._portions = Portions()
        self._portion_at = math.inf
        """When the next portion is due, on the loop's clock."""
        self._failures: dict[WorkKey, int] = {}
        self._loaded: dict[str, float] = {}
        """Until when each namespace is loaded; what was loaded last is last."""
        self._idle: deque[asyncio.Future[None]] = deque()
        self._waking = False
        """Whether a worker was woken that has not looked for a key yet: it wakes the next one if there is more."""
        self._nudge: asyncio.TimerHandle | None = None
        self._sooner = asyncio.Event()
        """Set where a key is due before the timer wakes next."""
        self._wakes_at = math.inf
        """When the timer wakes next, on the loop's clock."""
        self._limits: dict[WorkKey, asyncio.Timeout] = {}
        """What ends the part of a worker that has lost its way."""
        self._progress = _now()
        """When a key was finished last, or the first came after there was none."""
        self.done = 0
        self.failed = 0

    def __len__(self) -> int:
        return len(self._dirty)

    @property
    def ready(self) -> int:
        """How many keys wait for a worker that are not in the background."""
        return len(self._ready)

    @property
    def background(self) -> int:
        """How many keys wait in the background."""
        return len(self._background)

    @property
    def active(self) -> int:
        """How many keys are worked on."""
        return len(self._active)

    @property
    def lanes(self) -> int:
        """How many lanes are kept: those whose keys wait."""
        return self._ready.lanes + self._background.lanes

    def is_active(self, key: WorkKey) -> bool:
        """Return whether a key is worked on."""
        return key in self._active

    def oldest_active_seconds(self) -> float:
        """Return for how long the key has been worked on that takes longest, 0 without one."""
        return max(0.0, _now() - min(self._active.values())) if self._active else 0.0

    def stalled_seconds(self) -> float:
        """Return for how long no key was finished though one could be worked on, or all workers are held.

        Keys of a namespace that holds its share of the workers prove nothing: its calls may hang.
        """
        stuck = not self._free or self._can_take()
        return max(0.0, _now() - self._progress) if stuck else 0.0

    def backlog(self, namespace: str) -> int:
        """Return how many keys of a namespace wait for a worker that are not in the background."""
        return self._ready.length(namespace)

    def is_loaded(self, namespace: str) -> bool:
        """Return whether many keys of a namespace wait, or one waits for long, or did a moment ago."""
        if self._ready.length(namespace) >= LOADED_LENGTH:
            self._load(namespace)
        return self._loaded.get(namespace, _now()) > _now()

    def add(self, key: WorkKey, *, first: bool = False, awaited: bool = False) -> None:
        """Have `key` reconciled as soon as possible.

        first: it is nearly done, awaited: others wait for it. Each takes turns with all else of its namespace.
        """
        if first or (awaited and key not in self._ahead):
            self._ahead[key] = FIRST if first else AWAITED
        if key in self._dirty and key not in self._deferred:
            if key in self._ahead:
                self._ready.promote(key, self._ahead[key])
            return
        self._note_first()
        if key in self._deferred:
            self._deferred.discard(key)
            self._background.discard(key)
        self._dirty.add(key)
        if key not in self._active:
            self._ready.put(key, _now(), self._ahead.get(key))
            self._wake()

    def add_all(self, kind: str, namespace: str, keys: Iterable[Key]) -> None:
        """Have objects of one kind and namespace reconciled as soon as possible; of many, a few at a time."""
        for key in self._portions.put(kind, namespace, keys):
            self.add(key)
        if self._portions and self._portion_at == math.inf:
            self._portion_at = _now() + PAUSE_SECONDS
            self._tick_by(self._portion_at)

    def add_background(self, key: WorkKey) -> None:
        """Have `key` reconciled when nothing else is to be done."""
        if key in self._dirty:
            return
        self._note_first()
        if not self._background:
            self._background_taken = _now()
        self._dirty.add(key)
        self._deferred.add(key)
        if key not in self._active:
            self._background.put(key, _now())
            self._wake()

    def add_after(self, key: WorkKey, seconds: float) -> None:
        """Have `key` reconciled in `seconds`; an earlier request for it stands."""
        if seconds <= 0:
            self.add(key)
        else:
            self._delay(self._delayed, key, seconds)

    def add_background_after(self, key: WorkKey, seconds: float) -> None:
        """Put `key` into the background in `seconds`; an earlier request of this kind for it stands."""
        if seconds <= 0:
            self.add_background(key)
        else:
            self._delay(self._delayed_background, key, seconds)

    def _delay(self, delays: Delays, key: WorkKey, seconds: float) -> None:
        at = _now() + seconds
        if delays.put(key, at):
            self._tick_by(at)

    def _tick_by(self, at: float) -> None:
        """Have the clock of the queue tick at this moment at the latest."""
        if at < self._wakes_at:
            self._sooner.set()

    def decided_anew(self, key: WorkKey) -> None:
        """Take in that who works on a key decides about it anew, with all that has had it reconciled again so far."""
        if key in self._active:
            self._dirty.discard(key)
            self._deferred.discard(key)
            self._ahead.pop(key, None)

    def forget(self, key: WorkKey) -> None:
        """Drop what is remembered of a key whose object is gone."""
        self._delayed.forget(key)
        self._delayed_background.forget(key)
        self._portions.forget(key)
        self._failures.pop(key, None)

    def settled(self, key: WorkKey) -> None:
        """Take in that nothing is left to do about a key: what has had it reconciled again so far is not a reason to.

        Who works on it goes on.
        """
        self.forget(key)
        if key in self._dirty:
            self._dirty.discard(key)
            self._deferred.discard(key)
            self._ready.discard(key)
            self._background.discard(key)
        self._ahead.pop(key, None)

    def set_aside(self, key: WorkKey) -> None:
        """Give the worker of a key to others while it waits for what is slow; it stays the only one for its key."""
        if key not in self._active or key in self._aside or len(self._aside) >= MAX_ASIDE:
            return
        if (
            sum(aside_key.namespace == key.namespace for aside_key in self._aside) < ASIDE_OF_ONE
        ):  # gate: aside-of-one
            self._aside.add(key)
            self._release_worker(lane_of(key))
            self._wake()

    def detach(self, key: WorkKey) -> None:
        """Have the work on a key go on without a worker, from the end of its part on, until `release`.

        Until then it is the only work on its key, and counts as under way.
        """
        if key in self._active:
            self._detaching.add(key)
            self._detached.add(key)

    def release(self, key: WorkKey, error: Exception | None = None) -> None:
        """End the work on a key that was detached; error: what it failed with, so that it is tried again."""
        if key not in self._detached:
            return
        self._detached.discard(key)
        self._settle(key, error)
        if key not in self._detaching:
            self._end(key)

    async def run(self, work: Callable[[WorkKey], Awaitable[None]], workers: int) -> None:
        """Work for ever with this many workers."""
        self._workers = workers
        self._pace = Pace(workers * FREE_SHARE)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._tick(), name="work-queue-clock")
            for number in range(workers + MAX_ASIDE):
                group.create_task(self._work(work), name=f"work-queue-{number}")

    async def _tick(self) -> None:
        while True:
            self._sooner.clear()
            now = _now()
            while (key := self._delayed.pop(now)) is not None:
                self.add(key)
            while (key := self._delayed_background.pop(now)) is not None:
                self.add_background(key)
            if self._portion_at <= now:
                for key in self._portions.take():
                    self.add(key)
                self._portion_at = now + PAUSE_SECONDS if self._portions else math.inf
            self._wakes_at = min(self._end_overdue(now), self._portion_at, *self._moments())
            try:
                async with asyncio.timeout_at(self._wakes_at):
                    await self._sooner.wait()
            except TimeoutError:
                continue

    def _moments(self) -> Iterable[float]:
        """Return when the next delayed keys are due."""
        for delays in (self._delayed, self._delayed_background):
            moment = delays.next_moment()
            yield math.inf if moment is None else moment

    def _end_overdue(self, now: float) -> float:
        """End work that takes too long; return when to check again. What begins until then is not overdue before."""
        longest = now - LONGEST_WORK_SECONDS
        for key, began in self._begun.items():
            if began <= longest and (limit := self._limits[key]).when() is None:
                limit.reschedule(now)
        return min((began for began in self._begun.values() if began > longest), default=now) + LONGEST_WORK_SECONDS

    # Who may begin.

    @property
    def _free(self) -> int:
        return self._workers - self._held

    def _may_begin(self, lane: str) -> bool:
        free, held = self._free, self._holding[lane]
        # An exclusive claim waits for the API server, hardly for the loop, and somebody waits for each.
        is_paced = not is_of_claims(lane)  # gate: claims-unpaced
        if is_paced and held >= self._pace.limit and self._recently_started(lane) >= self._pace.limit:  # gate: pace
            return False
        return free > 0 and held < max(1.0, free * FREE_SHARE)  # gate: worker-share

    def _recently_started(self, lane: str) -> int:
        """Return how many keys of a lane are worked on since a moment ago."""
        since = _now() - YOUNG_SECONDS
        return sum(began > since and lane_of(begun) == lane for begun, began in self._begun.items())

    def _measure_pace(self) -> None:
        """Measure how long a turn of the loop takes, while there is work."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        if self._pace.is_due(began):
            loop.call_soon(lambda: self._pace.observe(loop.time() - began))

    def _background_is_due(self) -> bool:
        max_in_background = max(1, self._workers // BACKGROUND_SHARE)
        return self._in_background < max_in_background and self._background.can_take(self._may_begin)

    def _take(self) -> tuple[Waiting, bool] | None:
        """Take the next key out, and say whether it comes from the background."""
        overdue = _now() - self._background_taken >= BACKGROUND_PAUSE_SECONDS
        if overdue and self._in_background == 0 and (entry := self._from_background()) is not None:
            return entry, True
        ready = self._ready.take(self._may_begin)
        if ready is not None:
            return ready, False
        if self._background_is_due() and (entry := self._from_background()) is not None:
            return entry, True
        return None

    def _from_background(self) -> Waiting | None:
        entry = self._background.take(self._may_begin)
        if entry is not None:
            self._background_taken = _now()
        return entry

    def _can_take(self) -> bool:
        """Return whether `_take` would return a key."""
        return self._ready.can_take(self._may_begin) or self._background_is_due()

    def _wake(self) -> None:
        """Wake a worker that has nothing to do, if it may begin a key."""
        if self._waking or not self._idle or not (self._ready or self._background):
            return
        if not self._can_take():
            self._nudge_later()
            return
        while self._idle:
            waiter = self._idle.popleft()
            if not waiter.done():
                self._waking = True
                waiter.set_result(None)
                return

    def _nudge_later(self) -> None:
        """Look again in a while, where what is worked on keeps keys from their turn: nothing says that it is old."""
        if self._pace.lowered and self._ready and self._nudge is None:  # gate: nudge
            self._nudge = asyncio.get_running_loop().call_later(YOUNG_SECONDS, self._nudged)

    def _nudged(self) -> None:
        self._nudge = None
        self._wake()

    async def _next(self) -> tuple[WorkKey, bool]:
        while (item := self._take()) is None:
            self._nudge_later()
            waiter = asyncio.get_running_loop().create_future()
            self._idle.append(waiter)
            try:
                await waiter
            finally:
                self._waking = False
        (key, since), background = item
        self._dirty.discard(key)
        self._deferred.discard(key)
        self._ahead.pop(key, None)
        if not background and _now() - since >= LOADED_WAIT_SECONDS:
            self._load(key.namespace)
        return key, background

    async def _work(self, work: Callable[[WorkKey], Awaitable[None]]) -> None:
        while True:
            key, background = await self._next()
            began = self._active[key] = self._begun[key] = _now()
            self._holding[lane_of(key)] += 1
            self._held += 1
            self._in_background += background
            # There may be more: whoever finds nothing goes to sleep again.
            self._wake()
            error: Exception | None = None
            try:
                async with asyncio.timeout(None) as self._limits[key]:
                    await work(key)
            except Exception as failure:  # noqa: BLE001 - logged, and tried again
                error = failure
            finally:
                self._finished(key, began, error, background=background)
            if self.done % KEYS_IN_A_ROW == 0:  # gate: queue-yields
                # Keys that wait for nothing, and have one another worked on again, would keep all else from running.
                await asyncio.sleep(0)

    def _finished(self, key: WorkKey, began: float, error: Exception | None, *, background: bool) -> None:
        """Take in that a worker has finished its part."""
        now = _now()
        self.done += 1
        self._progress = now
        del self._begun[key]
        self._limits.pop(key, None)
        self._in_background -= background
        if key in self._aside:
            self._aside.discard(key)
        else:
            self._release_worker(lane_of(key))
        self._measure_pace()
        detached = key in self._detaching
        self._detaching.discard(key)
        if error is not None or not detached:
            self._settle(key, error)
        if key not in self._detached:  # gate: one-work-per-key
            self._end(key)
        self._ready.charge(lane_of(key), now - began)
        self._wake()

    def _settle(self, key: WorkKey, error: Exception | None) -> None:
        """Have work that failed tried again, and forget earlier failures of what did not."""
        if error is None:
            self._failures.pop(key, None)
        elif isinstance(error, EfritError):
            self._retry(key, error)
        else:
            log.error("%s %s/%s: unexpected", *key, exc_info=error)
            self._retry(key, error, quiet=True)

    def _end(self, key: WorkKey) -> None:
        """Let others be worked on under this key."""
        del self._active[key]
        now = _now()
        if key in self._deferred:
            self._background.put(key, now)
        elif key in self._dirty:
            self._ready.put(key, now, self._ahead.get(key))
        self._wake()

    def _release_worker(self, lane: str) -> None:
        """Take in that a lane holds one worker less."""
        self._held -= 1
        self._holding[lane] -= 1
        if not self._holding[lane]:
            del self._holding[lane]

    def _note_first(self) -> None:
        if not self._dirty and not self._active:
            self._progress = _now()

    def _load(self, namespace: str) -> None:
        now = _now()
        if self._loaded.get(namespace, now) > now + LOADED_FOR_SECONDS / 2:
            return
        self._loaded.pop(namespace, None)
        if len(self._loaded) >= MAX_LOADED:
            del self._loaded[next(iter(self._loaded))]
        self._loaded[namespace] = now + LOADED_FOR_SECONDS

    def _retry(self, key: WorkKey, error: Exception, *, quiet: bool = False) -> None:
        self.failed += 1
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        backoff = min(FIRST_BACKOFF_SECONDS * 2 ** min(failures - 1, 30), LAST_BACKOFF_SECONDS)
        delay = backoff * random.uniform(0.75, 1.25)  # noqa: S311
        if isinstance(error, ApiUnavailable) and error.retry_after is not None:
            pause = min(error.retry_after, LONGEST_RETRY_AFTER_SECONDS)
            # Never earlier than asked, and not all keys at the same moment.
            delay = max(delay, pause * random.uniform(1, 1.25))  # noqa: S311
        if not quiet and (failures <= LOGGED_FAILURES or failures % LOGGED_EVERY == 0):
            level = logging.WARNING if failures > 3 else logging.INFO
            if isinstance(error, ApiNamespaceTerminating):
                level = logging.DEBUG
            log.log(level, "%s %s/%s: %s (failure %d, again in %.2f s)", *key, error, failures, delay)
        self.add_after(key, delay)


def _now() -> float:
    """Return the time of the event loop, which is that of the monotonic clock before there is a loop."""
    try:
        return asyncio.get_running_loop().time()
    except RuntimeError:
        return time.monotonic()
