"""decide/requests.py: what is done next about one request, check by check."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, TypeVar

import pytest

from efrit.api import RequestReason
from efrit.controller.decide import placement
from efrit.controller.decide.queue_request import wire_request
from efrit.controller.decide.requests import RETRY_CANCEL, decide_request
from efrit.controller.model.actions import (
    Acknowledge,
    CancelWork,
    Delete,
    DeleteLater,
    FetchAnswer,
    PatchStatus,
    ReadContent,
    RequeueAfter,
    StoreResult,
    Submit,
    Wake,
)
from efrit.controller.model.snapshots import Handover, InstanceSnapshot, RequestSnapshot
from efrit.controller.model.views import BridgeView, StatefulSetView
from efrit.protocol import Reason, RequestState, RequestView
from tests.unit.controller.factory import (
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
    wire_time,
    written,
)

LATER = NOW + seconds(3)
"""Late enough for an open status to be written."""
TARGET = (NAMESPACE, "alpha")
KEY = (NAMESPACE, "work")
UID = "uid-work"
EPHEMERAL = {"queue": {"ephemeral": True}}
SUSPENDED = {"operatingMode": "Suspended"}
T = TypeVar("T")
ASLEEP = {"suspendedIdle": True}


def decide(given: RequestSnapshot, now: datetime = NOW) -> list[Any]:
    return decide_request(given, now)


def running(attempt: int = 1, started: datetime | None = NOW) -> RequestView:
    return view(state=RequestState.RUNNING, attempt=attempt, started_time=started)


# Handing over.


def test_a_new_request_is_handed_to_its_ready_instance_without_a_status_write() -> None:
    (action,) = decide(snapshot(target=ready()))

    assert isinstance(action, Submit)
    assert (action.instance, action.request_key, action.request.id) == (TARGET, KEY, UID)


def test_nothing_is_handed_over_before_the_bridge_has_named_its_queue() -> None:
    nameless = ready(bridge=BridgeView(connected=True, pod_uid=POD_UID))

    assert of_kind(decide(snapshot(target=nameless)), Submit) == []
    assert written(decide(snapshot(target=nameless), LATER))["reason"] == "InstanceNotReady"


def test_an_ephemeral_queue_is_recorded_before_the_request_is_handed_to_it() -> None:
    actions = decide(snapshot(target=ready(instance(spec=EPHEMERAL))))

    status = written(actions)
    assert (status["queueID"], status["instanceName"], status["phase"]) == (QUEUE_ID, "alpha", "Queued")
    assert of_kind(actions, Submit) == []


def test_once_the_ephemeral_queue_is_recorded_the_request_is_handed_over() -> None:
    given = request(status={"phase": "Queued", "queueID": QUEUE_ID, "instanceName": "alpha"})

    assert the(decide(snapshot(given, ready(instance(spec=EPHEMERAL)))), Submit).request.id == UID


def test_a_durable_queue_costs_no_write_before_the_hand_over() -> None:
    assert of_kind(decide(snapshot(target=ready())), PatchStatus) == []


def test_handing_over_with_a_queue_timeout_looks_again_when_the_timeout_ends() -> None:
    given = request(queueTimeoutSeconds=60)

    actions = decide(snapshot(given, ready()), NOW + seconds(10))

    assert the(actions, RequeueAfter).after == seconds(50)
    assert the(actions, Submit)


# Waiting in the queue and running.


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


@pytest.mark.parametrize("state", [RequestState.QUEUED, RequestState.RUNNING])
def test_a_request_the_bridge_knows_is_not_handed_over_again(state: RequestState) -> None:
    actions = decide(snapshot(target=ready(), bridge_view=view(state=state)), LATER)

    assert of_kind(actions, Submit) == []


def test_a_request_that_has_run_for_a_second_is_said_to_run() -> None:
    runs = view(state=RequestState.RUNNING, attempt=1, started_time=NOW, queued_time=NOW - seconds(1))

    status = written(decide(snapshot(target=ready(), bridge_view=runs), NOW + seconds(1)))

    assert (status["phase"], status["reason"], status["attempt"]) == ("Running", "Running", 1)
    assert status["startTime"] == "2026-03-01T12:00:00.000000Z"
    assert status["queuedTime"] == "2026-03-01T11:59:59.000000Z"
    assert condition(status, "Complete")[:2] == ("False", "Running")
    assert condition(status, "Succeeded")[:2] == ("Unknown", "Running")


def test_a_further_attempt_is_written() -> None:
    given = request(status={"phase": "Running", "reason": "Running", "attempt": 1})
    runs = running(2)

    assert written(decide(snapshot(given, ready(), bridge_view=runs), LATER))["attempt"] == 2


def test_queued_is_written_only_after_five_seconds_on_the_queue() -> None:
    queued = view(queued_time=NOW)

    assert decide(snapshot(target=ready(), bridge_view=queued), NOW + seconds(2)) == [RequeueAfter(seconds(3))]
    assert written(decide(snapshot(target=ready(), bridge_view=queued), NOW + seconds(5)))["phase"] == "Queued"


# Answers.


def test_an_answer_ends_the_request() -> None:
    actions = decide(snapshot(target=ready(), bridge_view=answered(result="2")))

    status = written(actions)
    assert (status["phase"], status["result"], status["podUID"]) == ("Succeeded", "2", "pod-uid-1")


def test_an_answer_is_not_acknowledged_before_it_is_stored() -> None:
    assert of_kind(decide(snapshot(target=ready(), bridge_view=answered(result="2"))), Acknowledge) == []


def test_an_answer_for_an_object_without_room_says_less() -> None:
    long = answered(result="2", output="o" * 5000)
    full, reduced = (
        written(decide(snapshot(target=ready(), bridge_view=long, reduced_status=each))) for each in (False, True)
    )

    assert (len(full["output"]), len(reduced["output"])) == (5000, 256)
    assert full["result"] == reduced["result"] == "2"


# Lost queues.


@pytest.mark.parametrize(
    ("status", "handover"),
    [
        ({"queueID": "queue-0", "instanceName": "alpha"}, None),
        ({}, Handover("queue-0")),
    ],
    ids=["recorded in the status", "remembered by this process"],
)
def test_a_request_handed_to_a_queue_that_is_gone_ends_interrupted(status: Any, handover: Handover | None) -> None:
    actions = decide(snapshot(request(status=status), ready(), handover=handover))

    final = written(actions)
    assert (final["phase"], final["reason"], final["outcome"]) == ("Failed", "Interrupted", "Failure")
    assert "unknown" in final["error"]["message"]
    assert of_kind(actions, Submit) == []


def test_a_queue_is_not_called_lost_while_the_bridge_is_away() -> None:
    given = request(status={"queueID": "queue-0", "instanceName": "alpha"})

    assert of_kind(decide(snapshot(given, away())), PatchStatus) == []


def test_a_request_the_lost_queue_did_not_have_is_handed_to_the_new_one() -> None:
    actions = decide(snapshot(target=ready(), handover=Handover("queue-0", absent=True)))

    assert the(actions, Submit).request.id == UID


def test_retryable_work_of_a_lost_queue_is_handed_to_the_new_one_once_that_is_recorded() -> None:
    target = ready(instance(spec=EPHEMERAL))
    given = request(retryPolicy="IfInterrupted", maxAttempts=2)
    lost = snapshot(given, target, handover=Handover("queue-0"))

    status = written(decide(lost))
    assert (status["phase"], status["queueID"], status["attempt"]) == ("Queued", QUEUE_ID, 2)

    recorded = request(retryPolicy="IfInterrupted", maxAttempts=2, status=status)
    assert the(decide(snapshot(recorded, target, handover=Handover("queue-0"))), Submit).request.id == UID


@pytest.mark.parametrize("most", [1, 2, 3, 10])
def test_a_lost_queue_and_the_next_one_may_begin_work_no_more_often_than_allowed_together(most: int) -> None:
    target = ready(instance(spec=EPHEMERAL))

    def handed_over(status: Any) -> int:
        given = request(retryPolicy="IfInterrupted", maxAttempts=most, status=status)
        return the(decide(snapshot(given, target)), Submit).request.options.max_attempts

    begun = handed_over({"queueID": QUEUE_ID, "instanceName": "alpha"})
    for attempt in (None, *range(1, begun + 1)):
        # What the status tells of the lost queue may be old.
        given = request(
            retryPolicy="IfInterrupted", maxAttempts=most, status={"queueID": "queue-0", "attempt": attempt}
        )
        again = written(decide(snapshot(given, target)))
        further = handed_over(again) if again["phase"] == "Queued" else 0
        assert begun + further == most
        if further:
            given = request(retryPolicy="IfInterrupted", maxAttempts=most, status={**again, "queueID": "queue-0"})
            assert written(decide(snapshot(given, target)))["reason"] == "Interrupted"


def test_what_the_second_queue_tells_does_not_undo_the_count_of_what_the_first_may_have_run() -> None:
    target = ready(instance(spec=EPHEMERAL))
    handed_over_again = {"phase": "Queued", "reason": "Queued", "queueID": QUEUE_ID, "attempt": 2}
    given = request(retryPolicy="IfInterrupted", maxAttempts=2, status=handed_over_again)
    runs = running()

    status = written(decide(snapshot(given, target, bridge_view=runs), LATER))
    assert (status["phase"], status["attempt"]) == ("Running", 2)

    lost_as_well = request(retryPolicy="IfInterrupted", maxAttempts=2, status={**status, "queueID": "queue-0"})
    assert written(decide(snapshot(lost_as_well, target)))["reason"] == "Interrupted"


# Cancelling and waiting too long.


def test_a_cancelled_request_is_refused_at_its_bridge_before_it_is_said_to_have_never_run() -> None:
    cancel = the(decide(snapshot(request(cancel=True), ready())), CancelWork)

    assert cancel.request == wire_request(request(cancel=True), instance())


def test_a_cancelled_request_that_was_never_handed_over_ends_cancelled() -> None:
    status = written(decide(snapshot(request(cancel=True), away())))

    assert (status["phase"], status["reason"]) == ("Failed", "Cancelled")
    assert status["error"] == {"code": "Cancelled", "message": "It was cancelled before it ran."}


def test_a_request_older_than_the_controller_may_have_been_handed_over() -> None:
    given = snapshot(request(cancel=True), ready(), listed_at_start=True)

    assert the(decide(given), CancelWork).uid == UID


@pytest.mark.parametrize(
    "begun",
    [
        {"bridge_view": running()},
        # It was interrupted, and waits to be run again.
        {"bridge_view": view(state=RequestState.QUEUED, attempt=1)},
        {"status": {"startTime": NOW, "attempt": 1}},
    ],
    ids=["runs", "runs again", "ran before this controller"],
)
def test_a_request_that_was_begun_is_not_bound_by_its_queue_timeout(begun: Any) -> None:
    given = snapshot(request(queueTimeoutSeconds=5, status=begun.pop("status", {})), ready(), **begun)

    assert of_kind(decide(given, NOW + seconds(60)), CancelWork) == []


def test_a_request_that_waited_too_long_for_its_instance_ends_timed_out() -> None:
    status = written(decide(snapshot(request(queueTimeoutSeconds=5), away()), NOW + seconds(5)))

    assert (status["reason"], status["phase"]) == ("TimedOut", "Failed")
    assert "5 s" in status["error"]["message"]


# Missing targets and placement.


def test_a_request_waits_a_while_for_an_instance_that_does_not_exist_yet() -> None:
    actions = decide(snapshot(seen_for=seconds(10)), NOW + seconds(10))

    status = written(actions)
    assert (status["phase"], status["reason"]) == ("Pending", "InstanceNotReady")
    assert condition(status, "Complete")[2] == "There is no EfritInstance alpha in namespace team yet."
    assert the(actions, RequeueAfter).after == seconds(20)


def test_a_wait_of_less_than_a_second_is_not_written() -> None:
    assert of_kind(decide(snapshot(), NOW), PatchStatus) == []


def test_a_request_for_an_instance_that_never_comes_is_rejected() -> None:
    status = written(decide(snapshot(seen_for=seconds(30)), NOW + seconds(30)))

    assert (status["phase"], status["reason"], status["error"]["code"]) == ("Failed", "Rejected", "Rejected")
    assert "create it" in status["error"]["message"]


@pytest.mark.parametrize("wrong", [seconds(3600), seconds(-3600)], ids=["ahead", "set back"])
def test_a_wrong_clock_does_not_change_the_wait_for_an_instance(wrong: timedelta) -> None:
    actions = decide(snapshot(seen_for=seconds(10)), NOW + wrong)

    assert written(actions)["reason"] == "InstanceNotReady"
    assert the(actions, RequeueAfter).after == seconds(20)
    assert written(decide(snapshot(seen_for=seconds(30)), NOW + wrong))["reason"] == "Rejected"


def test_a_clock_that_is_set_back_does_not_lengthen_the_wait_for_a_start() -> None:
    given = request(queueTimeoutSeconds=60)
    asleep = ready(pod=None, bridge=BridgeView())

    status = written(decide(snapshot(given, asleep, seen_for=seconds(60)), NOW - seconds(3600)))

    assert status["reason"] == "TimedOut"


@pytest.mark.parametrize(
    "seen",
    [
        view(queued_time=NOW + seconds(3600)),
        view(state=RequestState.RUNNING, started_time=NOW + seconds(3600), attempt=1),
    ],
    ids=["waits", "runs"],
)
def test_what_began_in_the_future_by_the_clock_of_its_pod_is_written_at_once(seen: RequestView) -> None:
    status = written(decide(snapshot(target=ready(), bridge_view=seen), NOW))

    assert status["reason"] == {RequestState.QUEUED: "Queued", RequestState.RUNNING: "Running"}[seen.state]


def test_clocks_that_differ_a_little_cost_no_write() -> None:
    seen = view(state=RequestState.RUNNING, started_time=NOW + seconds(0.5), attempt=1)

    assert of_kind(decide(snapshot(target=ready(), bridge_view=seen), NOW), PatchStatus) == []


def test_a_request_older_than_the_controller_for_an_instance_that_is_gone_has_an_unknown_end() -> None:
    soon = snapshot(listed_at_start=True, seen_for=seconds(29))
    late = snapshot(listed_at_start=True, seen_for=seconds(30))

    assert written(decide(soon, NOW + seconds(29)))["reason"] == "InstanceNotReady"
    assert written(decide(late, NOW + seconds(30)))["reason"] == "Interrupted"


def test_a_request_by_selector_is_bound_to_the_least_loaded_ready_instance() -> None:
    candidates = (
        ready(instance("busy"), open_requests=3),
        ready(instance("quiet"), open_requests=1),
        away(instance("asleep")),
    )
    given = request(target=None, selector={"matchLabels": {"team": "a"}})

    actions = decide(snapshot(given, candidates=candidates))

    assert written(actions)["instanceName"] == "quiet"
    assert of_kind(actions, Submit) == []


def test_a_request_by_selector_waits_while_no_instance_is_ready() -> None:
    given = request(target=None, selector={"matchLabels": {"team": "a"}})

    status = written(decide(snapshot(given, candidates=(away(),)), LATER))

    assert (status["phase"], status["reason"]) == ("Pending", "InstanceNotReady")
    assert "instanceName" not in status


def test_a_request_by_selector_is_bound_to_a_sleeping_instance_where_none_is_ready() -> None:
    sleeping = away(instance("zeta", status=ASLEEP))
    given = request(target=None, selector={"matchLabels": {"team": "a"}})

    actions = decide(snapshot(given, candidates=(away(instance("broken")), sleeping)))

    assert written(actions)["instanceName"] == "zeta"
    assert the(actions, Wake).instance == (NAMESPACE, "zeta")


def test_a_bound_request_whose_instance_is_gone_is_not_bound_again() -> None:
    given = request(target=None, selector={"matchLabels": {"a": "b"}}, status={"instanceName": "gone"})

    actions = decide(snapshot(given, candidates=(ready(),)), LATER)

    assert written(actions)["instanceName"] == "gone"
    assert condition(written(actions), "Complete")[2] == "There is no EfritInstance gone in namespace team yet."


# Inadmissible requests.


def test_a_request_its_bridge_will_never_take_is_rejected_in_the_bridges_words() -> None:
    turned_away = Handover("", absent=True, refused="9 bytes, 5 are allowed")

    status = written(decide(snapshot(target=ready(), handover=turned_away)))

    assert (status["reason"], status["error"]["message"]) == ("Rejected", "9 bytes, 5 are allowed")


def test_content_larger_than_the_instance_takes_is_rejected_with_what_to_change() -> None:
    target = ready(instance(spec={"limits": {"maxRequestBytes": 10}}))

    status = written(decide(snapshot(request(content="é" * 6), target)))

    assert status["reason"] == "Rejected"
    assert "12 bytes" in status["error"]["message"]
    assert "maxRequestBytes" in status["error"]["message"]


def test_content_of_exactly_the_limit_is_handed_over() -> None:
    target = ready(instance(spec={"limits": {"maxRequestBytes": 12}}))

    assert the(decide(snapshot(request(content="é" * 6), target)), Submit)


WITH_MODEL = {"model": {"name": "some-model", "apiKeySecretRef": {"name": "key", "key": "token"}}}
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
def test_no_budget_and_no_timeout_exceeds_a_limit_of_the_instance(spec: dict[str, Any], field: str) -> None:
    target = ready(instance(spec={**WITH_MODEL, "limits": BOUNDED}))

    status = written(decide(snapshot(request(type="command", **spec), target)))

    assert status["reason"] == "Rejected"
    assert field in status["error"]["message"]


def test_a_budget_and_a_timeout_of_exactly_the_limits_are_handed_over() -> None:
    target = ready(instance(spec={**WITH_MODEL, "limits": BOUNDED}))
    budget = {"maxToolCalls": 30, "maxIterations": 5, "maxTokens": 100, "iterationTimeoutSeconds": 9}

    assert the(decide(snapshot(request(type="command", timeoutSeconds=60, budget=budget), target)), Submit)


@pytest.mark.parametrize("kind", ["chat", "command"])
def test_work_for_a_model_is_refused_by_an_instance_without_one(kind: str) -> None:
    status = written(decide(snapshot(request(type=kind), ready())))

    assert (status["phase"], status["reason"]) == ("Failed", "ModelNotConfigured")
    assert f"A {kind} needs a model" in status["error"]["message"]


@pytest.mark.parametrize("kind", ["chat", "command"])
def test_work_for_a_model_is_handed_to_an_instance_with_one(kind: str) -> None:
    model = {"name": "some-model", "apiKeySecretRef": {"name": "key", "key": "token"}}

    assert the(decide(snapshot(request(type=kind), ready(instance(spec={"model": model})))), Submit)


def test_work_already_on_the_queue_is_not_rejected_for_a_limit_lowered_since() -> None:
    target = ready(instance(spec={"limits": {"maxRequestBytes": 1}}))

    assert of_kind(decide(snapshot(target=target, bridge_view=view(queued_time=NOW))), PatchStatus) == []


# Targets that are away.


def test_a_request_says_that_its_instance_is_not_ready() -> None:
    status = written(decide(snapshot(target=away()), LATER))

    assert condition(status, "Complete") == ("False", "InstanceNotReady", "EfritInstance alpha is not ready yet.")
    assert status["instanceName"] == "alpha"


def test_a_request_says_how_to_resume_its_suspended_instance() -> None:
    status = written(decide(snapshot(target=away(instance(spec=SUSPENDED))), LATER))

    assert status["reason"] == "InstanceSuspended"
    assert "set its spec.operatingMode to Running" in condition(status, "Complete")[2]


def test_a_request_wakes_its_instance_suspended_for_idleness() -> None:
    actions = decide(snapshot(target=away(instance(status=ASLEEP), open_requests=1)), LATER)

    assert the(actions, Wake).instance == TARGET
    assert written(actions)["reason"] == "InstanceSuspended"


def _updating(
    reason: str, pod_template: str = "old", status: str = "Unknown", spec: dict[str, Any] | None = None, **fields: Any
) -> InstanceSnapshot:
    """A ready instance whose StatefulSet has template `new` and whose condition Updated says this."""
    told = {
        "type": "Updated",
        "status": status,
        "reason": reason,
        "message": "",
        "lastTransitionTime": wire_time(NOW),
    }
    current = StatefulSetView("efrit-alpha", "ss", 1, template_hash="new")
    made = instance(spec=spec, status={"conditions": [told]})
    return ready(made, statefulset=current, pod=pod(template_hash=pod_template), **fields)


@pytest.mark.parametrize(
    "target",
    [
        _updating("UpdateDraining", "new"),
        _updating("Updating"),
        _updating("UpToDate", status="True", update_reserved=True),
    ],
    ids=["drains", "its pod is about to be replaced", "its status is being written"],
)
def test_a_request_is_not_handed_to_an_instance_that_is_about_to_be_updated(target: InstanceSnapshot) -> None:
    actions = decide(snapshot(target=target), LATER)

    assert of_kind(actions, Submit) == []
    assert written(actions)["reason"] == "InstanceUpdating"
    assert placement.choose([target]) is None


@pytest.mark.parametrize(
    "target",
    [_updating("Updating", "new"), _updating("UpdateHeld", status="False"), _updating("UpToDate", status="True")],
    ids=["the new pod", "a held change", "up to date"],
)
def test_a_request_is_handed_to_the_updated_pod_and_while_a_change_is_held(target: InstanceSnapshot) -> None:
    assert of_kind(decide(snapshot(target=target), LATER), Submit)


def test_a_request_on_the_queue_of_an_instance_that_drains_goes_on() -> None:
    given = snapshot(target=_updating("UpdateDraining"), bridge_view=running())

    assert written(decide(given, LATER))["reason"] == "Running"


@pytest.mark.parametrize(
    ("pod_template", "queue", "submitted"),
    [("new", QUEUE_ID, True), ("old", QUEUE_ID, False), ("new", "an earlier queue", False), ("new", None, False)],
    ids=["recorded", "the pod is about to be replaced", "recorded on another queue", "not recorded"],
)
def test_a_request_recorded_on_an_ephemeral_queue_before_the_update_is_still_handed_over(
    pod_template: str, queue: str | None, submitted: bool
) -> None:
    target = _updating("UpdateDraining", pod_template, spec=EPHEMERAL)
    given = request(status={"phase": "Pending", "reason": "Queued", "instanceName": "alpha", "queueID": queue})

    actions = decide(snapshot(given, target), LATER)

    assert bool(of_kind(actions, Submit)) == submitted


def test_a_wait_for_another_cause_of_the_same_reason_is_written() -> None:
    missing = written(decide(snapshot(target=None), LATER))
    given = request(status=missing)

    told = condition(written(decide(snapshot(given, away()), LATER)), "Complete")

    assert "is not ready yet" in told[2]


def test_an_answer_is_stored_though_its_instance_is_gone() -> None:
    status = written(decide(snapshot(target=None, bridge_view=answered(result="2"))))

    assert (status["phase"], status["result"], status["instanceName"]) == ("Succeeded", "2", "alpha")


def test_the_queue_that_has_a_request_is_recorded_with_its_first_open_status() -> None:
    target = ready()
    runs = running()

    status = written(decide(snapshot(target=target, bridge_view=runs), NOW + seconds(5)))

    assert status["queueID"] == target.bridge.queue_id


def test_a_stopping_pod_gets_no_new_request() -> None:
    target = ready(pod=pod(deleting=True))

    assert of_kind(decide(snapshot(target=target)), Submit) == []


def test_a_request_that_runs_in_a_stopping_pod_is_still_running_and_marked() -> None:
    target = ready(pod=pod(deleting=True))
    runs = running()

    status = written(decide(snapshot(target=target, bridge_view=runs), LATER))

    assert (status["phase"], status["reason"], status["handover"]) == ("Running", "Running", "Possible")
    assert "Its pod is being stopped" in condition(status, "Complete")[2]


def test_a_cancel_stops_what_runs_in_a_stopping_pod() -> None:
    given = request(cancel=True)
    runs = running()
    actions = decide(snapshot(given, ready(pod=pod(deleting=True)), bridge_view=runs), LATER)

    (asked,) = of_kind(actions, CancelWork)
    assert (asked.uid, asked.request, asked.running) == (given.metadata.uid, None, True)
    assert "when the instance runs again" not in condition(written(actions), "Complete")[2]


@pytest.mark.parametrize("state", [RequestState.QUEUED, RequestState.RUNNING])
def test_a_stopping_pod_is_not_asked_to_stop_what_nobody_cancelled(state: RequestState) -> None:
    given = request(queueTimeoutSeconds=1)
    seen = view(state=state, queued_time=NOW)
    target = ready(pod=pod(deleting=True))

    assert of_kind(decide(snapshot(given, target, bridge_view=seen), LATER), CancelWork) == []


def test_a_cancel_that_a_stopping_pod_does_not_get_is_told() -> None:
    given = request(cancel=True)
    runs = running()
    silent = replace(connected(), connected=False)
    target = ready(pod=pod(deleting=True), bridge=silent)
    actions = decide(snapshot(given, target, bridge_view=runs), LATER)

    assert of_kind(actions, CancelWork) == []
    assert "The cancel takes effect when the instance runs again" in condition(written(actions), "Complete")[2]


def test_the_bridge_of_an_earlier_pod_gets_no_new_request() -> None:
    assert of_kind(decide(snapshot(target=ready(bridge=connected(pod_uid="old")))), Submit) == []


# Back-pressure.


def test_a_request_is_held_back_while_the_queue_is_full() -> None:
    target = ready(
        instance(spec={"queue": {"ephemeral": True, "maxPending": 3}}), bridge=connected(told=stats(pending=3))
    )

    actions = decide(snapshot(target=target), LATER)

    status = written(actions)
    assert (status["phase"], status["reason"]) == ("Pending", "Backpressure")
    assert "spec.queue.maxPending" in condition(status, "Complete")[2]
    assert the(actions, RequeueAfter).after == seconds(30)


@pytest.mark.parametrize(("ahead", "handed_over"), [(0, True), (1, True), (2, False)])
def test_only_as_many_requests_as_there_is_room_for_are_handed_over(ahead: int, handed_over: bool) -> None:
    target = ready(instance(spec={"queue": {"existingClaim": "c", "maxPending": 3}}))
    target = ready(target.instance, bridge=connected(told=stats(pending=1)))

    actions = decide(snapshot(target=target, ahead=ahead))

    assert bool(of_kind(actions, Submit)) == handed_over


# The order of the checks and the completeness of the vocabulary.


def test_a_large_answer_is_stored_before_the_status_that_names_it() -> None:
    large = answered(result="x" * 40_000, sha256="0" * 64, result_bytes=40_000)

    actions = decide(snapshot(target=ready(), bridge_view=large))

    assert [type(each) for each in actions] == [StoreResult, PatchStatus]


def test_every_patch_is_bound_to_the_version_decided_about() -> None:
    patch = the(decide(snapshot(request(cancel=True, version="77"), away())), PatchStatus)

    assert (patch.kind, patch.key, patch.uid, patch.resource_version) == ("EfritRequest", KEY, UID, "77")


def test_a_request_without_a_creation_time_has_waited_no_time() -> None:
    given = request(created=None, queueTimeoutSeconds=60)

    actions = decide(snapshot(given, ready()), NOW + seconds(600))

    assert the(actions, RequeueAfter).after == seconds(60)


@pytest.mark.parametrize(
    ("reason", "phase"),
    [
        (RequestReason.QUEUED, "Queued"),
        (RequestReason.RUNNING, "Running"),
        (RequestReason.INSTANCE_NOT_READY, "Pending"),
        (RequestReason.INSTANCE_SUSPENDED, "Pending"),
        (RequestReason.INSTANCE_UPDATING, "Pending"),
        (RequestReason.BACKPRESSURE, "Pending"),
        (RequestReason.PENDING, "Pending"),
    ],
)
def test_every_open_reason_has_its_phase(reason: RequestReason, phase: str) -> None:
    full = ready(
        instance(spec={"queue": {"ephemeral": True, "maxPending": 1}}), bridge=connected(told=stats(pending=1))
    )
    cases = {
        RequestReason.QUEUED: snapshot(target=ready(), bridge_view=view(queued_time=NOW - seconds(60))),
        RequestReason.RUNNING: snapshot(target=ready(), bridge_view=running()),
        RequestReason.INSTANCE_NOT_READY: snapshot(target=away()),
        RequestReason.INSTANCE_SUSPENDED: snapshot(target=away(instance(spec=SUSPENDED))),
        RequestReason.INSTANCE_UPDATING: snapshot(target=_updating("UpdateDraining")),
        RequestReason.BACKPRESSURE: snapshot(target=full),
        RequestReason.PENDING: snapshot(
            request(target=None, selector={"matchLabels": {"a": "b"}}), candidates=(ready(),)
        ),
    }

    status = written(decide(cases[reason], LATER))

    assert (status["reason"], status["phase"]) == (reason.value, phase)


# What is done, exactly.


def row(given: RequestSnapshot, after: float, expected: T) -> tuple[RequestSnapshot, float, T]:
    return given, after, expected


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
    "the work of a deleted request is cancelled and looked at again": row(
        snapshot(target=ready(), bridge_view=view(state=RequestState.RUNNING), gone=True), 0, STOP
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


@pytest.mark.parametrize(("given", "after", "actions"), DONE.values(), ids=DONE)
def test_what_is_done(given: RequestSnapshot, after: float, actions: list[Any]) -> None:
    assert decide(given, NOW + seconds(after)) == actions


# What is written.

FREE: dict[str, Any] = {"target": None, "selector": {"matchLabels": {"a": "b"}}}
TWICE: dict[str, Any] = {"retryPolicy": "IfInterrupted", "maxAttempts": 2}
RECORDED = {"queueID": QUEUE_ID, "instanceName": "alpha"}
SMALL = {"limits": {"maxRequestBytes": 1}}
CANCELLED = request(cancel=True)
STOPPING = ready(pod=pod(deleting=True))
WITHDRAWN = answered(reason=Reason.CANCELLED, started=None, attempt=0)
CROWDED = ready(
    instance(spec={"queue": {"ephemeral": True, "maxPending": 3}}),
    bridge=connected(told=stats(pending=2, processing=1)),
)

WRITTEN: dict[str, tuple[RequestSnapshot, float, str]] = {
    "an answer counts though the instance is away by now": row(
        snapshot(target=away(), bridge_view=answered(result="2")), 0, "Succeeded"
    ),
    "an answer that came before the cancel stands": row(
        snapshot(CANCELLED, ready(), bridge_view=answered(result="2")), 0, "Succeeded"
    ),
    "an answer wins over a replaced queue": row(
        snapshot(request(status={**RECORDED, "queueID": "queue-0"}), ready(), bridge_view=answered(result="2")),
        0,
        "Succeeded",
    ),
    "a partial answer is called partial": row(
        snapshot(target=ready(), bridge_view=answered(result="2", outcome="Partial")), 0, "Partial"
    ),
    "retryable work is not begun anew when a claim is lost that had all attempts": row(
        snapshot(request(**TWICE, status={"queueID": "queue-0", "attempt": 1}), ready()), 0, "Interrupted"
    ),
    "retryable work whose attempts are used up ends interrupted with its queue": row(
        snapshot(request(**TWICE, status={"queueID": "queue-0", "attempt": 2}), ready(instance(spec=EPHEMERAL))),
        0,
        "Interrupted",
    ),
    "a cancelled request its queue does not know ends cancelled": row(
        snapshot(CANCELLED, ready(), handover=Handover(QUEUE_ID, absent=True)), 0, "Cancelled"
    ),
    "a request that was never bound cannot have been handed over": row(
        snapshot(request(**FREE, cancel=True), listed_at_start=True), 0, "Cancelled"
    ),
    "a request that was never bound times out whoever started later": row(
        snapshot(request(**FREE, queueTimeoutSeconds=5), listed_at_start=True), 5, "TimedOut"
    ),
    "an ephemeral queue that is not recorded was not handed anything": row(
        snapshot(CANCELLED, away(instance(spec={**EPHEMERAL, **SUSPENDED})), listed_at_start=True), 0, "Cancelled"
    ),
    "a cancelled request that may lie on an unreachable volume stays open": row(
        snapshot(CANCELLED, away(), handover=Handover(QUEUE_ID)), 3, "InstanceNotReady"
    ),
    "cancelled work that was remembered is not said to have never run where its instance was deleted": row(
        snapshot(CANCELLED, handover=Handover(QUEUE_ID)), 0, "Interrupted"
    ),
    "cancelled work that was recorded is not said to have never run where its instance was deleted": row(
        snapshot(request(cancel=True, status=RECORDED)), 0, "Interrupted"
    ),
    "a remembered request whose instance was deleted under it ends interrupted": row(
        snapshot(request(), handover=Handover(QUEUE_ID)), 0, "Interrupted"
    ),
    "a recorded request whose instance was deleted under it ends interrupted": row(
        snapshot(request(status=RECORDED)), 0, "Interrupted"
    ),
    "a cancelled request for an instance that does not exist ends cancelled at once": row(
        snapshot(CANCELLED), 0, "Cancelled"
    ),
    "a cancel goes before a rejection": row(
        snapshot(CANCELLED, ready(instance(spec=SMALL)), handover=Handover("", absent=True, refused="too large")),
        0,
        "Cancelled",
    ),
    "work withdrawn for its queue timeout ends timed out": row(
        snapshot(request(queueTimeoutSeconds=5), ready(), bridge_view=WITHDRAWN), 6, "TimedOut"
    ),
    "work withdrawn before the clock was set back ends timed out": row(
        snapshot(request(queueTimeoutSeconds=5), ready(), bridge_view=WITHDRAWN), -3600, "TimedOut"
    ),
    "work its user cancelled ends cancelled though the queue timeout has passed": row(
        snapshot(request(queueTimeoutSeconds=5, cancel=True), ready(), bridge_view=WITHDRAWN), 6, "Cancelled"
    ),
    "work that may be on the queue is not rejected before the queue is heard of": row(
        snapshot(target=away(instance(spec=SMALL)), listed_at_start=True), 3, "InstanceNotReady"
    ),
    "work on the queue of an instance that went away waits for it": row(
        snapshot(target=away(instance(spec=SUSPENDED)), bridge_view=view(queued_time=NOW - seconds(60))),
        3,
        "InstanceSuspended",
    ),
    "a request that ran in an earlier pod is not running": row(
        snapshot(target=ready(pod=pod("new", deleting=True)), bridge_view=running()), 3, "InstanceNotReady"
    ),
    "a request of a pod that is gone is not running": row(
        snapshot(target=ready(pod=None), bridge_view=running()), 3, "InstanceNotReady"
    ),
    "a request on the queue of a stopping pod waits for the next": row(
        snapshot(target=STOPPING, bridge_view=view(queued_time=NOW)), 3, "InstanceNotReady"
    ),
    "what runs takes room on the queue too": row(snapshot(target=CROWDED), 3, "Backpressure"),
}

PHASES = {"InstanceNotReady": "Pending", "InstanceSuspended": "Pending", "Backpressure": "Pending"}


@pytest.mark.parametrize(("given", "after", "reason"), WRITTEN.values(), ids=WRITTEN)
def test_what_is_written(given: RequestSnapshot, after: float, reason: str) -> None:
    status = written(decide(given, NOW + seconds(after)))

    phase = reason if reason == "Succeeded" else PHASES.get(reason, "Failed")
    assert (status["reason"], status["phase"]) == (reason, phase)


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
    given = snapshot(request(**spec), away())

    assert written(decide(given, NOW + waited - seconds(1)))["phase"] == "Pending"
    status = written(decide(given, NOW + waited))
    assert (status["phase"], status["reason"]) == ("Failed", "TimedOut")
    assert status["error"]["message"] == f"It waited longer than {source} and never ran."
