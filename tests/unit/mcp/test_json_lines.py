"""A client over stdio that writes what is not JSON is told so, and served on."""

from __future__ import annotations

import io
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from mcp.server.stdio import stdio_server

from efrit.mcp.json_lines import JsonLines
from efrit.mcp.server import make_server
from tests.unit.mcp.scripted import ScriptedBackend

INITIALIZE = json.dumps(
    {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "a test", "version": "1"},
        },
    }
)


async def answers(*lines: str) -> list[dict[str, Any]]:
    """Return what a server writes for these lines."""

    @asynccontextmanager
    async def backend_of(_: object) -> AsyncIterator[ScriptedBackend]:
        yield ScriptedBackend()

    server = make_server(backend_of, one_client=True)
    written = io.StringIO()
    stdin = anyio.wrap_file(io.StringIO("".join(f"{line}\n" for line in lines)))
    async with stdio_server(stdin, anyio.wrap_file(written)) as (incoming, outgoing):
        await server.run(JsonLines(incoming, outgoing), outgoing, server.create_initialization_options())
    return [json.loads(line) for line in written.getvalue().splitlines()]


@pytest.mark.parametrize("line", ["{not json", "[" * 10_000])
async def test_a_line_that_is_not_json_is_answered_and_the_next_one_served(line: str) -> None:
    refused, served, again = await answers(line, INITIALIZE, line)
    assert refused["jsonrpc"] == "2.0"
    assert (refused["id"], refused["error"]["code"]) == (None, -32700)
    assert refused["error"]["message"].startswith("Parse error: Invalid JSON")
    assert served["id"] == 1
    assert again == refused


@pytest.mark.parametrize("line", ["", " ", "[1]", '{"jsonrpc": "2.0", "id": 7, "result": "no object"}'])
async def test_an_empty_line_and_json_that_is_no_message_get_no_answer(line: str) -> None:
    assert [message["id"] for message in await answers(line, INITIALIZE, line)] == [1]


@pytest.mark.parametrize(
    ("line", "name", "problem"),
    [
        ('{"jsonrpc": "1.0", "id": 7, "method": "ping"}', 7, "jsonrpc: "),
        ('{"id": "7", "method": "ping"}', "7", "jsonrpc: "),
        ('{"jsonrpc": "2.0", "id": 7, "method": "ping", "params": []}', 7, "params: "),
        ('{"jsonrpc": "2.0", "id": [7], "method": 5}', None, "id"),
        ('[{"jsonrpc": "2.0", "id": 7, "method": "ping"}]', None, "send one message per line"),
    ],
)
async def test_a_request_that_cannot_be_read_is_answered_and_the_next_one_served(
    line: str, name: str | int | None, problem: str
) -> None:
    refused, served = await answers(line, INITIALIZE)
    assert (refused["id"], refused["error"]["code"], served["id"]) == (name, -32600, 1)
    assert refused["error"]["message"].startswith(f"Invalid request: {problem}")
