"""act/bridges.py with a bridge that takes batches: what goes together, and what each element gets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from efrit.controller.act import bridges as bridges_module
from efrit.controller.act import handover_batch
from efrit.controller.act.bridges import Bridges
from efrit.controller.act.bulkhead import FAILURES, Depth
from efrit.controller.act.handover_calls import HandoverCalls
from efrit.controller.act.identity import new_identity
from efrit.controller.decide.queue_request import queue_request
from efrit.controller.model.actions import Parked
from efrit.controller.model.keys import WorkKey
from efrit.errors import BridgeUnreachable, BridgeUnresponsive
from efrit.protocol import Request, RequestId, request_id
from efrit.protocol.handover import MAX_BATCH_ELEMENTS, BatchElement, BatchOperation
from efrit.protocol.view import RequestView
from tests.support.factory import instance, request, stats
from tests.support.timeout import TIMEOUT
from tests.unit.controller.fake_bridge import INSTANCE, FakeBridge, Stream, fake_bridge, result, takes_all
from tests.unit.controller.recorded_store import RecordedStore

BATCHING = stats(batch_elements=MAX_BATCH_ELEMENTS)


def work(number: int, **fields: Any) -> Request:
    return replace(queue_request(request(**fields), instance()), id=RequestId(f"r{number}"))


@dataclass
class Line:
    """The controller's side and the bridge's side of one connection."""

    bridges: Bridges
    bridge: FakeBridge
    recorded: RecordedStore
    stream: Stream
    leads: bool = True

    async def report(self, figures: Any) -> None:
        """Have the bridge report figures, and wait until that is taken in."""
        before = len(self.recorded.calls_of("bridges.event"))
        await self.stream.report(figures)
        await self.recorded.until_called("bridges.event", before + 1)

    def line(self, element: BatchElement) -> bytes | None:
        return self.bridges.batch_line(INSTANCE, element)

    def submit(self, number: int) -> Awaitable[RequestView]:
        request = work(number)
        line = self.line(BatchElement(op=BatchOperation.SUBMIT, id=request.id, request=request))
        assert line is not None
        return self.bridges.submit(INSTANCE, request, line)

    def acknowledge(self, number: int) -> Awaitable[None]:
        uid = f"r{number}"
        line = self.line(BatchElement(op=BatchOperation.ACKNOWLEDGE, id=request_id(uid)))
        assert line is not None
        return self.bridges.acknowledge(INSTANCE, uid, line)

    def cancel(self, number: int) -> Awaitable[RequestView]:
        request = work(number)
        element = BatchElement(op=BatchOperation.CANCEL, id=request.id, request=request, running=False)
        return self.bridges.cancel(INSTANCE, request.id, request, self.line(element), running=False)

    @property
    def batches(self) -> list[list[str]]:
        return [[f"{element.op} {element.id}" for element in batch] for batch in self.bridge.batches]


async def outcomes(*calls: Awaitable[Any]) -> list[str]:
    """Return what came of calls that are made together: an id, or the name of an error."""
    async with asyncio.timeout(TIMEOUT):
        done = await asyncio.gather(*calls, return_exceptions=True)
    return [one.id if isinstance(one, RequestView) else type(one).__name__ for one in done]


@pytest.fixture
async def line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Line]:
    # A call counts as stuck only where a test says so, not where the machine is slow.
    monkeypatch.setattr(handover_batch, "STUCK_SECONDS", TIMEOUT)
    recorded, identity = RecordedStore(), new_identity()
    async with fake_bridge(identity, tmp_path) as bridge:
        bridge.results = takes_all
        bridges = Bridges(identity, recorded.store, leading=lambda: made.leads)
        await bridges.connect(bridge.connect_action())
        made = Line(bridges, bridge, recorded, await bridge.reader())
        await made.report(BATCHING)
        try:
            yield made
        finally:
            await bridges.close()


async def until_batches(line: Line, count: int) -> None:
    async with asyncio.timeout(TIMEOUT):
        while len(line.bridge.batches) < count:  # noqa: ASYNC110 - the server tells nobody
            await asyncio.sleep(0.001)


@pytest.fixture
def deadlines(line: Line, monkeypatch: pytest.MonkeyPatch) -> list[asyncio.Timeout]:
    """Return the time limits of the calls that begin from now on, in order; none runs out by itself."""
    begun: list[asyncio.Timeout] = []

    class NoClock:
        """`asyncio` as bridges.py sees it."""

        def __getattr__(self, name: str) -> Any:
            return getattr(asyncio, name)

        def timeout(self, seconds: float) -> asyncio.Timeout:
            begun.append(asyncio.timeout(None))
            return begun[-1]

    monkeypatch.setattr(bridges_module, "asyncio", NoClock())
    return begun


def run_out(deadlines: list[asyncio.Timeout]) -> None:
    """Have the time of the one call that is under way be over."""
    (deadline,) = deadlines
    deadline.reschedule(asyncio.get_running_loop().time())


async def test_what_comes_at_once_travels_together_and_each_gets_its_own_view(line: Line) -> None:
    assert await outcomes(line.submit(0), line.cancel(1), line.acknowledge(2)) == ["r0", "r1", "NoneType"]
    assert line.batches == [["submit r0", "cancel r1", "acknowledge r2"]]
    submitted, cancelled, _ = line.bridge.batches[0]
    assert submitted.request == work(0)
    assert (cancelled.request, cancelled.running) == (work(1), False)


async def test_what_comes_while_a_call_is_under_way_goes_with_the_next(line: Line) -> None:
    line.bridge.gate = asyncio.Event()
    first = asyncio.ensure_future(line.submit(0))
    await until_batches(line, 1)
    others = asyncio.gather(line.submit(1), line.submit(2))
    line.bridge.gate.set()
    await first
    await others

    assert line.batches == [["submit r0"], ["submit r1", "submit r2"]]


async def test_a_refused_element_alone_gets_the_error(line: Line) -> None:
    async def refuses_some(elements: list[BatchElement]) -> AsyncIterator[bytes]:
        for index, code in enumerate(("", "QueueFull", "Conflict", "SomethingNew", "NotFound", "NotAnswered")):
            yield result(index, elements[index], code)

    line.bridge.results = refuses_some
    calls = [*(line.submit(number) for number in range(4)), *(line.acknowledge(number) for number in (4, 5))]
    expected = ["r0", "QueueFull", "RequestConflict", "BridgeError", "NoneType", "NotAnswered"]

    assert await outcomes(*calls) == expected


async def test_an_element_that_takes_long_holds_neither_its_batch_nor_the_next(
    line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handover_batch, "STUCK_SECONDS", 0.01)
    done = asyncio.Event()

    async def first_is_slow(elements: list[BatchElement]) -> AsyncIterator[bytes]:
        for index, element in reversed(list(enumerate(elements))):
            if element.id == "r0":
                await done.wait()
            yield result(index, element)

    line.bridge.results = first_is_slow
    slow = asyncio.ensure_future(line.submit(0))
    assert await outcomes(line.submit(1)) == ["r1"]
    assert await outcomes(line.submit(2)) == ["r2"]
    assert line.batches == [["submit r0", "submit r1"], ["submit r2"]]
    done.set()
    assert (await slow).id == "r0"


@pytest.mark.parametrize(
    "second_part",
    [
        b"",
        None,
        result(1, BatchElement(op=BatchOperation.ACKNOWLEDGE, id=RequestId("r1"))),
        b'{"index": 7}\n',
        b"x\n",
    ],
    ids=["it breaks off", "it ends early", "one twice", "one that was not sent", "no result"],
)
async def test_an_answer_that_fails_half_way_is_reported_to_those_it_says_nothing_of_and_they_can_come_again(
    line: Line, second_part: bytes | None
) -> None:
    async def fails(elements: list[BatchElement]) -> AsyncIterator[bytes]:
        yield result(1, elements[1])
        if second_part is not None:
            yield second_part

    line.bridge.results = fails
    async with asyncio.timeout(TIMEOUT):
        results = await asyncio.gather(*(line.submit(number) for number in range(3)), return_exceptions=True)

    assert isinstance(results[1], RequestView)
    for error in (results[0], results[2]):
        # What it has made of them is not known.
        assert isinstance(error, BridgeUnreachable)
        assert error.sent
    line.bridge.results = takes_all
    assert await outcomes(line.submit(0), line.submit(2)) == ["r0", "r2"]


async def test_a_view_of_another_request_or_none_is_an_error_of_the_bridge(line: Line) -> None:
    async def mixes_up(elements: list[BatchElement]) -> AsyncIterator[bytes]:
        yield result(0, BatchElement(op=BatchOperation.SUBMIT, id=RequestId("r9"), request=work(9)))
        yield result(1, BatchElement(op=BatchOperation.ACKNOWLEDGE, id=RequestId("r1")))

    line.bridge.results = mixes_up
    assert await outcomes(line.submit(0), line.submit(1)) == ["BridgeError", "BridgeError"]


async def test_a_batch_without_an_answer_counts_as_many_calls(line: Line, deadlines: list[asyncio.Timeout]) -> None:
    line.bridge.gate = asyncio.Event()
    sent = [asyncio.ensure_future(line.submit(number)) for number in range(FAILURES)]
    await until_batches(line, 1)

    run_out(deadlines)
    results = await outcomes(*sent)

    assert results == ["BridgeUnresponsive"] * FAILURES
    assert line.bridges.unresponsive == 1
    with pytest.raises(Parked), line.bridges.call(INSTANCE, WorkKey("EfritRequest", "team", "x"), Depth.SUBMIT):
        pass


async def test_a_volume_without_room_blocks_requests_alone(line: Line) -> None:
    async def full(elements: list[BatchElement]) -> AsyncIterator[bytes]:
        for index, element in enumerate(elements):
            yield result(index, element, "NoSpace" if element.op is BatchOperation.SUBMIT else "")

    line.bridge.results = full
    assert await outcomes(line.submit(0), line.acknowledge(1)) == ["NoSpace", "NoneType"]
    key = WorkKey("EfritRequest", "team", "x")
    with pytest.raises(Parked) as caught, line.bridges.call(INSTANCE, key, Depth.SUBMIT, together=True):
        pass
    assert caught.value.no_room
    with line.bridges.call(INSTANCE, key, Depth.WRITE, together=True):
        pass


async def test_a_refused_token_is_reported_to_each_and_the_other_one_is_tried(line: Line) -> None:
    line.bridge.token = "another"
    assert await outcomes(line.submit(0), line.submit(1)) == ["Unauthorized", "Unauthorized"]


async def test_nothing_is_sent_once_the_lease_may_be_somebody_elses(line: Line) -> None:
    line.leads = False
    assert await outcomes(line.submit(0), line.acknowledge(1)) == ["NotLeading", "NotLeading"]
    assert line.bridge.batches == []


# Neighbouring versions.


async def test_a_bridge_that_does_not_say_that_it_takes_batches_gets_none(line: Line) -> None:
    element = BatchElement(op=BatchOperation.ACKNOWLEDGE, id=RequestId("r0"))
    assert line.line(element) is not None
    await line.report(stats())
    assert line.line(element) is None


@pytest.mark.parametrize("refusal", [(404, "NotFound"), (413, "TooLarge"), (422, "Invalid"), (409, "Conflict")])
async def test_where_another_bridge_has_come_that_takes_no_such_batch_each_travels_alone(
    line: Line, refusal: tuple[int, str]
) -> None:
    line.bridge.results, line.bridge.refusal = None, refusal
    element = BatchElement(op=BatchOperation.ACKNOWLEDGE, id=RequestId("r0"))

    assert await outcomes(line.submit(0), line.acknowledge(0)) == ["QueueNotReady", "QueueNotReady"]
    assert line.line(element) is None


@pytest.mark.parametrize("refusal", [(503, "NotReady"), (507, "NoSpace"), (500, "Internal")])
async def test_a_batch_that_is_refused_whole_for_now_goes_as_a_batch_again(
    line: Line, refusal: tuple[int, str]
) -> None:
    line.bridge.results, line.bridge.refusal = None, refusal
    await outcomes(line.submit(0))
    line.bridge.results = takes_all
    assert await outcomes(line.submit(0)) == ["r0"]


async def test_a_bridge_that_takes_fewer_elements_gets_no_more(line: Line) -> None:
    await line.report(stats(batch_elements=2))
    assert await outcomes(*(line.submit(number) for number in range(3))) == ["r0", "r1", "r2"]
    assert list(map(len, line.batches)) == [2, 1]


# Bounds.


async def test_what_is_large_travels_alone(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    large = work(0, content="x" * handover_batch.MAX_ELEMENT_BYTES)
    assert line.line(BatchElement(op=BatchOperation.SUBMIT, id=large.id, request=large)) is None
    line.bridge.gate = asyncio.Event()
    monkeypatch.setattr(bridges_module, "MAX_GATHERED_BYTES", 1000)
    first = asyncio.ensure_future(line.submit(1))
    await until_batches(line, 1)
    small = work(2, content="x" * 900)
    assert line.line(BatchElement(op=BatchOperation.SUBMIT, id=small.id, request=small)) is None
    line.bridge.gate.set()
    await first
    assert line.line(BatchElement(op=BatchOperation.ACKNOWLEDGE, id=small.id)) is not None


async def test_with_the_connection_end_all_that_wait_and_only_what_was_sent_may_have_arrived(line: Line) -> None:
    line.bridge.gate = asyncio.Event()
    sent = asyncio.ensure_future(line.submit(0))
    await until_batches(line, 1)
    waits = asyncio.ensure_future(line.submit(1))
    await asyncio.sleep(0)

    await line.bridges.disconnect(INSTANCE)

    results = await asyncio.gather(sent, waits, return_exceptions=True)
    assert [isinstance(error, BridgeUnreachable) and error.sent for error in results] == [True, False]


async def test_with_the_connection_ends_a_call_that_has_just_begun() -> None:
    async def never_called(body: bytes) -> AsyncGenerator[bytes]:
        yield body

    calls = HandoverCalls(never_called, lambda error: error, lambda: True, lambda: False)
    added = asyncio.ensure_future(calls.add(b"{}\n"))
    while not (begun := [task for task in asyncio.all_tasks() if task.get_name() == "batch"]):  # noqa: ASYNC110
        await asyncio.sleep(0)

    await calls.close()

    assert begun[0].cancelled()
    with pytest.raises(BridgeUnreachable):
        await asyncio.wait_for(added, TIMEOUT)


async def test_what_waits_is_let_go_once_the_bridge_counts_as_not_answering(
    line: Line, deadlines: list[asyncio.Timeout]
) -> None:
    line.bridge.gate = asyncio.Event()
    sent = [asyncio.ensure_future(line.submit(number)) for number in range(FAILURES)]
    await until_batches(line, 1)
    waits = asyncio.ensure_future(line.submit(FAILURES))
    await asyncio.sleep(0)

    run_out(deadlines)
    results = await asyncio.gather(*sent, waits, return_exceptions=True)

    assert [isinstance(error, BridgeUnresponsive) and error.sent for error in results] == [*[True] * FAILURES, False]
    assert len(line.batches) == 1


async def test_what_has_waited_for_too_long_is_let_go_when_a_call_ends(
    line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handover_batch, "LONGEST_WAIT_SECONDS", 0.0)
    line.bridge.gate = asyncio.Event()
    first = asyncio.ensure_future(line.submit(0))
    await until_batches(line, 1)
    waits = asyncio.ensure_future(line.submit(1))
    await asyncio.sleep(0)
    line.bridge.gate.set()

    assert (await first).id == "r0"
    with pytest.raises(BridgeUnreachable) as caught:
        await waits
    assert not caught.value.sent
