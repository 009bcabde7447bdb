"""decide/requests.py: the orders that must hold, how often work may begin, and what an update holds back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from efrit.api import EfritRequest
from efrit.controller.decide import placement
from efrit.controller.decide.queue_request import queue_request
from efrit.controller.decide.requests import decide_request
from efrit.controller.model.actions import (
    Acknowledge,
    CancelWork,
    PatchStatus,
    ReadContent,
    RequeueAfter,
    StoreResult,
    Submit,
    Wake,
)
from efrit.controller.model.snapshots import Handover, InstanceSnapshot, RequestSnapshot
from efrit.controller.model.views import StatefulSetView
from efrit.protocol import RequestState, request_id
from efrit.protocol.response import given_back
from tests.support.factory import (
    NAMESPACE,
    NOW,
    QUEUE_ID,
    answered,
    away,
    condition,
    condition_json,
    connected,
    instance,
    of_kind,
    pod,
    ready,
    request,
    seconds,
    snapshot,
    the,
    view,
    written,
)

LATER = NOW + seconds(3)
"""Late enough for an open status to be written."""
KEY = (NAMESPACE, "work")
UID = "uid-work"
ASLEEP = {"suspendedIdle": True}
EPHEMERAL = {"queue": {"ephemeral": True}}
RETRYABLE: Any = {"retryPolicy": "IfInterrupted", "maxAttempts": 2}
RUNNING = view(state=RequestState.RUNNING, attempt=1, started_time=NOW)


def decide(request_snapshot: RequestSnapshot, now: Any = NOW) -> list[Any]:
    return decide_request(request_snapshot, now)


def test_an_ephemeral_queue_is_recorded_before_the_request_is_handed_to_it() -> None:
    actions = decide(snapshot(target=ready(instance(spec=EPHEMERAL))))

    status = written(actions)
    assert (status["queueID"], status["instanceName"], status["phase"]) == (QUEUE_ID, "alpha", "Queued")
    assert of_kind(actions, Submit) == []


@pytest.mark.parametrize("cancel", [False, True])
def test_a_content_that_is_not_at_hand_is_read_before_the_request_is_handed_over_or_declined(cancel: bool) -> None:
    actions = decide(snapshot(request(cancel=cancel), ready(), content_bytes=100))

    assert the(actions, ReadContent) == ReadContent(KEY, UID)
    assert not of_kind(actions, Submit)
    assert not of_kind(actions, CancelWork)


@pytest.mark.parametrize(("size", "rejected"), [(65_536, False), (65_537, True)])
def test_the_size_of_a_content_that_is_not_at_hand_is_known(size: int, rejected: bool) -> None:
    actions = decide(snapshot(target=ready(), content_bytes=size))

    assert bool(of_kind(actions, PatchStatus)) == rejected
    assert bool(of_kind(actions, ReadContent)) != rejected


def test_an_answer_is_not_acknowledged_before_it_is_stored() -> None:
    assert of_kind(decide(snapshot(target=ready(), bridge_view=answered(result="2"))), Acknowledge) == []


def test_a_large_answer_is_stored_before_the_status_that_names_it() -> None:
    large = answered(result="x" * 40_000, sha256="0" * 64, result_bytes=40_000)

    actions = decide(snapshot(target=ready(), bridge_view=large))

    assert [type(action) for action in actions] == [StoreResult, PatchStatus]


def test_an_answer_for_an_object_without_room_says_less() -> None:
    long = answered(result="2", output="o" * 5000)
    full, reduced = (
        written(decide(snapshot(target=ready(), bridge_view=long, reduced_status=reduced)))
        for reduced in (False, True)
    )

    assert (len(full["output"]), len(reduced["output"])) == (5000, 256)
    assert full["result"] == reduced["result"] == "2"


def test_every_patch_is_bound_to_the_version_decided_about() -> None:
    patch = the(decide(snapshot(request(cancel=True, version="77"), away())), PatchStatus)

    assert (patch.kind, patch.key, patch.uid, patch.resource_version) == ("EfritRequest", KEY, UID, "77")


# Lost queues, and how often work may begin.


def test_retryable_work_of_a_lost_queue_is_handed_to_the_new_one_once_that_is_recorded() -> None:
    target = ready(instance(spec=EPHEMERAL))
    efrit_request = request(**RETRYABLE)
    lost = snapshot(efrit_request, target, handover=Handover("queue-0"))

    status = written(decide(lost))
    assert (status["phase"], status["queueID"], status["attempt"]) == ("Queued", QUEUE_ID, 2)

    recorded = request(**RETRYABLE, status=status)
    assert the(decide(snapshot(recorded, target, handover=Handover("queue-0"))), Submit).request.id == UID


@pytest.mark.parametrize(("most", "before"), [(1, 0), (2, 0), (3, 0), (10, 0), (3, 1), (3, 2), (2, 1)])
def test_a_lost_queue_and_the_next_one_may_begin_work_no_more_often_than_allowed_together(
    most: int, before: int
) -> None:
    """`before`: attempts of queues from which it was taken for work of a higher priority."""
    target = ready(instance(spec=EPHEMERAL))

    def of(status: Any) -> EfritRequest:
        preempted = {"preemption": {"count": 1, "attempts": before}} if before else {}
        return request(retryPolicy="IfInterrupted", maxAttempts=most, status={**preempted, **status})

    def handed_over(status: Any) -> int:
        return the(decide(snapshot(of(status), target)), Submit).request.options.max_attempts

    begun = handed_over({"queueID": QUEUE_ID, "instanceName": "alpha"})
    for attempt in (before or None, *range(before + 1, before + begun + 1)):
        # What the status tells of the lost queue may be old.
        again = written(decide(snapshot(of({"queueID": "queue-0", "attempt": attempt}), target)))
        further = handed_over(again) if again["phase"] == "Queued" else 0
        assert before + begun + further == most
        if further:
            assert written(decide(snapshot(of({**again, "queueID": "queue-0"}), target)))["reason"] == "Interrupted"


def test_what_the_second_queue_reports_does_not_undo_the_count_of_what_the_first_may_have_run() -> None:
    target = ready(instance(spec=EPHEMERAL))
    handed_over_again = {"phase": "Queued", "reason": "Queued", "queueID": QUEUE_ID, "attempt": 2}
    efrit_request = request(**RETRYABLE, status=handed_over_again)

    status = written(decide(snapshot(efrit_request, target, bridge_view=RUNNING), LATER))
    assert (status["phase"], status["attempt"]) == ("Running", 2)

    lost_as_well = request(**RETRYABLE, status={**status, "queueID": "queue-0"})
    assert written(decide(snapshot(lost_as_well, target)))["reason"] == "Interrupted"


# Ephemeral queues that ended before they began a request.

GIVEN_BACK = view(state=RequestState.ANSWERED, answer=given_back(request_id(UID), NOW))
ON_LOST_QUEUE = {"phase": "Queued", "reason": "Queued", "queueID": "queue-0", "instanceName": "alpha"}


def _stopping(**fields: Any) -> InstanceSnapshot:
    return ready(instance(spec=EPHEMERAL), pod=pod(deleting=True), **fields)


def test_what_a_queue_gave_back_with_its_pod_is_recorded_and_then_acknowledged() -> None:
    recorded = request(status={**ON_LOST_QUEUE, "handover": "Possible"})

    observed: Any = {"bridge_view": GIVEN_BACK, "handover": Handover("queue-0", absent=True)}

    status = written(decide(snapshot(recorded, _stopping(), **observed)))
    assert (status["phase"], status["reason"]) == ("Pending", "Pending")
    assert not {"queueID", "handover"} & status.keys()

    actions = decide(snapshot(request(status=status), _stopping(), **observed))
    assert actions == [Acknowledge((NAMESPACE, "alpha"), UID)]


def test_what_is_given_back_by_a_pod_that_is_not_known_to_stop_waits_for_that_news() -> None:
    target = ready(instance(spec=EPHEMERAL))

    actions = decide(snapshot(request(status=ON_LOST_QUEUE), target, bridge_view=GIVEN_BACK))

    assert [type(action) for action in actions] == [RequeueAfter]


@pytest.mark.parametrize("known", [{"never_submitted": True}, {"handover": Handover("queue-0", absent=True)}])
def test_what_was_recorded_on_a_lost_queue_and_never_on_it_is_recorded_on_the_next(known: Any) -> None:
    actions = decide(snapshot(request(status=ON_LOST_QUEUE), ready(instance(spec=EPHEMERAL)), **known))

    assert written(actions)["queueID"] == QUEUE_ID
    assert of_kind(actions, Submit) == []


def test_what_was_never_sent_to_a_queue_that_is_away_ends_as_its_user_wants() -> None:
    recorded = request(cancel=True, status=ON_LOST_QUEUE)

    assert written(decide(snapshot(recorded, _stopping(), never_submitted=True)))["reason"] == "Cancelled"
    assert written(decide(snapshot(recorded, _stopping()), LATER))["phase"] == "Pending"


# Cancelling and waiting too long.


@pytest.mark.parametrize("listed_at_start", [False, True], ids=["new", "older than the controller"])
def test_a_cancelled_request_is_refused_at_its_bridge_before_it_is_said_to_have_never_run(
    listed_at_start: bool,
) -> None:
    efrit_request = request(cancel=True)

    cancel = the(decide(snapshot(efrit_request, ready(), listed_at_start=listed_at_start)), CancelWork)

    assert (cancel.uid, cancel.request) == (UID, queue_request(efrit_request, instance()))


@pytest.mark.parametrize(
    "begun",
    [
        {"bridge_view": RUNNING},
        # It was interrupted, and waits to be run again.
        {"bridge_view": view(state=RequestState.QUEUED, attempt=1)},
        {"status": {"startTime": NOW, "attempt": 1}},
    ],
    ids=["runs", "runs again", "ran before this controller"],
)
def test_a_request_that_was_begun_is_not_bound_by_its_queue_timeout(begun: Any) -> None:
    request_snapshot = snapshot(request(queueTimeoutSeconds=5, status=begun.pop("status", {})), ready(), **begun)

    assert of_kind(decide(request_snapshot, NOW + seconds(60)), CancelWork) == []


def stopping(**fields: Any) -> InstanceSnapshot:
    return ready(pod=pod(deleting=True), **fields)


@pytest.mark.parametrize("is_connected", [True, False], ids=["connected", "not connected"])
def test_a_cancel_stops_what_runs_in_a_stopping_pod_or_says_when_it_takes_effect(is_connected: bool) -> None:
    target = stopping(bridge=replace(connected(), connected=is_connected))

    actions = decide(snapshot(request(cancel=True), target, bridge_view=RUNNING), LATER)

    assert [(cancel.uid, cancel.request, cancel.running) for cancel in of_kind(actions, CancelWork)] == [
        (UID, None, True)
    ] * is_connected
    later = "The cancel takes effect when the instance runs again"
    assert (later in condition(written(actions), "Complete")[2]) is not is_connected


@pytest.mark.parametrize("state", [RequestState.QUEUED, RequestState.RUNNING])
def test_a_stopping_pod_is_not_asked_to_stop_what_nobody_cancelled(state: RequestState) -> None:
    request_view = view(state=state, queued_time=NOW)

    actions = decide(snapshot(request(queueTimeoutSeconds=1), stopping(), bridge_view=request_view), LATER)

    assert of_kind(actions, CancelWork) == []


# Sleeping instances, limits and models.


@pytest.mark.parametrize(
    ("request_snapshot", "name", "reason"),
    [
        (snapshot(target=away(instance(status=ASLEEP), open_requests=1)), "alpha", "InstanceSuspended"),
        (
            snapshot(
                request(target=None, selector={"matchLabels": {"team": "a"}}),
                candidates=(away(instance("broken")), away(instance("zeta", status=ASLEEP))),
            ),
            "zeta",
            "Pending",
        ),
    ],
    ids=["its own", "one it is bound to as none is ready"],
)
def test_a_request_wakes_an_instance_suspended_for_idleness(
    request_snapshot: RequestSnapshot, name: str, reason: str
) -> None:
    actions = decide(request_snapshot, LATER)

    assert the(actions, Wake).instance == (NAMESPACE, name)
    assert (written(actions)["instanceName"], written(actions)["reason"]) == (name, reason)


MODEL = {"model": {"name": "some-model", "apiKeySecretRef": {"name": "key", "key": "token"}}}
BOUNDED = {"maxTimeoutSeconds": 60, "maxIterations": 5, "maxTokens": 100, "iterationTimeoutSeconds": 9}


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"timeoutSeconds": 61}, "spec.timeoutSeconds is 61, EfritInstance alpha allows at most 60 (spec.limits.max"),
        ({"budget": {"maxToolCalls": 31}}, "spec.budget.maxToolCalls is 31, EfritInstance alpha allows at most 30"),
        ({"budget": {"maxIterations": 6}}, "(spec.limits.maxIterations): lower it, leave it out, or raise the limit"),
        ({"budget": {"maxTokens": 101}}, "(spec.limits.maxTokens)"),
        ({"budget": {"iterationTimeoutSeconds": 10}}, "(spec.limits.iterationTimeoutSeconds)"),
    ],
)
def test_no_budget_and_no_timeout_exceeds_a_limit_of_the_instance(spec: Any, field: str) -> None:
    target = ready(instance(spec={**MODEL, "limits": BOUNDED}))

    status = written(decide(snapshot(request(type="command", **spec), target)))

    assert status["reason"] == "Rejected"
    assert field in status["error"]["message"]


@pytest.mark.parametrize("kind", ["chat", "command"])
def test_work_for_a_model_is_refused_by_an_instance_without_one(kind: str) -> None:
    status = written(decide(snapshot(request(type=kind), ready())))

    assert (status["phase"], status["reason"]) == ("Failed", "ModelNotConfigured")
    assert f"A {kind} needs a model" in status["error"]["message"]


# Updates.


def _updating(
    reason: str, pod_template: str = "old", status: str = "Unknown", spec: Any | None = None, **fields: Any
) -> InstanceSnapshot:
    """Return a ready instance whose StatefulSet has template `new` and whose condition Updated says this."""
    current = StatefulSetView("efrit-alpha", "ss", 1, template_hash="new")
    made = instance(spec=spec, status={"conditions": [condition_json("Updated", status, reason)]})
    return ready(made, statefulset=current, pod=pod(template_hash=pod_template), **fields)


@pytest.mark.parametrize(
    "target",
    [
        _updating("UpdateDraining", "new"),
        _updating("Updating"),
        _updating("UpToDate", "new", status="True", update_reserved=True),
        _updating("UpToDate", "new", status="True", replacing=True),
        _updating("UpToDate", status="True"),
        _updating("UpdateHeld", status="False"),
    ],
    ids=[
        "drains",
        "its pod is about to be replaced",
        "its status is being written",
        "its StatefulSet is being applied",
        "a change that was applied at once while its pod started",
        "another change while its pod is about to be replaced",
    ],
)
def test_a_request_is_not_handed_to_an_instance_that_is_about_to_be_updated(target: InstanceSnapshot) -> None:
    actions = decide(snapshot(target=target), LATER)

    assert of_kind(actions, Submit) == []
    assert written(actions)["reason"] == "InstanceUpdating"
    assert "The condition Updated of the instance says what the update waits for." in str(written(actions))
    assert placement.least_loaded([target]) is None


@pytest.mark.parametrize(
    "target",
    [
        _updating("Updating", "new"),
        _updating("UpdateHeld", "new", status="False"),
        _updating("UpToDate", "new", status="True"),
        _updating("UpdateFailed", status="False"),
    ],
    ids=["the new pod", "a held change", "up to date", "an update that has failed, and nobody replaces the pod"],
)
def test_a_request_is_handed_to_the_updated_pod_and_while_a_change_is_held(target: InstanceSnapshot) -> None:
    assert of_kind(decide(snapshot(target=target), LATER), Submit)


def test_a_request_on_the_queue_of_an_instance_that_drains_goes_on() -> None:
    assert (
        written(decide(snapshot(target=_updating("UpdateDraining"), bridge_view=RUNNING), LATER))["reason"]
        == "Running"
    )


@pytest.mark.parametrize(
    ("pod_template", "queue", "submitted"),
    [("new", QUEUE_ID, True), ("old", QUEUE_ID, False), ("new", "an earlier queue", False), ("new", None, False)],
    ids=["recorded", "the pod is about to be replaced", "recorded on another queue", "not recorded"],
)
def test_a_request_recorded_on_an_ephemeral_queue_before_the_update_is_still_handed_over(
    pod_template: str, queue: str | None, submitted: bool
) -> None:
    target = _updating("UpdateDraining", pod_template, spec=EPHEMERAL)
    efrit_request = request(
        status={"phase": "Pending", "reason": "Queued", "instanceName": "alpha", "queueID": queue}
    )

    actions = decide(snapshot(efrit_request, target), LATER)

    assert bool(of_kind(actions, Submit)) == submitted
