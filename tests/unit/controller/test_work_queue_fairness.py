"""work_queue.py among namespaces: nobody's burst, hang or resync keeps another waiting. On virtual time."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from efrit.controller.act.bulkhead import MAX_CALLS
from efrit.controller.model.keys import RESYNC, WorkKey
from efrit.controller.store.store import Store
from efrit.controller.work_queue import (
    ASIDE_OF_ONE,
    BACKGROUND_PAUSE_SECONDS,
    LOADED_FOR_SECONDS,
    LOADED_LENGTH,
    LOADED_WAIT_SECONDS,
    LONGEST_WORK_SECONDS,
    MAX_ASIDE,
    MAX_LOADED,
    YOUNG_SECONDS,
    WorkQueue,
)
from tests.support.factory import CONFIG, NOW, instance_json
from tests.unit.controller.test_work_queue import running
from tests.unit.controller.virtual_time import burn, elapse, now

pytestmark = pytest.mark.virtual_time

WORKERS = 32
HOUR = 3600.0


def key(namespace: str, name: object = "one", kind: str = "EfritRequest") -> WorkKey:
    return WorkKey(kind, namespace, str(name))


@dataclass
class Work:
    """Takes its time over each key, by namespace; remembers who began and who ended, in order."""

    takes: dict[str, float] = field(default_factory=dict)
    began: list[WorkKey] = field(default_factory=list)
    ended: list[WorkKey] = field(default_factory=list)
    active: dict[str, int] = field(default_factory=dict)
    most: dict[str, int] = field(default_factory=dict)

    async def __call__(self, one: WorkKey) -> None:
        namespace = one.namespace
        self.began.append(one)
        self.active[namespace] = self.active.get(namespace, 0) + 1
        self.most[namespace] = max(self.most.get(namespace, 0), self.active[namespace])
        try:
            await elapse(self.takes.get(namespace, 0.01))
        finally:
            self.active[namespace] -= 1
        self.ended.append(one)


async def test_a_trickle_among_a_burst_is_served_at_its_next_turn() -> None:
    queue, work = WorkQueue(), Work()
    async with running(queue, work, WORKERS):
        for number in range(3000):
            queue.add(key("burst", number))
        for number in range(5):
            await elapse(0.1)
            before = len(work.ended)
            queue.add(key("quiet", number))
            await elapse(0.03)
            # A worker is free for it: what comes between is what ended meanwhile.
            position = work.ended.index(key("quiet", number)) - before
            assert position <= WORKERS
        await elapse(HOUR)

    assert len(work.ended) == 3005


async def test_at_each_step_a_request_waits_for_one_step_of_each_key_of_a_burst_that_is_under_way() -> None:
    queue, steps, step_seconds = WorkQueue(), list[str](), 0.004

    async def work(one: WorkKey) -> None:
        for _ in ("its turn", "the call to its bridge", "the reply", "the write of its status", "the answer to it"):
            # All take turns on one loop; what a call waits for is a moment at least.
            burn(step_seconds)
            steps.append(one.namespace)
            await elapse(0.001)

    async with running(queue, work, WORKERS):
        for number in range(3000):
            queue.add(key("burst", number))
        for number in range(20):
            await elapse(0.1)
            before = len(steps)
            queue.add(key("quiet", number))
            while steps[before:].count("quiet") < 5:
                await elapse(0.001)
            between = "".join(step[0] for step in steps[before:]).split("q")[:5]
            assert max(map(len, between)) <= 7

    assert steps.count("quiet") == 100


async def test_a_key_that_goes_first_does_so_whether_it_waits_already_or_is_worked_on() -> None:
    queue, work = WorkQueue(), Work()
    async with running(queue, work, 1):
        for number in range(3000):
            queue.add(key("team", number))
        await elapse(0.005)
        queue.add(key("team", 0), first=True)
        queue.add(key("team", 2999), first=True)
        queue.add(key("team", "new"), first=True)
        await elapse(0.1)
        began = [key.name for key in work.began]
        assert began[:7] == ["0", "1", "2999", "2", "new", "3", "0"]
        # That once it went first does not make it do so again.
        queue.add(key("team", 0))
        await elapse(HOUR)

    assert work.began[-1] == key("team", 0)


async def test_calls_that_hang_hold_a_share_of_the_workers_and_nobody_else_waits() -> None:
    queue, work = WorkQueue(), Work(takes={"hung": 200.0})
    async with running(queue, work, WORKERS):
        for number in range(130):
            queue.add(key("hung", number))
        await elapse(1)
        for namespace in ("a", "b", "c"):
            queue.add(key(namespace))
        await elapse(1)

        assert MAX_CALLS < work.most["hung"] == 7
        assert {key.namespace for key in work.ended} == {"a", "b", "c"}
        assert queue.stalled_seconds() == 0
        await elapse(150)
        assert queue.stalled_seconds() == 0, "a namespace that hangs proves nothing of the queue"


async def test_what_is_set_aside_gives_its_worker_to_others_of_its_namespace() -> None:
    queue, work = WorkQueue(), Work(takes={"team": 200.0})
    async with running(queue, work, WORKERS):
        for number in range(3 * ASIDE_OF_ONE):
            queue.add(key("team", number))
        await elapse(1)
        assert len(work.began) == 7
        for one in list(work.began):
            queue.set_aside(one)
        await elapse(1)
        assert len(work.began) == 14
        queue.add(work.began[0])
        for one in list(work.began):
            queue.set_aside(one)
        await elapse(1)
        assert len(work.began) == 7 + ASIDE_OF_ONE, "no more than for two bridges, and none twice at a time"

        await elapse(HOUR)
        assert len(work.ended) == 3 * ASIDE_OF_ONE + 1
        queue.set_aside(work.began[0])
        work.takes.clear()
        for number in range(100):
            queue.add(key("team", number))
        await elapse(HOUR)
        assert (queue.active, work.active["team"], work.most["team"]) == (0, 0, 7 + ASIDE_OF_ONE)


async def test_many_that_are_set_aside_hold_the_workers_again() -> None:
    hung = {f"hung-{number}": 200.0 for number in range(10)}
    queue, work = WorkQueue(), Work(takes=hung)
    async with running(queue, work, WORKERS):
        for namespace in hung:
            for name in range(10):
                queue.add(key(namespace, name))
        for _ in range(10):
            await elapse(1)
            for one in list(work.began):
                queue.set_aside(one)

        assert queue.active <= WORKERS + MAX_ASIDE


async def test_where_the_loop_is_late_a_burst_has_few_keys_under_way_and_more_where_it_is_not() -> None:
    queue, busy, began = WorkQueue(), [0.02], list[int]()
    claims, most_claims = set[WorkKey](), list[int]()

    async def work(one: WorkKey) -> None:
        if one.kind == "EfritClaim":
            claims.add(one)
            most_claims.append(len(claims))
            await elapse(0.1)
            claims.discard(one)
            return
        began.append(queue.active - len(claims))
        burn(busy[0])
        await elapse(0.1)

    async with running(queue, work, WORKERS):
        for number in range(400):
            queue.add(key("burst", number))
        await elapse(3)
        assert max(began[:10]) == 7
        assert set(began[-10:]) <= {1, 2, 3}

        for number in range(40):
            queue.add(key("burst", number, "EfritClaim"))
        await elapse(2)
        # Each waits for the API server and not for the loop.
        assert len(most_claims) == 40
        assert max(most_claims) == 7
        assert set(began[-10:]) <= {1, 2, 3}

        busy[0] = 0.0
        await elapse(5)
        assert max(began[-10:]) == 7


async def test_where_the_loop_was_late_a_key_waits_for_those_that_hang_no_longer_than_they_are_young() -> None:
    queue, began = WorkQueue(), list[str]()

    async def work(one: WorkKey) -> None:
        began.append(one.name)
        if one.name.startswith("hangs"):
            await elapse(30)
        burn(0.02)

    async with running(queue, work, WORKERS):
        for number in range(100):
            queue.add(key("team", number))
        await elapse(3)
        began.clear()
        for number in range(4):
            queue.add(key("team", f"hangs-{number}"))
            await elapse(0.01)
        assert began == ["hangs-0", "hangs-1"]
        await elapse(YOUNG_SECONDS)

    assert began == ["hangs-0", "hangs-1", "hangs-2", "hangs-3"]


async def test_many_namespaces_that_hang_leave_a_worker_for_one_that_comes() -> None:
    queue, work = WorkQueue(), Work(takes={f"hung-{number}": 200.0 for number in range(20)})
    async with running(queue, work, WORKERS):
        for number in range(20):
            for name in range(10):
                queue.add(key(f"hung-{number}", name))
        await elapse(1)
        queue.add(key("quiet"))
        await elapse(1)

        assert key("quiet") in work.ended


async def test_a_queue_whose_workers_are_all_held_is_stuck_until_a_key_is_finished() -> None:
    queue, work = WorkQueue(), Work(takes={str(number): 100.0 for number in range(4)})
    async with running(queue, work, 4):
        await elapse(50)
        assert queue.stalled_seconds() == 0, "nothing was to be done"
        for number in range(5):
            queue.add(key(str(number)))
        await elapse(70)
        assert queue.stalled_seconds() == 70
        assert queue.oldest_active_seconds() == 70
        await elapse(35)
        assert queue.stalled_seconds() == 0


async def test_a_key_that_nobody_takes_up_is_a_queue_that_is_stuck() -> None:
    queue = WorkQueue()
    queue.add(key("team"))
    await elapse(90)

    assert queue.stalled_seconds() == 90


async def test_work_without_end_is_cut_off_and_comes_back() -> None:
    queue, work = WorkQueue(), Work(takes={"team": 10 * LONGEST_WORK_SECONDS})
    async with running(queue, work, 4):
        queue.add(key("team"))
        await elapse(LONGEST_WORK_SECONDS + 1)

    assert work.began == [key("team")] * 2


# The background.


async def test_the_background_goes_on_slowly_while_others_never_cease_to_wait() -> None:
    queue, work = WorkQueue(), Work()
    for number in range(10_000):
        queue.add(key("team", number))
    for number in range(10):
        queue.add_background(key("team", number, "Resync"))
    async with running(queue, work, 1):
        await elapse(4.5 * BACKGROUND_PAUSE_SECONDS)

    assert [key.kind for key in work.ended].count("Resync") == 4


async def test_requests_overtake_the_resync_of_two_hundred_instances() -> None:
    queue, applied, before = WorkQueue(), list[str](), list[int]()
    store = Store(queue, CONFIG, lambda: NOW, now)

    async def work(one: WorkKey) -> None:
        if one.kind == RESYNC:
            store.instances.resync((one.namespace, one.name))
        elif one.kind == "EfritInstance":
            await elapse(0.1)
            applied.append(one.name)
        else:
            await elapse(0.01)
            before.append(len(applied))

    for number in range(200):
        store.instances.observe(instance_json(f"i{number}"))
    async with running(queue, work, WORKERS):
        await elapse(60)
        applied.clear()
        await store.instances.resync_all(0.0)
        for number in range(10):
            for namespace in ("quiet", "team"):
                queue.add(key(namespace, number))
            await elapse(0.05)
        await elapse(0.5)
        assert len(before) == 20
        assert max(before) < 100, "each waits for what is under way, not for what is due"
        await elapse(HOUR)

    assert len(applied) == 200


async def test_the_background_takes_few_workers() -> None:
    queue, work = WorkQueue(), Work(takes={f"n{number}": 5.0 for number in range(100)})
    for number in range(100):
        queue.add_background(key(f"n{number}", kind="Resync"))
    async with running(queue, work, WORKERS):
        await elapse(1)

        assert queue.active == 4
        assert queue.background == 96


async def test_a_key_in_the_background_that_somebody_waits_for_leaves_it() -> None:
    queue, work = WorkQueue(), Work()
    for number in range(50):
        queue.add(key("team", number))
    for name in ("a", "b"):
        queue.add_background(key("team", name, "EfritInstance"))
    queue.add(key("team", "b", "EfritInstance"))
    async with running(queue, work, 1):
        await elapse(HOUR)

    assert work.ended.count(key("team", "b", "EfritInstance")) == 1
    assert work.ended.index(key("team", "b", "EfritInstance")) < 3
    assert work.ended[-1] == key("team", "a", "EfritInstance")
    assert (queue.lanes, len(queue)) == (0, 0)


async def test_a_key_put_off_while_it_is_worked_on_comes_again_from_the_background() -> None:
    queue, work = WorkQueue(), Work(takes={"team": 1.0})
    async with running(queue, work, 4):
        queue.add(key("team"))
        await elapse(0.5)
        queue.add_background(key("team"))
        queue.add_background_after(key("team"), 10)
        await elapse(5)
        assert work.ended == [key("team")] * 2
        await elapse(10)

    assert work.ended == [key("team")] * 3


# Load.


async def test_a_namespace_is_loaded_while_many_of_its_keys_wait_and_a_moment_longer() -> None:
    queue = WorkQueue()
    for number in range(LOADED_LENGTH):
        assert not queue.is_loaded("burst")
        queue.add(key("burst", number))

    assert queue.is_loaded("burst")
    assert not queue.is_loaded("quiet")
    async with running(queue, Work(), WORKERS):
        await elapse(LOADED_FOR_SECONDS - 0.1)
        assert queue.is_loaded("burst")
        await elapse(0.2)
        assert not queue.is_loaded("burst")


async def test_a_namespace_is_loaded_once_a_key_has_waited_for_long() -> None:
    queue = WorkQueue()
    queue.add(key("team"))
    await elapse(LOADED_WAIT_SECONDS)
    async with running(queue, Work(), 1):
        await elapse(0.1)

        assert queue.is_loaded("team")


def _load(queue: WorkQueue, namespace: str) -> None:
    """Have a namespace count as loaded, with no key of it left."""
    keys = [key(namespace, number) for number in range(LOADED_LENGTH)]
    for one in keys:
        queue.add(one)
    assert queue.is_loaded(namespace)
    for one in keys:
        queue.settled(one)


async def test_of_more_loaded_namespaces_than_are_remembered_those_loaded_last_are_kept() -> None:
    queue = WorkQueue()
    names = [f"n{number}" for number in range(MAX_LOADED)]
    for name in names:
        _load(queue, name)
    assert all(queue.is_loaded(name) for name in names)

    # The load of one that is loaded again begins anew.
    await elapse(LOADED_FOR_SECONDS * 0.6)
    _load(queue, names[0])
    _load(queue, "another")

    assert [name for name in [*names, "another"] if not queue.is_loaded(name)] == [names[1]]


async def test_work_that_is_cut_off_and_takes_its_time_to_end_keeps_nothing_else_from_its_own() -> None:
    queue, began, ended = WorkQueue(), list[WorkKey](), list[WorkKey]()

    async def work(one: WorkKey) -> None:
        began.append(one)
        try:
            await elapse(10 * LONGEST_WORK_SECONDS)
        finally:
            await elapse(100.0)
            ended.append(one)

    async with running(queue, work, 4):
        queue.add(key("team"))
        await elapse(50)
        queue.add(key("other"))
        queue.add_after(key("later"), LONGEST_WORK_SECONDS - 40)
        await elapse(LONGEST_WORK_SECONDS + 55)
        assert (began, ended) == ([key("team"), key("other"), key("later"), key("team")], [key("team")])
        await elapse(50)

    assert ended[:2] == [key("team"), key("other")]
