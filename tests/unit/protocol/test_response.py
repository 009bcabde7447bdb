"""Answers: ours, and those of plain 1.0.0 writers."""

import contextlib
import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from efrit.errors import InvalidResponse
from efrit.protocol import (
    Outcome,
    Progress,
    RequestReason,
    Response,
    ResponseStatus,
    Session,
    SessionStatus,
    failure,
    request_id,
)
from efrit.protocol.enums import FINAL_REASONS

NOW = datetime(2026, 1, 3, 18, 30, tzinfo=UTC)


@given(st.binary(max_size=300))
def test_arbitrary_bytes_are_a_response_or_an_invalid_response(data: bytes) -> None:
    with contextlib.suppress(InvalidResponse):
        assert Response.parse(data).status in ResponseStatus


@pytest.mark.parametrize(
    ("status", "reason", "outcome"),
    [
        ("success", RequestReason.SUCCEEDED, Outcome.SUCCESS),
        ("error", RequestReason.EVAL_ERROR, Outcome.FAILURE),
        ("timeout", RequestReason.TIMED_OUT, Outcome.FAILURE),
    ],
)
def test_a_plain_answer_gets_the_reason_its_status_implies(
    status: str, reason: RequestReason, outcome: Outcome
) -> None:
    response = Response.parse(json.dumps({"id": "a", "status": status, "execution_time": 1.25}))
    assert (response.reason, response.outcome) == (reason, outcome)


def test_nulls_stand_for_absent_values() -> None:
    nulls = {"output": None, "messages": None, "attempt": None, "truncated": None, "sha256": None}
    response = Response.parse(json.dumps({"id": "a", "status": "success", **nulls}))
    assert (response.output, response.messages, response.attempt) == ("", "", 0)


def test_unknown_keys_are_carried_along() -> None:
    unknown = {"later": {"deep": [1]}, "session": {"id": "s", "later": 1}, "usage": {"later": 2}}
    written = json.loads(Response.parse(json.dumps({"id": "a", "status": "success", **unknown})).to_json())
    assert written["later"] == {"deep": [1]}
    assert (written["session"]["later"], written["usage"]["later"]) == (1, 2)


def test_a_command_reports_its_session_how_far_it_came_and_what_the_model_cost() -> None:
    fields = {
        "session": {"id": "s-1", "status": "need-input", "question": "Which file?"},
        "progress": {"step": 3, "message": "reading", "tool_calls": 7, "tokens": 900},
        "usage": {"input_tokens": 800, "output_tokens": 100, "model_calls": 4, "model_errors": {"529": 1}},
    }
    answer = {"id": "a", "status": "error", "reason": "InputRequired", "outcome": "Partial", **fields}
    response = Response.parse(json.dumps(answer))
    assert response.session == Session(id="s-1", status=SessionStatus.NEED_INPUT, question="Which file?")
    assert response.progress == Progress(step=3, message="reading", tool_calls=7, tokens=900)
    assert response.usage is not None
    assert (response.usage.input_tokens, response.usage.cache_read_tokens) == (800, 0)
    assert response.usage.model_errors == {"529": 1}


def test_an_older_writer_reports_nothing_of_sessions() -> None:
    response = Response.parse(json.dumps({"id": "a", "status": "success"}))
    assert (response.session, response.progress, response.usage) == (None, None, None)


@pytest.mark.parametrize(
    "fields",
    [
        {"session": {"id": "../x"}},
        {"session": {"id": "s", "status": "paused"}},
        {"session": "s"},
    ],
)
def test_a_session_that_cannot_be_is_refused(fields: dict[str, object]) -> None:
    with pytest.raises(InvalidResponse):
        Response.parse(json.dumps({"id": "a", "status": "success", **fields}))


@pytest.mark.parametrize(
    "fields",
    [
        {"progress": {"tokens": -1}},
        {"progress": []},
        {"usage": {"input_tokens": 1.5}},
        {"usage": {"input_tokens": {}}},
        {"usage": {"model_errors": {"x" * 65: 1}}},
    ],
)
def test_no_answer_is_lost_for_its_figures(fields: dict[str, object]) -> None:
    response = Response.parse(json.dumps({"id": "a", "status": "success", "result": "2", **fields}))
    assert (response.result, response.progress, response.usage) == ("2", None, None)


@pytest.mark.parametrize(
    "fields",
    [
        {"attempt": -1},
        {"execution_time": "long"},
        {"started": "soon"},
        {"timestamp": []},
        {"output": 5},
        {"messages": {}},
        {"context": []},
        {"context": "buffers"},
        {"context": "[1]"},
        {"context": '{"buffers": '},
        {"context": '{"size": NaN}'},
        {"context": '{"size": 1e999}'},
        {"context": '{"a": ' * 200 + "1" + "}" * 200},
        {"context": '{"a": ' * 20_000 + "1" + "}" * 20_000},
        {"context": '{"a": [' + "0," * 110_000 + "0]}"},
        {"result_bytes": -1},
    ],
)
def test_no_answer_is_lost_for_what_accompanies_it(fields: dict[str, object]) -> None:
    response = Response.parse(json.dumps({"id": "a", "status": "success", "result": "2", **fields}))
    assert response == Response.parse(json.dumps({"id": "a", "status": "success", "result": "2"}))


def test_a_context_in_a_string_is_read_as_the_object_it_is() -> None:
    context = {"buffer": {"name": "*scratch*"}, "recent-files": None}
    answer = {"id": "a", "status": "success", "context": json.dumps(context)}
    assert Response.parse(json.dumps(answer)).context == context


def test_of_a_reason_of_a_later_version_the_status_says_enough() -> None:
    answer = {"id": "a", "status": "error", "reason": "Eclipsed", "error": "The sun is away."}
    response = Response.parse(json.dumps(answer))
    assert (response.reason, response.outcome) == (RequestReason.EVAL_ERROR, Outcome.FAILURE)
    assert response.error == "The sun is away."


@pytest.mark.parametrize("reason", ["InputRequired", "ModelError", "BudgetExhausted", "CircuitBroken", "Partial"])
def test_work_that_was_left_undone_may_be_partial_and_is_never_success(reason: str) -> None:
    answer = {"id": "a", "status": "error", "reason": reason, "outcome": "Partial"}
    assert Response.parse(json.dumps(answer)).outcome is Outcome.PARTIAL
    for lie in ({"status": "success"}, {"outcome": "Success"}):
        with pytest.raises(InvalidResponse, match="contradict"):
            Response.parse(json.dumps({**answer, **lie}))


@pytest.mark.parametrize("status", ["done", "", None])
def test_an_unknown_status_is_refused(status: str | None) -> None:
    with pytest.raises(InvalidResponse):
        Response.parse(json.dumps({"id": "a", "status": status}))


def test_every_reason_has_a_status_old_clients_know() -> None:
    assert {reason.status for reason in FINAL_REASONS} == set(ResponseStatus)
    assert [reason for reason in FINAL_REASONS if reason.status is ResponseStatus.SUCCESS] == [
        RequestReason.SUCCEEDED
    ]


@pytest.mark.parametrize("reason", [reason.value for reason in RequestReason if not reason.final])
def test_an_answer_cannot_say_that_its_request_goes_on(reason: str) -> None:
    answer = {"id": "a", "status": "error", "reason": reason, "outcome": "Failure"}
    with pytest.raises(InvalidResponse, match="ends no request"):
        Response.parse(json.dumps(answer))


def test_a_failure_of_ours_is_never_a_success() -> None:
    response = failure(request_id("a"), RequestReason.CANCELLED, "why", timestamp=NOW)
    assert response.status is ResponseStatus.ERROR
    assert response.outcome is Outcome.FAILURE
    assert Response.parse(response.to_json()) == response
