"""act/actor.py: what each action does to the API server and the bridges, and what is reported back."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace
from typing import Any

import pytest

from efrit.controller import metrics
from efrit.controller.act import actor
from efrit.controller.act.actor import RETRY_CONFLICT, SAY_UNRESPONSIVE
from efrit.controller.act.bulkhead import FAILURES
from efrit.controller.model.actions import (
    Acknowledge,
    CancelWork,
    DecisionOutcome,
    DisconnectBridge,
    FetchAnswer,
    FindSession,
    PatchStatus,
    Record,
    RequeueAfter,
    ResourceKind,
)
from efrit.controller.model.keys import Key, WorkKey
from efrit.errors import (
    ApiRefused,
    ApiTooLarge,
    ApiUnavailable,
    BridgeUnreachable,
    NoSpace,
    NotAnswered,
    NotLeading,
    QueueFull,
)
from efrit.protocol.handover import MAX_BATCH_ELEMENTS
from tests.support.factory import Json, answered, instance_json, request_json, seconds, stats, view
from tests.unit.controller.act.acting import (
    ALPHA,
    APP,
    APP_KEY,
    LATER,
    ONE,
    RECONCILED,
    REQUEST,
    SUBMIT,
    UID,
    WORK,
    Rig,
    patch,
)
from tests.unit.controller.fake_bridge import INSTANCE
from tests.unit.controller.recorded_store import KINDS


@pytest.mark.parametrize(
    "action", [SUBMIT, CancelWork(INSTANCE, REQUEST, UID), patch({"phase": "Running"}, version="1")]
)
async def test_nothing_is_done_once_the_lease_may_be_somebody_elses(rig: Rig, action: Any) -> None:
    rig.lost.set()

    with pytest.raises(NotLeading):
        await rig.does(action)

    assert rig.api.calls == []
    assert rig.bridge.calls == []


# Work.


def failure(status: int, code: str, message: str = "the volume is full") -> tuple[int, str]:
    return status, f'{{"error": {{"code": "{code}", "message": "{message}"}}}}'


VIEW = (201, view().to_json())
ANSWERED = answered(result="2")
FETCH, CANCEL, ACKNOWLEDGE = (
    FetchAnswer(INSTANCE, REQUEST, UID),
    CancelWork(INSTANCE, REQUEST, UID),
    Acknowledge(INSTANCE, UID),
)
OUTCOMES = {
    "bridges.request_submitted",
    "bridges.view",
    "bridges.answer_acknowledged",
    "bridges.bridge_disconnected",
    "handovers.bridge_refused",
    "handovers.handed_over",
    "handovers.absent",
}
CALLS: dict[
    str, tuple[Any, dict[str, tuple[int, str]], type[Exception] | None, list[tuple[str, tuple[Any, ...]]]]
] = {
    "a submission": (SUBMIT, {"PUT": VIEW}, None, [("bridges.request_submitted", (INSTANCE, view()))]),
    "a submission under other defaults is the same request": (
        SUBMIT,
        {"PUT": failure(409, "Conflict"), "GET": (200, ANSWERED.to_json())},
        None,
        [("handovers.handed_over", (INSTANCE, REQUEST, UID)), ("bridges.request_submitted", (INSTANCE, ANSWERED))],
    ),
    "a submission that a bridge will never take": (
        SUBMIT,
        {"PUT": failure(413, "TooLarge", "9 bytes, 5 are allowed")},
        None,
        [("handovers.bridge_refused", (REQUEST, UID, "9 bytes, 5 are allowed"))],
    ),
    "a submission to a full queue is tried again": (SUBMIT, {"PUT": failure(429, "QueueFull")}, QueueFull, []),
    "a submission without a reply may have arrived": (
        SUBMIT,
        {"PUT": (0, "")},
        BridgeUnreachable,
        [("handovers.handed_over", (INSTANCE, REQUEST, UID))],
    ),
    "a cancel": (CANCEL, {"POST": (202, view().to_json())}, None, [("bridges.view", (INSTANCE, view()))]),
    "a cancel of what the queue does not know": (CANCEL, {}, None, [("handovers.absent", (REQUEST, UID, ""))]),
    "a large answer": (FETCH, {"GET": (200, ANSWERED.to_json())}, None, [("bridges.view", (INSTANCE, ANSWERED))]),
    "an acknowledgement that comes too early": (
        ACKNOWLEDGE,
        {"DELETE": failure(409, "NotAnswered")},
        NotAnswered,
        [],
    ),
    "an acknowledgement": (
        ACKNOWLEDGE,
        {"DELETE": (204, "")},
        None,
        [("bridges.answer_acknowledged", (INSTANCE, UID))],
    ),
    "the end of a connection": (DisconnectBridge(INSTANCE), {}, None, [("bridges.bridge_disconnected", (INSTANCE,))]),
}


@pytest.mark.parametrize("batched", [False, True], ids=["alone", "in a batch"])
@pytest.mark.parametrize(("action", "replies", "error", "calls"), CALLS.values(), ids=CALLS)
async def test_what_a_bridge_says_is_reported(
    rig: Rig,
    action: Any,
    replies: dict[str, tuple[int, str]],
    error: type[Exception] | None,
    calls: list[Any],
    batched: bool,
) -> None:
    if batched:
        await takes_batches(rig)
    for method, reply in replies.items():
        rig.bridge.answers[method, f"{ONE}/cancel" if method == "POST" else ONE] = reply

    with pytest.raises(error) if error else contextlib.nullcontext():
        await rig.does(action)

    assert [call for call in rig.recorded.calls if call[0] in OUTCOMES] == calls


async def takes_batches(rig: Rig) -> None:
    """Have the bridge say that it takes batches."""
    rig.bridge.results = rig.bridge.answered
    await (await rig.bridge.reader()).report(stats(batch_elements=MAX_BATCH_ELEMENTS))
    await rig.recorded.until_called("bridges.event")


@pytest.mark.parametrize(
    ("action", "reply", "report"),
    [
        (SUBMIT, VIEW, "bridges.request_submitted"),
        (SUBMIT, failure(429, "QueueFull"), "requests.action_failed"),
        (ACKNOWLEDGE, (204, ""), "bridges.answer_acknowledged"),
        (CANCEL, (202, view().to_json()), "bridges.view"),
    ],
)
async def test_a_call_in_a_batch_goes_on_without_a_worker_and_its_key_is_released_after_it(
    rig: Rig, action: Any, reply: tuple[int, str], report: str
) -> None:
    await takes_batches(rig)
    rig.bridge.answers |= {("PUT", ONE): reply, ("DELETE", ONE): reply, ("POST", f"{ONE}/cancel"): reply}
    rig.bridge.gate = asyncio.Event()
    failures = metrics.RECONCILE_FAILURES.labels(RECONCILED.kind)._value
    before = failures.get()

    outcome = await rig.actor.carry_out_all(RECONCILED, [action, RequeueAfter(LATER)])

    assert outcome is DecisionOutcome.CARRIED_OUT

    assert rig.recorded.calls_of("detach") == [(RECONCILED,)]
    assert rig.recorded.calls_of("requeue_after") == [(RECONCILED, LATER)]
    assert not rig.recorded.calls_of("release")
    rig.bridge.gate.set()
    key, error = await rig.recorded.until_called("release")
    assert key == RECONCILED
    assert isinstance(error, QueueFull) if reply[0] == 429 else error is None
    assert failures.get() == before + (error is not None)
    assert [name for name, _ in rig.recorded.calls if name in (report, "release")] == [report, "release"]


async def test_what_is_not_sent_as_the_lease_may_be_somebody_elses_has_not_arrived(rig: Rig) -> None:
    await takes_batches(rig)

    await rig.actor.carry_out_all(RECONCILED, [SUBMIT])
    rig.lost.set()

    _, error = await rig.recorded.until_called("release")
    assert isinstance(error, NotLeading)
    assert rig.recorded.calls_of("handovers.submit_ended") == [(INSTANCE, REQUEST, UID, False)]
    assert rig.bridge.batches == []


async def test_a_call_whose_outcome_is_awaited_by_what_follows_keeps_its_worker(rig: Rig) -> None:
    await takes_batches(rig)
    rig.bridge.answers["DELETE", ONE] = failure(409, "NotAnswered")
    follows = patch({"phase": "Succeeded"}, version="1")

    with pytest.raises(NotAnswered):
        await rig.actor.carry_out_all(RECONCILED, [ACKNOWLEDGE, follows])

    assert not rig.recorded.calls_of("detach")
    assert rig.api.calls == []


async def test_a_request_that_is_parked_says_why_and_keeps_its_timers(rig: Rig) -> None:
    rig.bridge.answers["PUT", ONE] = (0, "")
    rig.recorded.returns["requests.action_failed"] = True
    for _ in range(FAILURES):
        with pytest.raises(BridgeUnreachable):
            await rig.does(SUBMIT)

    await rig.actor.carry_out_all(RECONCILED, [SUBMIT, patch({"phase": "Queued"}, version="1"), RequeueAfter(LATER)])

    assert [call.method for call in rig.api.calls] == []
    assert rig.recorded.calls_of("requests.action_failed")[-1][2] == "Submit"
    assert rig.recorded.calls_of("requests.action_failed")[-1][3].code == "Unresponsive"
    assert [after for _, after in rig.recorded.calls_of("requeue_after")] == [SAY_UNRESPONSIVE, LATER]
    assert len(rig.recorded.calls_of("handovers.submit_ended")) == FAILURES, "nothing was sent"


async def test_a_call_that_takes_long_gives_its_worker_to_others(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(actor, "SLOW_CALL_SECONDS", 0.0)
    rig.bridge.gate = asyncio.Event()

    doing = asyncio.create_task(rig.does(CancelWork(INSTANCE, REQUEST, UID)))

    assert await rig.recorded.until_called("set_aside") == (RECONCILED,)
    rig.bridge.gate.set()
    assert await doing


async def test_requests_that_wait_for_room_say_so_and_are_not_sent(rig: Rig) -> None:
    rig.bridge.answers["PUT", ONE] = failure(507, "NoSpace")
    with pytest.raises(NoSpace):
        await rig.does(SUBMIT)

    assert not await rig.does(SUBMIT)

    failures = [error for *_, error in rig.recorded.calls_of("requests.action_failed")]
    assert [(error.code, error.message) for error in failures] == [("NoSpace", "the volume is full")] * 2
    assert len(rig.bridge.calls) == 1


@pytest.mark.parametrize(
    ("action", "call"),
    [(SUBMIT, ("PUT", ONE)), (FETCH, ("GET", ONE)), (CANCEL, ("POST", f"{ONE}/cancel"))],
    ids=["Submit", "FetchAnswer", "CancelWork"],
)
async def test_a_call_that_a_bridge_does_not_take_yet_is_reported_with_its_sentence(
    rig: Rig, action: Any, call: tuple[str, str]
) -> None:
    rig.bridge.answers[call] = failure(507, "NoSpace")

    with pytest.raises(NoSpace):
        await rig.does(action)

    (failed_call,) = rig.recorded.calls_of("requests.action_failed")
    assert failed_call[:3] == (REQUEST, UID, type(action).__name__)
    assert failed_call[3].message == "the volume is full"


# Status.


def progress(version: str) -> PatchStatus:
    return replace(patch({"phase": "Running", "progress": {"step": 2}}, version=version), droppable=True)


@pytest.mark.parametrize("droppable", [False, True], ids=["status", "progress"])
async def test_a_status_is_written_on_condition_of_version_and_uid_and_taken_in_from_the_reply(
    rig: Rig, droppable: bool
) -> None:
    version = rig.api.put(WORK, request_json())["metadata"]["resourceVersion"]
    write = progress(version) if droppable else patch({"phase": "Running"}, version=version)

    await rig.does(write)

    (call,) = rig.api.made("PATCH")
    assert call.path == f"{WORK}/status"
    assert call.body == {"metadata": {"resourceVersion": version, "uid": UID}, "status": dict(write.status)}
    ((obj,),) = rig.recorded.calls_of("requests.observe_written")
    assert obj["status"] == write.status
    assert int(obj["metadata"]["resourceVersion"]) > int(version)


@pytest.mark.parametrize(
    ("old", "new", "body"),
    [
        (
            {"phase": "Running", "progress": {"step": 1}, "session": {"id": "a", "question": "?"}, "result": "kept"},
            {"phase": "Succeeded", "session": {"id": "b"}, "result": "kept"},
            {"progress": None, "session": {"id": "b", "question": None}},
        ),
        (
            {"conditions": [{"type": "Complete", "message": "x"}]},
            {"conditions": [{"type": "Complete"}, {"type": "Succeeded"}]},
            {},
        ),
    ],
    ids=["at every depth", "of lists as a whole"],
)
async def test_what_is_gone_from_the_status_is_removed(rig: Rig, old: Json, new: Json, body: Json) -> None:
    stored = rig.api.put(WORK, {**request_json(), "status": old})

    await rig.does(patch(new, old=old, version=stored["metadata"]["resourceVersion"]))

    assert rig.api.objects[WORK]["status"] == new
    assert body.items() <= rig.api.made("PATCH")[0].body["status"].items()


@pytest.mark.parametrize(
    ("kind", "path", "key"),
    [("EfritRequest", WORK, REQUEST), ("EfritInstance", ALPHA, INSTANCE), ("EfritPlan", APP, APP_KEY)],
)
async def test_a_conflict_over_a_status_ends_the_decision_and_the_object_comes_back(
    rig: Rig, kind: ResourceKind, path: str, key: Key
) -> None:
    stored = rig.api.put(path, {"metadata": {"name": key[1], "namespace": key[0], "uid": "uid"}})
    write = PatchStatus(kind, key, "uid", "1", {"phase": "Ready"}, {})
    event = Record(kind, key, "uid", "Normal", "Ready", "x")

    await rig.actor.carry_out_all(RECONCILED, [write, event, RequeueAfter(seconds(9))])

    assert [call.method for call in rig.api.calls] == ["PATCH", "GET"], "nothing is forced"
    assert rig.recorded.calls_of("instances.status_written") == []
    assert [obj["metadata"] for (obj,) in rig.recorded.calls_of(f"{KINDS[kind]}.observe")] == [stored["metadata"]]
    assert rig.recorded.calls_of("requeue_after") == [(WorkKey(kind, *key), RETRY_CONFLICT)]


async def test_a_status_of_a_request_made_anew_under_the_name_is_not_written(rig: Rig) -> None:
    stored = rig.api.put(WORK, request_json(uid="another"))

    await rig.does(patch({"phase": "Running"}, version=stored["metadata"]["resourceVersion"]))

    assert rig.api.objects[WORK].get("status") == {}
    ((obj,),) = rig.recorded.calls_of("requests.observe")
    assert obj["metadata"]["uid"] == "another"


async def test_a_request_or_an_instance_that_is_gone_is_reported(rig: Rig) -> None:
    await rig.does(patch({"phase": "Running"}, version="1"))
    await rig.does(patch({"phase": "Ready"}, version="1", kind="EfritInstance"))

    gone = [call for call in rig.recorded.calls if call[0] != "requeue_after"]
    assert gone == [("requests.deleted", (REQUEST, UID)), ("instances.deleted", (INSTANCE, "uid-alpha"))]


async def test_the_time_of_an_instances_status_is_reported(rig: Rig) -> None:
    version = rig.api.put(ALPHA, instance_json())["metadata"]["resourceVersion"]

    await rig.does(patch({"phase": "Ready"}, version=version, kind="EfritInstance"))

    assert [name for name, _ in rig.recorded.calls] == ["instances.observe_written", "instances.status_written"]


REFUSED = "requests.status_refused"


@pytest.mark.parametrize(
    ("status", "message", "seen", "error", "calls"),
    [
        (422, "the status of a finished EfritRequest is final", "100", ApiRefused, ["requests.observe", REFUSED]),
        # Taken in again, it would be decided about at once, and refused as often as the API server can.
        (403, "a policy says no", "101", ApiRefused, [REFUSED]),
        (500, "etcdserver: request is too large", "101", ApiTooLarge, ["requests.status_too_large", REFUSED]),
        (413, "limit is 3145728", "101", ApiTooLarge, ["requests.status_too_large", REFUSED]),
        (500, "failure", "101", ApiUnavailable, []),
    ],
    ids=["refused as it has changed", "refused as it is", "too large for etcd", "too large", "not written"],
)
async def test_a_status_that_is_not_written_is_reported_and_comes_back(
    rig: Rig, status: int, message: str, seen: str, error: type[Exception], calls: list[str]
) -> None:
    rig.api.put(WORK, request_json())
    rig.api.fail("PATCH", f"{WORK}/status", status, {"message": message})

    with pytest.raises(error):
        await rig.does(patch({"phase": "Failed"}, version=seen))

    assert [name for name, _ in rig.recorded.calls] == calls


async def test_what_the_model_cost_is_counted_once_the_end_is_written(rig: Rig) -> None:
    def counted() -> list[float]:
        tokens = metrics.MODEL_TOKENS.labels("output")
        errors = metrics.MODEL_ERRORS.labels("529")
        return [counter._value.get() for counter in (tokens, metrics.MODEL_CALLS, errors)]

    usage = {"outputTokens": 7, "modelCalls": 2, "modelErrors": {"529": 1}}
    stored = rig.api.put(WORK, request_json())
    before = counted()

    version = stored["metadata"]["resourceVersion"]
    await rig.does(patch({"phase": "Failed", "usage": usage}, version="1"))
    assert counted() == before, "somebody was faster"
    await rig.does(patch({"phase": "Failed", "usage": usage}, version=version))

    assert [after - then for after, then in zip(counted(), before, strict=True)] == [7, 2, 1]


# Progress.


async def test_progress_of_a_request_that_has_changed_is_dropped(rig: Rig) -> None:
    rig.api.put(WORK, {**request_json(), "status": {"phase": "Succeeded"}})

    await rig.does(progress("1"))

    assert rig.api.objects[WORK]["status"] == {"phase": "Succeeded"}
    assert [call.method for call in rig.api.calls] == ["PATCH"]
    assert rig.recorded.calls == [("requests.progress_dropped", (REQUEST, UID))]


@pytest.mark.parametrize("status", [0, 404, 413, 422, 429, 500])
async def test_progress_that_is_refused_or_lost_is_not_made_up_for(rig: Rig, status: int) -> None:
    stored = rig.api.put(WORK, request_json())
    rig.api.fail("PATCH", f"{WORK}/status", status)

    await rig.does(progress(stored["metadata"]["resourceVersion"]))

    assert len(rig.api.made("PATCH")) == 1
    assert rig.recorded.calls == [("requests.progress_dropped", (REQUEST, UID))]


# Sessions.


@pytest.mark.parametrize(
    ("statuses", "session_instance"),
    [
        ([], ""),
        ([{"session": {"id": "s-1"}}], ""),
        ([{"session": {"id": "s-1"}, "instanceName": "alpha"}, {"session": {"id": "s-1"}}], "alpha"),
    ],
)
async def test_the_instance_of_a_session_is_that_of_the_requests_that_had_it(
    rig: Rig, statuses: list[Json], session_instance: str
) -> None:
    for number, status in enumerate(statuses):
        rig.api.put(WORK.replace("work", f"w{number}"), {**request_json(f"w{number}"), "status": status})

    await rig.does(FindSession(REQUEST, UID, "s-1"))

    (call,) = rig.api.made("GET")
    assert call.query["fieldSelector"] == "status.session.id=s-1"
    assert rig.recorded.calls == [("requests.session_found", (REQUEST, UID, session_instance))]


async def test_of_the_thousands_that_had_a_session_no_more_are_read_than_it_takes(rig: Rig) -> None:
    rig.api.page_size = 2
    for number in range(9):
        status = {"session": {"id": "s-1"}, **({"instanceName": "alpha"} if number else {})}
        rig.api.put(WORK.replace("work", f"w{number}"), {**request_json(f"w{number}"), "status": status})

    await rig.does(FindSession(REQUEST, UID, "s-1"))

    assert len(rig.api.made("GET")) == 1
    assert rig.recorded.calls == [("requests.session_found", (REQUEST, UID, "alpha"))]


# The rest of a decision.


async def test_a_key_comes_back_after_its_time_whoever_leads(rig: Rig) -> None:
    rig.lost.set()

    await rig.does(RequeueAfter(seconds(1)))

    assert rig.recorded.calls_of("requeue_after") == [(RECONCILED, seconds(1))]
