"""POST /v1/batch over TLS: each element as its own call would be, answered once it is on the disk."""

import errno
import json
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from efrit.bridge.events import INLINE_BYTES
from efrit.protocol import RequestState, request_id
from efrit.protocol.handover import MAX_BATCH_BYTES, MAX_BATCH_ELEMENTS, BatchElement, BatchOperation, BatchResult
from efrit.protocol.view import Stats
from efrit.queue.durable import Disk
from efrit.queue.layout import Area
from tests.support.queue_fakes import Fault, TestDisk, a_request
from tests.unit.bridge.conftest import Serve, Served


def submit(rid: str, content: str = "(+ 1 1)") -> bytes:
    return BatchElement(op=BatchOperation.SUBMIT, id=request_id(rid), request=a_request(rid, content)).to_line()


def acknowledge(rid: str) -> bytes:
    return BatchElement(op=BatchOperation.ACKNOWLEDGE, id=request_id(rid)).to_line()


def cancel(rid: str, **fields: Any) -> bytes:
    return BatchElement(op=BatchOperation.CANCEL, id=request_id(rid), **fields).to_line()


async def post(served: Served, *lines: bytes) -> httpx.Response:
    return await served.client.post("/v1/batch", content=b"".join(lines))


async def outcomes_of(served: Served, *lines: bytes) -> list[str]:
    """Return the outcome of each element: the state of its request, "ok" or the code of an error."""
    response = await post(served, *lines)
    assert response.status_code == 200, response.text
    results = [BatchResult.parse(line) for line in response.content.splitlines()]
    outcomes = {result.index: _outcome(result) for result in results}
    assert len(outcomes) == len(results) == len(lines)
    return [outcomes[index] for index in range(len(lines))]


def _outcome(result: BatchResult) -> str:
    if result.error is not None:
        return result.error.code
    return "ok" if result.request is None else result.request.state


@pytest.fixture
async def batching(serve: Serve, tmp_path: Path) -> tuple[Served, TestDisk]:
    disk = TestDisk(tmp_path / "queue")
    served = await serve(disk=disk)
    await served.until(lambda: served.bridge.queue.is_open)
    return served, disk


async def test_the_files_of_a_batch_are_each_synced_and_their_names_once(batching: tuple[Served, TestDisk]) -> None:
    served, disk = batching
    disk.steps.clear()

    assert await outcomes_of(served, *(submit(f"r{number}") for number in range(9))) == ["queued"] * 9

    assert disk.steps.count("sync_file") == 9
    assert disk.steps.count(f"sync_dir {Area.REQUESTS}") == 1
    names = {path.name for path in (served.emacs.root / "requests").iterdir()}
    assert names == {f"req_r{number}.json" for number in range(9)}


async def test_each_element_is_done_and_reported_as_its_own_call_would_be(served: Served) -> None:
    for rid in ("answered", "conflicting", "waits"):
        await served.put(rid)
    served.emacs.do("answered")
    await served.until_answered("answered")

    outcomes = await outcomes_of(
        served,
        submit("new"),
        submit("waits"),
        submit("conflicting", "(other)"),
        submit("large", "x" * 70_000),
        acknowledge("answered"),
        acknowledge("waits"),
        acknowledge("never"),
        cancel("conflicting"),
        cancel("never"),
        cancel("early", request=a_request("early")),
    )

    assert outcomes == [
        "queued",
        "queued",
        "Conflict",
        "TooLarge",
        "ok",
        "NotAnswered",
        "NotFound",
        "answered",
        "NotFound",
        "answered",
    ]
    assert (served.emacs.root / "archive/resp_answered.json").exists()
    assert await outcomes_of(served, submit("early"), acknowledge("answered")) == ["answered", "ok"]


@pytest.mark.parametrize(
    ("operations", "outcomes", "state"),
    [
        ("submit cancel", ["queued", "answered"], "answered"),
        ("cancel submit", ["answered", "answered"], "answered"),
        ("submit submit", ["queued", "queued"], "queued"),
        ("submit acknowledge", ["queued", "NotAnswered"], "queued"),
        ("acknowledge submit", ["NotAnswered", "queued"], "queued"),
        ("cancel acknowledge submit", ["answered", "NotAnswered", "answered"], "answered"),
        ("cancel acknowledge", ["acknowledged", "ok"], "acknowledged"),
    ],
)
async def test_elements_about_one_request_give_it_one_fate(
    served: Served, operations: str, outcomes: list[str], state: str
) -> None:
    lines = {"submit": submit("a"), "cancel": cancel("a", request=a_request("a")), "acknowledge": acknowledge("a")}
    assert await outcomes_of(served, *(lines[operation] for operation in operations.split())) == outcomes
    assert await outcomes_of(served, submit("a")) == [state]


async def test_a_line_that_is_none_is_refused_alone(served: Served) -> None:
    lines = [
        b"\n",
        b"{}\n",
        b"\xff\n",
        b'{"op":"submit","id":"a"}\n',
        b'{"op":"submit","id":"a","request":{"id":"b","type":"eval","content":""}}\n',
        b'{"op":"remove","id":"a"}\n',
        b'{"op":"acknowledge","id":"../a"}\n',
        submit("good"),
    ]
    assert await outcomes_of(served, *lines) == ["Invalid"] * 7 + ["queued"]


@pytest.mark.parametrize(
    "lines",
    [
        [acknowledge("a")] * (MAX_BATCH_ELEMENTS + 1),
        [b"x" * MAX_BATCH_BYTES + b"\n"],
    ],
    ids=["elements", "bytes"],
)
async def test_a_batch_that_is_too_large_is_refused_whole(served: Served, lines: list[bytes]) -> None:
    response = await post(served, *lines)
    assert (response.status_code, response.json()["error"]["code"]) == (413, "TooLarge")


async def test_a_batch_needs_the_token_and_an_open_queue(serve: Serve, tmp_path: Path) -> None:
    holder = Disk(tmp_path / "queue")
    holder.open()
    served = await serve()
    assert (await post(served, submit("a"))).json()["error"]["code"] == "NotReady"
    holder.close()
    await served.until(lambda: served.bridge.queue.is_open)
    stranger = await served.client.post("/v1/batch", content=submit("a"), headers={"authorization": "Bearer x"})
    assert stranger.status_code == 401
    assert await outcomes_of(served, submit("a")) == ["queued"]


async def test_nothing_is_reported_as_stored_before_it_is_on_the_disk_and_others_do_not_wait_for_it(
    batching: tuple[Served, TestDisk],
) -> None:
    served, disk = batching
    synced = threading.Event()
    disk.faults.append(
        Fault("sync_dir", when=lambda args: args[0] is Area.REQUESTS and not synced.wait(), lasting=True)
    )
    body = submit("a") + b"{}\n"
    async with served.client.stream("POST", "/v1/batch", content=body) as response:
        lines = response.aiter_lines()
        first = BatchResult.parse(await anext(lines))
        assert (first.index, first.error is not None) == (1, True)
        # Only the disk lets it go on.
        synced.set()
        second = BatchResult.parse(await anext(lines))
        assert second.request is not None
        assert second.request.state is RequestState.QUEUED


@pytest.mark.parametrize("step", ["sync_file", "sync_dir", "create", "link"])
async def test_what_the_disk_refuses_is_reported_to_each_it_hits_and_leaves_nothing(
    batching: tuple[Served, TestDisk], step: str
) -> None:
    served, disk = batching
    disk.faults.append(Fault(step, errno.EIO))
    elements = [submit("a"), submit("b")]

    outcomes = await outcomes_of(served, *elements)

    hit = ["StorageError"] * 2 if step == "sync_dir" else ["StorageError", "queued"]
    assert outcomes == hit
    stored = {path.name for path in (served.emacs.root / "requests").iterdir()}
    assert stored == {f"req_{rid}.json" for rid, outcome in zip("ab", outcomes, strict=True) if outcome == "queued"}
    # Sent again, as after a call without an answer.
    assert await outcomes_of(served, *elements) == ["queued", "queued"]


async def test_an_acknowledgement_that_fails_leaves_the_answer_and_the_others_are_archived(
    batching: tuple[Served, TestDisk],
) -> None:
    served, disk = batching
    for rid in "abc":
        await served.put(rid)
        served.emacs.do(rid)
        await served.until_answered(rid)
    disk.faults.append(Fault("rename", errno.EIO, when=lambda args: args[1] == "resp_b.json"))

    assert await outcomes_of(served, *map(acknowledge, "abc")) == ["ok", "StorageError", "ok"]
    assert {path.name for path in (served.emacs.root / "responses").iterdir()} == {"resp_b.json"}
    assert await outcomes_of(served, *map(acknowledge, "abc")) == ["ok", "ok", "ok"]


async def test_a_long_answer_is_left_out_of_a_result_as_of_an_event(served: Served) -> None:
    await served.put("a")
    served.emacs.do("a", "x" * INLINE_BYTES)
    await served.until_answered("a")
    result = BatchResult.parse((await post(served, submit("a"))).content)
    assert result.request is not None
    assert (result.request.response, result.request.state) == (None, RequestState.ANSWERED)


async def test_an_upload_that_breaks_off_does_nothing(served: Served) -> None:
    async def broken() -> AsyncIterator[bytes]:
        yield submit("a")
        raise RuntimeError("cable pulled")

    with pytest.raises(RuntimeError, match="cable"):
        await served.client.post("/v1/batch", content=broken())
    assert list((served.emacs.root / "requests").iterdir()) == []


async def test_the_figures_say_how_many_elements_are_taken(served: Served) -> None:
    stats = Stats.parse((await served.client.get("/v1/stats")).content)
    assert stats.batch_elements == MAX_BATCH_ELEMENTS
    assert Stats.parse(json.dumps({"queue_id": "of an earlier bridge"})).batch_elements == 0
