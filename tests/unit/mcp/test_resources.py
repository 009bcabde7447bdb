"""What can be read by URI."""

import json

import pytest
from mcp import Client, MCPError
from mcp.types import ResourceTemplateReference, TextResourceContents

from efrit.backend.errors import Forbidden
from efrit.backend.interface import RequestType, Work
from efrit.mcp.resources import PAGE
from tests.unit.mcp.conftest import Open
from tests.unit.mcp.scripted import ScriptedBackend, evaluated
from tests.unit.mcp.scripted_plans import HISTORY, ScriptedPlans, begin_calc


async def add(backend: ScriptedBackend, content: str) -> str:
    backend.answers[content] = evaluated(content)
    return (await backend.submit(Work(RequestType.EVAL, content))).id


async def test_instances_and_requests_are_listed_in_one_order(open_client: Open, backend: ScriptedBackend) -> None:
    names = [await add(backend, f"{number}") for number in range(5)]
    backend.add("another")
    async with open_client() as client:
        listed = (await client.list_resources()).resources
    assert backend.lists_are_brief == [True], "a namespace has thousands, and the server little memory"
    instances = ["efrit://instances", "efrit://instances/another", "efrit://instances/default"]
    assert [str(resource.uri) for resource in listed] == instances + sorted(
        f"efrit://requests/{name}" for name in names
    )


async def test_pages_hold_everything_once_though_things_come_meanwhile(
    open_client: Open, backend: ScriptedBackend
) -> None:
    names = {await add(backend, f"{number}") for number in range(2 * PAGE)}
    async with open_client() as client:
        uris: list[str] = []
        cursor: str | None = None
        while True:
            page = await client.list_resources(cursor=cursor)
            uris += [str(resource.uri) for resource in page.resources]
            await add(backend, f"later {len(uris)}")
            if (cursor := page.next_cursor) is None:
                break
    assert len(uris) == len(set(uris))
    assert {f"efrit://requests/{name}" for name in names} <= set(uris)


async def test_a_cursor_of_somebody_else_is_refused(open_client: Open) -> None:
    async with open_client() as client:
        with pytest.raises(MCPError, match="cursor"):
            await client.list_resources(cursor="page 2")


async def test_a_request_its_result_and_its_log_can_be_read(open_client: Open, backend: ScriptedBackend) -> None:
    name = await add(backend, "3")
    backend.logs[name] = ['{"type": "turn"}', '{"type": "end"}']
    backend.whole[name] = "all of it"

    async with open_client() as client:
        own = [f"requests/{name}", f"requests/{name}/result", f"requests/{name}/log"]
        request, result, log, one, every = [
            (await text_at(client, f"efrit://{uri}"))[1] for uri in (*own, "instances/default", "instances")
        ]
    assert (json.loads(request)["result"], result) == ("3", "all of it")
    assert log == '{"type": "turn"}\n{"type": "end"}\n'
    assert (json.loads(one)["reason"], json.loads(every)["instances"][0]["id"]) == ("Ready", "default")


@pytest.mark.parametrize(
    "uri", ["efrit://instances/nobody", "efrit://requests/nobody", "efrit://else", "file:///etc/passwd"]
)
async def test_what_is_not_there_is_an_error_that_names_it(open_client: Open, uri: str) -> None:
    async with open_client() as client:
        with pytest.raises(MCPError, match="no resource"):
            await client.read_resource(uri)


async def test_names_are_completed(open_client: Open, backend: ScriptedBackend) -> None:
    backend.add("workshop")
    backend.add("works")
    async with open_client() as client:
        ref = ResourceTemplateReference(uri="efrit://instances/{instance_id}")
        completed = await client.complete(ref, {"name": "instance_id", "value": "work"})
    assert completed.completion.values == ["works", "workshop"]


async def text_at(client: Client, uri: str) -> tuple[str | None, str]:
    contents = (await client.read_resource(uri)).contents[0]
    assert isinstance(contents, TextResourceContents)
    return contents.mime_type, contents.text


async def test_plans_are_listed_among_the_resources_and_read(open_client: Open, plans: ScriptedPlans) -> None:
    await begin_calc(plans)
    plans.replies("calc", HISTORY)
    async with open_client(plans=True) as client:
        listed = [str(resource.uri) for resource in (await client.list_resources()).resources]
        assert [uri for uri in listed if "plans" in uri] == ["efrit://plans", "efrit://plans/calc"]
        assert listed == sorted(listed)
        mime, text = await text_at(client, "efrit://plans")
        assert (mime, json.loads(text)["plans"][0]["plan_id"]) == ("application/json", "calc")
        assert json.loads((await text_at(client, "efrit://plans/calc"))[1])["message"] == "It acts."
        mime, page = await text_at(client, "efrit://plans/calc/report")
        assert mime == "text/html"
        assert page.startswith("<!doctype html>")
        assert "[a] ACT: Add" in page
        for uri in ("efrit://plans/nobody", "efrit://plans/calc/else", "efrit://plans/Calc"):
            with pytest.raises(MCPError, match="no resource"):
                await client.read_resource(uri)


async def test_who_may_not_see_plans_still_sees_the_rest(
    open_client: Open, plans: ScriptedPlans, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(*, brief: bool = False) -> None:
        raise Forbidden("you may not list efritplans")

    monkeypatch.setattr(plans, "plans", refuse)
    async with open_client(plans=True) as client:
        listed = [str(resource.uri) for resource in (await client.list_resources()).resources]
    assert listed == ["efrit://instances", "efrit://instances/default", "efrit://pools"]


async def test_who_may_not_see_pools_still_sees_the_rest(
    open_client: Open, backend: ScriptedBackend, plans: ScriptedPlans, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse() -> None:
        raise Forbidden("you may not list efritpools")

    monkeypatch.setattr(backend, "pools", refuse)
    async with open_client(plans=True) as client:
        listed = [str(resource.uri) for resource in (await client.list_resources()).resources]
    assert listed == ["efrit://instances", "efrit://instances/default", "efrit://plans"]
