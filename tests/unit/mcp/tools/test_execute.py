"""efrit_execute, seen by a client."""

import json
from typing import cast

from mcp.types import RequestParamsMeta

from efrit.client.interface import Outcome, Reason, RequestType
from efrit.mcp.tools.call import KEY_META
from tests.unit.mcp.clients import run, text_of
from tests.unit.mcp.conftest import Open
from tests.unit.mcp.scripted import ScriptedBackend, broken, evaluated


async def test_an_eval_returns_the_published_shape_and_a_copy_as_text(
    open_client: Open, backend: ScriptedBackend
) -> None:
    backend.answers["(+ 1 2)"] = evaluated("3")
    async with open_client() as client:
        result = await client.call_tool("efrit_execute", run("(+ 1 2)"))
    assert not result.is_error
    request = next(iter(backend.states))
    assert result.structured_content == {
        "request_id": request,
        "status": "success",
        "result": "3",
        "execution_time": 0.25,
    }
    assert json.loads(text_of(result)) == result.structured_content


async def test_the_arguments_reach_the_work(open_client: Open, backend: ScriptedBackend) -> None:
    backend.answers["hello"] = evaluated("hi")
    async with open_client() as client:
        await client.call_tool("efrit_execute", run("hello", type="chat", timeout=7, return_context=True))
    work = backend.submitted[0]
    assert (work.type, work.timeout, work.return_context, work.instance) == (RequestType.CHAT, 7, True, "default")


async def test_context_is_passed_on_with_whatever_more_emacs_said(
    open_client: Open, backend: ScriptedBackend
) -> None:
    context = {"buffers": ["a"], "current_buffer": "a", "cursor_position": 123, "major_mode": "text-mode"}
    backend.answers["x"] = evaluated("1") | {"context": context}
    async with open_client() as client:
        result = await client.call_tool("efrit_execute", run("x"))
    assert result.structured_content is not None
    assert result.structured_content["context"] == context


async def test_a_lisp_error_is_an_error_with_its_sentence(open_client: Open, backend: ScriptedBackend) -> None:
    backend.answers["(car 1)"] = broken("wrong-type-argument", "Wrong type argument: listp, 1")
    async with open_client() as client:
        result = await client.call_tool("efrit_execute", run("(car 1)"))
    assert result.is_error
    assert result.structured_content is not None
    assert result.structured_content["status"] == "error"
    assert result.structured_content["error"] == "Wrong type argument: listp, 1"


async def test_partial_work_is_never_called_success(open_client: Open, backend: ScriptedBackend) -> None:
    ended = {"reason": Reason.PARTIAL, "outcome": Outcome.PARTIAL, "result": "half"}
    backend.answers["do it"] = ended
    async with open_client() as client:
        result = await client.call_tool("efrit_execute", run("do it", type="command"))
    assert result.is_error
    assert result.structured_content is not None
    assert (result.structured_content["status"], result.structured_content["result"]) == ("error", "half")


async def test_work_that_was_stopped_for_its_time_is_a_timeout(open_client: Open, backend: ScriptedBackend) -> None:
    backend.answers["(while t)"] = {"reason": Reason.TIMED_OUT}
    async with open_client() as client:
        result = await client.call_tool("efrit_execute", run("(while t)"))
    assert result.structured_content is not None
    assert result.structured_content["status"] == "timeout"


async def test_a_wait_that_is_over_says_how_to_go_on_and_leaves_the_work(
    open_client: Open, backend: ScriptedBackend
) -> None:
    async with open_client(grace_seconds=0.0) as client:
        result = await client.call_tool("efrit_execute", run("(sit-for 99)", timeout=0.05))
        answer = result.structured_content
        assert answer is not None
        assert answer["status"] == "timeout"
        assert f"efrit_wait with request_id {answer['request_id']}" in answer["error"]
        assert not backend.states[answer["request_id"]].final


async def test_the_published_tool_takes_its_key_from_the_meta_of_the_call(
    open_client: Open, backend: ScriptedBackend
) -> None:
    backend.answers["1"] = evaluated("1")
    async with open_client() as client:
        await client.call_tool("efrit_execute", run("1"), meta=cast(RequestParamsMeta, {KEY_META: "once"}))
    assert backend.submitted[0].key == "once"


async def test_execute_says_that_a_result_is_truncated_and_where_the_rest_is(
    open_client: Open, backend: ScriptedBackend
) -> None:
    backend.answers["huge"] = evaluated("beg") | {"truncated": True, "result_bytes": 10**9}
    async with open_client() as client:
        done = await client.call_tool("efrit_execute", {"instance_id": "*", "type": "eval", "content": "huge"})
    told = done.structured_content
    assert told is not None
    assert (told["status"], told["result"], told["truncated"]) == ("success", "beg", True)
    assert "result is truncated: these are the first 3 bytes of 1000000000" in told["error"]
    assert done.content[1].type == "resource_link"


async def test_what_emacs_kept_of_a_result_comes_as_truncated(open_client: Open, backend: ScriptedBackend) -> None:
    backend.answers["cut"] = evaluated("beg") | {"truncated": True, "result_bytes": 9}
    backend.kept = "beginning"
    async with open_client() as client:
        done = await client.call_tool("efrit_execute", {"instance_id": "*", "type": "eval", "content": "cut"})
    assert done.structured_content is not None
    assert (done.structured_content["result"], done.structured_content["truncated"]) == ("beginning", True)
    # Nothing has the rest: why that is and what to do, not where to read it.
    told = done.structured_content["error"]
    assert "its Secret was refused. allow it." in told
    assert "efrit://" not in told
    assert [content.type for content in done.content] == ["text"]


async def test_a_result_that_is_whole_says_nothing_of_truncation(open_client: Open, backend: ScriptedBackend) -> None:
    backend.answers["short"] = evaluated("3")
    async with open_client() as client:
        done = await client.call_tool("efrit_execute", {"instance_id": "*", "type": "eval", "content": "short"})
    assert done.structured_content is not None
    assert not {"truncated", "error"} & set(done.structured_content)


async def test_work_without_a_timeout_has_that_of_its_instance(open_client: Open, backend: ScriptedBackend) -> None:
    backend.answers["tidy"] = evaluated("done")
    async with open_client() as client:
        await client.call_tool("efrit_execute", run("tidy", type="command"))
    assert backend.submitted[0].timeout is None


async def test_what_was_printed_and_said_reaches_the_model(open_client: Open, backend: ScriptedBackend) -> None:
    backend.answers["x"] = evaluated("1") | {"output": "printed\n", "messages": "said\n"}
    async with open_client() as client:
        result = await client.call_tool("efrit_execute", run("x"))
    told = result.structured_content or {}
    assert (told["output"], told["messages"]) == ("printed\n", "said\n")
