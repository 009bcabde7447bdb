"""decide/final_status.py: the one final status, field by field."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from typing import Any

import pytest
from hypothesis import given as property_of
from hypothesis import strategies as st

from efrit import resources
from efrit.api import EfritRequest, RequestReason
from efrit.api.request import MAX_INLINE_RESULT_CHARS, RequestStatus
from efrit.controller.decide.final_status import NO_REASON_TEXT, ended_unknown, never_ran, store_answer
from efrit.controller.decide.status_limits import FULL, REDUCED, StatusLimits, cut
from efrit.controller.manifests.result_secret import result_secret
from efrit.controller.model.actions import Action, PatchStatus, StoreResult
from efrit.protocol import Progress, RequestState
from efrit.protocol.enums import FINAL_REASONS
from efrit.protocol.view import RequestView
from tests.support.factory import (
    NOW,
    POD_UID,
    Json,
    condition,
    of_kind,
    request,
    request_json,
    response,
    seconds,
    the,
    view,
    written,
)

INLINE = MAX_INLINE_RESULT_CHARS
ANSWERED = view(state=RequestState.ANSWERED, queued_time=NOW - seconds(3))
LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")


def answer(
    efrit_request: Any = None,
    *,
    limits: StatusLimits = FULL,
    request_view: RequestView = ANSWERED,
    named: Json | None = None,
    **fields: Any,
) -> list[Action]:
    others: Json = {"pod_uid": POD_UID, "instance_name": "alpha", "queue_timeout": None} | (named or {})
    return store_answer(efrit_request or request(), request_view, response(**fields), NOW, limits=limits, **others)


def large(text: str, **fields: Any) -> list[Action]:
    data = text.encode()
    return answer(result=text, sha256=hashlib.sha256(data).hexdigest(), result_bytes=len(data), **fields)


def test_a_success_fills_the_whole_status_and_sets_both_conditions_with_one_reason() -> None:
    status = written(answer(result="2", output="printed", messages="said", attempt=1))

    assert {key: value for key, value in status.items() if key != "conditions"} == {
        "phase": "Succeeded",
        "reason": "Succeeded",
        "outcome": "Success",
        "result": "2",
        "truncated": False,
        "output": "printed",
        "messages": "said",
        "instanceName": "alpha",
        "podUID": POD_UID,
        "attempt": 1,
        "queuedTime": "2026-03-01T11:59:57.000000Z",
        "startTime": "2026-03-01T11:59:58.000000Z",
        "completionTime": "2026-03-01T12:00:00.000000Z",
        "executionSeconds": 1.5,
    }
    for kind in ("Complete", "Succeeded"):
        assert condition(status, kind) == ("True", "Succeeded", "The work is done.")


def test_an_error_keeps_the_lisp_symbol_and_sentence() -> None:
    status = written(
        answer(reason=RequestReason.EVAL_ERROR, error="Symbol's value is void: x", error_code="void-variable")
    )

    assert (status["phase"], status["reason"], status["outcome"]) == ("Failed", "EvalError", "Failure")
    assert status["error"] == {"code": "void-variable", "message": "Symbol's value is void: x"}
    assert condition(status, "Complete") == ("True", "EvalError", "Symbol's value is void: x")
    assert condition(status, "Succeeded") == ("False", "EvalError", "Symbol's value is void: x")
    assert "result" not in status


@pytest.mark.parametrize("reason", [reason for reason in FINAL_REASONS if reason != RequestReason.SUCCEEDED])
def test_an_error_without_words_gets_the_words_of_its_reason(reason: RequestReason) -> None:
    status = written(answer(reason=reason))

    assert status["error"] == {"code": reason.value, "message": NO_REASON_TEXT[reason]}
    assert status["phase"] == "Failed"


def test_a_partial_answer_is_not_called_a_success() -> None:
    status = written(answer(reason=RequestReason.SUCCEEDED, outcome="Partial", result="half"))

    assert (status["phase"], status["outcome"], status["result"]) == ("Failed", "Partial", "half")
    assert condition(status, "Succeeded")[0] == "False"
    assert condition(status, "Complete")[0] == "True"


def test_work_that_never_started_has_no_start_and_no_duration() -> None:
    status = written(answer(reason=RequestReason.CANCELLED, started=None, attempt=0, execution_time=0))

    assert "startTime" not in status
    assert "executionSeconds" not in status


def test_a_withdrawal_for_the_queue_timeout_ends_timed_out_unless_it_had_begun() -> None:
    late: Json = {"named": {"queue_timeout": "It waited longer than an hour."}, "reason": RequestReason.CANCELLED}

    status = written(answer(**late, started=None, error="Cancelled."))

    assert status["reason"] == "TimedOut"
    assert status["error"] == {"code": "TimedOut", "message": "It waited longer than an hour."}
    assert written(answer(**late))["reason"] == "Cancelled"


def test_an_error_reported_before_is_gone_after_a_success_and_what_is_gone_is_given_along() -> None:
    old = {"error": {"code": "x", "message": "y"}, "progress": {"step": 3}}

    patch = the(answer(request(status={"phase": "Running", **old}), result="2"), PatchStatus)

    assert "error" not in patch.status
    assert {name: patch.old[name] for name in old} == old


def test_the_queued_time_written_before_stays_where_the_bridge_names_none() -> None:
    queued = "2026-03-01T11:00:00.000000Z"
    efrit_request = request(status={"phase": "Queued", "queuedTime": queued})

    status = written(
        answer(efrit_request, request_view=view(state=RequestState.ANSWERED), named={"pod_uid": None}, result="2")
    )

    assert (status["queuedTime"], "podUID" in status) == (queued, False)


@pytest.mark.parametrize(
    ("fields", "result", "truncated"),
    [
        ({"result": ""}, "", False),
        ({"result": "x" * INLINE}, "x" * INLINE, False),
        ({"result": "abc", "truncated": True, "result_bytes": 9_999_999}, "abc", True),
    ],
    ids=["empty", "of exactly 32 KiB", "cut by Emacs"],
)
def test_a_short_result_is_in_the_status_alone(fields: Json, result: str, truncated: bool) -> None:
    actions = answer(**fields)

    status = written(actions)
    assert of_kind(actions, StoreResult) == []
    assert (status["result"], status["truncated"], "resultRef" in status) == (result, truncated, False)


# Large results.


def test_a_secret_with_the_beginning_that_emacs_had_room_for_has_no_digest_of_the_whole() -> None:
    beginning = "x" * (INLINE + 1)

    actions = answer(result=beginning, truncated=True, sha256="a" * 64, result_bytes=9_999_999)

    secret, status = the(actions, StoreResult).manifest, written(actions)
    assert base64.b64decode(secret["data"]["result"]).decode() == beginning
    assert (status["resultRef"]["bytes"], status["resultRef"]["sha256"]) == (9_999_999, "")
    assert status["truncated"] is True


def test_a_larger_result_lies_whole_in_a_secret() -> None:
    text = "x" * (INLINE + 1)

    actions = large(text)

    secret, status = the(actions, StoreResult).manifest, written(actions)
    assert base64.b64decode(secret["data"]["result"]).decode() == text
    assert status["resultRef"] == {
        "secretName": "efrit-result-uid-work",
        "key": "result",
        "bytes": INLINE + 1,
        "sha256": hashlib.sha256(text.encode()).hexdigest(),
    }
    assert (status["result"], status["truncated"]) == ("x" * INLINE, True)


@pytest.mark.parametrize(
    ("text", "beginning"),
    [("é" * 20_000, "é" * (INLINE // 2)), ("x" + "é" * 20_000, "x" + "é" * (INLINE // 2 - 1))],
    ids=["bytes are counted", "a character across the limit is left out whole"],
)
def test_the_limit_counts_bytes_and_cuts_between_characters(text: str, beginning: str) -> None:
    assert written(large(text))["result"] == beginning


def test_a_result_on_the_workspace_is_named_by_its_path_and_costs_no_secret() -> None:
    path = "/workspace/.efrit/results/uid-work.txt"

    actions = answer(result="begin", result_path=path, result_bytes=900_000, sha256="a" * 64)

    assert of_kind(actions, StoreResult) == []
    status = written(actions)
    assert status["resultRef"] == {"workspacePath": path, "bytes": 900_000, "sha256": "a" * 64}
    assert (status["result"], status["truncated"]) == ("begin", True)


def test_the_secret_of_a_result_goes_with_its_request() -> None:
    secret = result_secret(request(), "text")

    assert secret["metadata"]["ownerReferences"] == [
        resources.REQUESTS.reference("work", "uid-work", controller=True)
    ]
    assert (secret["metadata"]["namespace"], secret["immutable"]) == ("team", True)


def test_the_end_of_a_command_reports_its_session_its_progress_and_what_the_model_cost() -> None:
    status = written(
        answer(
            reason=RequestReason.INPUT_REQUIRED,
            outcome="Partial",
            result="so far",
            session={"id": "s-1", "status": "need-input", "question": "Which file?"},
            progress={"step": 3, "message": "asking", "tool_calls": 7, "tokens": 900},
            usage={"input_tokens": 800, "output_tokens": 100, "model_calls": 4, "model_errors": {"529": 1}},
        )
    )

    assert (status["phase"], status["outcome"], status["result"]) == ("Failed", "Partial", "so far")
    assert condition(status, "Complete") == ("True", "InputRequired", "Which file?")
    assert condition(status, "Succeeded") == ("False", "InputRequired", "Which file?")
    assert status["session"] == {"id": "s-1", "status": "need-input", "question": "Which file?"}
    assert status["progress"] == {"step": 3, "message": "asking", "toolCalls": 7, "tokens": 900}
    assert status["usage"] == {
        "inputTokens": 800,
        "outputTokens": 100,
        "cacheReadTokens": 0,
        "cacheWriteTokens": 0,
        "modelCalls": 4,
        "modelErrors": {"529": 1},
    }


def test_what_an_answer_does_not_contain_stays_as_it_was_reported_last() -> None:
    progress_fields = {"progress": {"step": 1, "toolCalls": 2}, "session": {"id": "s-1", "status": "continue"}}
    running = request(status={"phase": "Running", **progress_fields})
    newer = view(state=RequestState.ANSWERED, progress=Progress(step=2, tool_calls=3))

    status = written(answer(running, reason=RequestReason.INTERRUPTED))

    assert {key: status[key] for key in progress_fields} == progress_fields
    assert written(answer(running, request_view=newer, reason=RequestReason.INTERRUPTED))["progress"] == {
        "step": 2,
        "toolCalls": 3,
    }


def test_long_words_of_a_command_are_cut_to_their_room() -> None:
    long = "ä" * 10_000
    fields: dict[str, Any] = {
        "session": {"id": "s", "status": "need-input", "question": long},
        "progress": {"message": long},
    }

    for limits in (FULL, REDUCED):
        status = written(answer(reason=RequestReason.INPUT_REQUIRED, limits=limits, **fields))
        RequestStatus.model_validate(status)
        assert status["session"]["question"] == cut(long, limits.error)
        assert status["progress"]["message"] == cut(long, limits.message)


def test_two_requests_of_one_name_have_secrets_of_their_own() -> None:
    names = {result_secret(request(uid=uid), "text")["metadata"]["name"] for uid in ("a", "b")}

    assert len(names) == 2


@pytest.mark.parametrize("name", ["short", "x" * 63, "x" * 200, "x" * 62 + "-y", "x" * 61 + ".-y", "a.b-c"])
def test_the_label_of_a_result_is_a_valid_label_for_every_name(name: str) -> None:
    label = result_secret(request(name), "text")["metadata"]["labels"]["efrit.dev/request"]

    assert LABEL_VALUE.fullmatch(label)
    assert name.startswith(label)


@property_of(st.text(), st.integers(0, 40))
def test_cutting_gives_the_longest_beginning_that_fits(text: str, limit: int) -> None:
    beginning = cut(text, limit)

    assert text.startswith(beginning)
    assert len(beginning.encode()) <= limit
    rest = text[len(beginning) :]
    assert not rest or len((beginning + rest[0]).encode()) > limit


# What Emacs printed and looked like.


def test_output_messages_and_errors_are_bounded() -> None:
    long: Json = {"output": "é" * 50_000, "messages": "m" * 50_000, "error": "e" * 100_000, "error_code": "c" * 1000}

    status = written(answer(reason=RequestReason.EVAL_ERROR, **long))

    assert len(status["output"].encode()) <= 8_192 + 256
    assert len(status["messages"].encode()) <= 8_192 + 256
    assert (len(status["error"]["message"]), len(status["error"]["code"])) == (8_192, 256)
    assert len(condition(status, "Complete")[2]) == 1024


def test_an_object_without_room_gets_the_same_end_in_few_bytes_and_the_whole_result_in_a_secret() -> None:
    long = {"output": "<" * 9000, "messages": "<" * 9000, "error": "<" * 9000, "context": {"current_buffer": "b"}}
    actions = large("<" * 30_000, reason=RequestReason.EVAL_ERROR, limits=REDUCED, **long)

    status = written(actions)
    assert (status["phase"], status["reason"], status["outcome"]) == ("Failed", "EvalError", "Failure")
    assert base64.b64decode(the(actions, StoreResult).manifest["data"]["result"]).decode() == "<" * 30_000
    assert (len(status["result"]), status["truncated"], status["resultRef"]["bytes"]) == (256, True, 30_000)
    assert "Status truncated" in condition(status, "Complete")[2]
    # Six bytes for each: that is how the API server writes a < down.
    assert len(json.dumps(status).replace("<", "123456")) < 16_000


def test_a_small_answer_is_whole_in_an_object_without_room() -> None:
    full, reduced = (written(answer(result="2", output="printed", limits=limits)) for limits in (FULL, REDUCED))

    assert {**reduced, "conditions": []} == {**full, "conditions": []}


CONTEXT: dict[str, tuple[Json, Json]] = {
    "whole": (
        {
            "current_buffer": "*scratch*",
            "buffers": ["*scratch*", "notes.org"],
            "buffer_count": 2,
            "cursor_position": 17,
            "major_mode": "lisp-interaction-mode",
            "default_directory": "/workspace/",
            "emacs_version": "30.1",
        },
        {
            "currentBuffer": "*scratch*",
            "buffers": ["*scratch*", "notes.org"],
            "bufferCount": 2,
            "cursorPosition": 17,
            "majorMode": "lisp-interaction-mode",
            "defaultDirectory": "/workspace/",
            "emacsVersion": "30.1",
        },
    ),
    "empty": ({}, {"buffers": []}),
    "of other types": ({"buffers": "no list", "buffer_count": True, "current_buffer": 7}, {"buffers": []}),
    # The API server takes it for a number with a fraction, and refuses the whole status.
    "beyond the integers of JSON": ({"buffer_count": 2**70, "cursor_position": -(2**53)}, {"buffers": []}),
    "a list with other types": ({"buffers": ["a", 1, None, "b"]}, {"buffers": ["a", "b"]}),
    "long, and unknown": ({"major_mode": "m" * 999, "unknown": 1}, {"buffers": [], "majorMode": "m" * 256}),
    "many buffers": (
        {"buffers": [f"b{n}" for n in range(500)], "buffer_count": 500},
        {"buffers": [f"b{n}" for n in range(200)], "bufferCount": 500},
    ),
}


@pytest.mark.parametrize(("context", "expected"), CONTEXT.values(), ids=CONTEXT)
def test_a_context_is_taken_over_field_by_field_and_never_fails(context: Json, expected: Json) -> None:
    assert written(answer(result="2", context=context))["context"] == expected


# Work that never ran.


@pytest.mark.parametrize(
    "reason",
    [RequestReason.REJECTED, RequestReason.CANCELLED, RequestReason.TIMED_OUT, RequestReason.MODEL_NOT_CONFIGURED],
)
def test_work_that_never_ran_ends_failed_with_its_reason(reason: RequestReason) -> None:
    status = written(never_ran(request(), reason, "Why.", NOW))

    assert (status["phase"], status["reason"], status["outcome"]) == ("Failed", reason.value, "Failure")
    assert status["error"] == {"code": reason.value, "message": "Why."}
    assert status["completionTime"] == "2026-03-01T12:00:00.000000Z"
    assert "result" not in status


@pytest.mark.parametrize("earlier", [{"attempt": 2}, {"preemption": {"count": 1}}], ids=["lost", "preempted"])
@pytest.mark.parametrize("reason", [RequestReason.REJECTED, RequestReason.MODEL_NOT_CONFIGURED])
def test_what_is_refused_after_an_earlier_run_does_not_end_as_if_it_had_never_run(
    earlier: Json, reason: RequestReason
) -> None:
    again = EfritRequest.model_validate(request_json() | {"status": earlier})
    why = "There is no session s."
    for actions in (never_ran(again, reason, why, NOW), answer(again, reason=reason, error=why, attempt=1)):
        status = written(actions)
        assert (status["phase"], status["reason"]) == ("Failed", "Interrupted")
        assert status["error"]["message"].endswith(f"It cannot run again: {why}")


def test_an_unknown_end_is_interrupted() -> None:
    assert written(ended_unknown(request(), "Gone.", NOW))["reason"] == "Interrupted"


def test_every_final_status_fits_the_model_of_the_resource() -> None:
    manifest = request_json()
    manifest["status"] = written(
        large("é" * 100_000, output="o" * 9000, messages="m" * 9000, context={"buffers": ["b" * 5000] * 300})
    )

    assert RequestStatus.model_validate(manifest["status"]).to_wire() == manifest["status"]
