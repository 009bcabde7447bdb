"""decide/figures.py: figures are written soon after work has ended, and never more often than their bounds allow."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TypeGuard

import pytest

from efrit.controller.decide import figures
from efrit.controller.decide.instances import decide_instance
from efrit.controller.manifests import Identity
from efrit.controller.model.actions import Action, PatchStatus, RequeueAfter, TakeFiguresTurn
from efrit.controller.model.keys import WorkKey
from tests.support.factory import (
    HANDOVER,
    NOW,
    POD_UID,
    Json,
    connected,
    emacs,
    final_status,
    instance,
    instance_json,
    ready,
    request_json,
    seconds,
    statefulset_json,
    stats,
)
from tests.unit.controller.store.world import ALPHA, World, child
from tests.unit.controller.virtual_time import elapse

pytestmark = pytest.mark.virtual_time

WRITTEN = NOW - seconds(4)
ENDED = NOW - seconds(2)
REPORTED: Json = {"queue": {"pending": 2, "processed": 1}}


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        pytest.param({"stats_written": None}, None, id="never written by this process"),
        pytest.param({}, ENDED + seconds(1), id="work ended more than a second ago"),
        pytest.param({"work_ended": None}, WRITTEN + seconds(10), id="no work was seen"),
        pytest.param({"open_requests": 1}, WRITTEN + seconds(10), id="a request is open"),
        pytest.param({"active_plans": 1}, WRITTEN + seconds(10), id="a plan goes on"),
        pytest.param(
            {"bridge": connected(bridge_stats=stats(pending=1, processed=2))},
            WRITTEN + seconds(10),
            id="figures lag behind",
        ),
        pytest.param(
            {"bridge": connected(bridge_stats=stats(pending=2, processed=1))},
            WRITTEN + seconds(10),
            id="the same figures",
        ),
        pytest.param({"pod": None}, WRITTEN + seconds(10), id="no figures"),
        pytest.param({"early_writes": (NOW, NOW)}, ENDED + seconds(1), id="two early writes before"),
        pytest.param({"work_ended": NOW - seconds(0.5)}, NOW + seconds(0.5), id="work has ended"),
        pytest.param(
            {"early_writes": (NOW - seconds(25), NOW - seconds(15), NOW - seconds(4))},
            NOW + seconds(5),
            id="three early writes before",
        ),
        pytest.param(
            {"early_writes": (NOW - seconds(6), NOW - seconds(5), NOW - seconds(4))},
            WRITTEN + seconds(10),
            id="three early writes just before",
        ),
        pytest.param(
            {"stats_written": NOW + seconds(3600), "work_ended": None},
            NOW,
            id="the clock was set back",
        ),
        pytest.param(
            {"stats_written": NOW + seconds(3600), "work_ended": NOW + seconds(3600)},
            NOW,
            id="the clock was set back after work has ended",
        ),
        pytest.param(
            {"early_writes": (NOW + seconds(1), NOW + seconds(2), NOW + seconds(3))},
            NOW,
            id="the clock was set back after three early writes",
        ),
    ],
)
def test_when_figures_may_be_written(fields: Json, expected: datetime | None) -> None:
    defaults: Json = {
        "efrit_instance": instance(status=REPORTED),
        "bridge": connected(bridge_stats=stats(processed=3)),
        "stats_written": WRITTEN,
        "work_ended": ENDED,
    }
    assert figures.due(ready(**(defaults | fields)), NOW) == expected


@pytest.mark.parametrize(
    ("turn", "waits", "remaining"),
    [
        (None, False, 0),
        (None, True, None),
        (seconds(3), True, 3),
        (seconds(3), False, 3),
        (seconds(-2), True, -2),
        (-figures.TURN_KEPT - seconds(1), True, None),
        (figures.LONGEST_TURN + seconds(1), True, None),
        (figures.LONGEST_TURN + seconds(1), False, 0),
    ],
    ids=[
        "nobody waits",
        "others wait",
        "in a while",
        "in a while, and nobody waits any more",
        "it has come",
        "it has passed",
        "the clock was set back",
        "the clock was set back, nobody waits",
    ],
)
def test_when_it_is_the_turn_of_figures(turn: timedelta | None, waits: bool, remaining: float | None) -> None:
    snapshot = replace(ready(figures_turn=NOW + turn if turn is not None else None), figures_wait=waits)

    assert figures.turn_remaining(snapshot, NOW) == (None if remaining is None else seconds(remaining))


def test_figures_wait_for_their_turn_and_nothing_else_does(identity: Identity) -> None:
    written = decide_instance(ready(), identity, NOW)
    status = next(action.status for action in written if isinstance(action, PatchStatus))
    behind = ready(instance(status=status), bridge=connected(bridge_stats=stats(processed=3)))
    waiting = replace(behind, figures_wait=True)

    assert [action.figures_alone for action in decide_instance(behind, identity, NOW) if is_write(action)] == [True]
    assert [action for action in decide_instance(waiting, identity, NOW) if is_write(action)] == []
    assert TakeFiguresTurn(ALPHA) in decide_instance(waiting, identity, NOW)
    lost = replace(waiting, bridge=connected(bridge_stats=stats(processed=3, emacs=emacs(responsive=False))))
    assert [action.figures_alone for action in decide_instance(lost, identity, NOW) if is_write(action)] == [False]


def is_write(action: Action) -> TypeGuard[PatchStatus]:
    return isinstance(action, PatchStatus)


class Site(World):
    """An instance with its decisions carried out: evals come in, the bridge publishes figures once a second."""

    def __init__(self, identity: Identity) -> None:
        super().__init__()
        self.identity = identity
        self.writes: list[datetime] = []
        self.status: Json = {}
        self._version, self._pending, self._processed, self._made = 100, 0, 0, 0

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        self.store.instances.observe(instance_json())
        self.store.children.observe_statefulset(statefulset_json())
        self.store.children.observe_pod(child(phase="Running", podIP="10.0.0.1"))
        self.store.first_list_complete(None)
        self.open_bridge()
        tasks = [asyncio.create_task(self.queue.run(self.reconcile, 1)), asyncio.create_task(self.publish())]
        await elapse(30)
        self.writes.clear()
        yield
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def publish(self) -> None:
        published = None
        while True:
            figures = stats(pending=self._pending, processed=self._processed, succeeded=self._processed)
            if figures != published:
                published = figures
                self.store.bridges.event(ALPHA, POD_UID, figures)
            await elapse(1)

    async def reconcile(self, key: WorkKey) -> None:
        snapshot = self.store.instances.snapshot(ALPHA)
        if key.kind != "EfritInstance" or snapshot is None:
            return
        for action in decide_instance(snapshot, self.identity, self.now()):
            if isinstance(action, RequeueAfter):
                self.queue.add_after(key, action.after.total_seconds())
            elif isinstance(action, PatchStatus):
                self.writes.append(self.now())
                self.status = dict(action.status)
                self._version += 1
                self.store.instances.observe(instance_json(version=str(self._version), status=self.status))
                self.store.instances.status_written(ALPHA)

    async def eval(self, lasts: float) -> None:
        self._made += 1
        name = f"r{self._made}"
        self._pending += 1
        self.store.requests.observe(request_json(name, created=self.now()))
        await elapse(lasts)
        self._pending -= 1
        self._processed += 1
        self.store.requests.observe(request_json(name, version="21", status=final_status(ended=self.now())))

    @property
    def published_figures(self) -> tuple[int, int]:
        """Pending and processed in the status."""
        return self.status["queue"].get("pending", 0), self.status["queue"]["processed"]


async def test_figures_are_written_within_two_seconds_of_the_end_of_the_last_work(identity: Identity) -> None:
    site = Site(identity)
    async with site.running():
        for _ in range(3):
            async with asyncio.TaskGroup() as group:
                for number in range(4):
                    group.create_task(site.eval(0.9 + number / 10))
            ended = site.now()
            await elapse(2.5)
            assert site.published_figures == (0, site._processed)
            assert site.writes[-1] - ended <= seconds(2.1)


@pytest.mark.parametrize(
    ("every", "lasts"), [(0.2, 0.05), (0.2, 0.2), (1, 0.05), (1, 0.9), (1.5, 0.1), (2, 0.2), (3, 0.1), (7, 5)]
)
async def test_a_stream_of_evals_costs_a_bounded_number_of_writes(
    identity: Identity, every: float, lasts: float
) -> None:
    site, minutes = Site(identity), 1 if every < 1 else 3
    async with site.running():
        end = site.now() + seconds(60 * minutes)
        while site.now() < end:
            await site.eval(lasts)
            await elapse(every - lasts)
        spans = [[write for write in site.writes if first <= write < first + seconds(30)] for first in site.writes]
        assert max(map(len, spans)) <= 3 + figures.EARLY_WRITES
        # On average, one regular and one early write in ten seconds.
        assert len(site.writes) <= minutes * 6 * 2 + figures.EARLY_WRITES
        await elapse(15)
        assert site.published_figures == (0, site._processed)


@pytest.mark.parametrize("every", [0.2, 1])
async def test_a_stream_without_pauses_costs_no_early_write(identity: Identity, every: float) -> None:
    site = Site(identity)
    async with site.running():
        for _ in range(round(40 / every)):
            await site.eval(every / 2)
            await elapse(every / 2)
        pauses = [later - earlier for earlier, later in zip(site.writes, site.writes[1:], strict=False)]
        assert min(pauses) >= seconds(10)


async def test_an_emacs_that_comes_and_goes_costs_a_bounded_number_of_writes(identity: Identity) -> None:
    site = Site(identity)
    async with site.running():
        for number in range(300):
            emacs_stats = emacs(alive=number % 2 == 0, responsive=number % 2 == 0)
            site.store.bridges.event(ALPHA, POD_UID, stats(emacs=emacs_stats))
            await elapse(0.5)
        spans = [[write for write in site.writes if first <= write < first + seconds(60)] for first in site.writes]
        assert figures.MAX_WRITES / 2 < max(map(len, spans)) <= figures.MAX_WRITES
        site.store.bridges.event(ALPHA, POD_UID, stats())
        await elapse(61)
        assert site.status["phase"] == "Ready"


def test_no_status_waits_longer_because_the_clock_was_set_back() -> None:
    many = tuple(NOW + seconds(3600 + number) for number in range(figures.MAX_WRITES))

    assert figures.pause(ready(status_writes=many), NOW) == seconds(0)
    assert figures.pause(ready(status_writes=many[1:]), NOW) == seconds(0)


MANY = tuple(NOW - seconds(number) for number in range(figures.MAX_WRITES, 0, -1))


@pytest.mark.parametrize(
    "status",
    [
        pytest.param({"handover": {"state": "Closed"}}, id="requests may be handed over again"),
        pytest.param({"handover": HANDOVER.to_wire(), "suspendedIdle": True}, id="it wakes"),
    ],
)
def test_what_requests_wait_for_is_written_however_many_statuses_were(identity: Identity, status: Json) -> None:
    """An instance that is suspended and woken every few seconds has work to do each time."""
    awake = ready(instance(status=status), status_writes=MANY, open_requests=1)
    assert any(isinstance(action, PatchStatus) for action in decide_instance(awake, identity, NOW))
    other = ready(instance(status={"handover": HANDOVER.to_wire()}), status_writes=MANY, open_requests=1)
    assert RequeueAfter(seconds(60 - figures.MAX_WRITES)) in decide_instance(other, identity, NOW)
