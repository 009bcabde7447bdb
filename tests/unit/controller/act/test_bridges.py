"""act/bridges.py: calls and event streams over real TLS with the credentials the controller hands out."""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from efrit.controller.act import bridges as bridges_module
from efrit.controller.act import bulkhead, stream_rate
from efrit.controller.act.bridges import Bridges
from efrit.controller.act.bulkhead import FAILURES, Depth
from efrit.controller.act.http_calls import ConnectTimeout, PoolTimeout, ReadError, ReadTimeout, Timeouts
from efrit.controller.act.identity import new_identity
from efrit.controller.decide.queue_request import queue_request
from efrit.controller.model.actions import Parked
from efrit.controller.model.credentials import GENERATION, TOKEN_PERIOD, Identity, credentials
from efrit.controller.model.keys import WorkKey
from efrit.errors import (
    BridgeError,
    BridgeUnreachable,
    BridgeUnresponsive,
    EfritError,
    InvalidRequest,
    NoSpace,
    NotAnswered,
    QueueFull,
    QueueNotReady,
    RequestConflict,
    RequestNotFound,
    RequestTooLarge,
    Unauthorized,
)
from efrit.protocol import Request, RequestState
from efrit.protocol.events import Reset
from efrit.protocol.view import DiskProblem, DiskStats
from tests.cluster.ports import free_port
from tests.support.factory import POD_UID, answered, instance, request, stats, view
from tests.unit.controller.fake_bridge import INSTANCE, INSTANCE_UID, FakeBridge, fake_bridge
from tests.unit.controller.recorded_store import RecordedStore

UID = "uid-work"
ONE = f"/v1/requests/{UID}"


@pytest.fixture(scope="module")
def identity() -> Identity:
    """Keys whose CA is valid today: TLS reads the real clock."""
    return new_identity()


@dataclass
class Line:
    """The controller's side and the bridge's side of one connection."""

    bridges: Bridges
    bridge: FakeBridge
    recorded: RecordedStore


@pytest.fixture
async def line(identity: Identity, tmp_path: Path) -> AsyncIterator[Line]:
    recorded = RecordedStore()
    async with fake_bridge(identity, tmp_path) as bridge:
        bridges = Bridges(identity, recorded.store)
        try:
            yield Line(bridges, bridge, recorded)
        finally:
            await bridges.close()


@pytest.fixture
async def connected(line: Line) -> Line:
    await line.bridges.connect(line.bridge.connect_action())
    return line


def work() -> Request:
    return queue_request(request(), instance())


# Calls.


async def test_a_request_is_submitted_as_its_file_and_its_view_comes_back(connected: Line) -> None:
    connected.bridge.answers["PUT", ONE] = (201, view().to_json())

    assert await connected.bridges.submit(INSTANCE, work()) == view()
    assert connected.bridge.calls == [("PUT", ONE, work().to_json())]


async def test_a_request_is_read_with_its_answer_and_cancelled_and_acknowledged(connected: Line) -> None:
    connected.bridge.answers["GET", ONE] = (200, answered(result="2").to_json())
    connected.bridge.answers["POST", f"{ONE}/cancel"] = (202, view(state=RequestState.RUNNING).to_json())
    connected.bridge.answers["DELETE", ONE] = (204, "")

    assert await connected.bridges.read(INSTANCE, UID) == answered(result="2")
    assert await connected.bridges.cancel(INSTANCE, UID) == view(state=RequestState.RUNNING)
    await connected.bridges.acknowledge(INSTANCE, UID)
    assert connected.bridge.calls[-1] == ("DELETE", ONE, "")


@pytest.mark.parametrize("body", ['{"id":"uid-other","state":"queued"}', "{}", "", "[]", "x"])
async def test_an_answer_about_another_request_or_none_is_an_error_of_the_bridge(connected: Line, body: str) -> None:
    for method, path in (("GET", ONE), ("PUT", ONE), ("POST", f"{ONE}/cancel")):
        connected.bridge.answers[method, path] = (200, body)
    for call in (
        connected.bridges.read(INSTANCE, UID),
        connected.bridges.submit(INSTANCE, work()),
        connected.bridges.cancel(INSTANCE, UID),
    ):
        with pytest.raises(EfritError):
            await call


async def test_an_answer_that_is_gone_was_acknowledged_long_ago(connected: Line) -> None:
    await connected.bridges.acknowledge(INSTANCE, UID)


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (404, "NotFound", RequestNotFound),
        (409, "Conflict", RequestConflict),
        (409, "NotAnswered", NotAnswered),
        (413, "TooLarge", RequestTooLarge),
        (422, "Invalid", InvalidRequest),
        (429, "QueueFull", QueueFull),
        (503, "NotReady", QueueNotReady),
        (507, "NoSpace", NoSpace),
        (401, "Unauthorized", Unauthorized),
        (500, "SomethingNew", BridgeError),
    ],
)
async def test_every_error_of_the_bridge_is_raised_as_itself(
    connected: Line, status: int, code: str, kind: type[EfritError]
) -> None:
    connected.bridge.answers["PUT", ONE] = (status, f'{{"error": {{"code": "{code}", "message": "why"}}}}')

    with pytest.raises(kind, match="why") as caught:
        await connected.bridges.submit(INSTANCE, work())

    assert type(caught.value) is kind


@pytest.mark.parametrize("body", ["<html>", "{}", "null"])
async def test_an_error_in_other_words_is_quoted(connected: Line, body: str) -> None:
    connected.bridge.answers["GET", ONE] = (502, body)

    with pytest.raises(BridgeError, match="the bridge answered 502"):
        await connected.bridges.read(INSTANCE, UID)


async def test_a_connection_that_breaks_is_no_answer(connected: Line) -> None:
    connected.bridge.answers["PUT", ONE] = (0, "")

    with pytest.raises(BridgeUnreachable, match="team/alpha"):
        await connected.bridges.submit(INSTANCE, work())


async def test_nobody_is_called_without_a_connection(line: Line) -> None:
    with pytest.raises(BridgeUnreachable, match="team/alpha: not connected"):
        await line.bridges.submit(INSTANCE, work())


async def test_a_disconnected_instance_is_not_called(connected: Line) -> None:
    await connected.bridges.disconnect(INSTANCE)

    with pytest.raises(BridgeUnreachable):
        await connected.bridges.read(INSTANCE, UID)
    assert connected.recorded.calls_of("bridges.bridge_disconnected") == [(INSTANCE,)]
    assert len(connected.bridges) == 0


@pytest.mark.parametrize("is_there", [True, False], ids=["cut off", "nobody listens"])
async def test_a_call_for_which_there_was_no_connection_is_known_not_to_have_arrived(
    line: Line, is_there: bool
) -> None:
    target = line.bridge.connect_action()
    line.bridge.answers["PUT", ONE] = (0, "")
    await line.bridges.connect(target if is_there else replace(target, port=free_port()))

    with pytest.raises(BridgeUnreachable) as caught:
        await line.bridges.submit(INSTANCE, queue_request(request(), instance()))

    assert caught.value.sent == is_there


async def test_disconnecting_what_is_not_connected_is_no_error(line: Line) -> None:
    await line.bridges.disconnect(INSTANCE)


# Who is talked to.


async def test_a_bridge_with_another_instances_certificate_is_refused(
    identity: Identity, tmp_path: Path, line: Line
) -> None:
    async with fake_bridge(identity, tmp_path, "uid-other") as other:
        await line.bridges.connect(other.connect_action())
        _, _, problem = await line.recorded.until_called("bridges.bridge_lost")

        assert "certificate verify failed" in problem
        with pytest.raises(BridgeUnreachable, match="certificate"):
            await line.bridges.submit(INSTANCE, work())
        assert other.calls == []


async def test_a_bridge_with_a_certificate_of_another_ca_is_refused(tmp_path: Path, line: Line) -> None:
    async with fake_bridge(new_identity(), tmp_path) as impostor:
        await line.bridges.connect(impostor.connect_action())

        assert "certificate verify failed" in (await line.recorded.until_called("bridges.bridge_lost"))[2]
        assert impostor.streams.empty()


async def test_a_bridge_that_refuses_the_token_is_reported_as_such(line: Line) -> None:
    line.bridge.token = "another"

    await line.bridges.connect(line.bridge.connect_action())

    assert "bearer token" in (await line.recorded.until_called("bridges.bridge_lost"))[2]


def test_no_bridge_can_have_a_handshake_repeated(identity: Identity) -> None:
    _, tls = Bridges(identity, RecordedStore().store)._trusted_ca()
    assert tls.options & ssl.OP_NO_RENEGOTIATION


@contextlib.asynccontextmanager
async def calling(*arguments: Any) -> AsyncIterator[tuple[Bridges, RecordedStore]]:
    """Yield a controller's side of its own, with other keys or another clock."""
    identity, *clock = arguments
    recorded = RecordedStore()
    bridges = Bridges(identity, recorded.store, *clock)
    try:
        yield bridges, recorded
    finally:
        await bridges.close()


async def test_during_a_rotation_a_bridge_that_still_has_the_former_token_is_reached(
    identity: Identity, tmp_path: Path
) -> None:
    rotated = replace(identity, hmac_key=b"new" * 11, previous_hmac_key=identity.hmac_key)
    async with fake_bridge(identity, tmp_path) as bridge, calling(rotated) as (bridges, recorded):
        await bridges.connect(bridge.connect_action())
        await (await bridge.reader()).report(stats())

        assert (await recorded.until_called("bridges.event"))[2] == stats()
        # Nobody is told of a bridge that does not answer: only one of two tokens was refused.
        assert recorded.calls_of("bridges.bridge_lost") == []


async def test_a_bridge_that_refuses_both_tokens_is_reported(identity: Identity, tmp_path: Path) -> None:
    others = replace(identity, hmac_key=b"new" * 11, previous_hmac_key=identity.hmac_key)
    async with fake_bridge(identity, tmp_path) as bridge, calling(others) as (bridges, recorded):
        bridge.token = "another"
        await bridges.connect(bridge.connect_action())

        _, _, problem = await recorded.until_called("bridges.bridge_lost")

    assert "token" in problem


async def test_a_token_of_the_next_week_is_used_on_the_same_connection_when_the_week_begins(
    identity: Identity, tmp_path: Path
) -> None:
    now = datetime.now(UTC)
    async with fake_bridge(identity, tmp_path) as bridge, calling(identity, lambda: now) as (bridges, _):
        await bridges.connect(bridge.connect_action())
        await bridge.reader()
        # What it was given ahead, in `token-next`.
        bridge.token = credentials(identity, INSTANCE_UID, now).next_token
        now += TOKEN_PERIOD
        await bridges.connect(bridge.connect_action())
        await bridges.acknowledge(INSTANCE, UID)

        assert [method for method, *_ in bridge.calls] == ["DELETE"]
        assert bridge.streams.empty()


async def test_a_stream_is_opened_anew_when_another_ca_signs(identity: Identity, tmp_path: Path) -> None:
    now = datetime.now(UTC)
    async with fake_bridge(identity, tmp_path) as bridge, calling(identity, lambda: now) as (bridges, _):
        for moment in (now, now + GENERATION):
            now = moment
            bridge.token = credentials(identity, INSTANCE_UID, now).token
            await bridges.connect(bridge.connect_action())
            # Its certificate is of the CA before.
            await bridge.reader()


async def test_an_address_of_version_six_is_bracketed(line: Line) -> None:
    await line.bridges.connect(replace(line.bridge.connect_action(), host="::1"))

    _, _, problem = await line.recorded.until_called("bridges.bridge_lost")

    assert "Invalid" not in problem


# The stream.


async def test_the_stream_starts_without_an_id_and_its_events_arrive_in_order(connected: Line) -> None:
    stream = await connected.bridge.reader()
    assert stream.last_event_id is None

    await stream.whole_picture(view())
    await connected.recorded.until_called("bridges.event", 3)

    assert connected.recorded.calls_of("bridges.event") == [
        (INSTANCE, POD_UID, Reset(queue_id="queue-1", epoch="epoch")),
        (INSTANCE, POD_UID, view()),
        (INSTANCE, POD_UID, stats()),
    ]


async def test_a_dropped_stream_resumes_where_it_broke_off(connected: Line) -> None:
    stream = await connected.bridge.reader()
    await stream.whole_picture()
    await stream.report(view(), "epoch-7")
    await connected.recorded.until_called("bridges.event", 3)

    stream.end()

    assert (await connected.bridge.reader()).last_event_id == "epoch-7"
    assert (await connected.recorded.until_called("bridges.bridge_lost"))[:2] == (INSTANCE, POD_UID)


@pytest.mark.parametrize("breaks_between", [False, True], ids=["on one stream", "on one that was resumed"])
async def test_an_event_without_an_id_leaves_the_place_to_resume_at(connected: Line, breaks_between: bool) -> None:
    stream = await connected.bridge.reader()
    await stream.report(stats(), "epoch-7")
    if breaks_between:
        await connected.recorded.until_called("bridges.event")
        stream.end()
        stream = await connected.bridge.reader()
    await stream.report(stats(processed=1))
    await connected.recorded.until_called("bridges.event", 2)

    stream.end()

    assert (await connected.bridge.reader()).last_event_id == "epoch-7"


async def test_a_bridge_that_answers_no_calls_is_called_no_more_and_reported_once(connected: Line) -> None:
    connected.bridge.answers["PUT", ONE] = (0, "")
    keys = [WorkKey("EfritRequest", "team", str(number)) for number in range(10)]
    kinds = []
    for key in keys[:FAILURES]:
        with pytest.raises(BridgeUnreachable) as caught, connected.bridges.call(INSTANCE, key, Depth.SUBMIT):
            await connected.bridges.submit(INSTANCE, work())
        kinds.append(type(caught.value))
    for key in keys[FAILURES:]:
        with pytest.raises(Parked), connected.bridges.call(INSTANCE, key, Depth.SUBMIT):
            pass

    assert kinds == [BridgeUnreachable] * (FAILURES - 1) + [BridgeUnresponsive]
    assert len(connected.bridge.calls) == FAILURES
    ((_, problem),) = connected.recorded.calls_of("bridges.bridge_responsive")
    assert problem
    assert (connected.bridges.parked, connected.bridges.unresponsive) == (10 - FAILURES, 1)


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (ConnectTimeout(), "no connection within 5 s."),
        (ReadTimeout(), "no answer within 15 s."),
        (PoolTimeout(), "no answer within 15 s."),
        (TimeoutError(), "its answer did not end in time."),
        (ReadError("reset by peer"), "reset by peer."),
        (ReadError(), "ReadError."),
    ],
)
def test_why_a_call_had_no_answer_is_said_as_it_was(
    monkeypatch: pytest.MonkeyPatch, error: Exception, sentence: str
) -> None:
    monkeypatch.setattr(bridges_module, "CALL_TIMEOUTS", Timeouts(connect=5.0, read=15.0, pool=15.0))
    assert bridges_module._failure_sentence(error) == sentence


async def test_replies_that_cannot_be_used_count_as_no_answer(connected: Line) -> None:
    connected.bridge.answers["GET", ONE] = (200, view("uid-other").to_json())
    for _ in range(FAILURES):
        with pytest.raises(BridgeError):
            await connected.bridges.read(INSTANCE, UID)

    assert connected.bridges.unresponsive == 1


async def test_a_probe_finds_out_that_a_bridge_answers_again(
    connected: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulkhead, "FIRST_PAUSE_SECONDS", 0.01)
    connected.bridge.answers["PUT", ONE] = (0, "")
    for _ in range(FAILURES):
        with pytest.raises(BridgeUnreachable):
            await connected.bridges.submit(INSTANCE, work())

    instance_key, problem = await connected.recorded.until_called("bridges.bridge_responsive", 2)

    assert (instance_key, problem) == (INSTANCE, None)
    assert connected.bridge.calls[-1][:2] == ("DELETE", "/v1/requests/efrit-probe")


async def test_a_bridge_without_room_is_offered_no_more_requests_until_its_figures_say_otherwise(
    connected: Line,
) -> None:
    full = (507, '{"error": {"code": "NoSpace", "message": "the volume is full"}}')
    connected.bridge.answers["PUT", ONE] = full
    key = WorkKey("EfritRequest", "team", "one")
    with pytest.raises(NoSpace), connected.bridges.call(INSTANCE, key, Depth.SUBMIT):
        await connected.bridges.submit(INSTANCE, work())

    with pytest.raises(Parked) as caught, connected.bridges.call(INSTANCE, key, Depth.SUBMIT):
        pass
    with connected.bridges.call(INSTANCE, key._replace(name="other"), Depth.WRITE):
        await connected.bridges.acknowledge(INSTANCE, "uid-unknown")

    assert (caught.value.problem, caught.value.no_room) == ("the volume is full", True)
    assert connected.bridges.unresponsive == 0, "its condition is what the figures say of the volume"
    stream = await connected.bridge.reader()
    await stream.report(stats(disk=DiskStats(problem=DiskProblem.FULL)), "epoch-1")
    await stream.report(stats(disk=DiskStats()), "epoch-2")
    assert await connected.recorded.until_called("requeue_after") == (key, timedelta(0))


async def test_a_bridge_whose_stream_is_garbage_is_not_called(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bridges_module, "FIRST_UNREADABLE_SECONDS", 0.01)
    await line.bridges.connect(line.bridge.connect_action())
    for _ in range(FAILURES):
        stream = await line.bridge.reader()
        await stream.report(stats(), "epoch-1")
        await stream.send("request", '{"id": 7}', "epoch-2")

    _, problem = await line.recorded.until_called("bridges.bridge_responsive")

    assert problem.startswith("its event stream cannot be read: ")


async def test_a_stream_that_floods_is_not_read_beyond_its_rate_and_calls_go_on(
    line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_rate, "BURST", 20 * 2048)
    monkeypatch.setattr(stream_rate, "RATE", 1)
    line.bridge.answers["GET", ONE] = (200, view().to_json())
    await line.bridges.connect(line.bridge.connect_action())
    stream = await line.bridge.reader()

    for number in range(200):
        await stream.send("stats", stats(processed=number).to_json())
        assert await line.bridges.read(INSTANCE, UID) == view()

    assert 0 < len(line.recorded.calls_of("bridges.event")) <= 20


async def test_a_bridge_that_is_not_ready_is_tried_again(line: Line) -> None:
    line.bridge.refuse_streams = 2
    await line.bridges.connect(line.bridge.connect_action())

    assert await line.bridge.reader()
    assert [problem for _, _, problem in line.recorded.calls_of("bridges.bridge_lost")] == [
        "the queue is not open yet"
    ] * 2


async def test_events_of_a_later_version_are_passed_over(connected: Line) -> None:
    stream = await connected.bridge.reader()

    await stream.send("novelty", '{"what": "ever"}', "epoch-1")
    await stream.report(stats(), "epoch-2")
    await connected.recorded.until_called("bridges.event")

    assert connected.recorded.calls_of("bridges.event") == [(INSTANCE, POD_UID, stats())]


async def test_after_an_event_that_cannot_be_read_the_whole_picture_is_asked_for(connected: Line) -> None:
    stream = await connected.bridge.reader()
    await stream.report(stats(), "epoch-1")

    await stream.send("request", '{"id": 7}', "epoch-2")

    assert (await connected.bridge.reader()).last_event_id is None


@pytest.mark.parametrize("separator", ["\n", "\r", "\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c", "\x1e"])
async def test_no_separator_of_lines_in_an_answer_cuts_its_event(connected: Line, separator: str) -> None:
    final_view = answered(result=f"one{separator}two")
    stream = await connected.bridge.reader()

    await stream.report(final_view, "epoch-1")

    assert await connected.recorded.until_called("bridges.event") == (INSTANCE, POD_UID, final_view)


async def test_wanting_the_same_connection_again_changes_nothing(connected: Line) -> None:
    stream = await connected.bridge.reader()

    await connected.bridges.connect(connected.bridge.connect_action())
    await stream.report(stats(), "epoch-1")
    await connected.recorded.until_called("bridges.event")

    assert connected.bridge.streams.empty()
    assert len(connected.bridges) == 1


async def test_a_new_pod_gets_a_stream_of_its_own_from_the_start(connected: Line) -> None:
    stream = await connected.bridge.reader()
    await stream.report(stats(), "epoch-1")
    await connected.recorded.until_called("bridges.event")

    await connected.bridges.connect(connected.bridge.connect_action(pod_uid="pod-uid-2"))
    second = await connected.bridge.reader()
    await second.report(stats(), "epoch-1")

    assert second.last_event_id is None
    assert (await connected.recorded.until_called("bridges.event", 2))[1] == "pod-uid-2"
    assert len(connected.bridges) == 1


async def test_closing_ends_every_stream(connected: Line) -> None:
    await connected.bridge.reader()

    await connected.bridges.close()

    assert len(connected.bridges) == 0


async def test_a_call_still_works_while_the_stream_is_down(line: Line) -> None:
    line.bridge.refuse_streams = 1000
    line.bridge.answers["GET", ONE] = (200, view().to_json())
    await line.bridges.connect(line.bridge.connect_action())
    await line.recorded.until_called("bridges.bridge_lost")

    assert await line.bridges.read(INSTANCE, UID) == view()


async def test_a_stream_that_failed_over_a_bug_is_opened_anew_when_it_is_wanted_again(
    line: Line, identity: Identity, caplog: pytest.LogCaptureFixture
) -> None:
    class Failing(RecordedStore):
        def call(self, name: str) -> Callable[..., Any]:
            if name != "bridges.event":
                return super().call(name)

            def fail(*arguments: Any) -> None:
                raise LookupError("a bug")

            return fail

    bridges = Bridges(identity, Failing().store)
    await bridges.connect(line.bridge.connect_action())
    stream = await line.bridge.reader()
    await stream.report(stats(), "epoch-1")
    await stream.dropped()

    await bridges.connect(line.bridge.connect_action())

    assert await line.bridge.reader()
    assert "a bug" in caplog.text
    await bridges.close()
