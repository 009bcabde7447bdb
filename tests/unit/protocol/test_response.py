"""Answers: ours, and those of plain 1.0.0 writers."""

import contextlib
import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from efrit.errors import InvalidResponse
from efrit.protocol import Outcome, Reason, Response, ResponseStatus, failure, request_id

NOW = datetime(2026, 1, 3, 18, 30, tzinfo=UTC)


@given(st.binary(max_size=300))
def test_arbitrary_bytes_are_a_response_or_an_invalid_response(data: bytes) -> None:
    with contextlib.suppress(InvalidResponse):
        assert Response.parse(data).status in ResponseStatus


@pytest.mark.parametrize(
    ("status", "reason", "outcome"),
    [
        ("success", Reason.SUCCEEDED, Outcome.SUCCESS),
        ("error", Reason.EVAL_ERROR, Outcome.FAILURE),
        ("timeout", Reason.TIMED_OUT, Outcome.FAILURE),
    ],
)
def test_a_plain_answer_gets_the_reason_its_status_implies(status: str, reason: Reason, outcome: Outcome) -> None:
    response = Response.parse(json.dumps({"id": "a", "status": status, "execution_time": 1.25}))
    assert (response.reason, response.outcome) == (reason, outcome)


def test_nulls_stand_for_absent_values() -> None:
    nulls = {"output": None, "messages": None, "attempt": None, "truncated": None, "sha256": None}
    response = Response.parse(json.dumps({"id": "a", "status": "success", **nulls}))
    assert (response.output, response.messages, response.attempt) == ("", "", 0)


def test_unknown_keys_are_carried_along() -> None:
    text = json.dumps({"id": "a", "status": "success", "session": {"id": "s"}})
    assert json.loads(Response.parse(text).to_json())["session"] == {"id": "s"}


@pytest.mark.parametrize("status", ["done", "", None])
def test_an_unknown_status_is_refused(status: str | None) -> None:
    with pytest.raises(InvalidResponse):
        Response.parse(json.dumps({"id": "a", "status": status}))


def test_every_reason_has_a_status_old_clients_know() -> None:
    assert {reason.status for reason in Reason} == set(ResponseStatus)
    assert [reason for reason in Reason if reason.status is ResponseStatus.SUCCESS] == [Reason.SUCCEEDED]


def test_a_failure_of_ours_is_never_a_success() -> None:
    response = failure(request_id("a"), Reason.CANCELLED, "why", timestamp=NOW)
    assert response.status is ResponseStatus.ERROR
    assert response.outcome is Outcome.FAILURE
    assert Response.parse(response.to_json()) == response
