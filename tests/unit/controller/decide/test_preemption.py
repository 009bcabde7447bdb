"""decide/preemption.py: which running request is interrupted for another one, and each step until it runs again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs

from efrit.api import EfritRequest
from efrit.api.meta import rfc3339_micro
from efrit.api.pool import PlacementStrategy
from efrit.api.request import MAX_PREEMPTIONS
from efrit.controller.decide.final_status import NEVER_RUN
from efrit.controller.decide.preemption import is_preemptible, preference, victims
from efrit.controller.decide.queue_request import attempts_on_queue, queue_request
from efrit.controller.decide.requests import decide_request
from efrit.controller.model.actions import (
    Action,
    Bind,
    CancelWork,
    Decision,
    PatchStatus,
    PutBack,
    Record,
    RequeueAfter,
)
from efrit.controller.model.preemption import FlowShare, Preemptor, Running
from efrit.controller.model.snapshots import Handover, PoolPlace, RequestSnapshot, Victim
from efrit.protocol import RequestReason, RequestState
from efrit.protocol.ids import run_id
from tests.support.factory import (
    NAMESPACE,
    NOW,
    QUEUE_ID,
    Json,
    answered,
    away,
    condition,
    instance,
    of_kind,
    ready,
    request,
    seconds,
    snapshot,
    the,
    view,
    wire_time,
)

CREW = (NAMESPACE, "crew")
MARK: Json = {
    "inProgress": True,
    "time": rfc3339_micro(NOW),
    "instanceName": "alpha",
    "byName": "urgent",
    "byUID": "uid-urgent",
}


def long(preemption: Json | None = None, *, status: Json | None = None, **fields: Any) -> EfritRequest:
    """Return a request that may run twice, which a member has."""
    spec = {"poolRef": {"name": "crew"}, "retryPolicy": "IfInterrupted", **fields}
    bound = {"instanceName": "alpha", "phase": "Running", "reason": "Running", **(status or {})}
    if preemption is not None:
        bound["preemption"] = preemption
    return request("long", target=None, status=bound, **spec)


def running(
    name: str, priority: int = 0, flow: str = "a", *, placed: float = -60, started: float | None = -50
) -> Running:
    began = NOW + seconds(started) if started is not None else None
    return Running((NAMESPACE, name), priority, flow, NOW + seconds(placed), began)


def chosen(requests: list[Running], **fields: Any) -> list[str]:
    preemptor = {"priority": 5, "flow": "a", "first_seen": NOW, **fields}
    return [request.key[1] for request in victims(Preemptor(**preemptor), sorted(requests, key=preference))]


def test_the_one_of_lowest_priority_that_was_started_last_is_interrupted_first() -> None:
    requests = [
        running("old", started=-50),
        running("new", started=-10),
        running("lowest", -3, started=-59),
        running("not-begun", started=None),
        running("equal", 5),
        running("higher", 6),
    ]
    assert chosen(requests) == ["lowest", "new", "old", "not-begun"]


def test_what_got_its_member_while_the_other_waited_already_is_not_interrupted() -> None:
    """It went first for its age: or the two would take the place from each other for ever."""
    assert chosen([running("before", placed=0), running("after", placed=1)]) == ["before"]


@pytest.mark.parametrize(
    ("own", "other", "allowed"),
    [
        (FlowShare(0), FlowShare(2), True),
        (FlowShare(0), FlowShare(1), False),
        (FlowShare(1), FlowShare(2), False),
        (FlowShare(1), FlowShare(3), True),
        (FlowShare(2), FlowShare(3), False),
        (FlowShare(1, weight=2), FlowShare(2), True),
        (FlowShare(0), FlowShare(4, weight=4), False),
        (FlowShare(0), FlowShare(5, weight=4), True),
    ],
)
def test_priority_takes_from_another_flow_only_what_that_has_beyond_its_share(
    own: FlowShare, other: FlowShare, allowed: bool
) -> None:
    flows = {"a": own, "b": other}
    assert chosen([running("theirs", flow="b")], flows=flows, priority=1000) == ["theirs"] * allowed
    # In its own flow the priority decides alone.
    assert chosen([running("mine", flow="a")], flows=flows) == ["mine"]


def test_a_flow_that_has_all_that_it_may_have_takes_nothing_from_another() -> None:
    flows = {"a": FlowShare(2), "b": FlowShare(9)}
    requests = [running("theirs", flow="b"), running("mine")]
    assert chosen(requests, flows=flows, max_running=2) == ["mine"]
    assert chosen(requests, flows=flows, max_running=3) == ["mine", "theirs"]


@pytest.mark.parametrize(
    ("changed", "allowed"),
    [
        ({}, True),
        ({"retryPolicy": "Never"}, False),
        ({"cancel": True}, False),
        ({"type": "chat"}, True),
        ({"type": "chat", "session": {"id": "s"}}, False),
        ({"preemption": {"count": MAX_PREEMPTIONS - 1}}, True),
        ({"preemption": {"count": MAX_PREEMPTIONS}}, False),
        ({"preemption": MARK}, False),
        ({"status": {"phase": "Succeeded"}}, False),
        ({"poolRef": None, "instanceRef": {"name": "alpha"}}, False),
    ],
)
def test_only_work_that_may_run_twice_is_interrupted_and_a_few_times_at_most(changed: Json, allowed: bool) -> None:
    assert is_preemptible(long(**changed)) == allowed


def urgent(victim: Victim | None, **fields: Any) -> RequestSnapshot:
    place = PoolPlace("crew", PlacementStrategy.SPREAD, 1, victim=victim, **fields)
    spec = {"poolRef": {"name": "crew"}, "priority": 5}
    return snapshot(request("urgent", target=None, created=NOW, **spec), pool=place)


def test_it_is_recorded_that_a_request_is_interrupted_before_the_other_one_gets_its_member() -> None:
    victim = Victim(long(), ready())
    actions = decide_request(urgent(victim), NOW)
    again, mark, bind = actions
    assert isinstance(again, RequeueAfter)
    assert isinstance(mark, PatchStatus)
    assert mark.key == (NAMESPACE, "long")
    assert mark.status["preemption"] == {"count": 0, **MARK}
    # Nothing else of it changes before its queue says that it was stopped.
    assert {**mark.status, "preemption": None} == {**long().status.to_wire(), "preemption": None}
    assert isinstance(bind, Bind)
    assert (bind.status["instanceName"], bind.status["reason"]) == ("alpha", "Preempting")
    assert condition(bind.status, "Complete")[2] == (
        "Bound to EfritInstance alpha, where EfritRequest long of lower priority is interrupted for it."
    )
    assert bind.placed is not None
    assert bind.placed.decision == Decision.PREEMPTING


def test_what_an_earlier_process_has_recorded_is_not_recorded_again() -> None:
    (bind,) = decide_request(urgent(Victim(long(MARK), ready(), marked=True)), NOW)
    assert isinstance(bind, Bind)
    assert bind.status["instanceName"] == "alpha"


def test_a_request_looks_for_some_time_for_one_that_has_not_begun_yet() -> None:
    def looks_again(waited: float, *, may_come: bool) -> list[RequeueAfter]:
        place = replace(urgent(None, victim_may_come=may_come), seen_for=seconds(waited))
        actions = decide_request(place, NOW)
        assert of_kind(actions, Bind) == []
        soon = [again for again in of_kind(actions, RequeueAfter) if again.after < seconds(60)]
        # From the first second on, its status says that it waits.
        return soon if waited > 1 else soon[1:]

    assert looks_again(0.5, may_come=True) == [RequeueAfter(seconds(1))]
    assert looks_again(5, may_come=True) == [RequeueAfter(seconds(5))]
    assert looks_again(5, may_come=False) == []
    assert looks_again(11, may_come=True) == []


def interrupted(preemption: Json | None = None, **fields: Any) -> RequestSnapshot:
    efrit_request = long({**MARK, **(preemption or {})}, status=fields.pop("status", None), **fields.pop("spec", {}))
    return snapshot(efrit_request, **{"target": ready(), "handover": Handover(QUEUE_ID), **fields})


def test_the_bridge_is_asked_to_stop_it_until_its_queue_has_an_answer() -> None:
    for run, preemption in (("uid-long", {}), ("uid-long.2", {"count": 2})):
        runs = view(run, RequestState.RUNNING, attempt=1)
        for bridge_view in (runs, view(run), None):
            actions = decide_request(interrupted(preemption, bridge_view=bridge_view), NOW)
            assert CancelWork((NAMESPACE, "alpha"), (NAMESPACE, "long"), run) in actions
            assert of_kind(actions, RequeueAfter) == [RequeueAfter(seconds(2))]
            assert of_kind(actions, PatchStatus) == []


def test_a_bridge_that_is_away_is_asked_once_it_is_back() -> None:
    actions = decide_request(interrupted(target=away()), NOW)
    assert of_kind(actions, CancelWork) == []
    assert of_kind(actions, PutBack) == []


def put_back(actions: list[Action]) -> Json:
    back, event = actions
    assert isinstance(back, PutBack)
    assert back.pool == CREW
    assert isinstance(event, Record)
    assert (event.kind, event.key, event.type, event.reason) == (
        "EfritRequest",
        (NAMESPACE, "long"),
        "Normal",
        "Preempted",
    )
    return dict(back.status)


def test_stopped_it_waits_for_a_member_as_if_no_queue_had_had_it() -> None:
    had = {
        "queueID": QUEUE_ID,
        "podUID": "pod",
        "attempt": 1,
        "queuedTime": wire_time(NOW),
        "startTime": wire_time(NOW),
        "session": {"id": "s"},
        "progress": {"step": 3},
        "handover": "Possible",
    }
    stopped = answered("uid-long", reason=RequestReason.CANCELLED)
    for target in (ready(), away()):
        status = put_back(decide_request(interrupted(bridge_view=stopped, status=had, target=target), NOW))
        assert {name for name in status if name not in ("conditions", "preemption")} == {"phase", "reason"}
        assert (status["phase"], status["reason"]) == ("Pending", "Preempted")
        assert status["preemption"] == {**{name: MARK[name] for name in MARK if name != "inProgress"}, "count": 1}
        assert condition(status, "Complete") == (
            "False",
            "Preempted",
            "Interrupted on EfritInstance alpha for EfritRequest urgent, which has a higher priority: it waits for a "
            "member of the pool, to run again from its beginning.",
        )


def test_what_the_queue_does_not_know_any_more_is_over_too() -> None:
    gone = interrupted(handover=Handover("", absent=True))
    assert put_back(decide_request(gone, NOW))["preemption"]["count"] == 1


@pytest.mark.parametrize(
    "reason", [reason for reason in RequestReason if reason.final and reason != RequestReason.CANCELLED]
)
def test_work_that_ended_before_it_was_stopped_has_its_answer_stored_and_does_not_run_again(
    reason: RequestReason,
) -> None:
    for count in (0, 2):
        run = f"uid-long.{count}" if count else "uid-long"
        actions = decide_request(interrupted({"count": count}, bridge_view=answered(run, reason=reason)), NOW)
        status = the(actions, PatchStatus).status
        # It has run before.
        assert status["reason"] == (RequestReason.INTERRUPTED if count and reason in NEVER_RUN else reason)
        assert status["phase"] in ("Succeeded", "Failed")
        assert "inProgress" not in status.get("preemption", {})
        assert status.get("preemption", {}).get("count", 0) == count
        assert of_kind(actions, PutBack) == []


def test_one_that_its_user_cancels_meanwhile_is_cancelled() -> None:
    spec = {"cancel": True}
    asked = decide_request(interrupted(spec=spec, bridge_view=view("uid-long", RequestState.RUNNING)), NOW)
    assert the(asked, CancelWork).uid == "uid-long"
    stopped = answered("uid-long", reason=RequestReason.CANCELLED)
    status = the(decide_request(interrupted(spec=spec, bridge_view=stopped), NOW), PatchStatus).status
    assert (status["phase"], status["reason"]) == ("Failed", "Cancelled")


def waiting(preemption: Json, **fields: Any) -> EfritRequest:
    spec = {"poolRef": {"name": "crew"}, "retryPolicy": "IfInterrupted", **fields}
    status = {"phase": "Pending", "reason": "Preempted", "preemption": {**MARK, "inProgress": None, **preemption}}
    return request("long", target=None, status=status, **spec)


def test_its_next_run_has_another_id_on_the_queue_which_clients_know_too() -> None:
    for count, run in ((0, "uid-long"), (1, "uid-long.1"), (5, "uid-long.5")):
        efrit_request = waiting({"count": count})
        assert queue_request(efrit_request, instance()).id == run
        assert run_id("uid-long", count) == run


def test_its_wait_for_a_start_is_over_though_it_waits_to_run_again() -> None:
    late = waiting({"count": 1}, queueTimeoutSeconds=1, created=NOW - seconds(60))
    place = PoolPlace("crew", PlacementStrategy.SPREAD, 1)
    actions = decide_request(snapshot(late, pool=place), NOW)
    assert of_kind(actions, PatchStatus) == []
    status = the(decide_request(snapshot(waiting({"count": 1}, cancel=True), pool=place), NOW), PatchStatus).status
    assert condition(status, "Complete")[1:] == ("Cancelled", "It was cancelled while it waited to run again.")


@pytest.mark.parametrize(
    ("before", "recorded", "attempt", "after", "left"),
    [
        # Runs that Emacs did not survive count, the one that was stopped does not.
        (None, None, 1, None, 3),
        (None, 1, 1, None, 3),
        (None, None, 2, 1, 2),
        (None, 2, 2, 1, 2),
        (1, 1, 1, 1, 2),
        (1, 1, 2, 2, 1),
        # It was stopped before it began, or its queue has forgotten it.
        (1, 1, 0, 1, 2),
        (1, 1, None, 1, 2),
        (None, 2, None, 1, 2),
        # Those of a queue that was lost before this one count as well: the status alone knows of them.
        (None, 3, 1, 2, 1),
        (None, 3, 0, 2, 1),
        (None, 3, None, 2, 1),
        (1, 3, 1, 2, 1),
    ],
)
def test_a_run_that_is_interrupted_for_other_work_is_no_attempt(
    before: int | None, recorded: int | None, attempt: int | None, after: int | None, left: int
) -> None:
    observed: Any = {"handover": Handover("", absent=True)}
    if attempt is not None:
        stopped = structs.replace(answered("uid-long.1", reason=RequestReason.CANCELLED), attempt=attempt)
        observed = {"bridge_view": stopped}
    again = interrupted({"count": 1, "attempts": before}, status={"attempt": recorded}, **observed)
    status = put_back(decide_request(again, NOW))
    assert status["preemption"].get("attempts") == after
    assert status.get("attempt") == after
    assert attempts_on_queue(waiting({"count": 2, "attempts": after}), instance()) == left


def test_the_attempts_of_all_runs_are_counted_in_the_status() -> None:
    runs = view("uid-long.1", RequestState.RUNNING, attempt=2, started_time=NOW - seconds(5))
    efrit_request = long({"count": 1, "attempts": 1})
    actions = decide_request(snapshot(efrit_request, ready(), bridge_view=runs, handover=Handover(QUEUE_ID)), NOW)
    assert the(actions, PatchStatus).status["attempt"] == 3


def test_a_queue_that_is_lost_while_it_is_interrupted_counts_as_one_with_all_attempts() -> None:
    ephemeral = ready(instance(spec={"queue": {"ephemeral": True}}))
    lost = interrupted(target=ephemeral, status={"queueID": "former"}, handover=Handover("former"))
    status = put_back(decide_request(lost, NOW))
    assert status["preemption"]["attempts"] == 2
