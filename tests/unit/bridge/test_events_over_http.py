"""The event stream over HTTP: start, resume, overflow, end."""

import asyncio
import contextlib
import errno
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from httpx_sse import ServerSentEvent, aconnect_sse
from msgspec.structs import replace
from starlette.types import Message

from efrit.bridge import events
from efrit.bridge.app import without_clocks
from efrit.bridge.auth import Tokens
from efrit.bridge.events import INLINE_BYTES, EventLog
from efrit.bridge.routes import MAX_STREAMS, make_app
from efrit.protocol import RequestState, request_id
from efrit.protocol.events import Reset, parse_event
from efrit.protocol.view import RequestView, Stats
from tests.support.certificates import TOKEN
from tests.support.queue_fakes import Fault, TestDisk
from tests.support.timeout import TIMEOUT
from tests.unit.bridge.conftest import Serve, Served, stop


@dataclass
class Reader:
    """Collects the events of one connection."""

    events: list[ServerSentEvent] = field(default_factory=list)
    received: asyncio.Event = field(default_factory=asyncio.Event)
    ended: bool = False

    async def read(self, served: Served, last_id: str | None, path: str) -> None:
        headers = {} if last_id is None else {"last-event-id": last_id}
        async with aconnect_sse(served.client, "GET", path, headers=headers, timeout=None) as source:
            async for event in source.aiter_sse():
                self.events.append(event)
                self.received.set()
        self.ended = True
        self.received.set()

    async def until(self, count: int, name: str | None = None) -> list[ServerSentEvent]:
        async with asyncio.timeout(TIMEOUT):
            while len(events := [event for event in self.events if name in (None, event.event)]) < count:
                self.received.clear()
                await self.received.wait()
        return events

    def views(self) -> list[RequestView]:
        parsed = [parse_event(event.event, event.data) for event in self.events]
        return [view for view in parsed if isinstance(view, RequestView)]

    async def until_answered(self, rid: str) -> RequestView:
        async with asyncio.timeout(TIMEOUT):
            while not (views := [view for view in self.views() if view.id == rid and view.state.final]):
                self.received.clear()
                await self.received.wait()
        return views[0]


@contextlib.asynccontextmanager
async def reading(served: Served, last_id: str | None = None, path: str = "/v1/events") -> AsyncIterator[Reader]:
    reader = Reader()
    task = asyncio.create_task(reader.read(served, last_id, path))
    try:
        yield reader
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def test_a_new_reader_gets_a_reset_the_whole_state_and_the_stats(served: Served) -> None:
    for name in ("a", "b"):
        await served.put(name)
    served.emacs.do("a", "42")
    await served.until_answered("a")
    async with reading(served) as reader:
        events = await reader.until(4)
    assert [event.event for event in events[:4]] == ["reset", "request", "request", "stats"]
    assert [bool(event.id) for event in events[:4]] == [False, False, False, True]
    reset = Reset.parse(events[0].data)
    assert reset.queue_id == served.bridge.queue.queue_id
    views = {view.id: view for view in reader.views()}
    assert views[request_id("a")].response is not None
    assert views[request_id("b")].state is RequestState.QUEUED


async def test_an_answer_that_cannot_be_read_is_left_out_of_the_whole_state(serve: Serve, tmp_path: Path) -> None:
    disk = TestDisk(tmp_path / "queue")
    served = await serve(disk=disk)
    await served.until(lambda: served.bridge.queue.is_open)
    for name in ("a", "b"):
        await served.put(name)
        served.emacs.do(name)
        await served.until_answered(name)
    disk.faults.append(Fault("read", errno.EIO, lasting=True, when=lambda args: args[1] == "resp_a.json"))
    async with reading(served) as reader:
        events = await reader.until(4)
    assert [event.event for event in events[:4]] == ["reset", "request", "request", "stats"]
    views = {view.id: view for view in reader.views()}
    assert views[request_id("a")].state is RequestState.ANSWERED
    assert views[request_id("a")].response is None
    assert views[request_id("b")].response is not None


async def test_changes_arrive_in_order(served: Served) -> None:
    async with reading(served) as reader:
        await reader.until(1, "stats")
        await served.put("a")
        served.emacs.claim("a")
        await reader.until(2, "request")
        served.emacs.answer("a", "42")
        view = await reader.until_answered("a")
    assert view.response is not None
    assert view.response.result == "42"
    assert [view.state.value for view in reader.views()] == ["queued", "running", "answered"]


async def test_a_reader_resumes_where_it_was(served: Served) -> None:
    async with reading(served) as reader:
        await reader.until(1, "stats")
        await served.put("a")
        events = await reader.until(1, "request")
    await served.put("b")
    async with reading(served, events[-1].id) as reader:
        await reader.until(1, "request")
    assert [event.event for event in reader.events if event.event == "reset"] == []
    assert [view.id for view in reader.views()] == ["b"]


async def test_a_reader_that_missed_too_much_starts_anew(served: Served) -> None:
    async with reading(served) as reader:
        await reader.until(1, "stats")
        await served.put("a")
        first = (await reader.until(1, "request"))[0]
    for _ in range(5000):
        served.bridge.events.append(Stats(queue_id="x"))
    async with reading(served, first.id) as reader:
        events = await reader.until(3)
    assert [event.event for event in events[:3]] == ["reset", "request", "stats"]


async def test_ids_of_another_run_of_the_bridge_start_anew(serve: Serve) -> None:
    served = await serve()
    await served.until(lambda: served.bridge.queue.is_open)
    await served.put("a")
    async with reading(served) as reader:
        last = (await reader.until(1, "stats"))[-1].id
    await stop(served.bridge, served.task)
    again = await serve()
    await again.until(lambda: again.bridge.queue.is_open)
    async with reading(again, last) as reader:
        events = await reader.until(3)
    assert [event.event for event in events[:3]] == ["reset", "request", "stats"]


async def test_nonsense_as_last_event_id_starts_anew(served: Served) -> None:
    epoch = served.bridge.events.epoch
    for text in ("nonsense", f"{epoch}-999999", f"{epoch}--1", f"{epoch}-", "-5"):
        async with reading(served, text) as reader:
            assert (await reader.until(1))[0].event == "reset"


async def test_a_large_answer_is_left_out_and_can_be_fetched(served: Served) -> None:
    large = "x" * (INLINE_BYTES + 1)
    async with reading(served) as reader:
        await reader.until(1, "stats")
        await served.put("large")
        served.emacs.do("large", large)
        view = await reader.until_answered("large")
    assert view.response is None
    assert (view.response_bytes or 0) > INLINE_BYTES
    fetched = RequestView.parse((await served.client.get("/v1/requests/large")).content)
    assert fetched.response is not None
    assert fetched.response.result == large


@pytest.mark.parametrize("path", ["/v1/events", "/v1/requests/a/progress"])
async def test_of_readers_that_come_all_at_once_no_more_follow_than_may(served: Served, path: str) -> None:
    assert (await served.put("a", type="command")).status_code == 201
    bridge = served.bridge
    app = make_app(bridge.queue, bridge.events, Tokens(served.secrets), bridge)
    statuses: list[int] = []
    gone = asyncio.Event()

    async def read() -> None:
        async def receive() -> Message:
            await gone.wait()
            return {"type": "http.disconnect"}

        async def send(message: Message) -> None:
            if message["type"] == "http.response.start":
                statuses.append(message["status"])

        token = f"Bearer {TOKEN}".encode()
        scope = {"type": "http", "method": "GET", "path": path, "query_string": b"", "root_path": ""}
        await app(scope | {"headers": [(b"authorization", token)]}, receive, send)

    for _ in range(2):
        statuses.clear()
        gone.clear()
        async with asyncio.timeout(TIMEOUT), asyncio.TaskGroup() as group:
            for _ in range(MAX_STREAMS + 3):
                group.create_task(read())
            await served.until(lambda: len(statuses) == MAX_STREAMS + 3)
            gone.set()
        # Those of the first round have given their places back.
        assert sorted(statuses) == [200] * MAX_STREAMS + [429] * 3


async def test_several_readers_each_get_everything(served: Served) -> None:
    async with reading(served) as one, reading(served) as two:
        await one.until(1, "stats")
        await two.until(1, "stats")
        for number in range(20):
            await served.put(f"r{number}")
        await one.until(20, "request")
        await two.until(20, "request")


async def test_streams_end_when_the_bridge_stops(served: Served) -> None:
    async with reading(served) as reader:
        await reader.until(1, "stats")
        async with asyncio.timeout(TIMEOUT):
            await stop(served.bridge, served.task)
            while not reader.ended:
                reader.received.clear()
                await reader.received.wait()


async def chunks(log: EventLog, last: str | None, count: int, keepalive: float = 5) -> list[bytes]:
    async def snapshot() -> AsyncIterator[RequestView]:
        yield RequestView(id=request_id("s"), state=RequestState.QUEUED)

    stream = log.stream(last, queue_id="q", snapshot=snapshot, stats=lambda: Stats(queue_id="q"), keepalive=keepalive)
    received = []
    async with asyncio.timeout(TIMEOUT):
        async for chunk in stream:
            received.append(chunk)
            if len(received) == count:
                break
    await stream.aclose()
    return received


async def test_a_quiet_stream_is_kept_alive() -> None:
    received = await chunks(EventLog(), None, 4, keepalive=0.01)
    assert received[3] == b": keepalive\n\n"


async def test_what_is_no_answer_is_reported_with_the_answer_that_follows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "LINGER_SECONDS", 3600)
    log, rid = EventLog(), request_id("a")
    start = len([b"reset", b"request", b"stats"])
    reading = asyncio.create_task(chunks(log, None, start + 1, keepalive=3600))
    for state in (RequestState.QUEUED, RequestState.RUNNING, RequestState.ANSWERED):
        # The reader has its turn in between.
        for _ in range(20):
            await asyncio.sleep(0)
        log.append(RequestView(id=rid, state=state))
    assert [chunk.count(b"event: request") for chunk in (await reading)[start:]] == [3]


async def test_the_ring_is_bounded_by_bytes_too() -> None:
    log = EventLog(max_bytes=10_000)
    for number in range(100):
        view = RequestView(id=request_id(f"r{number}"), state=RequestState.QUEUED, metadata={"x": "y" * 500})
        log.append(view)
    assert log.position(f"{log.epoch}-1") is None
    assert log.position(f"{log.epoch}-99") == 99


async def test_a_slow_reader_is_reset_in_its_open_stream() -> None:
    log = EventLog(max_events=3)

    async def snapshot() -> AsyncIterator[RequestView]:
        for _ in range(10):
            log.append(Stats(queue_id="q"))
        yield RequestView(id=request_id("s"), state=RequestState.QUEUED)

    stream = log.stream(None, queue_id="q", snapshot=snapshot, stats=lambda: Stats(queue_id="q"))
    names = []
    async for chunk in stream:
        names.append(chunk.split(b"event: ")[1].split(b"\n")[0].decode())
        if len(names) == 4:
            break
    await stream.aclose()
    assert names == ["reset", "request", "stats", "reset"]


def test_passing_time_alone_is_no_news() -> None:
    one = Stats(queue_id="q", pending=1, oldest_pending_seconds=3, uptime_seconds=5)
    later = replace(one, oldest_pending_seconds=8.0, uptime_seconds=10.0)

    assert without_clocks(one) == without_clocks(later)


def test_a_request_that_waits_and_waits_is_news_now_and_then() -> None:
    one = Stats(queue_id="q", pending=1, oldest_pending_seconds=8)
    later = replace(one, oldest_pending_seconds=12.0)

    assert without_clocks(one) != without_clocks(later)
