"""act/event_recorder.py: a repeated event is counted, and no object gets many."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from efrit import resources
from efrit.controller.act.event_recorder import BURST, MAX_EVENTS, MAX_OBJECTS, EventRecorder
from efrit.controller.act.kube import Kube
from efrit.controller.model.actions import Record
from tests.support.factory import NOW
from tests.unit.controller.fake_api import FakeApi

EVENTS = resources.EVENTS.path("team")


@dataclass
class Clock:
    now: datetime = field(default=NOW)

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def recorder(kube: Kube, clock: Clock) -> EventRecorder:
    return EventRecorder(kube, clock, "pod-1")


def event(message: str = "Emacs exits again and again.", uid: str = "uid-alpha") -> Record:
    return Record("EfritInstance", ("team", "alpha"), uid, "Warning", "CrashLooping", message)


def published(api: FakeApi) -> list[Any]:
    return [event for path, event in api.objects.items() if path.startswith(EVENTS)]


async def test_the_same_event_again_raises_the_count_of_the_one_that_exists(
    api: FakeApi, recorder: EventRecorder, clock: Clock
) -> None:
    for _ in range(3):
        await recorder.record(event())
        clock.now += timedelta(minutes=1)

    assert [call.method for call in api.calls] == ["POST", "PATCH", "PATCH"]
    assert [call.body["count"] for call in api.calls] == [1, 2, 3]
    assert api.calls[-1].body["lastTimestamp"] == "2026-03-01T12:02:00Z"
    assert len(published(api)) == 1


async def test_another_message_or_object_is_another_event(api: FakeApi, recorder: EventRecorder) -> None:
    await recorder.record(event())
    await recorder.record(event("another"))
    await recorder.record(event(uid="uid-beta"))

    assert len(published(api)) == 3


async def test_an_event_that_has_expired_is_created_anew(api: FakeApi, recorder: EventRecorder) -> None:
    await recorder.record(event())
    api.objects.clear()

    await recorder.record(event())
    await recorder.record(event())

    assert [call.method for call in api.calls] == ["POST", "PATCH", "POST", "PATCH"]
    assert api.calls[-1].body["count"] == 2


async def test_an_object_gets_a_burst_of_events_and_then_one_in_five_minutes(
    api: FakeApi, recorder: EventRecorder, clock: Clock
) -> None:
    for number in range(BURST * 4):
        await recorder.record(event(f"problem {number}"))
    assert len(api.calls) == BURST

    clock.now += timedelta(minutes=11)
    for number in range(BURST * 4):
        await recorder.record(event(f"later problem {number}"))
    assert len(api.calls) == BURST + 2


async def test_what_one_object_spends_another_keeps(api: FakeApi, recorder: EventRecorder) -> None:
    for number in range(BURST * 2):
        await recorder.record(event(f"problem {number}"))

    await recorder.record(event(uid="uid-beta"))

    assert len(api.calls) == BURST + 1


async def test_a_clock_that_is_set_back_gives_nothing_and_takes_nothing(
    api: FakeApi, recorder: EventRecorder, clock: Clock
) -> None:
    for hours in (0, -1, -2):
        clock.now = NOW + timedelta(hours=hours)
        await recorder.record(event(f"at {hours}"))

    assert len(api.calls) == 3


async def test_an_event_that_was_not_published_is_not_counted(api: FakeApi, recorder: EventRecorder) -> None:
    api.fail("POST", EVENTS, 500)

    await recorder.record(event())
    await recorder.record(event())

    assert [call.method for call in api.calls] == ["POST", "POST"]


async def test_what_is_remembered_is_bounded(recorder: EventRecorder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("efrit.controller.act.event_recorder.MAX_EVENTS", 20)
    monkeypatch.setattr("efrit.controller.act.event_recorder.MAX_OBJECTS", 10)

    for number in range(100):
        await recorder.record(event(uid=f"uid-{number}"))

    assert recorder.remembered == (20, 10)
    assert (MAX_EVENTS, MAX_OBJECTS) == (4096, 4096)


@pytest.mark.parametrize(
    ("name", "beginning"),
    [
        ("a" * 253, "a" * 236),
        ("a" * 236, "a" * 236),
        ("a" * 235 + "." + "b" * 17, "a" * 235),
        ("a" * 234 + "--" + "b" * 17, "a" * 234),
    ],
)
async def test_an_event_of_an_object_with_the_longest_name_has_a_name_that_the_api_server_takes(
    api: FakeApi, recorder: EventRecorder, name: str, beginning: str
) -> None:
    await recorder.record(replace(event(), key=("team", name)))

    [made] = published(api)
    assert made["metadata"]["name"].rpartition(".")[0] == beginning
    assert len(made["metadata"]["name"]) <= 253
    assert made["involvedObject"]["name"] == name
