"""work_queue.py: no key is lost, none is worked on twice at a time, failures come back later and later."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from efrit.controller.model.keys import WorkKey
from efrit.controller.portions import AT_ONCE, PAUSE_SECONDS
from efrit.controller.work_queue import FIRST_BACKOFF_SECONDS, LAST_BACKOFF_SECONDS, LOGGED_EVERY, WorkQueue
from efrit.errors import ApiUnavailable
from tests.unit.controller.virtual_time import elapse, now, on_virtual_time

pytestmark = pytest.mark.virtual_time

KEY = WorkKey("EfritRequest", "team", "work")
OTHER = WorkKey("EfritRequest", "team", "other")
HOUR = 3600.0
Work = Callable[[WorkKey], Awaitable[None]]


@contextlib.asynccontextmanager
async def running(queue: WorkQueue, work: Work, workers: int = 1) -> AsyncIterator[None]:
    task = asyncio.create_task(queue.run(work, workers))
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


@dataclass
class Reconciliations:
    """Records when each key was reconciled; fails the first `failures` times."""

    failures: int = 0
    error: Callable[[], Exception] = lambda: ApiUnavailable("away")
    times: dict[WorkKey, list[float]] = field(default_factory=dict)

    async def __call__(self, key: WorkKey) -> None:
        self.times.setdefault(key, []).append(now())
        if self.failures:
            self.failures -= 1
            raise self.error()


async def test_many_that_are_added_for_one_reason_let_others_have_a_turn() -> None:
    queue, done = WorkQueue(), Reconciliations()
    many = [("team", str(number)) for number in range(2 * AT_ONCE + 1)]
    queue.add_all("EfritRequest", "team", many)
    assert queue.ready == AT_ONCE
    gone = WorkKey("EfritRequest", *many[-2])
    queue.settled(gone)
    async with running(queue, done):
        await elapse(3 * PAUSE_SECONDS)
    assert done.times.keys() == {WorkKey("EfritRequest", *key) for key in many} - {gone}
    assert done.times[WorkKey("EfritRequest", *many[-1])] == [PAUSE_SECONDS]


async def test_keys_are_reconciled_in_the_order_they_came() -> None:
    queue, order = WorkQueue(), list[WorkKey]()
    keys = [WorkKey("Kind", "team", str(number)) for number in range(5)]
    for key in keys:
        queue.add(key)

    async def work(key: WorkKey) -> None:
        order.append(key)

    async with running(queue, work):
        await elapse(1)

    assert order == keys


async def test_what_is_decided_about_anew_comes_back_only_for_what_came_after_that() -> None:
    queue, starts = WorkQueue(), list[float]()

    async def work(key: WorkKey) -> None:
        starts.append(now())
        queue.add(key)
        queue.add(OTHER)
        queue.decided_anew(key)
        if len(starts) == 1:
            queue.add(key)

    async def only_first(key: WorkKey) -> None:
        if key == KEY:
            await work(key)

    async with running(queue, only_first):
        queue.add(KEY)
        await elapse(1)

    assert len(starts) == 2
    assert len(queue) == 0


@pytest.mark.parametrize(
    ("wishes", "times"),
    [
        ([(0, None)] * 5, [0]),
        ([(0, 5)], [5]),
        ([(0, 5), (0, 20)], [5]),
        ([(0, 20), (0, 5)], [5]),
        ([(0, 0)], [0]),
        ([(0, -1)], [0]),
        ([(0, 5), (6, 5)], [5, 11]),
    ],
    ids=["at once, many times", "later", "earlier first", "later first", "now", "before now", "again once fulfilled"],
)
async def test_a_key_is_reconciled_once_at_the_earliest_requested_time(
    wishes: list[tuple[float, float | None]], times: list[float]
) -> None:
    queue, reconciled = WorkQueue(), Reconciliations()
    async with running(queue, reconciled):
        for at, delay in wishes:
            if at > now():
                await elapse(at - now())
            if delay is None:
                queue.add(KEY)
            else:
                queue.add_after(KEY, delay)
        await elapse(100)

    assert reconciled.times == {KEY: times}


async def test_a_forgotten_key_does_not_come_back() -> None:
    queue, reconciled = WorkQueue(), Reconciliations()

    async with running(queue, reconciled):
        queue.add_after(KEY, 5)
        queue.forget(KEY)
        await elapse(100)

    assert reconciled.times == {}


@pytest.mark.parametrize("error", [ApiUnavailable("away"), RuntimeError("a bug")], ids=["expected", "unexpected"])
async def test_a_failure_comes_back_later_and_later_up_to_half_a_minute(error: Exception) -> None:
    queue, reconciled = WorkQueue(), Reconciliations(failures=20, error=lambda: error)
    async with running(queue, reconciled):
        queue.add(KEY)
        await elapse(3600)

    (times,) = reconciled.times.values()
    assert len(times) == 21
    for number, (before, after) in enumerate(itertools.pairwise(times)):
        backoff = min(FIRST_BACKOFF_SECONDS * 2**number, LAST_BACKOFF_SECONDS)
        assert 0.75 * backoff <= after - before <= 1.25 * backoff + 1e-6
    assert queue.failed == 20


async def test_after_a_success_the_backoff_starts_anew() -> None:
    queue, reconciled = WorkQueue(), Reconciliations(failures=6)

    async with running(queue, reconciled):
        queue.add(KEY)
        await elapse(100)
        reconciled.failures = 1
        queue.add(KEY)
        await elapse(100)

    times = reconciled.times[KEY]
    assert times[-1] - times[-2] <= 1.25 * FIRST_BACKOFF_SECONDS + 1e-6


async def test_a_failure_that_lasts_is_logged_less_and_less_often(caplog: pytest.LogCaptureFixture) -> None:
    queue, reconciled = WorkQueue(), Reconciliations(failures=1000)
    with caplog.at_level("INFO", "efrit"):
        async with running(queue, reconciled):
            queue.add(KEY)
            await elapse(HOUR)

    # One line in five minutes once it has lasted: of ten thousand such keys the log would have nothing else.
    assert len(reconciled.times[KEY]) > 100
    assert 8 <= len(caplog.messages) <= 20
    assert f"failure {LOGGED_EVERY}," in caplog.text


async def test_a_failing_key_is_reconciled_at_once_when_something_changes() -> None:
    queue, reconciled = WorkQueue(), Reconciliations(failures=8)

    async with running(queue, reconciled):
        queue.add(KEY)
        await elapse(10)
        queue.add(KEY)
        await elapse(0.001)

    assert reconciled.times[KEY][-1] == 10


async def test_the_depth_counts_keys_that_wait() -> None:
    queue = WorkQueue()
    queue.add(KEY)
    queue.add(KEY)
    queue.add_after(OTHER, 10)

    assert len(queue) == 1


# Whatever the schedule, no key is lost and none is worked on twice at a time.

steps = st.lists(
    st.tuples(
        st.floats(0, 3),  # time before the step
        st.integers(0, 3),  # which key
        st.none() | st.floats(0, 5),  # None: add, else: add_after
    ),
    max_size=30,
)
pieces_of_work = st.lists(
    st.tuples(st.floats(0, 4), st.sampled_from(["done", "expected", "unexpected"])), max_size=30
)


@settings(deadline=None)
@given(steps=steps, work_done=pieces_of_work, workers=st.integers(1, 4))
def test_no_schedule_loses_a_key_or_works_on_one_twice_at_a_time(
    steps: list[tuple[float, int, float | None]], work_done: list[tuple[float, str]], workers: int
) -> None:
    active: set[WorkKey] = set()
    doubled: set[WorkKey] = set()
    journal: list[tuple[str, WorkKey]] = []
    to_come = list(reversed(work_done))

    async def work(key: WorkKey) -> None:
        doubled.update(active & {key})
        active.add(key)
        journal.append(("reconcile", key))
        duration, end = to_come.pop() if to_come else (0.0, "done")
        try:
            await elapse(duration)
        finally:
            active.discard(key)
        journal.append((end, key))
        if end == "expected":
            raise ApiUnavailable("away")
        if end == "unexpected":
            raise RuntimeError("a bug")

    @on_virtual_time
    async def schedule() -> None:
        queue = WorkQueue()
        async with running(queue, work, workers):
            for pause, number, delay in steps:
                await elapse(pause)
                key = WorkKey("Kind", "team", str(number))
                journal.append(("add", key))
                if delay is None:
                    queue.add(key)
                else:
                    queue.add_after(key, delay)
            # Thirty pieces of four seconds each and the backoff after thirty failures are over by then.
            await elapse(HOUR)
            assert len(queue) == 0

    schedule()

    assert not doubled
    assert not active
    for key in {key for _, key in journal}:
        events = [event for event, its in journal if its == key]
        last_add = len(events) - 1 - events[::-1].index("add")
        assert "reconcile" in events[last_add:], "a key was added and not reconciled after it"
        assert events[-1] == "done", "the last reconciliation failed and was not retried"


async def test_compacting_keeps_the_times_of_all_keys() -> None:
    queue, reconciled = WorkQueue(), Reconciliations()
    keys = [WorkKey("EfritRequest", "team", f"work-{number}") for number in range(100)]
    for seconds in (3000, 2000, 1000):
        for number, key in enumerate(keys):
            queue.add_after(key, seconds + number)

    async with running(queue, reconciled):
        await elapse(4000)

    assert reconciled.times == {key: [1000 + number] for number, key in enumerate(keys)}


@pytest.mark.parametrize(
    ("requested", "least", "most"), [(17, 17, 17 * 1.3), (86_400, 17, 600)], ids=["some", "beyond reason"]
)
async def test_a_key_waits_as_long_as_the_api_server_asks_within_reason(
    requested: float, least: float, most: float
) -> None:
    refusal = ApiUnavailable("429", retry_after=requested)
    queue, reconciled = WorkQueue(), Reconciliations(failures=1, error=lambda: refusal)
    queue.add(KEY)

    async with running(queue, reconciled):
        await elapse(700)

    first, second = reconciled.times[KEY]
    assert least <= second - first <= most


async def test_keys_that_have_one_another_worked_on_for_ever_leave_the_loop_its_turns() -> None:
    queue, order, begun, others_had_a_turn = WorkQueue(), list[WorkKey](), asyncio.Event(), asyncio.Event()

    async def work(key: WorkKey) -> None:
        order.append(key)
        begun.set()
        if not others_had_a_turn.is_set() and len(order) < 1000:
            queue.add(OTHER if key == KEY else KEY)

    queue.add(KEY)
    async with running(queue, work):
        await begun.wait()
        others_had_a_turn.set()
    assert {KEY, OTHER} == set(order)
    assert len(order) < 1000


# Work that goes on without a worker.


@dataclass
class Detaching:
    """Detaches its keys, and records when each was reconciled."""

    queue: WorkQueue
    error: Exception | None = None
    times: dict[WorkKey, list[float]] = field(default_factory=dict)

    async def __call__(self, key: WorkKey) -> None:
        self.times.setdefault(key, []).append(now())
        self.queue.detach(key)
        if self.error is not None:
            raise self.error


async def test_work_that_is_detached_holds_no_worker_and_is_the_only_work_on_its_key() -> None:
    queue = WorkQueue()
    work = Detaching(queue)
    async with running(queue, work):
        queue.add(KEY)
        queue.add(OTHER)
        await elapse(1)
        assert (work.times, queue.active) == ({KEY: [0.0], OTHER: [0.0]}, 2)
        queue.add(KEY)
        await elapse(10)
        assert work.times[KEY] == [0.0]

        queue.release(KEY)
        await elapse(1)

        assert work.times[KEY] == [0.0, 11.0]
        queue.release(KEY)
        queue.release(OTHER)
        # Not known any more: nothing happens.
        queue.release(OTHER)
        assert queue.active == 0


async def test_detached_work_that_fails_is_tried_again_later_and_later() -> None:
    queue = WorkQueue()
    work = Detaching(queue)
    async with running(queue, work):
        queue.add(KEY)
        pauses = []
        for _ in range(5):
            await elapse(LAST_BACKOFF_SECONDS)
            failed = now()
            queue.release(KEY, ApiUnavailable("away"))
            await elapse(LAST_BACKOFF_SECONDS)
            pauses.append(work.times[KEY][-1] - failed)
    assert pauses[0] < 2 * FIRST_BACKOFF_SECONDS
    assert pauses == sorted(pauses)
    assert pauses[-1] > 8 * FIRST_BACKOFF_SECONDS


async def test_work_that_fails_after_it_was_detached_is_tried_again_once_it_is_over() -> None:
    queue = WorkQueue()
    work = Detaching(queue, ApiUnavailable("away"))
    async with running(queue, work):
        queue.add(KEY)
        await elapse(10)
        assert work.times[KEY] == [0.0]
        queue.release(KEY)
        await elapse(1)
        assert len(work.times[KEY]) == 2


async def test_work_that_ends_before_its_worker_has_finished_leaves_nothing_behind() -> None:
    queue, reconciled = WorkQueue(), list[float]()

    async def work(key: WorkKey) -> None:
        reconciled.append(now())
        queue.detach(key)
        queue.release(key)
        await elapse(5)

    async with running(queue, work):
        queue.add(KEY)
        await elapse(1)
        queue.add(KEY)
        await elapse(1)
        assert (reconciled, queue.active) == ([0.0], 1)
        await elapse(20)
        assert (reconciled, queue.active) == ([0.0, 5.0], 0)


async def test_what_is_not_worked_on_cannot_be_detached() -> None:
    queue = WorkQueue()
    queue.detach(KEY)
    queue.release(KEY, ApiUnavailable("away"))
    assert (queue.active, queue.failed) == (0, 0)
