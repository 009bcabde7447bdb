"""What the tools return, seen by a client."""

import json
from typing import Any

import pytest
from mcp import MCPError
from mcp.types import CallToolResult, TextContent

from efrit.client.interface import Outcome, Reason, RequestType, Setup
from efrit.mcp.catalogue import Access
from efrit.mcp.server import KEY_META
from tests.unit.mcp.conftest import Open
from tests.unit.mcp.scripted import ScriptedBackend, broken, evaluated


def text_of(result: CallToolResult) -> str:
    first = result.content[0]
    assert isinstance(first, TextContent)
    return first.text


def run(content: str, **more: Any) -> dict[str, Any]:
    return {"instance_id": "default", "type": "eval", "content": content, **more}


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
    async with open_client(patience=0.0) as client:
        result = await client.call_tool("efrit_execute", run("(sit-for 99)", timeout=0.05))
        answer = result.structured_content
        assert answer is not None
        assert answer["status"] == "timeout"
        assert f"efrit_wait with request_id {answer['request_id']}" in answer["error"]
        assert not backend.states[answer["request_id"]].final


async def test_the_star_means_the_least_loaded_instance(open_client: Open, backend: ScriptedBackend) -> None:
    backend.answers["1"] = evaluated("1")
    async with open_client() as client:
        await client.call_tool("efrit_execute", run("1", instance_id="*"))
        await client.call_tool("efrit_submit", {"type": "eval", "content": "1"})
    # What names none is the backend's to place, on the instance called default.
    assert [work.instance for work in backend.submitted] == ["*", None]


async def test_instances_are_listed_in_the_published_shape(open_client: Open, backend: ScriptedBackend) -> None:
    backend.add("a")
    async with open_client() as client:
        result = await client.call_tool("efrit_list_instances")
    assert result.structured_content == {
        "instances": [
            {"id": "a", "status": "active"},
            {
                "id": "default",
                "status": "active",
                "queue_dir": "~/.emacs.d/.efrit/queues",
                "uptime_seconds": 3600.0,
            },
        ]
    }


async def test_queue_figures_have_the_published_names(open_client: Open) -> None:
    async with open_client() as client:
        result = await client.call_tool("efrit_get_queue_stats", {"instance_id": "default"})
    assert result.structured_content == {
        "requests_processed": 42,
        "requests_succeeded": 38,
        "requests_failed": 4,
        "currently_processing": 2,
        "average_processing_time": 1.8,
        "uptime_seconds": 7200.0,
    }


async def test_an_instance_is_started_with_what_was_said_of_it(open_client: Open, backend: ScriptedBackend) -> None:
    async with open_client() as client:
        result = await client.call_tool("efrit_start_instance", {"instance_id": "b", "daemon_name": "efrit-ai"})
    assert result.structured_content == {
        "status": "started",
        "message": "b runs",
        "queue_dir": "/queues/b",
        "daemon_name": "efrit-ai",
    }
    assert backend.setups == [Setup(daemon_name="efrit-ai")]


async def test_an_instance_that_cannot_be_stopped_is_an_error_in_the_published_shape(open_client: Open) -> None:
    async with open_client() as client:
        result = await client.call_tool("efrit_stop_instance", {"instance_id": "nobody"})
    assert result.is_error
    assert result.structured_content is not None
    assert result.structured_content["status"] == "error"
    assert "efrit_list_instances" in result.structured_content["message"]


async def test_a_failure_says_what_to_do(open_client: Open) -> None:
    async with open_client() as client:
        result = await client.call_tool("efrit_get_queue_stats", {"instance_id": "nobody"})
    assert result.is_error
    assert text_of(result).startswith("InstanceNotFound: there is no instance nobody.")
    assert "efrit_list_instances" in text_of(result)


@pytest.mark.parametrize(
    ("arguments", "wrong"),
    [
        ({"instance_id": "default", "type": "evil", "content": "1"}, "type"),
        ({"instance_id": "default", "type": "eval"}, "content"),
        ({"instance_id": "../x", "type": "eval", "content": "1"}, "instance_id"),
        ({"instance_id": "default", "type": "eval", "content": "1", "timeuot": 3}, "timeuot"),
    ],
)
async def test_wrong_arguments_are_named_and_nothing_runs(
    open_client: Open, backend: ScriptedBackend, arguments: dict[str, Any], wrong: str
) -> None:
    async with open_client() as client:
        result = await client.call_tool("efrit_execute", arguments)
    assert result.is_error
    assert wrong in text_of(result)
    assert backend.submitted == []


async def test_an_unknown_tool_is_an_error_of_the_protocol(open_client: Open) -> None:
    async with open_client() as client:
        with pytest.raises(MCPError, match="Unknown tool"):
            await client.session.call_tool("efrit_dance", {})


async def test_a_tool_that_is_not_offered_cannot_be_called(open_client: Open, backend: ScriptedBackend) -> None:
    async with open_client(Access.READ_ONLY) as client:
        with pytest.raises(MCPError, match="Unknown tool"):
            await client.session.call_tool("efrit_execute", run("1"))
    assert backend.submitted == []


async def test_without_destructive_tools_an_eval_is_refused(open_client: Open, backend: ScriptedBackend) -> None:
    async with open_client(Access.NOT_DESTRUCTIVE) as client:
        assert (await client.call_tool("efrit_execute", run("1"))).is_error
        assert (await client.call_tool("efrit_submit", {"type": "command", "content": "1"})).is_error
    assert backend.submitted == []


async def test_one_key_is_one_request(open_client: Open, backend: ScriptedBackend) -> None:
    work = {"type": "eval", "content": "1", "idempotency_key": "nightly"}
    async with open_client() as client:
        first = await client.call_tool("efrit_submit", work)
        again = await client.call_tool("efrit_submit", work)
        other = await client.call_tool("efrit_submit", work | {"idempotency_key": "hourly"})
    names = [each.structured_content["request_id"] for each in (first, again, other) if each.structured_content]
    assert names[0] == names[1] != names[2]


async def test_the_published_tool_takes_its_key_from_the_meta_of_the_call(
    open_client: Open, backend: ScriptedBackend
) -> None:
    backend.answers["1"] = evaluated("1")
    async with open_client() as client:
        await client.call_tool("efrit_execute", run("1"), meta={KEY_META: "once"})  # type: ignore[typeddict-unknown-key]
    assert backend.submitted[0].key == "once"


async def test_submitted_work_is_waited_for_by_its_id(open_client: Open, backend: ScriptedBackend) -> None:
    async with open_client() as client:
        handed = await client.call_tool("efrit_submit", {"type": "eval", "content": "1"})
        assert handed.structured_content is not None
        name = handed.structured_content["request_id"]
        assert handed.structured_content["final"] is False
        early = await client.call_tool("efrit_wait", {"request_id": name, "timeout": 0})
        assert early.structured_content is not None
        assert (early.is_error, early.structured_content["final"]) == (False, False)
        await backend.end(name, result="3")
        late = await client.call_tool("efrit_wait", {"request_id": name})
        assert late.structured_content is not None
        assert (late.structured_content["outcome"], late.structured_content["result"]) == ("Success", "3")
        assert (await client.call_tool("efrit_get_request", {"request_id": name})).structured_content == (
            late.structured_content
        )


async def test_cancelling_returns_what_became_of_it(open_client: Open, backend: ScriptedBackend) -> None:
    async with open_client() as client:
        handed = await client.call_tool("efrit_submit", {"type": "eval", "content": "1"})
        assert handed.structured_content is not None
        name = handed.structured_content["request_id"]
        stopped = await client.call_tool("efrit_cancel", {"request_id": name})
    assert stopped.structured_content is not None
    assert stopped.structured_content["reason"] == "Cancelled"


async def test_a_long_result_comes_whole(open_client: Open, backend: ScriptedBackend) -> None:
    backend.answers["long"] = evaluated("beg") | {"truncated": True, "result_bytes": 9}
    async with open_client() as client:
        handed = await client.call_tool("efrit_submit", {"type": "eval", "content": "long"})
        assert handed.structured_content is not None
        backend.whole[handed.structured_content["request_id"]] = "beginning"
        result = await client.call_tool("efrit_get_request", {"request_id": handed.structured_content["request_id"]})
    assert result.structured_content is not None
    assert (result.structured_content["result"], result.structured_content["truncated"]) == ("beginning", False)


async def test_of_a_huge_result_the_beginning_comes_and_where_the_rest_is(
    open_client: Open, backend: ScriptedBackend
) -> None:
    backend.answers["huge"] = evaluated("beg") | {"truncated": True, "result_bytes": 10**9}
    async with open_client() as client:
        handed = await client.call_tool("efrit_submit", {"type": "eval", "content": "huge"})
    assert handed.structured_content is not None
    assert handed.structured_content["truncated"] is True
    link = handed.content[1]
    assert link.type == "resource_link"
    assert str(link.uri) == f"efrit://requests/{handed.structured_content['request_id']}/result"


@pytest.mark.parametrize("name", ["..", ".", "a/b", "%2e%2e", ""])
async def test_an_id_that_could_lead_elsewhere_is_refused(open_client: Open, name: str) -> None:
    async with open_client() as client:
        result = await client.call_tool("efrit_get_request", {"request_id": name})
    assert result.is_error
    assert "request_id" in text_of(result)


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


async def test_a_result_that_is_whole_says_nothing_of_truncation(open_client: Open, backend: ScriptedBackend) -> None:
    backend.answers["short"] = evaluated("3")
    async with open_client() as client:
        done = await client.call_tool("efrit_execute", {"instance_id": "*", "type": "eval", "content": "short"})
    assert done.structured_content is not None
    assert not {"truncated", "error"} & set(done.structured_content)
