"""The tools for requests that outlive the call, seen by a client."""

from efrit.mcp.access import Access
from tests.unit.mcp.clients import run
from tests.unit.mcp.conftest import Open
from tests.unit.mcp.scripted import ScriptedBackend, evaluated


async def test_one_key_is_one_request(open_client: Open, backend: ScriptedBackend) -> None:
    work = {"type": "eval", "content": "1", "idempotency_key": "nightly"}
    async with open_client() as client:
        first = await client.call_tool("efrit_submit", work)
        again = await client.call_tool("efrit_submit", work)
        other = await client.call_tool("efrit_submit", work | {"idempotency_key": "hourly"})
    names = [each.structured_content["request_id"] for each in (first, again, other) if each.structured_content]
    assert names[0] == names[1] != names[2]


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


async def test_the_star_means_the_least_loaded_instance(open_client: Open, backend: ScriptedBackend) -> None:
    backend.answers["1"] = evaluated("1")
    async with open_client() as client:
        await client.call_tool("efrit_execute", run("1", instance_id="*"))
        await client.call_tool("efrit_submit", {"type": "eval", "content": "1"})
    # What names none is the backend's to place, on the instance called default.
    assert [work.instance for work in backend.submitted] == ["*", None]


async def test_without_destructive_tools_an_eval_is_refused(open_client: Open, backend: ScriptedBackend) -> None:
    async with open_client(Access.NOT_DESTRUCTIVE) as client:
        assert (await client.call_tool("efrit_execute", run("1"))).is_error
        assert (await client.call_tool("efrit_submit", {"type": "command", "content": "1"})).is_error
    assert backend.submitted == []
