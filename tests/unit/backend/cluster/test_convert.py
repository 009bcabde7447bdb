"""Custom resources in the client's words, and work as a custom resource the API's own models take."""

from datetime import UTC, datetime
from typing import Any

import pytest

from efrit.api import EfritRequest
from efrit.api_group import MAX_CONTENT_CHARS
from efrit.backend.cluster.convert import instance_of, manifest, request_name, request_of, stats_of
from efrit.backend.errors import Refused
from efrit.backend.interface import (
    Budget,
    Handle,
    InstanceStatus,
    Phase,
    RequestReason,
    RequestType,
    SessionStatus,
    Work,
)
from efrit.backend.resource_fields import DIGEST
from efrit.cli.exit_codes import Exit, exit_of
from efrit.protocol import RetryPolicy

NOW = datetime(2026, 1, 31, 9, 30, tzinfo=UTC)
TARGET = {"instanceRef": {"name": "one"}}


def instance(reason: str, status: str = "False", **more: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "one", "namespace": "team", "labels": {"a": "b"}},
        "spec": {},
        "status": {"conditions": [{"type": "Ready", "status": status, "reason": reason, "message": "Why."}], **more},
    }


@pytest.mark.parametrize(
    ("reason", "status", "expected"),
    [
        ("Ready", "True", InstanceStatus.ACTIVE),
        ("Starting", "False", InstanceStatus.INACTIVE),
        ("Suspended", "False", InstanceStatus.INACTIVE),
        ("CrashLooping", "False", InstanceStatus.ERROR),
        ("ImagePullFailed", "False", InstanceStatus.ERROR),
        ("NodeLost", "False", InstanceStatus.ERROR),
    ],
)
def test_an_instance_is_active_inactive_or_broken(reason: str, status: str, expected: InstanceStatus) -> None:
    converted = instance_of(instance(reason, status), NOW)
    assert (converted.status, converted.reason, converted.message) == (expected, reason, "Why.")


def test_one_that_is_suspended_for_idleness_can_be_started_by_work() -> None:
    assert instance_of(instance("SuspendedIdle", suspendedIdle=True), NOW).can_start
    assert not instance_of(instance("Suspended"), NOW).can_start


def test_an_instance_is_a_member_of_the_pool_that_controls_it_whatever_its_labels() -> None:
    member, labelled = instance("Ready"), instance("Ready")
    member["metadata"]["ownerReferences"] = [{"kind": "EfritPool", "name": "crew", "controller": True}]
    labelled["metadata"] |= {
        "labels": {"efrit.dev/pool": "crew"},
        "ownerReferences": [{"kind": "EfritClaim", "name": "ada", "controller": True}],
    }
    assert [instance_of(obj, NOW).pool for obj in (member, labelled)] == ["crew", None]


def test_the_figures_of_a_queue_are_reported() -> None:
    queue = {
        "pending": 3,
        "processing": 1,
        "processed": 42,
        "succeeded": 38,
        "failed": 4,
        "averageProcessingSeconds": 1.8,
    }
    stats = stats_of(instance("Ready", "True", queue=queue, startTime="2026-01-31T07:30:00Z"), NOW)
    assert (stats.pending, stats.processing, stats.processed, stats.succeeded, stats.failed) == (3, 1, 42, 38, 4)
    assert (stats.average_processing_seconds, stats.uptime_seconds) == (1.8, 7200)


def test_a_request_nobody_has_looked_at_is_pending() -> None:
    state = request_of({"metadata": {"name": "r"}, "spec": {"type": "eval", "content": "1", **TARGET}})
    assert (state.phase, state.reason, state.handle.instance, state.final) == (
        Phase.PENDING,
        RequestReason.PENDING,
        "one",
        False,
    )


def test_a_request_of_which_only_its_instance_is_said_is_bound() -> None:
    obj = {"metadata": {"name": "r"}, "spec": {"type": "eval", "content": "1", "poolRef": {"name": "crew"}}}
    assert request_of(obj).message == "The operator has not reconciled it yet."
    bound = request_of({**obj, "status": {"instanceName": "crew-1", "conditions": []}})
    assert (bound.phase, bound.reason, bound.handle.instance) == (Phase.PENDING, RequestReason.PENDING, "crew-1")
    assert bound.message == "Bound to an instance."


def test_words_of_a_later_operator_are_shown_as_they_are() -> None:
    spec, started = {"type": "dream", "content": "1"}, "2026-01-02T03:04:05Z"
    status = {"phase": "Resting", "reason": "Throttled", "startTime": started}
    obj = {"metadata": {"name": "r"}, "spec": spec, "status": status}
    state = request_of(obj)
    assert (state.phase, state.reason, state.type, state.final) == (Phase.RUNNING, "Throttled", None, False)
    note = "(phase Resting, type dream: this efrit is older than the operator; update it)"
    assert state.message == f"The operator has not reconciled it yet. {note}"
    ended = request_of({**obj, "status": {**status, "completionTime": started, "outcome": "Abandoned"}})
    # What is not known to be a success is none.
    assert (ended.phase, ended.outcome, exit_of(ended)) == (Phase.FAILED, None, Exit.FAILED)
    assert "outcome Abandoned" in ended.message
    # It is printed as it is, so what could control a terminal is no reason.
    assert request_of({**obj, "status": {"reason": "\x1b[2J"}}).reason is RequestReason.PENDING
    done = request_of({**obj, "status": {**status, "completionTime": started, "outcome": "Success"}})
    assert (done.phase, done.final, exit_of(done)) == (Phase.SUCCEEDED, True, Exit.DONE)


def test_all_of_a_final_status_is_reported() -> None:
    status = {
        "phase": "Failed",
        "reason": "InputRequired",
        "outcome": "Partial",
        "conditions": [{"type": "Complete", "status": "True", "message": "It asks."}],
        "instanceName": "two",
        "session": {"id": "s", "status": "need-input", "question": "Which?"},
        "progress": {"step": 2, "toolCalls": 3},
        "usage": {"inputTokens": 10, "modelCalls": 2},
        "result": "begun",
        "resultRef": {"secretName": "x", "key": "result", "bytes": 99, "sha256": "0"},
        "startTime": "2026-01-31T09:29:59.750000Z",
    }
    state = request_of({"metadata": {"name": "r"}, "spec": {"type": "command"}, "status": status})
    assert (state.final, state.reason, state.handle) == (True, RequestReason.INPUT_REQUIRED, Handle("r", "two"))
    assert state.handle.instance == "two"
    assert state.session is not None
    assert (state.session.status, state.session.question) == (SessionStatus.NEED_INPUT, "Which?")
    assert (state.truncated, state.result_bytes, state.message) == (True, 99, "It asks.")
    assert state.usage is not None
    assert (state.usage.input_tokens, state.usage.model_calls) == (10, 2)


def test_work_becomes_a_request_the_api_takes() -> None:
    work = Work(
        RequestType.COMMAND,
        "Do it",
        timeout=1.5,
        queue_timeout=60,
        return_context=True,
        budget=Budget(max_tool_calls=5, iteration_timeout=2.5),
        session="s",
        priority=3,
        retry=True,
        key="k",
    )
    made = manifest(work, request_name(work, "chance"), TARGET)
    spec = EfritRequest.model_validate({**made, "metadata": {**made["metadata"], "namespace": "n", "uid": "u"}}).spec
    assert (spec.timeout_seconds, spec.queue_timeout_seconds, spec.priority) == (2, 60, 3)
    assert spec.budget is not None
    assert (spec.budget.max_tool_calls, spec.budget.iteration_timeout) == (5, 3)
    assert spec.session is not None
    assert (spec.session.id, spec.retry_policy, spec.return_context) == ("s", RetryPolicy.IF_INTERRUPTED, True)


def test_a_key_gives_the_same_name_and_tells_other_work_apart() -> None:
    one, same, other = (Work(RequestType.EVAL, text, key="k") for text in ("1", "1", "2"))
    assert request_name(one, "a") == request_name(same, "b")
    digests = [manifest(work, "n", TARGET)["metadata"]["annotations"][DIGEST] for work in (one, same, other)]
    assert digests[0] == digests[1] != digests[2]


def test_which_instance_was_chosen_is_no_part_of_what_a_key_stands_for() -> None:
    work = Work(RequestType.EVAL, "1", key="k")
    there = {"instanceRef": {"name": "two"}}
    assert manifest(work, "n", TARGET)["metadata"] == manifest(work, "n", there)["metadata"]


def test_empty_work_is_refused() -> None:
    with pytest.raises(Refused):
        manifest(Work(RequestType.EVAL, " \n"), "n", TARGET)


def test_content_that_no_request_takes_is_refused_with_its_size_and_the_limit() -> None:
    assert manifest(Work(RequestType.EVAL, "é" * MAX_CONTENT_CHARS), "n", TARGET)
    with pytest.raises(Refused) as caught:
        manifest(Work(RequestType.EVAL, "é" * (MAX_CONTENT_CHARS + 1)), "n", TARGET)
    assert str(caught.value) == "the content has 245761 characters; a request in a cluster takes at most 245760"
    assert caught.value.advice == "send less: a file that the work reads can hold the rest"
