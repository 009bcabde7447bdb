"""decide/handover.py: when a request may be on a queue, and what is recorded of that."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from efrit.controller.decide.handover import RETRY_CLOSE, is_marked, may_be_handed_over
from efrit.controller.decide.instances import decide_instance
from efrit.controller.decide.requests import decide_request
from efrit.controller.manifests import Identity
from efrit.controller.model.actions import CancelWork, PatchStatus, RequeueAfter, Submit, Wake
from efrit.controller.model.keys import target_of
from efrit.controller.model.snapshots import Handover, InstanceSnapshot
from efrit.controller.model.views import BridgeView
from efrit.controller.store.store import Store
from efrit.controller.work_queue import WorkQueue
from tests.support.factory import (
    CONFIG,
    HANDOVER,
    NAMESPACE,
    NOW,
    QUEUE_ID,
    Json,
    away,
    changed,
    condition,
    condition_json,
    instance,
    instance_json,
    of_kind,
    pod,
    ready,
    request,
    request_json,
    seconds,
    snapshot,
    the,
    view,
    written,
)

LATER = NOW + seconds(3)
OPEN = {"handover": HANDOVER.to_wire()}
CLOSED: Json = {"handover": {"state": "Closed"}}
OTHER: Json = {"handover": {"state": "Open", "id": "of another process"}}
OWN: Json = {"handover": {}}
FREE: Any = {"target": None, "selector": {"matchLabels": {"a": "b"}}}

# request, what is known -> may be handed over
TABLE: dict[str, tuple[Any, Json, bool]] = {
    "created since this process leads": (request(), {}, False),
    "created since, another process opened its instance": (request(), {"opened_by_other": True}, True),
    "created before": (request(), {"listed_at_start": True}, True),
    "created before, its instance was closed": (request(), {"listed_at_start": True, "closed_before": True}, False),
    "handed over by this process": (request(), {"handover": Handover(QUEUE_ID), "closed_before": True}, True),
    "unknown to the queue": (
        request(),
        {"handover": Handover(QUEUE_ID, absent=True), "listed_at_start": True, "opened_by_other": True},
        False,
    ),
    "reported by the bridge": (request(), {"reported_by_bridge": True, "closed_before": True}, True),
    "marked": (request(status={"handover": "Possible"}), {"listed_at_start": True, "closed_before": True}, True),
    "on a known queue": (request(status={"queueID": QUEUE_ID}), {"closed_before": True}, True),
    "never bound": (request(**FREE), {"listed_at_start": True, "opened_by_other": True}, False),
    "bound before": (request(**FREE, status={"instanceName": "alpha"}), {"listed_at_start": True}, True),
    "an ephemeral queue that is not recorded": (request(), {"listed_at_start": True, "ephemeral": True}, False),
}
KNOWN: Json = {
    "handover": None,
    "reported_by_bridge": False,
    "listed_at_start": False,
    "closed_before": False,
    "opened_by_other": False,
    "ephemeral": False,
}


@pytest.mark.parametrize("case", TABLE.values(), ids=TABLE)
def test_a_queue_may_have_a_request(case: tuple[Any, Json, bool]) -> None:
    efrit_request, facts, expected = case

    named = target_of(efrit_request) is not None
    assert expected == may_be_handed_over(marked=is_marked(efrit_request), named=named, **{**KNOWN, **facts})


@pytest.mark.parametrize(
    ("handovers", "expected"),
    [((OTHER,), True), ((OTHER, OWN), True), ((OTHER, CLOSED), False), ((CLOSED, OTHER), True), ((OWN,), False)],
    ids=["other", "other, then this one", "other, then closed", "closed, then other", "this one"],
)
def test_an_instance_counts_as_opened_by_another_process_until_it_is_closed(
    handovers: tuple[Json, ...], expected: bool
) -> None:
    store = Store(WorkQueue(), CONFIG, lambda: NOW)
    store.instances.observe(instance_json(version="10"))
    store.first_list_complete(None)
    store.requests.observe(request_json())
    own = store.instances.snapshot((NAMESPACE, "alpha"))
    for number, handover in enumerate(handovers, start=11):
        handover_status = (
            {"state": "Open", "id": own.facts.handover_id} if handover == OWN and own else handover["handover"]
        )
        store.instances.observe(instance_json(version=str(number), status={"handover": handover_status}))
    store.instances.observe_gone((NAMESPACE, "alpha"), "uid-alpha")

    request_snapshot = store.requests.snapshot((NAMESPACE, "work"))
    assert request_snapshot is not None
    assert (request_snapshot.target, request_snapshot.opened_by_other) == (None, expected)


# Cancel and queue time-out while the instance is away, after a restart.


SUSPENDED: Any = {"spec": {"operatingMode": "Suspended"}}


@pytest.mark.parametrize("spec", [{"cancel": True}, {"queueTimeoutSeconds": 1}], ids=["cancelled", "timed out"])
@pytest.mark.parametrize("target", [away(), away(instance(**SUSPENDED))], ids=["no pod", "suspended"])
def test_a_request_of_a_closed_instance_ends_at_once_though_it_is_older_than_the_controller(
    spec: Any, target: InstanceSnapshot
) -> None:
    request_snapshot = snapshot(request(**spec), changed(target, closed_before=True), listed_at_start=True)

    status = written(decide_request(request_snapshot, LATER))

    assert (status["phase"], status["reason"]) == ("Failed", "Cancelled" if "cancel" in spec else "TimedOut")


def test_a_request_that_may_be_on_the_queue_waits_and_says_when_it_is_stopped() -> None:
    request_snapshot = snapshot(request(cancel=True), away(instance(**SUSPENDED)), listed_at_start=True)

    status = written(decide_request(request_snapshot, LATER))

    assert (status["phase"], status["reason"], status["handover"]) == ("Pending", "InstanceSuspended", "Possible")
    assert "it is stopped once the instance runs again" in condition(status, "Complete")[2]


def test_a_new_process_says_nothing_of_the_open_requests_of_an_instance_it_is_about_to_connect_to() -> None:
    ready_condition = condition_json("Ready", "True", "Ready")
    status = {
        "conditions": [ready_condition],
        "podName": "efrit-alpha-0",
        "startTime": "2026-03-01T11:50:00Z",
        **OPEN,
    }
    connecting = away(instance(status=status), pod=pod())
    request_snapshot = snapshot(request(queueTimeoutSeconds=60), connecting, listed_at_start=True)

    assert decide_request(request_snapshot, LATER) == [RequeueAfter(seconds(57))]
    broken = replace(connecting, bridge=BridgeView(problem="it does not answer"))
    assert written(decide_request(replace(request_snapshot, target=broken), LATER))["handover"] == "Possible"


# Marks.


def test_the_mark_is_written_though_the_reason_of_the_wait_stays() -> None:
    waits = written(decide_request(snapshot(target=away()), LATER))
    assert "handover" not in waits

    status = written(decide_request(snapshot(request(status=waits), away(), handover=Handover(QUEUE_ID)), LATER))

    assert (status["handover"], status["queueID"]) == ("Possible", QUEUE_ID)


def test_a_mark_is_written_once() -> None:
    request_snapshot = snapshot(target=away(), listed_at_start=True)
    marked = request(status=written(decide_request(request_snapshot, LATER)))

    assert of_kind(decide_request(replace(request_snapshot, request=marked), LATER), PatchStatus) == []


def test_no_mark_is_written_while_the_instance_can_be_asked() -> None:
    request_snapshot = snapshot(target=ready(), bridge_view=view(queued_time=NOW), listed_at_start=True)

    assert "handover" not in written(decide_request(request_snapshot, NOW + seconds(6)))


def test_the_mark_goes_with_the_end() -> None:
    marked = request(status={"handover": "Possible"}, cancel=True)
    request_snapshot = snapshot(marked, ready(), handover=Handover(QUEUE_ID, absent=True))

    assert "handover" not in written(decide_request(request_snapshot, LATER))


# Open and Closed.


@pytest.mark.parametrize(
    "handover",
    [None, {"state": "Closed"}, {"state": "Open", "id": "of another process"}],
    ids=["not recorded", "closed", "opened by another process"],
)
def test_nothing_is_handed_over_before_it_is_recorded_that_this_process_does(handover: Any) -> None:
    target = replace(ready(), instance=instance(status={"handover": handover} if handover else {}))

    actions = decide_request(snapshot(target=target), LATER)

    assert of_kind(actions, Submit) == []
    assert the(actions, Wake).instance == (NAMESPACE, "alpha")
    assert written(actions)["reason"] == "InstanceNotReady"


def test_a_cancel_needs_no_open_instance() -> None:
    target = replace(ready(), instance=instance(status=CLOSED))

    assert the(decide_request(snapshot(request(cancel=True), target), NOW), CancelWork)


def opened(instance_snapshot: InstanceSnapshot, identity: Identity) -> Any:
    patches = of_kind(decide_instance(instance_snapshot, identity, LATER), PatchStatus)
    return (patches[0].status.get("handover"), patches[0].closes) if patches else None


def test_an_instance_is_opened_together_with_its_becoming_ready(identity: Identity) -> None:
    target = replace(ready(), instance=instance(status=CLOSED))

    assert opened(target, identity) == (HANDOVER.to_wire(), False)


def test_an_instance_another_process_opened_is_opened_anew_once_a_request_waits(identity: Identity) -> None:
    other = {"handover": {"state": "Open", "id": "of another process"}}
    target = replace(ready(), instance=instance(status=other))

    assert opened(target, identity) == (other["handover"], False)
    assert opened(replace(target, waiting=1), identity) == (HANDOVER.to_wire(), False)


@pytest.mark.parametrize("gone", [None, pod(deleting=True)], ids=["no pod", "a pod that stops"])
def test_an_instance_without_a_pod_is_closed_once_every_request_it_may_have_is_marked(
    gone: Any, identity: Identity
) -> None:
    target = away(instance(status=OPEN), pod=gone)

    assert opened(target, identity) == (OPEN["handover"], False)
    assert RequeueAfter(RETRY_CLOSE) in decide_instance(target, identity, LATER)
    assert opened(replace(target, may_close=True), identity) == ({"state": "Closed"}, True)


def test_a_closed_instance_is_not_reconciled_for_it_again(identity: Identity) -> None:
    target = away(instance(status=CLOSED), may_close=True)

    assert RequeueAfter(RETRY_CLOSE) not in decide_instance(target, identity, LATER)
