"""The work log of a request over HTTP: as it grows, resumed, from the archive, to its end."""

import asyncio
import json

import httpx
import pytest
from httpx_sse import ServerSentEvent

from efrit.bridge.work_log_sse import offset_in
from efrit.protocol import Outcome, RequestReason, request_id
from efrit.protocol.events import LogEnd
from tests.support.timeout import TIMEOUT
from tests.unit.bridge.conftest import Serve, Served, stop
from tests.unit.bridge.test_events_over_http import Reader, reading

PATH = "/v1/requests/a/progress"


async def begin(served: Served) -> None:
    await served.until(lambda: served.bridge.queue.is_open)
    assert (await served.put("a", type="command")).status_code == 201
    served.emacs.claim("a")


def lines(events: list[ServerSentEvent]) -> list[dict[str, object]]:
    return [json.loads(event.data) for event in events if event.event == "message"]


async def until_end(reader: Reader) -> LogEnd:
    (end,) = await reader.until(1, "end")
    return LogEnd.parse(end.data)


async def test_lines_reach_a_reader_as_they_are_appended_and_the_stream_ends_with_the_answer(served: Served) -> None:
    await begin(served)
    async with reading(served, path=PATH) as reader:
        for number, word in enumerate(("a", "little", "ä\r\n\x85\u2028 step"), 1):
            size = served.emacs.append_work_log("a", "text", text=word)
            await reader.until(number)
            assert reader.events[-1].id == str(size)
            assert lines(reader.events)[-1]["text"] == word
        served.emacs.answer("a", status="error", reason="BudgetExhausted", outcome="Partial")
        assert await until_end(reader) == LogEnd(
            id=request_id("a"), reason=RequestReason.BUDGET_EXHAUSTED, outcome=Outcome.PARTIAL
        )
        await served.until(lambda: reader.ended)


async def test_a_reader_that_waits_before_anything_is_reported_misses_nothing(served: Served) -> None:
    await served.until(lambda: served.bridge.queue.is_open)
    await served.put("a", type="command")
    async with reading(served, path=PATH) as reader:
        served.emacs.claim("a")
        served.emacs.append_work_log("a", "snapshot")
        assert lines(await reader.until(1))[0]["type"] == "snapshot"


async def test_a_reader_that_was_cut_off_goes_on_behind_its_last_line(served: Served) -> None:
    await begin(served)
    first = served.emacs.append_work_log("a", "turn", step=1)
    served.emacs.append_work_log("a", "turn", step=2)
    async with reading(served, str(first), path=PATH) as reader:
        assert [line["step"] for line in lines(await reader.until(1))] == [2]
        served.emacs.append_work_log("a", "turn", step=3)
        assert [line["step"] for line in lines(await reader.until(2))] == [2, 3]


@pytest.mark.parametrize("last_id", ["7", "-1", "x", "", "9" * 17, "9" * 40, "٣"])
async def test_an_id_that_is_none_of_ours_starts_from_the_beginning(served: Served, last_id: str) -> None:
    await begin(served)
    served.emacs.append_work_log("a", "turn", step=1)
    served.emacs.answer("a")
    response = await served.client.get(PATH, headers={b"last-event-id": last_id.encode()})
    assert response.text.count('"step": 1') == 1


def test_an_id_is_an_offset_in_digits() -> None:
    assert [offset_in(text) for text in (None, "", "12", "-1", " 1", "1_0", "٣", "9" * 19)] == [
        0,
        0,
        12,
        0,
        0,
        0,
        0,
        0,
    ]


async def test_the_log_of_an_archived_request_is_sent_to_its_end(served: Served) -> None:
    await begin(served)
    served.emacs.append_work_log("a", "turn", step=1)
    served.emacs.answer("a")
    served.emacs.archive("a")
    await served.until_answered("a")
    assert (await served.client.delete("/v1/requests/a")).status_code == 204
    async with reading(served, path=PATH) as reader:
        assert (await until_end(reader)).reason is RequestReason.SUCCEEDED
        assert lines(reader.events) == [{"time": "2026-01-03T18:30:00.000Z", "type": "turn", "step": 1}]


async def test_a_reader_in_the_middle_goes_on_when_the_log_moves_to_the_archive(served: Served) -> None:
    await begin(served)
    async with reading(served, path=PATH) as reader:
        served.emacs.append_work_log("a", "turn", step=1)
        await reader.until(1)
        for step in range(2, 500):
            served.emacs.append_work_log("a", "turn", step=step)
        served.emacs.answer("a")
        await served.until_answered("a")
        await served.client.delete("/v1/requests/a")
        await until_end(reader)
        assert [line["step"] for line in lines(reader.events)] == list(range(1, 500))


async def test_a_request_without_a_log_ends_at_once_when_it_is_answered(served: Served) -> None:
    await served.until(lambda: served.bridge.queue.is_open)
    await served.put("a")
    async with reading(served, path=PATH) as reader:
        served.emacs.do("a")
        await until_end(reader)
        assert lines(reader.events) == []


async def test_half_a_line_that_a_crash_left_is_not_reported(served: Served) -> None:
    await begin(served)
    served.emacs.append_work_log("a", "turn", step=1)
    with (served.emacs.root / "progress/a.ndjson").open("a") as log:
        log.write('{"type":"tu')
    served.emacs.answer("a", status="error", reason="Interrupted", outcome="Failure")
    async with reading(served, path=PATH) as reader:
        assert (await until_end(reader)).reason is RequestReason.INTERRUPTED
        assert len(lines(reader.events)) == 1


async def test_no_line_can_end_an_event_or_begin_another(served: Served) -> None:
    await begin(served)
    with (served.emacs.root / "progress/a.ndjson").open("wb") as log:
        log.write(b'"x"\rdata: y\r\revent: end\n\xff\xfe\n')
    served.emacs.answer("a")
    async with reading(served, path=PATH) as reader:
        await until_end(reader)
    assert [event.data for event in reader.events[:-1]] == ['"x" data: y  event: end', "\ufffd\ufffd"]


async def test_an_unknown_request_has_no_log(served: Served) -> None:
    await served.until(lambda: served.bridge.queue.is_open)
    assert (await served.client.get("/v1/requests/none/progress")).status_code == 404
    assert (await served.client.get("/v1/requests/a%20b/progress")).status_code == 404


async def test_a_log_is_only_for_who_has_the_token(served: Served) -> None:
    await begin(served)
    refused = await served.client.get(PATH, headers={"authorization": "Bearer other"})
    assert refused.status_code == 401


async def test_readers_of_logs_are_limited_and_take_no_place_of_the_event_stream(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("efrit.bridge.routes.MAX_STREAMS", 1)
    await begin(served)
    served.emacs.append_work_log("a", "turn")
    async with reading(served, path=PATH) as first:
        await first.until(1)
        refused: httpx.Response = await served.client.get(PATH)
        assert (refused.status_code, refused.json()["error"]["code"]) == (429, "TooManyStreams")
        async with reading(served) as events:
            await events.until(1, "reset")


async def test_a_stream_ends_with_its_bridge(serve: Serve) -> None:
    served = await serve()
    await begin(served)
    served.emacs.append_work_log("a", "turn")
    async with reading(served, path=PATH) as reader:
        await reader.until(1)
        async with asyncio.timeout(TIMEOUT):
            await stop(served.bridge, served.task)
        await served.until(lambda: reader.ended)
