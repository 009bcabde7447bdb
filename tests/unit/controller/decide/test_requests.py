"""decide/requests.py, check by check: what is done next about one request, and what is written."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, TypeVar

import pytest

from efrit.controller.decide.requests import (
    ACKNOWLEDGE_AGAIN,
    HELD_BACK_RETRIED,
    RETRY_CANCEL,
    RETRY_HELD_BACK,
    decide_request,
)
from efrit.controller.model.actions import (
    Acknowledge,
    CancelWork,
    Delete,
    DeleteLater,
    FetchAnswer,
    RequeueAfter,
    Submit,
)
from efrit.controller.model.snapshots import Handover, RequestSnapshot
from efrit.controller.model.views import BridgeView
from efrit.protocol import RequestReason, RequestState
from efrit.protocol.view import RequestView
from tests.support.factory import (
    NAMESPACE,
    NOW,
    POD_UID,
    QUEUE_ID,
    answered,
    away,
    condition,
    connected,
    final_status,
    instance,
    of_kind,
    pod,
    ready,
    request,
    seconds,
    snapshot,
    stats,
    the,
    view,
    written,
)

TARGET = (NAMESPACE, "alpha")
KEY = (NAMESPACE, "work")
UID = "uid-work"
EPHEMERAL = {"queue": {"ephemeral": True}}
SUSPENDED = {"operatingMode": "Suspended"}
MODEL = {"model": {"name": "some-model", "apiKeySecretRef": {"name": "key", "key": "token"}}}
BOUNDED = {"maxTimeoutSeconds": 60, "maxIterations": 5, "maxTokens": 100, "iterationTimeoutSeconds": 9}
HOUR = 3600
T = TypeVar("T")


def running(attempt: int = 1, started: datetime | None = NOW, **fields: Any) -> RequestView:
    return view(state=RequestState.RUNNING, attempt=attempt, started_time=started, **fields)


def limited(**limits: int) -> Any:
    return ready(instance(spec={**MODEL, "limits": {**BOUNDED, **limits}}))


def on_queue(**figures: Any) -> Any:
    """Return an instance whose queue takes three requests."""
    spec = {"queue": {"existingClaim": "c", "maxPending": 3}}
    return ready(instance(spec=spec), bridge=connected(bridge_stats=stats(**figures)))


# What is handed over.

RECORDED = {"queueID": QUEUE_ID, "instanceName": "alpha"}
EXACT = {"maxToolCalls": 30, "maxIterations": 5, "maxTokens": 100, "iterationTimeoutSeconds": 9}

HANDED_OVER: dict[str, RequestSnapshot] = {
    "a new request to its ready instance": snapshot(target=ready()),
    "to an ephemeral queue that is recorded": snapshot(
        request(status={**RECORDED, "phase": "Queued"}), ready(instance(spec=EPHEMERAL))
    ),
    "to a new queue, if the lost one did not have it": snapshot(
        target=ready(), handover=Handover("queue-0", absent=True)
    ),
    "content of exactly the limit": snapshot(request(content="é" * 6), limited(maxRequestBytes=12)),
    "a timeout and a budget of exactly the limits": snapshot(
        request(type="command", timeoutSeconds=60, budget=EXACT), limited()
    ),
    "a chat to an instance with a model": snapshot(request(type="chat"), limited()),
    "as many as there is room for": snapshot(target=on_queue(pending=1), ahead=1),
}


@pytest.mark.parametrize("request_snapshot", HANDED_OVER.values(), ids=HANDED_OVER)
def test_what_is_handed_over(request_snapshot: RequestSnapshot) -> None:
    (action,) = decide_request(request_snapshot, NOW + seconds(3))

    assert isinstance(action, Submit)
    assert (action.instance, action.request_key, action.request.id) == (TARGET, KEY, UID)


# What is done, exactly.


def row(request_snapshot: RequestSnapshot, after: float, expected: T) -> tuple[RequestSnapshot, float, T]:
    return request_snapshot, after, expected


STOP = [CancelWork(TARGET, KEY, UID), RequeueAfter(RETRY_CANCEL)]
SAID_TO_RUN = {"phase": "Running", "reason": "Running", "attempt": 1}
SHORT_LIVED = request(status=final_status(ended=NOW), ttlSecondsAfterFinished=60)
ENDED = request(status=final_status(), ttlSecondsAfterFinished=0)
HURRIED = request(queueTimeoutSeconds=60, status={"phase": "Queued", "reason": "Queued", "attempt": 0})
LARGE = view(state=RequestState.ANSWERED, response_bytes=100_000)
ARCHIVED = view(state=RequestState.ACKNOWLEDGED)
FINAL = request(status=final_status())
ACKNOWLEDGE = Acknowledge(TARGET, UID)

DONE: dict[str, tuple[RequestSnapshot, float, list[Any]]] = {
    "running is written only after it has run for a second": row(
        snapshot(target=ready(), bridge_view=running()), 0.25, [RequeueAfter(seconds(0.75))]
    ),
    "running without a start time is counted from now": row(
        snapshot(target=ready(), bridge_view=running(started=None)), 0, [RequeueAfter(seconds(1))]
    ),
    "on the queue is written only after it has waited for five seconds": row(
        snapshot(target=ready(), bridge_view=view(queued_time=NOW)), 2, [RequeueAfter(seconds(3))]
    ),
    "clocks that differ a little cost no write": row(
        snapshot(target=ready(), bridge_view=running(started=NOW + seconds(0.5))), 0, [RequeueAfter(seconds(1.5))]
    ),
    "work on the queue is not rejected for a limit lowered since": row(
        snapshot(target=limited(maxRequestBytes=1), bridge_view=view(queued_time=NOW)), 0, [RequeueAfter(seconds(5))]
    ),
    "a wait of less than a second is not written": row(
        snapshot(), 0, [RequeueAfter(seconds(1)), RequeueAfter(seconds(30))]
    ),
    "running is not written twice": row(snapshot(request(status=SAID_TO_RUN), ready(), bridge_view=running()), 3, []),
    "a wait that is written already is not written again": row(
        snapshot(request(status={"phase": "Pending", "reason": "InstanceNotReady"}), away()), 3, []
    ),
    "a queued request looks again when its queue timeout ends": row(
        snapshot(HURRIED, ready(), bridge_view=view(queued_time=NOW)), 20, [RequeueAfter(seconds(40))]
    ),
    # Whether Emacs has begun it by now, only the queue knows: then it goes on.
    "a queued request past its queue timeout is withdrawn": row(
        snapshot(request(queueTimeoutSeconds=5), ready(), bridge_view=view()),
        5,
        [CancelWork(TARGET, KEY, UID, running=False), RequeueAfter(RETRY_CANCEL)],
    ),
    "a queued request that its user cancels is stopped though it may run by now": row(
        snapshot(request(queueTimeoutSeconds=5, cancel=True), ready(), bridge_view=view()), 5, STOP
    ),
    "a cancelled request that waits is stopped at its bridge": row(
        snapshot(request(cancel=True), ready(), bridge_view=view(state=RequestState.QUEUED)), 0, STOP
    ),
    "a cancelled request that runs is stopped at its bridge": row(
        snapshot(request(cancel=True), ready(), bridge_view=view(state=RequestState.RUNNING)), 0, STOP
    ),
    "an answer too large for the stream is fetched": row(
        snapshot(target=ready(), bridge_view=LARGE), 0, [FetchAnswer(TARGET, KEY, UID)]
    ),
    "a final request acknowledges its answer": row(
        snapshot(FINAL, ready(), bridge_view=answered()), 0, [ACKNOWLEDGE]
    ),
    "a final request whose answer is acknowledged needs nothing": row(
        snapshot(FINAL, ready(), bridge_view=ARCHIVED), 0, []
    ),
    "a request that succeeded is never cancelled or handed over": row(
        snapshot(request(status=final_status("Succeeded"), cancel=True), ready()), 0, []
    ),
    "a request that failed is never cancelled or handed over": row(
        snapshot(request(status=final_status("Failed"), cancel=True), ready()), 0, []
    ),
    "a time to live that has not run out is waited for": row(
        snapshot(SHORT_LIVED, ready()), 45, [DeleteLater("EfritRequest", KEY, UID, NOW + seconds(60))]
    ),
    "a request past its time to live is deleted": row(
        snapshot(SHORT_LIVED, ready()), 60, [Delete("EfritRequest", KEY, UID)]
    ),
    "an answer is acknowledged before the request is deleted": row(
        snapshot(ENDED, ready(), bridge_view=answered()), 0, [ACKNOWLEDGE, Delete("EfritRequest", KEY, UID)]
    ),
    "a deleted final request acknowledges rather than deletes": row(
        snapshot(ENDED, ready(), bridge_view=answered(), gone=True), 0, [ACKNOWLEDGE]
    ),
    "an answer of a deleted request is only acknowledged": row(
        snapshot(target=ready(), bridge_view=answered(result="2"), gone=True), 0, [ACKNOWLEDGE]
    ),
    "the work of a deleted request is cancelled and reconciled again": row(
        snapshot(target=ready(), bridge_view=view(state=RequestState.RUNNING), gone=True), 0, STOP
    ),
    "an answer whose instance has no pod is acknowledged later, and its request deleted": row(
        snapshot(ENDED, away(), bridge_view=answered()),
        0,
        [RequeueAfter(ACKNOWLEDGE_AGAIN), Delete("EfritRequest", KEY, UID)],
    ),
    "an answer of a deleted request whose instance has no pod is acknowledged later": row(
        snapshot(target=away(), bridge_view=answered(), gone=True), 0, [RequeueAfter(ACKNOWLEDGE_AGAIN)]
    ),
    "a deleted request without a target needs nothing": row(snapshot(gone=True), 0, []),
    "a deleted request that was never handed over needs nothing": row(snapshot(target=ready(), gone=True), 0, []),
    "a deleted request whose queue does not know it needs nothing": row(
        snapshot(target=ready(), handover=Handover(QUEUE_ID, absent=True), gone=True), 0, []
    ),
    "the work of a deleted request is left alone while its bridge is away": row(
        snapshot(target=away(), handover=Handover(QUEUE_ID), gone=True), 0, []
    ),
}


@pytest.mark.parametrize(("request_snapshot", "after", "actions"), DONE.values(), ids=DONE)
def test_what_is_done(request_snapshot: RequestSnapshot, after: float, actions: list[Any]) -> None:
    assert decide_request(request_snapshot, NOW + seconds(after)) == actions


# What is written. A decision that writes hands nothing over: what it is based on may have changed meanwhile.


def says(
    request_snapshot: RequestSnapshot, after: float, reason: str, text: str = "", **fields: Any
) -> tuple[RequestSnapshot, float, str, str, dict[str, Any]]:
    """After so many seconds: the reason, a part of the message, and what other fields of the status have."""
    return request_snapshot, after, reason, text, fields


FREE: dict[str, Any] = {"target": None, "selector": {"matchLabels": {"a": "b"}}}
TWICE: dict[str, Any] = {"retryPolicy": "IfInterrupted", "maxAttempts": 2}
ELSEWHERE = {**RECORDED, "queueID": "queue-0"}
CANCELLED = request(cancel=True)
STOPPING = ready(pod=pod(deleting=True))
WITHDRAWN = answered(reason=RequestReason.CANCELLED, started=None, attempt=0)
NOT_HERE = "There is no EfritInstance %s in namespace team"

CROWD = (ready(instance("busy"), open_requests=3), ready(instance("quiet"), open_requests=1))

WRITTEN: dict[str, tuple[RequestSnapshot, float, str, str, dict[str, Any]]] = {
    "a new request is not handed to a bridge that has not named its queue": says(
        snapshot(target=ready(bridge=BridgeView(connected=True, pod_uid=POD_UID))), 3, "InstanceNotReady"
    ),
    "a request that has waited for five seconds is on the queue": says(
        snapshot(target=ready(), bridge_view=view(queued_time=NOW)), 5, "Queued", queueID=QUEUE_ID
    ),
    "a request that has run for a second runs": says(
        snapshot(target=ready(), bridge_view=running(queued_time=NOW - seconds(1))),
        1,
        "Running",
        attempt=1,
        queueID=QUEUE_ID,
        startTime="2026-03-01T12:00:00.000000Z",
        queuedTime="2026-03-01T11:59:59.000000Z",
    ),
    "a further attempt": says(
        snapshot(request(status=SAID_TO_RUN), ready(), bridge_view=running(2)), 3, "Running", attempt=2
    ),
    "a request that waits since the future by the clock of its pod": says(
        snapshot(target=ready(), bridge_view=view(queued_time=NOW + seconds(HOUR))), 0, "Queued"
    ),
    "a request that runs since the future by the clock of its pod": says(
        snapshot(target=ready(), bridge_view=running(started=NOW + seconds(HOUR))), 0, "Running"
    ),
    "an answer": says(
        snapshot(target=ready(), bridge_view=answered(result="2")), 0, "Succeeded", result="2", podUID=POD_UID
    ),
    "an answer though its instance is gone": says(
        snapshot(bridge_view=answered(result="2")), 0, "Succeeded", result="2", instanceName="alpha"
    ),
    "a request recorded on a queue that is gone": says(
        snapshot(request(status=ELSEWHERE), ready()), 0, "Interrupted", "unknown", outcome="Failure"
    ),
    "a request remembered on a queue that is gone": says(
        snapshot(target=ready(), handover=Handover("queue-0")), 0, "Interrupted", "unknown", outcome="Failure"
    ),
    "a queue is not called lost while the bridge is away": says(
        snapshot(request(status=ELSEWHERE), away()), 3, "InstanceNotReady"
    ),
    "a cancelled request that was never handed over": says(
        snapshot(CANCELLED, away()),
        0,
        "Cancelled",
        error={"code": "Cancelled", "message": "It was cancelled before it ran."},
    ),
    "a request for an instance that never comes": says(
        snapshot(seen_for=seconds(30)), 30, "Rejected", f"{NOT_HERE % 'alpha'}: create it"
    ),
    "a request older than the controller for an instance that is away may be on its way": says(
        snapshot(listed_at_start=True, seen_for=seconds(29)), 29, "InstanceNotReady", NOT_HERE % "alpha"
    ),
    "a request older than the controller for an instance that is gone has an unknown end": says(
        snapshot(listed_at_start=True, seen_for=seconds(30)), 30, "Interrupted", NOT_HERE % "alpha"
    ),
    "a clock that is set back does not lengthen the wait for a start": says(
        snapshot(request(queueTimeoutSeconds=60), away(), seen_for=seconds(60)), -HOUR, "TimedOut"
    ),
    "a request by selector that has said why it waits is bound to the least loaded ready instance": says(
        snapshot(
            request(**FREE, status={"phase": "Pending", "reason": "InstanceNotReady"}),
            candidates=(*CROWD, away(instance("asleep"))),
        ),
        0,
        "Pending",
        instanceName="quiet",
    ),
    "a request by selector waits while no instance is ready": says(
        snapshot(request(**FREE), candidates=(away(),)), 3, "InstanceNotReady", instanceName=None
    ),
    "a bound request whose instance is gone is not bound again": says(
        snapshot(request(**FREE, status={"instanceName": "gone"}), candidates=(ready(),)),
        3,
        "InstanceNotReady",
        f"{NOT_HERE % 'gone'} yet.",
        instanceName="gone",
    ),
    "what its bridge will never take is rejected in the bridge's words": says(
        snapshot(target=ready(), handover=Handover("", absent=True, refused="9 bytes, 5 are allowed")),
        0,
        "Rejected",
        "9 bytes, 5 are allowed",
    ),
    "content larger than the instance takes is rejected with what to change": says(
        snapshot(request(content="é" * 6), limited(maxRequestBytes=10)),
        0,
        "Rejected",
        "spec.content has 12 bytes, EfritInstance alpha takes 10: send less (a file of the workspace can hold the "
        "rest), or raise its spec.limits.maxRequestBytes.",
    ),
    "an instance that is not ready": says(
        snapshot(target=away()),
        3,
        "InstanceNotReady",
        "EfritInstance alpha is not ready yet: its condition Ready says why.",
        instanceName="alpha",
    ),
    "an instance that is not ready and had begun it": says(
        snapshot(request(status={**RECORDED, "startTime": "2026-01-01T00:00:00Z"}), away()),
        3,
        "InstanceNotReady",
        "Emacs had begun the request",
    ),
    "a wait for another cause of the same reason": says(
        snapshot(request(status=written(decide_request(snapshot(), NOW + seconds(3)))), away()),
        3,
        "InstanceNotReady",
        "is not ready yet",
    ),
    "a suspended instance, and how to resume it": says(
        snapshot(target=away(instance(spec=SUSPENDED))),
        3,
        "InstanceSuspended",
        "set its spec.operatingMode to Running",
    ),
    "a stopping pod gets no new request": says(snapshot(target=STOPPING), 3, "InstanceNotReady"),
    "the bridge of an earlier pod gets no new request": says(
        snapshot(target=ready(bridge=connected(pod_uid="old"))), 3, "InstanceNotReady"
    ),
    "what runs in a stopping pod still runs, and is marked": says(
        snapshot(target=STOPPING, bridge_view=running()),
        3,
        "Running",
        "Its pod is being stopped",
        handover="Possible",
    ),
    "a full queue holds requests back": says(
        snapshot(target=on_queue(pending=3)), 3, "Backpressure", "spec.queue.maxPending"
    ),
    "no more are handed over than there is room for": says(
        snapshot(target=on_queue(pending=1), ahead=2), 3, "Backpressure"
    ),
    "an answer counts though the instance is away by now": says(
        snapshot(target=away(), bridge_view=answered(result="2")), 0, "Succeeded"
    ),
    "an answer that came before the cancel stands": says(
        snapshot(CANCELLED, ready(), bridge_view=answered(result="2")), 0, "Succeeded"
    ),
    "an answer wins over a replaced queue": says(
        snapshot(request(status=ELSEWHERE), ready(), bridge_view=answered(result="2")), 0, "Succeeded"
    ),
    "a partial answer is called partial": says(
        snapshot(target=ready(), bridge_view=answered(result="2", outcome="Partial")), 0, "Partial"
    ),
    "retryable work is not begun anew when a claim is lost that had all attempts": says(
        snapshot(request(**TWICE, status={"queueID": "queue-0", "attempt": 1}), ready()), 0, "Interrupted"
    ),
    "retryable work whose attempts are used up ends interrupted with its queue": says(
        snapshot(request(**TWICE, status={"queueID": "queue-0", "attempt": 2}), ready(instance(spec=EPHEMERAL))),
        0,
        "Interrupted",
    ),
    "a cancelled request its queue does not know ends cancelled": says(
        snapshot(CANCELLED, ready(), handover=Handover(QUEUE_ID, absent=True)), 0, "Cancelled"
    ),
    "a request that was never bound cannot have been handed over": says(
        snapshot(request(**FREE, cancel=True), listed_at_start=True), 0, "Cancelled"
    ),
    "a request that was never bound times out whoever started later": says(
        snapshot(request(**FREE, queueTimeoutSeconds=5), listed_at_start=True), 5, "TimedOut"
    ),
    "an ephemeral queue that is not recorded was not handed anything": says(
        snapshot(CANCELLED, away(instance(spec={**EPHEMERAL, **SUSPENDED})), listed_at_start=True), 0, "Cancelled"
    ),
    "a cancelled request that may lie on an unreachable volume stays open": says(
        snapshot(CANCELLED, away(), handover=Handover(QUEUE_ID)), 3, "InstanceNotReady"
    ),
    "cancelled work that was remembered is not said to have never run where its instance was deleted": says(
        snapshot(CANCELLED, handover=Handover(QUEUE_ID)), 0, "Interrupted"
    ),
    "cancelled work that was recorded is not said to have never run where its instance was deleted": says(
        snapshot(request(cancel=True, status=RECORDED)), 0, "Interrupted"
    ),
    "a remembered request whose instance was deleted under it ends interrupted": says(
        snapshot(request(), handover=Handover(QUEUE_ID)), 0, "Interrupted"
    ),
    "a recorded request whose instance was deleted under it ends interrupted": says(
        snapshot(request(status=RECORDED)), 0, "Interrupted", "whether it ran is unknown"
    ),
    "a running request whose instance was deleted under it ends interrupted": says(
        snapshot(request(status={**RECORDED, "startTime": "2026-01-01T00:00:00Z"})), 0, "Interrupted", "while it ran"
    ),
    "a cancelled request for an instance that does not exist ends cancelled at once": says(
        snapshot(CANCELLED), 0, "Cancelled"
    ),
    "a cancel goes before a rejection": says(
        snapshot(CANCELLED, limited(maxRequestBytes=1), handover=Handover("", absent=True, refused="too large")),
        0,
        "Cancelled",
    ),
    "work withdrawn for its queue timeout ends timed out": says(
        snapshot(request(queueTimeoutSeconds=5), ready(), bridge_view=WITHDRAWN), 6, "TimedOut"
    ),
    "work withdrawn before the clock was set back ends timed out": says(
        snapshot(request(queueTimeoutSeconds=5), ready(), bridge_view=WITHDRAWN), -3600, "TimedOut"
    ),
    "work its user cancelled ends cancelled though the queue timeout has passed": says(
        snapshot(request(queueTimeoutSeconds=5, cancel=True), ready(), bridge_view=WITHDRAWN), 6, "Cancelled"
    ),
    "work that may be on the queue is not rejected before the queue is listed": says(
        snapshot(target=away(limited(maxRequestBytes=1).instance), listed_at_start=True), 3, "InstanceNotReady"
    ),
    "work on the queue of an instance that went away waits for it": says(
        snapshot(target=away(instance(spec=SUSPENDED)), bridge_view=view(queued_time=NOW - seconds(60))),
        3,
        "InstanceSuspended",
    ),
    "a request that ran in an earlier pod is not running": says(
        snapshot(target=ready(pod=pod("new", deleting=True)), bridge_view=running()), 3, "InstanceNotReady"
    ),
    "a request of a pod that is gone is not running": says(
        snapshot(target=ready(pod=None), bridge_view=running()), 3, "InstanceNotReady"
    ),
    "a request on the queue of a stopping pod waits for the next": says(
        snapshot(target=STOPPING, bridge_view=view(queued_time=NOW)), 3, "InstanceNotReady"
    ),
    "what runs takes room on the queue too": says(
        snapshot(target=on_queue(pending=2, processing=1)), 3, "Backpressure"
    ),
}


OPEN = dict.fromkeys(("InstanceNotReady", "InstanceSuspended", "Backpressure", "Pending"), "Pending")
PHASES = {**OPEN, "Queued": "Queued", "Running": "Running", "Succeeded": "Succeeded"}


@pytest.mark.parametrize(("request_snapshot", "after", "reason", "text", "fields"), WRITTEN.values(), ids=WRITTEN)
def test_what_is_written(
    request_snapshot: RequestSnapshot, after: float, reason: str, text: str, fields: dict[str, Any]
) -> None:
    actions = decide_request(request_snapshot, NOW + seconds(after))

    status = written(actions)
    phase = PHASES.get(reason, "Failed")
    complete, succeeded = {"Succeeded": ("True", "True"), "Failed": ("True", "False")}.get(
        phase, ("False", "Unknown")
    )
    assert (status["reason"], status["phase"]) == (reason, phase)
    assert condition(status, "Complete")[:2] == (complete, reason)
    assert condition(status, "Succeeded")[:2] == (succeeded, reason)
    assert text in condition(status, "Complete")[2]
    assert {name: status.get(name) for name in fields} == fields
    assert of_kind(actions, Submit) == []


# How long a request waits.


@pytest.mark.parametrize("after", [10, HOUR, -HOUR], ids=["right", "ahead", "set back"])
def test_a_request_waits_for_its_instance_for_half_a_minute_whatever_the_clock_says(after: float) -> None:
    early, late = (decide_request(snapshot(seen_for=seconds(moment)), NOW + seconds(after)) for moment in (10, 30))

    assert condition(written(early), "Complete")[1:] == ("InstanceNotReady", f"{NOT_HERE % 'alpha'} yet.")
    assert the(early, RequeueAfter).after == seconds(20)
    assert written(late)["reason"] == "Rejected"


def test_a_request_that_is_held_back_is_reconciled_again_after_half_a_minute() -> None:
    assert the(decide_request(snapshot(target=on_queue(pending=3)), NOW + seconds(3)), RequeueAfter).after == seconds(
        30
    )


def test_of_many_that_are_held_back_only_those_that_go_next_come_back_by_themselves() -> None:
    full = on_queue(pending=3)
    for ahead, comes_back in ((HELD_BACK_RETRIED - 1, True), (HELD_BACK_RETRIED, False)):
        actions = decide_request(replace(snapshot(target=full), ahead=ahead), NOW + seconds(3))
        assert (RequeueAfter(RETRY_HELD_BACK) in actions) is comes_back
        assert written(actions)["reason"] == "Backpressure"


@pytest.mark.parametrize(("created", "after"), [(NOW, 50), (None, 60)], ids=["by its age", "without an age"])
def test_handing_over_with_a_queue_timeout_looks_again_when_the_timeout_ends(
    created: datetime | None, after: float
) -> None:
    efrit_request = request(queueTimeoutSeconds=60, created=created)

    actions = decide_request(snapshot(efrit_request, ready()), NOW + seconds(10))

    assert [type(action) for action in actions] == [Submit, RequeueAfter]
    assert the(actions, RequeueAfter).after == seconds(after)


@pytest.mark.parametrize(
    ("spec", "waited", "source"),
    [
        ({"queueTimeoutSeconds": 60}, timedelta(minutes=1), "spec.queueTimeoutSeconds (60 s)"),
        ({}, timedelta(days=7), "the default of spec.queueTimeoutSeconds (604800 s)"),
    ],
)
def test_no_request_waits_for_ever_and_its_end_says_for_how_long_it_may(
    spec: dict[str, Any], waited: timedelta, source: str
) -> None:
    request_snapshot = snapshot(request(**spec), away())

    assert written(decide_request(request_snapshot, NOW + waited - seconds(1)))["phase"] == "Pending"
    status = written(decide_request(request_snapshot, NOW + waited))
    assert (status["phase"], status["reason"]) == ("Failed", "TimedOut")
    assert status["error"]["message"] == f"It waited longer than {source} and never ran."
