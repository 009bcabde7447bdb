"""decide/queue_request.py: the request file that an EfritRequest becomes."""

from __future__ import annotations

import pytest

from efrit.controller.decide.queue_request import queue_request
from efrit.errors import InvalidId
from tests.support.factory import NOW, Json, instance, request


def test_everything_the_queue_needs_is_carried_over_under_the_uid_so_that_twice_is_once() -> None:
    efrit_request = request(
        content="(foo)", timeoutSeconds=5, returnContext=True, priority=7, retryPolicy="IfInterrupted", maxAttempts=4
    )
    target = instance(spec={"limits": {"maxResultBytes": 2048}})

    wire = queue_request(efrit_request, target)

    assert wire.to_dict() == {
        "version": "1.0.0",
        "id": "uid-work",
        "type": "eval",
        "content": "(foo)",
        "options": {
            "timeout": 5.0,
            "return_context": True,
            "priority": 7,
            "retry": "if-interrupted",
            "max_attempts": 4,
            "max_result_bytes": 2048,
        },
        "timestamp": "2026-03-01T12:00:00.000Z",
        "instance_id": "team/alpha",
        "metadata": {"name": "work", "namespace": "team"},
    }
    assert wire.timestamp == NOW


LONGER = {"requestTimeoutSeconds": 99, "commandTimeoutSeconds": 1234}


@pytest.mark.parametrize(
    ("spec", "limits", "timeout"),
    [
        ({}, LONGER, 99),
        ({"type": "chat"}, {"requestTimeoutSeconds": 99}, 600),
        ({"type": "chat"}, LONGER, 1234),
        ({"type": "command"}, LONGER, 1234),
        ({"type": "command", "timeoutSeconds": 5}, LONGER, 5),
        ({}, {"maxTimeoutSeconds": 20}, 20),
        ({"type": "chat"}, {"maxTimeoutSeconds": 20}, 20),
    ],
)
def test_a_request_has_the_timeout_it_names_or_that_of_its_instance_for_its_type(
    spec: Json, limits: Json, timeout: float
) -> None:
    assert queue_request(request(**spec), instance(spec={"limits": limits})).options.timeout == timeout


def test_the_budget_and_the_session_of_a_command_are_carried_over() -> None:
    budget = {"maxToolCalls": 1, "maxIterations": 2, "maxTokens": 3, "iterationTimeoutSeconds": 4}
    options = queue_request(request(type="command", budget=budget, session={"id": "s.1"}), instance()).options
    written = options.to_dict()

    assert written["budget"] == {"max_tool_calls": 1, "max_iterations": 2, "max_tokens": 3, "iteration_timeout": 4.0}
    assert written["session"] == {"id": "s.1"}


def test_work_that_must_not_be_retried_has_one_attempt_whatever_max_attempts_says() -> None:
    options = queue_request(request(maxAttempts=9), instance()).options

    assert (options.retry.value, options.max_attempts) == ("never", 1)


def test_the_digest_is_the_same_at_every_decision() -> None:
    assert queue_request(request(), instance()).digest() == queue_request(request(version="99"), instance()).digest()


def test_a_request_without_a_uid_cannot_be_written() -> None:
    efrit_request = request()
    nameless = efrit_request.model_copy(update={"metadata": efrit_request.metadata.model_copy(update={"uid": ""})})

    with pytest.raises(InvalidId):
        queue_request(nameless, instance())


def test_a_session_that_was_left_is_not_continued() -> None:
    left = request(type="chat", session={"id": "s.1"}, status={"sessionLeft": "s.1"})

    assert queue_request(left, instance()).options.session is None
