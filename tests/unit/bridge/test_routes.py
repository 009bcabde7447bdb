"""Every route and every status number, over TLS."""

import asyncio
import errno
import json
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from efrit.protocol import RequestState
from efrit.protocol.view import RequestList, RequestView, Stats
from efrit.queue.durable import Disk
from tests.support.queue_fakes import Fault, TestDisk
from tests.support.timeout import TIMEOUT
from tests.unit.bridge.conftest import Serve, Served, stop


def code(response: httpx.Response) -> tuple[int, str]:
    return response.status_code, response.json()["error"]["code"]


async def test_a_new_request_is_201_and_the_same_again_200(served: Served) -> None:
    first, again = await served.put("a"), await served.put("a")
    assert (first.status_code, again.status_code) == (201, 200)
    assert RequestView.parse(first.content).state is RequestState.QUEUED


async def test_other_content_is_409(served: Served) -> None:
    await served.put("a")
    assert code(await served.put("a", "(other)")) == (409, "Conflict")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b'{"id":"b","type":"eval","content":""}',
        b'{"id":"a","type":"evil","content":""}',
        b'{"id":"a","type":"eval","content":"\xff"}',
    ],
)
async def test_what_is_no_request_is_422(served: Served, body: bytes) -> None:
    assert code(await served.client.put("/v1/requests/a", content=body)) == (422, "Invalid")


async def test_an_impossible_id_is_422_to_put_and_404_to_ask_for(served: Served) -> None:
    body = {"id": "a b", "type": "eval", "content": ""}
    assert code(await served.client.put("/v1/requests/a%20b", json=body)) == (422, "Invalid")
    assert code(await served.client.get("/v1/requests/a%20b")) == (404, "NotFound")


async def test_too_much_content_is_413(serve: Serve) -> None:
    served = await serve(max_request_bytes=100)
    await served.until(lambda: served.bridge.queue.is_open)
    assert code(await served.put("a", "x" * 101)) == (413, "TooLarge")
    assert code(await served.put("a", "x" * 200_000)) == (413, "TooLarge")
    # Escaped, one byte takes six: that is not what is limited.
    escaped = '{"id":"b","type":"eval","content":"' + "\\u0041" * 100 + '"}'
    assert (await served.client.put("/v1/requests/b", content=escaped)).status_code == 201


async def test_a_full_queue_is_429_and_says_when_to_ask_again(serve: Serve) -> None:
    served = await serve(max_pending=1)
    await served.until(lambda: served.bridge.queue.is_open)
    await served.put("a")
    refused = await served.put("b")
    assert code(refused) == (429, "QueueFull")
    assert int(refused.headers["retry-after"]) >= 1


@pytest.mark.parametrize(
    ("number", "expected"),
    [(errno.ENOSPC, (507, "NoSpace")), (errno.EDQUOT, (507, "NoSpace")), (errno.EIO, (503, "StorageError"))],
)
async def test_a_failing_volume_has_a_status(
    serve: Serve, tmp_path: Path, number: int, expected: tuple[int, str]
) -> None:
    disk = TestDisk(tmp_path / "queue")
    served = await serve(disk=disk)
    await served.until(lambda: served.bridge.queue.is_open)
    disk.faults.append(Fault("sync_file", number))
    assert code(await served.put("a")) == expected
    assert (await served.put("a")).status_code == 201


async def test_a_bridge_that_cannot_read_an_answer_at_its_start_opens_once_it_can(
    serve: Serve, tmp_path: Path
) -> None:
    first = await serve()
    await first.until(lambda: first.bridge.queue.is_open)
    await first.put("a")
    first.emacs.do("a")
    await first.until_answered("a")
    await stop(first.bridge, first.task)
    fault = Fault("read", errno.EIO, lasting=True, when=lambda args: args[1] == "resp_a.json")
    disk = TestDisk(tmp_path / "queue", fault)
    served = await serve(disk=disk)
    await served.until(lambda: fault.calls >= 1 and not served.bridge.queue.upkeep.is_healthy)
    assert code(await served.client.get("/v1/requests/a")) == (503, "NotReady")
    assert not served.task.done()
    disk.faults.clear()
    await served.until(lambda: served.bridge.queue.is_open)
    assert (await served.client.get("/v1/requests/a")).json()["response"]["result"] == "2"


async def test_until_the_queue_is_open_everything_is_503(serve: Serve, tmp_path: Path) -> None:
    holder = Disk(tmp_path / "queue")
    holder.open()
    served = await serve()
    for method, path in (
        ("PUT", "/v1/requests/a"),
        ("GET", "/v1/requests/a"),
        ("GET", "/v1/requests"),
        ("DELETE", "/v1/requests/a"),
        ("POST", "/v1/requests/a/cancel"),
        ("GET", "/v1/events"),
    ):
        body = {"id": "a", "type": "eval", "content": ""} if method == "PUT" else None
        assert code(await served.client.request(method, path, json=body)) == (503, "NotReady")
    assert (await served.client.get("/healthz")).status_code == 200
    assert "queue" in (await served.client.get("/readyz")).text
    holder.close()
    await served.until(lambda: served.bridge.queue.is_open)
    assert (await served.put("a")).status_code == 201


@pytest.mark.parametrize("header", [None, "Bearer", "Bearer wrong", "Basic dG9rZW4tb25l", "Bearer tökén"])
async def test_without_the_token_everything_but_probes_is_401(served: Served, header: str | None) -> None:
    headers = {} if header is None else {b"authorization": header.encode()}
    url = served.client.base_url
    async with httpx.AsyncClient(base_url=url, verify=False, timeout=TIMEOUT) as stranger:  # noqa: S501
        for method, path in (
            ("PUT", "/v1/requests/a"),
            ("GET", "/v1/requests/a"),
            ("GET", "/v1/requests"),
            ("DELETE", "/v1/requests/a"),
            ("POST", "/v1/requests/a/cancel"),
            ("GET", "/v1/events"),
            ("GET", "/v1/stats"),
        ):
            answer = await stranger.request(method, path, headers=headers)
            assert code(answer) == (401, "Unauthorized")
            assert answer.headers["www-authenticate"] == "Bearer"
        for path in ("/healthz", "/metrics"):
            assert (await stranger.get(path)).status_code == 200


async def test_unknown_paths_and_methods_are_reported_as_json(served: Served) -> None:
    assert code(await served.client.get("/v2/requests")) == (404, "NotFound")
    assert code(await served.client.post("/v1/requests")) == (405, "MethodNotAllowed")


async def test_an_answer_is_read_acknowledged_and_read_again(served: Served) -> None:
    await served.put("a", metadata={"uid": "7"})
    assert code(await served.client.delete("/v1/requests/a")) == (409, "NotAnswered")
    served.emacs.do("a", "42")
    await served.until_answered("a")
    view = RequestView.parse((await served.client.get("/v1/requests/a")).content)
    assert view.response is not None
    assert (view.state, view.response.result, view.metadata) == (RequestState.ANSWERED, "42", {"uid": "7"})
    for _ in range(2):
        assert (await served.client.delete("/v1/requests/a")).status_code == 204
    view = RequestView.parse((await served.client.get("/v1/requests/a")).content)
    assert view.state is RequestState.ACKNOWLEDGED
    assert view.response is not None


async def test_unknown_requests_are_404(served: Served) -> None:
    for method, path in (("GET", ""), ("DELETE", ""), ("POST", "/cancel")):
        answer = await served.client.request(method, f"/v1/requests/never{path}")
        assert code(answer) == (404, "NotFound")


async def test_a_request_can_be_cancelled_before_it_comes(served: Served) -> None:
    whole = {"id": "early", "type": "eval", "content": "1"}
    cancelled = await served.client.post("/v1/requests/early/cancel", json=whole)
    late = await served.client.put("/v1/requests/early", json=whole)
    assert (cancelled.status_code, late.status_code) == (200, 200)
    assert late.json()["response"]["reason"] == "Cancelled"
    assert (await served.client.post("/v1/requests/other/cancel", json=whole)).status_code == 422


async def test_cancelling_is_202_and_200_once_answered(served: Served) -> None:
    await served.put("waits")
    first = await served.client.post("/v1/requests/waits/cancel")
    again = await served.client.post("/v1/requests/waits/cancel")
    assert (first.status_code, again.status_code) == (202, 200)
    assert first.json()["response"]["reason"] == "Cancelled"
    await served.put("runs")
    served.emacs.claim("runs")
    assert (await served.client.post("/v1/requests/runs/cancel")).status_code == 202


async def test_only_what_waits_is_cancelled_where_that_is_said(served: Served) -> None:
    for name in ("waits", "runs"):
        await served.put(name)
    served.emacs.claim("runs")
    waits = await served.client.post("/v1/requests/waits/cancel?only=waiting")
    runs = await served.client.post("/v1/requests/runs/cancel?only=waiting")
    assert (waits.status_code, waits.json()["response"]["reason"]) == (202, "Cancelled")
    assert (runs.status_code, runs.json().get("response")) == (200, None)
    assert not (served.emacs.root / "control/cancel_runs").exists()
    odd = await served.client.post("/v1/requests/runs/cancel?only=odd")
    assert odd.status_code == 422
    assert "only=waiting" in odd.json()["error"]["message"]


async def test_the_list_holds_everything_unacknowledged_without_answers(served: Served) -> None:
    for name in ("a", "b"):
        await served.put(name)
    (served.emacs.root / "requests/foreign.json").write_text('{"type":"eval","content":"1"}')
    served.emacs.do("a")
    await served.until(lambda: len(served.bridge.queue.index) == 3)
    await served.until_answered("a")
    listed = RequestList.parse((await served.client.get("/v1/requests")).content)
    assert listed.queue_id == served.bridge.queue.queue_id
    assert {view.id: view.state.value for view in listed.requests} == {
        "a": "answered",
        "b": "queued",
        "foreign": "queued",
    }
    assert all(view.response is None for view in listed.requests)


async def test_stats_report_the_queues_figures(served: Served) -> None:
    for name in ("a", "b", "c"):
        await served.put(name)
    served.emacs.do("a")
    served.emacs.claim("b")
    await served.until_answered("a")
    await served.until(lambda: served.bridge.queue.index.count(RequestState.RUNNING) == 1)
    stats = Stats.parse((await served.client.get("/v1/stats")).content)
    assert (stats.pending, stats.processing, stats.unacknowledged) == (1, 1, 1)
    assert (stats.processed, stats.succeeded, stats.failed) == (1, 1, 0)
    assert stats.average_processing_seconds == 0.25
    assert stats.emacs.alive is False
    assert stats.emacs.current == "b"


async def test_more_at_once_than_there_are_connections_all_arrive(served: Served) -> None:
    answers = await asyncio.gather(*(served.put(f"r{number}") for number in range(128)))
    assert {answer.status_code for answer in answers} == {201}
    stored = (served.emacs.root / "requests").iterdir()
    ids = {json.loads(path.read_text())["id"] for path in stored}
    assert ids == {f"r{number}" for number in range(128)}


async def test_an_upload_that_breaks_off_leaves_nothing(served: Served) -> None:
    async def broken() -> AsyncIterator[bytes]:
        yield b'{"id":"a","type":'
        raise RuntimeError("cable pulled")

    with pytest.raises(RuntimeError, match="cable"):
        await served.client.put("/v1/requests/a", content=broken())
    assert list((served.emacs.root / "requests").iterdir()) == []
    assert (await served.put("a")).status_code == 201
