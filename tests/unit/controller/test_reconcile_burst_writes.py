"""How often the status of each request of a burst is written: once, at its end."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta

import pytest

from efrit.api.pool import PlacementStrategy
from efrit.controller import work_queue
from efrit.controller.decide.open_status import FEW, MAX_REPORT_DELAY, REQUEUE_UNDER_LOAD, WRITES_A_SECOND
from efrit.controller.decide.requests import decide_request
from efrit.controller.model.actions import PatchStatus, RequeueAfter
from efrit.controller.model.keys import WorkKey
from efrit.controller.model.snapshots import PoolPlace, RequestSnapshot
from efrit.protocol import RequestState
from tests.support.factory import (
    CONFIG,
    NOW,
    POD_UID,
    answered,
    away,
    connected,
    instance,
    of_kind,
    ready,
    request,
    request_json,
    seconds,
    snapshot,
    stats,
    view,
    written,
)
from tests.support.timeout import TIMEOUT
from tests.unit.controller.fake_bridge import INSTANCE
from tests.unit.controller.reconciling import REQUESTS, Rig

COUNT = work_queue.LOADED_LENGTH + 10
SUSPENDED = away(instance(spec={"operatingMode": "Suspended"}))
HELD = ready(instance(spec={"queue": {"maxPending": 1}}), bridge=connected(bridge_stats=stats(pending=1)))


async def test_each_request_of_a_burst_is_written_once(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work_queue, "LOADED_FOR_SECONDS", 3600)
    names = [f"r{number}" for number in range(COUNT)]
    rig.ready()
    for name in names:
        rig.bridge.answers["PUT", f"/v1/requests/uid-{name}"] = (201, view(f"uid-{name}").to_json())
        rig.bridge.answers["DELETE", f"/v1/requests/uid-{name}"] = (204, "")
        rig.store.requests.observe(rig.api.put(f"{REQUESTS}/{name}", request_json(name, created=rig.clock())))
    reconciled: set[str] = set()
    everyone = asyncio.Event()

    async def work(key: WorkKey) -> None:
        if key.kind == "EfritRequest":
            await rig.reconciler.reconcile(key)
            reconciled.add(key.name)
            if len(reconciled) == COUNT:
                everyone.set()

    async def until_all_are_reconciled() -> None:
        reconciled.clear()
        everyone.clear()
        await asyncio.wait_for(everyone.wait(), TIMEOUT)

    working = asyncio.create_task(rig.queue.run(work, 8))
    await until_all_are_reconciled()
    # Each has waited on the queue and run for longer than a quiet controller would keep to itself.
    rig.clock.passed = timedelta(minutes=1)
    for name in names:
        running = view(f"uid-{name}", state=RequestState.RUNNING, attempt=1)
        rig.store.bridges.event(INSTANCE, POD_UID, running)
    await until_all_are_reconciled()
    for name in names:
        rig.store.bridges.event(INSTANCE, POD_UID, answered(f"uid-{name}", result="2"))
    await rig.api.until(lambda: sum("phase" in obj.get("status", {}) for obj in rig.api.objects.values()) == COUNT)
    working.cancel()
    await asyncio.gather(working, return_exceptions=True)

    patches = Counter(call.path for call in rig.api.made("PATCH"))
    assert set(patches.values()) == {1}
    assert len(patches) == COUNT


@pytest.mark.parametrize(
    ("waiting", "after"),
    [(0, seconds(1)), (10, seconds(1)), (3000, seconds(3000 / WRITES_A_SECOND)), (100_000, MAX_REPORT_DELAY)],
)
@pytest.mark.parametrize("pooled", [False, True], ids=["instance", "pool"])
def test_many_that_wait_for_one_instance_or_pool_say_so_late(pooled: bool, waiting: int, after: timedelta) -> None:
    of_pool = RequestSnapshot(
        request(target=None, created=NOW, poolRef={"name": "crew"}),
        CONFIG,
        pool=PoolPlace("crew", PlacementStrategy.SPREAD, 2, waiting=waiting),
    )
    of_instance = snapshot(request(created=NOW), replace(HELD, waiting=waiting), ahead=5)
    request_snapshot = of_pool if pooled else of_instance

    assert of_kind(decide_request(request_snapshot, NOW + after - seconds(0.1)), PatchStatus) == []
    assert written(decide_request(request_snapshot, NOW + after))["reason"] == "Backpressure"


def test_under_load_nothing_is_said_that_need_not_be_and_it_is_reconciled_again() -> None:
    request_snapshot = snapshot(request(created=NOW), HELD, ahead=5, loaded=True)

    actions = decide_request(request_snapshot, NOW + seconds(3600))

    assert of_kind(actions, PatchStatus) == []
    assert RequeueAfter(REQUEUE_UNDER_LOAD) in actions


def test_those_that_wait_under_load_do_not_come_again_all_at_once_and_are_the_next_load() -> None:
    count = 1000
    waits_for = replace(SUSPENDED, waiting=count)
    waiting = (snapshot(request(f"r{number}", created=NOW), waits_for, loaded=True) for number in range(count))

    assert_spread(moments_under_load(waiting), count)


def test_those_that_an_instance_has_do_not_come_again_all_at_once_either_and_what_runs_says_so_soon() -> None:
    """Else thousands on queues are a load that never ends: each is looked at again while the others still are."""
    count = 1000
    busy = replace(ready(), open_requests=count)
    queued = (
        snapshot(request(f"r{number}", created=NOW), busy, bridge_view=view(f"uid-r{number}"), loaded=True)
        for number in range(count)
    )
    running = view(state=RequestState.RUNNING, attempt=1, started_time=NOW)

    assert_spread(moments_under_load(queued), count)
    again_for_running = decide_request(
        snapshot(request(), busy, bridge_view=running, loaded=True), NOW + seconds(600)
    )
    assert RequeueAfter(REQUEUE_UNDER_LOAD) in again_for_running


def test_of_many_on_the_queue_of_an_instance_few_say_so_in_a_second() -> None:
    count = 1000
    moments = Counter[int]()
    for number in range(count):
        queued = view(f"uid-r{number}", queued_time=NOW)
        request_snapshot = snapshot(
            request(f"r{number}", created=NOW), replace(ready(), open_requests=count), bridge_view=queued
        )
        pause = min(action.after for action in of_kind(decide_request(request_snapshot, NOW), RequeueAfter))
        assert of_kind(decide_request(request_snapshot, NOW + pause), PatchStatus)
        moments[int((pause - CONFIG.queued_after).total_seconds())] += 1

    assert_spread(moments, count)


def test_of_few_on_the_queue_each_says_so_after_the_same_time() -> None:
    queued = view(queued_time=NOW)
    request_snapshot = snapshot(request(created=NOW), replace(ready(), open_requests=FEW), bridge_view=queued)

    assert written(decide_request(request_snapshot, NOW + CONFIG.queued_after))["reason"] == "Queued"


def moments_under_load(snapshots: Iterable[RequestSnapshot]) -> Counter[int]:
    """Return how many are looked at again in each second after the pause that all of them have."""
    moments = Counter[int]()
    for request_snapshot in snapshots:
        actions = decide_request(request_snapshot, NOW + seconds(600))
        again = min(action.after for action in of_kind(actions, RequeueAfter))
        moments[int((again - REQUEUE_UNDER_LOAD).total_seconds())] += 1
    return moments


def assert_spread(moments: Counter[int], count: int) -> None:
    """Raise AssertionError where more than a few of so many have the same second."""
    assert set(moments) <= set(range(count // WRITES_A_SECOND))
    assert max(moments.values()) <= 3 * WRITES_A_SECOND
