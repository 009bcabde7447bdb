"""Calls of tools as the protocol sees them: wrong names, wrong arguments, failures."""

from typing import Any

import pytest
from mcp import MCPError

from efrit.mcp.access import Access
from tests.unit.mcp.clients import run, text_of
from tests.unit.mcp.conftest import Open
from tests.unit.mcp.scripted import ScriptedBackend


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


@pytest.mark.parametrize("name", ["..", ".", "a/b", "%2e%2e", ""])
async def test_an_id_that_could_lead_elsewhere_is_refused(open_client: Open, name: str) -> None:
    async with open_client() as client:
        result = await client.call_tool("efrit_get_request", {"request_id": name})
    assert result.is_error
    assert "request_id" in text_of(result)
