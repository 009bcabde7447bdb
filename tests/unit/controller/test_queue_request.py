"""decide/wire.py: the request file that an EfritRequest becomes."""

from __future__ import annotations

import pytest

from efrit.controller.decide.queue_request import wire_request
from efrit.errors import InvalidId
from tests.unit.controller.factory import NOW, instance, request


def test_the_id_is_the_uid_so_that_submitting_twice_is_one_submission() -> None:
    assert wire_request(request(uid="abc-1"), instance()).id == "abc-1"


def test_everything_the_queue_needs_is_carried_over() -> None:
    given = request(
        content="(foo)", timeoutSeconds=5, returnContext=True, priority=7, retryPolicy="IfInterrupted", maxAttempts=4
    )
    target = instance(spec={"limits": {"maxResultBytes": 2048}})

    wire = wire_request(given, target)

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


def test_a_request_without_a_timeout_takes_that_of_its_instance() -> None:
    target = instance(spec={"limits": {"requestTimeoutSeconds": 99}})

    assert wire_request(request(), target).options.timeout == 99


@pytest.mark.parametrize("kind", ["chat", "command"])
def test_a_chat_or_command_without_a_timeout_takes_the_longer_one_of_its_instance(kind: str) -> None:
    target = instance(spec={"limits": {"requestTimeoutSeconds": 99}})
    longer = instance(spec={"limits": {"commandTimeoutSeconds": 1234}})

    assert wire_request(request(type=kind), target).options.timeout == 600
    assert wire_request(request(type=kind), longer).options.timeout == 1234
    assert wire_request(request(type=kind, timeoutSeconds=5), longer).options.timeout == 5


def test_the_default_timeout_is_no_longer_than_the_longest_one() -> None:
    target = instance(spec={"limits": {"maxTimeoutSeconds": 20}})

    assert wire_request(request(), target).options.timeout == 20
    assert wire_request(request(type="chat"), target).options.timeout == 20


def test_the_budget_and_the_session_of_a_command_are_carried_over() -> None:
    budget = {"maxToolCalls": 1, "maxIterations": 2, "maxTokens": 3, "iterationTimeoutSeconds": 4}
    options = wire_request(request(type="command", budget=budget, session={"id": "s.1"}), instance()).options
    written = options.to_dict()

    assert written["budget"] == {"max_tool_calls": 1, "max_iterations": 2, "max_tokens": 3, "iteration_timeout": 4.0}
    assert written["session"] == {"id": "s.1"}


def test_work_that_must_not_be_retried_has_one_attempt_whatever_max_attempts_says() -> None:
    options = wire_request(request(maxAttempts=9), instance()).options

    assert (options.retry.value, options.max_attempts) == ("never", 1)


def test_the_digest_is_the_same_at_every_look() -> None:
    assert wire_request(request(), instance()).digest() == wire_request(request(version="99"), instance()).digest()


def test_a_request_without_a_uid_cannot_be_written() -> None:
    given = request()
    nameless = given.model_copy(update={"metadata": given.metadata.model_copy(update={"uid": ""})})

    with pytest.raises(InvalidId):
        wire_request(nameless, instance())
