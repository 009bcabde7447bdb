"""efrit_execute, seen by a client."""

import json
from typing import Any

import pytest

from efrit.backend.interface import Error, Outcome, RequestReason, RequestType
from tests.support.mcp_results import structured_content
from tests.unit.mcp.clients import run, text_of
from tests.unit.mcp.conftest import Call
from tests.unit.mcp.scripted import ScriptedBackend, broken, evaluated

CONTEXT = {"buffers": ["a"], "current_buffer": "a", "cursor_position": 123, "major_mode": "text-mode"}


async def test_an_eval_returns_the_published_shape_and_a_copy_as_text(call: Call, backend: ScriptedBackend) -> None:
    backend.answers["(+ 1 2)"] = evaluated("3")
    result = await call("efrit_execute", run("(+ 1 2)"))
    assert not result.is_error
    request = next(iter(backend.states))
    assert structured_content(result) == {
        "request_id": request,
        "status": "success",
        "result": "3",
        "execution_time": 0.25,
    }
    assert json.loads(text_of(result)) == structured_content(result)


@pytest.mark.parametrize("chosen", [{"timeout": 7, "return_context": True}, {}])
async def test_the_arguments_and_the_key_in_the_meta_of_the_call_reach_the_work(
    call: Call, backend: ScriptedBackend, chosen: dict[str, Any]
) -> None:
    backend.answers["hello"] = evaluated("hi")
    await call("efrit_execute", run("hello", type="chat", **chosen), key="once")
    (work,) = backend.submitted
    assert (work.type, work.instance, work.key) == (RequestType.CHAT, "default", "once")
    # Work without a timeout has that of its instance.
    assert (work.timeout, work.return_context) == ((7, True) if chosen else (None, False))


@pytest.mark.parametrize(
    ("ended", "expected"),
    [
        (evaluated("1") | {"context": CONTEXT}, {"context": CONTEXT}),
        (evaluated("1") | {"output": "out\n", "messages": "said\n"}, {"output": "out\n", "messages": "said\n"}),
        (broken("wrong-type-argument", "Wrong type"), {"status": "error", "error": "Wrong type"}),
        (
            {"reason": RequestReason.PARTIAL, "outcome": Outcome.PARTIAL, "result": "half"},
            {"status": "error", "result": "half"},
        ),
        ({"reason": RequestReason.TIMED_OUT}, {"status": "timeout"}),
    ],
    ids=["context", "printed and said", "a Lisp error", "never a success if partial", "stopped for its time"],
)
async def test_what_emacs_answered_reaches_the_model(
    call: Call, backend: ScriptedBackend, ended: dict[str, Any], expected: dict[str, Any]
) -> None:
    backend.answers["x"] = ended
    result = await call("efrit_execute", run("x"))
    assert expected.items() <= structured_content(result).items()
    assert result.is_error is (expected.get("status") is not None)


NO_MODEL = Error(
    "ModelNotConfigured", "This instance has no model: set EFRIT_MODEL_NAME and restart it (efrit restart box)"
)
BROKE = Error("CircuitBroken", "More than 3 times the same call")


@pytest.mark.parametrize(
    ("ended", "error"),
    [
        (
            {"reason": RequestReason.MODEL_NOT_CONFIGURED, "error": NO_MODEL},
            "ModelNotConfigured: This instance has no model: set EFRIT_MODEL_NAME and restart it "
            "(efrit_stop_instance, then efrit_start_instance)",
        ),
        (
            {"reason": RequestReason.CIRCUIT_BROKEN, "outcome": Outcome.PARTIAL, "error": BROKE},
            "CircuitBroken: More than 3 times the same call. The work is only partly done: efrit_get_request with "
            "request_id {} returns the session to continue.",
        ),
        # What Lisp signals is returned as it is.
        (broken("error", "efrit restart box"), "efrit restart box"),
    ],
)
async def test_an_error_of_the_work_is_reported_in_sentences_that_name_tools(
    call: Call, backend: ScriptedBackend, ended: dict[str, Any], error: str
) -> None:
    backend.answers["x"] = ended
    shown = structured_content(await call("efrit_execute", run("x")))
    assert shown["error"] == error.format(shown["request_id"])
    request = structured_content(await call("efrit_get_request", {"request_id": shown["request_id"]}))
    assert "(efrit restart" not in str(request)


async def test_a_wait_that_is_over_says_how_to_go_on_and_leaves_the_work(
    call: Call, backend: ScriptedBackend
) -> None:
    answer = structured_content(await call("efrit_execute", run("(sit-for 99)", timeout=0.05), grace_seconds=0.0))
    assert answer["status"] == "timeout"
    assert f"efrit_wait with request_id {answer['request_id']}" in answer["error"]
    assert not backend.states[answer["request_id"]].final


async def test_a_result_is_said_to_be_truncated_and_where_the_rest_is(call: Call, backend: ScriptedBackend) -> None:
    backend.answers["huge"] = evaluated("beg") | {"truncated": True, "result_bytes": 10**9}
    done = await call("efrit_execute", run("huge", instance_id="*"))
    answer = structured_content(done)
    assert (answer["status"], answer["result"], answer["truncated"]) == ("success", "beg", True)
    assert "result is truncated: these are the first 3 bytes of 1000000000" in answer["error"]
    assert done.content[1].type == "resource_link"


async def test_what_emacs_kept_of_a_result_comes_as_truncated(call: Call, backend: ScriptedBackend) -> None:
    backend.answers["cut"] = evaluated("beg") | {"truncated": True, "result_bytes": 9}
    backend.result_beginning = "beginning"
    done = await call("efrit_execute", run("cut"))
    answer = structured_content(done)
    assert (answer["result"], answer["truncated"]) == ("beginning", True)
    # Nothing has the rest: why that is and what to do, not where to read it.
    assert "its Secret was refused. Allow it." in answer["error"]
    assert "efrit://" not in answer["error"]
    assert [content.type for content in done.content] == ["text"]
