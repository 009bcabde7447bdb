"""The tools for requests that outlive the call, seen by a client."""

from efrit.mcp.access import Access
from tests.support.mcp_results import structured_content
from tests.unit.mcp.clients import run
from tests.unit.mcp.conftest import Call, Open
from tests.unit.mcp.scripted import ScriptedBackend, evaluated


def eval_of(content: str, **more: str) -> dict[str, str]:
    return {"type": "eval", "content": content} | more


async def test_one_key_is_one_request(call: Call) -> None:
    keys = ("nightly", "nightly", "hourly")
    results = [await call("efrit_submit", eval_of("1", idempotency_key=key)) for key in keys]
    names = [structured_content(result)["request_id"] for result in results]
    assert names[0] == names[1] != names[2]


async def test_submitted_work_is_waited_for_by_its_id(open_client: Open, backend: ScriptedBackend) -> None:
    async with open_client() as client:
        handed = structured_content(await client.call_tool("efrit_submit", eval_of("1")))
        name = handed["request_id"]
        assert handed["final"] is False
        early = await client.call_tool("efrit_wait", {"request_id": name, "timeout": 0})
        assert (early.is_error, structured_content(early)["final"]) == (False, False)
        await backend.end(name, result="3")
        late = structured_content(await client.call_tool("efrit_wait", {"request_id": name}))
        assert (late["outcome"], late["result"]) == ("Success", "3")
        assert structured_content(await client.call_tool("efrit_get_request", {"request_id": name})) == late


async def test_cancelling_returns_what_became_of_it(call: Call) -> None:
    name = structured_content(await call("efrit_submit", eval_of("1")))["request_id"]
    assert structured_content(await call("efrit_cancel", {"request_id": name}))["reason"] == "Cancelled"


async def test_a_long_result_comes_whole(call: Call, backend: ScriptedBackend) -> None:
    backend.answers["long"] = evaluated("beg") | {"truncated": True, "result_bytes": 9}
    name = structured_content(await call("efrit_submit", eval_of("long")))["request_id"]
    backend.whole[name] = "beginning"
    answer = structured_content(await call("efrit_get_request", {"request_id": name}))
    assert (answer["result"], answer["truncated"]) == ("beginning", False)


async def test_of_a_huge_result_the_beginning_comes_and_where_the_rest_is(
    call: Call, backend: ScriptedBackend
) -> None:
    backend.answers["huge"] = evaluated("beg") | {"truncated": True, "result_bytes": 10**9}
    handed = await call("efrit_submit", eval_of("huge"))
    assert structured_content(handed)["truncated"] is True
    link = handed.content[1]
    assert link.type == "resource_link"
    assert str(link.uri) == f"efrit://requests/{structured_content(handed)['request_id']}/result"


async def test_the_star_means_the_least_loaded_instance(call: Call, backend: ScriptedBackend) -> None:
    backend.answers["1"] = evaluated("1")
    await call("efrit_execute", run("1", instance_id="*"))
    await call("efrit_submit", eval_of("1"))
    # What names none is the backend's to place, on the instance called default.
    assert [work.instance for work in backend.submitted] == ["*", None]


async def test_without_destructive_tools_an_eval_is_refused(call: Call, backend: ScriptedBackend) -> None:
    for tool, arguments in (("efrit_execute", run("1")), ("efrit_submit", eval_of("1", type="command"))):
        assert (await call(tool, arguments, access=Access.NOT_DESTRUCTIVE)).is_error
    assert backend.submitted == []
