"""What a running chat or command says in its status of how far it has come, and where a session is continued."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from efrit.controller.decide.requests import decide_request
from efrit.controller.model.actions import FindSession, PatchStatus, RequeueAfter, Submit, Wake
from efrit.controller.model.snapshots import RequestSnapshot
from efrit.protocol import Progress, RequestState
from efrit.protocol.view import RequestView
from tests.support.factory import (
    NAMESPACE,
    NOW,
    Json,
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
    written,
)

LATER = NOW + seconds(30)
RUNNING: Json = {
    "phase": "Running",
    "reason": "Running",
    "attempt": 1,
    "progress": {"step": 1, "message": "reading", "toolCalls": 2, "tokens": 300},
    "session": {"id": "s-1", "status": "continue"},
}
FIGURES: Json = {"step": 1, "message": "reading", "tool_calls": 2, "tokens": 300, "session": "s-1"}


def decide(request_snapshot: RequestSnapshot, now: datetime = LATER) -> list[Any]:
    return decide_request(request_snapshot, now)


def running(**progress: Any) -> RequestView:
    reported = Progress(**(FIGURES | progress))
    return view(state=RequestState.RUNNING, attempt=1, started_time=NOW, progress=reported)


def command(status: Json | None = None, **fields: Any) -> RequestSnapshot:
    return snapshot(request(type="command", status=status or {}), ready(), **fields)


def test_with_running_the_status_says_how_far_it_has_come() -> None:
    patch = the(decide(command(bridge_view=running())), PatchStatus)

    assert {key: patch.status[key] for key in RUNNING} == RUNNING
    assert not patch.droppable, "that it runs must be recorded"


def test_work_that_ends_within_a_second_is_never_said_to_have_come_anywhere() -> None:
    assert decide(command(bridge_view=running()), NOW + seconds(0.25)) == [RequeueAfter(seconds(0.75))]


def test_a_step_further_is_reported_on_condition_of_the_version_decided_about_and_may_be_lost() -> None:
    patch = the(decide(command(RUNNING, bridge_view=running(step=2, tokens=900))), PatchStatus)

    assert patch.droppable
    assert patch.resource_version == "20"
    assert patch.status["progress"] == {"step": 2, "message": "reading", "toolCalls": 2, "tokens": 900}
    assert {key: value for key, value in patch.status.items() if key != "progress"} == {
        key: value for key, value in patch.old.items() if key != "progress"
    }


@pytest.mark.parametrize("request_view", [running(), view(state=RequestState.RUNNING, attempt=1, started_time=NOW)])
def test_what_is_no_news_is_not_written(request_view: RequestView) -> None:
    assert decide(command(RUNNING, bridge_view=request_view)) == []


def test_progress_is_written_once_a_second_at_most() -> None:
    request_snapshot = command(RUNNING, bridge_view=running(step=2), progress_written=LATER - seconds(0.25))

    assert decide(request_snapshot) == [RequeueAfter(seconds(0.75))]
    assert the(decide(request_snapshot, LATER + seconds(0.75)), PatchStatus).droppable


def test_an_eval_reports_no_progress() -> None:
    efrit_request = request(status={"phase": "Running", "reason": "Running", "attempt": 1})
    request_view = view(state=RequestState.RUNNING, attempt=1, started_time=NOW)

    assert decide(snapshot(efrit_request, ready(), bridge_view=request_view)) == []


def test_a_message_too_long_for_a_status_is_cut_more_where_there_is_less_room() -> None:
    request_view = running(message="ä" * 1024)

    full = written(decide(command(RUNNING, bridge_view=request_view)))["progress"]["message"]
    reduced = written(decide(command(RUNNING, bridge_view=request_view, reduced_status=True)))["progress"]["message"]

    assert (len(full.encode()), len(reduced.encode())) == (1024, 256)


def test_no_progress_is_written_of_work_that_is_to_stop() -> None:
    request_snapshot = snapshot(
        request(type="command", cancel=True, status=RUNNING), ready(), bridge_view=running(step=2)
    )

    assert of_kind(decide(request_snapshot), PatchStatus) == []


# Where a session is continued.

SELECTED: Json = {"target": None, "selector": {"matchLabels": {"team": "a"}}}


def continued(**fields: Any) -> RequestSnapshot:
    candidates = (ready(instance("quiet")), ready(instance("home"), open_requests=9))
    efrit_request = request(type="chat", session={"id": "s-1"}, **SELECTED)
    return snapshot(efrit_request, **({"candidates": candidates} | fields))


def test_who_has_the_session_is_asked_before_an_instance_is_chosen() -> None:
    assert decide(continued()) == [FindSession((NAMESPACE, "work"), "uid-work", "s-1")]


def test_a_session_is_continued_where_it_is_however_busy_that_instance() -> None:
    actions = decide(continued(session_instance="home"))

    assert written(actions)["instanceName"] == "home"
    assert of_kind(actions, Submit) == []


def test_a_session_waits_for_its_instance_though_another_is_ready() -> None:
    actions = decide(
        continued(session_instance="home", candidates=(ready(instance("quiet")), away(instance("home"))))
    )

    assert written(actions)["instanceName"] == "home"
    assert the(actions, Wake).instance == (NAMESPACE, "home")


def test_a_session_that_no_request_had_goes_to_any_instance_which_says_that_it_knows_none() -> None:
    assert written(decide(continued(session_instance="")))["instanceName"] == "quiet"


def test_a_session_on_an_instance_that_is_none_of_those_asked_for_is_refused_with_its_name() -> None:
    status = written(decide(continued(session_instance="elsewhere")))

    assert condition(status, "Complete")[1] == "Rejected"
    assert "Session s-1 is on EfritInstance elsewhere" in status["error"]["message"]


def test_a_request_that_names_its_instance_asks_nobody() -> None:
    efrit_request = request(type="chat", session={"id": "s-1"})
    target = ready(instance(spec={"model": {"name": "m", "apiKeySecretRef": {"name": "s", "key": "k"}}}))

    assert the(decide(snapshot(efrit_request, target)), Submit).request.options.session is not None
