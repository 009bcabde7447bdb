"""The end of a queue that goes with its pod: who is waited for, and for how long."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from efrit.bridge.app import Bridge
from efrit.bridge.departure import depart
from efrit.bridge.events import EventLog
from efrit.errors import StorageError
from tests.support.timeout import TIMEOUT
from tests.unit.bridge.conftest import Serve


def fake_queue(*, failures: int = 0, awaited: int = 10**9) -> Any:
    """Return a queue whose answers are acknowledged at so many checks from now."""

    class Queue:
        looks = 0
        tries = 0

        async def give_back(self) -> int:
            self.tries += 1
            if self.tries <= failures:
                raise StorageError("the disk is away")
            return 1

        @property
        def awaits_acknowledgement(self) -> bool:
            self.looks += 1
            return self.looks <= awaited

    return Queue()


def log_with(readers: int) -> EventLog:
    log = EventLog()
    log.readers = readers
    return log


async def test_it_lasts_until_everything_is_acknowledged() -> None:
    queue = fake_queue(awaited=3)
    await depart(queue, log_with(1), absence=0)
    assert queue.looks == 4


async def test_nobody_is_waited_for_who_has_been_away_for_so_long() -> None:
    await depart(fake_queue(), log_with(0), absence=0)


async def test_a_disk_that_fails_is_tried_again_while_somebody_waits() -> None:
    queue = fake_queue(failures=2, awaited=0)
    await depart(queue, log_with(1), absence=0)
    assert queue.tries == 3


async def test_a_disk_that_fails_is_left_alone_where_nobody_waits() -> None:
    await depart(fake_queue(failures=10**9), log_with(0), absence=0)


async def test_who_follows_the_events_is_counted() -> None:
    async def nothing() -> Any:
        if False:
            yield

    def stats() -> Any:
        return SimpleNamespace(to_json=lambda: "{}")

    log = EventLog()
    stream = log.stream(None, queue_id="q", snapshot=nothing, stats=stats)
    await anext(stream)
    assert log.readers == 1
    await stream.aclose()
    await asyncio.sleep(0)
    assert log.readers == 0


@pytest.mark.parametrize(
    ("fields", "ends_at_once"),
    [
        ({}, False),
        ({"_is_ephemeral": False}, True),
        ({"supervisor": SimpleNamespace(sees_emacs=True)}, True),
        ({"queue": SimpleNamespace(is_open=False)}, True),
        ({"_leaving": object()}, True),
    ],
    ids=["it ends", "it stays", "Emacs lives on", "it was never open", "signalled twice"],
)
async def test_only_a_queue_that_ends_with_its_pod_is_waited_for(fields: Any, ends_at_once: bool) -> None:
    calls: list[str] = []

    async def depart() -> None:
        calls.append("departs")

    bridge: Any = SimpleNamespace(
        _leaving=None,
        _is_ephemeral=True,
        queue=SimpleNamespace(is_open=True),
        supervisor=SimpleNamespace(sees_emacs=False),
        stop=lambda: calls.append("stops"),
        _depart=depart,
    )
    Bridge.leave(SimpleNamespace(**vars(bridge) | fields))  # type: ignore[arg-type]
    await asyncio.sleep(0)
    assert calls == (["stops"] if ends_at_once else ["departs"])


async def test_a_bridge_that_is_stopped_while_its_queue_opens_ends_in_order(serve: Serve) -> None:
    served = await serve()
    bridge, opened = served.bridge, served.bridge.queue.open

    async def open_late() -> None:
        bridge.stop()
        await served.until(lambda: bridge._listeners[0]._socket.fileno() == -1)
        await opened()

    bridge.queue.open = open_late  # type: ignore[method-assign]
    await asyncio.wait_for(served.task, TIMEOUT)
