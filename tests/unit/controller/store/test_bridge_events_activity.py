"""When an instance was last active, as the figures of its bridge tell: after a restart, and of others' work."""

from __future__ import annotations

from datetime import datetime

import pytest

from efrit.controller.store.store import Store
from efrit.protocol.events import Reset
from tests.support.factory import (
    NOW,
    POD_UID,
    QUEUE_ID,
    Json,
    condition_json,
    instance_json,
    seconds,
    stats,
    wire_time,
)
from tests.unit.controller.store.world import ALPHA, World
from tests.unit.controller.virtual_time import elapse

pytestmark = pytest.mark.virtual_time


def last_activity(store: Store) -> datetime | None:
    snapshot = store.instances.snapshot(ALPHA)
    assert snapshot is not None
    return snapshot.facts.last_activity


def world(**queue: int) -> World:
    """Return a controller that has just started; the status has these figures."""
    made = World()
    status: Json = {"queue": queue} if queue else {}
    made.store.instances.observe(instance_json(status=status))
    made.store.bridges.event(ALPHA, POD_UID, Reset(queue_id=QUEUE_ID, epoch="e"))
    return made


@pytest.mark.parametrize(
    ("written", "figures", "active"),
    [
        ({"processed": 7}, {"processed": 7}, False),
        ({"processed": 7}, {"processed": 8}, True),
        ({}, {"processed": 0}, False),
        ({}, {"processed": 1}, True),
        ({"processed": 7}, {"processed": 7, "pending": 1}, True),
        ({"processed": 7}, {"processed": 7, "processing": 1}, True),
        ({"processed": 7}, {"processed": 0}, True),
    ],
    ids=[
        "nothing since the status",
        "an answer since the status",
        "a new queue",
        "an answer before the first status",
        "a queued file",
        "running work",
        "another queue",
    ],
)
async def test_the_first_figures_report_work_that_the_status_does_not_have(
    written: Json, figures: Json, active: bool
) -> None:
    made = world(**written)
    await elapse(30)

    made.store.bridges.event(ALPHA, POD_UID, stats(**figures))

    assert last_activity(made.store) == (made.now() if active else None)


async def test_figures_that_stand_still_are_no_activity() -> None:
    made = world()
    made.store.bridges.event(ALPHA, POD_UID, stats(processed=1))
    await elapse(30)
    made.store.bridges.event(ALPHA, POD_UID, stats(processed=1, uptime_seconds=30))
    assert last_activity(made.store) == NOW
    await elapse(30)
    made.store.bridges.event(ALPHA, POD_UID, stats(processed=2))
    assert last_activity(made.store) == made.now()


# When it was first Ready.


def observed_instance(
    ready: str, since: int, *, pod_started: int | None, version: int, uid: str = "uid-alpha"
) -> Json:
    """Return an instance whose condition Ready is as it is for so many seconds after NOW."""
    status: Json = {"conditions": [condition_json("Ready", ready, "Ready", NOW + seconds(since))]}
    if pod_started is not None:
        status["startTime"] = wire_time(NOW + seconds(pod_started))
    return instance_json(uid=uid, version=str(version), status=status)


async def test_the_first_time_that_the_pod_is_ready_is_remembered_while_ready_comes_and_goes(world: World) -> None:
    def first_ready() -> datetime | None:
        return world.instance().facts.first_ready

    times: list[datetime | None] = []
    for version, (ready, since, pod_started) in enumerate(
        [
            ("False", 0, None),
            ("False", 1, 1),
            ("True", 10, 1),
            ("False", 20, 1),
            ("True", 30, 1),
            ("False", 40, 1),
            ("False", 41, None),
            ("False", 42, 42),
            ("True", 50, 42),
            ("True", 50, 60),
        ]
    ):
        world.store.instances.observe(observed_instance(ready, since, pod_started=pod_started, version=10 + version))
        times.append(first_ready())

    first, second, third = (NOW + seconds(after) for after in (10, 50, 60))
    assert times == [None, None, first, first, first, first, None, None, second, third]

    world.store.instances.observe(observed_instance("False", 42, pod_started=42, version=99, uid="another"))
    assert first_ready() is None
