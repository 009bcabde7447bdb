"""The relay passes messages on as they are, to the stream that waits for them."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator

import httpx2
import pytest

from tests.conformance.relay import REVISION, SESSION, make_relay

ECHO = """
import json, os, sys
for line in sys.stdin:
    asked = json.loads(line)
    if asked.get("method") == "pid":
        print(json.dumps({"pid": os.getpid(), "id": asked["id"]}, separators=(" ,", " : ")), flush=True)
        continue
    if asked.get("method") == "tell":
        print('{"method":  "sent"}')
    if "id" in asked and "method" in asked:
        print(json.dumps({"result": line, "id": asked["id"]}, separators=(" ,", " : ")), flush=True)
"""
ODD = b'{ "id" :  "one","method":"tell" }'
ANSWER = rb'{"result" : "{ \"id\" :  \"one\",\"method\":\"tell\" }\n" ,"id" : "one"}'


@pytest.fixture
async def http() -> AsyncIterator[httpx2.AsyncClient]:
    app = make_relay([sys.executable, "-c", ECHO])
    ready, done = asyncio.Event(), asyncio.Event()

    async def host() -> None:
        async with app.router.lifespan_context(app):
            ready.set()
            await done.wait()

    task = asyncio.create_task(host())
    await ready.wait()
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://relay", timeout=60) as client:
        yield client
    done.set()
    await task


async def test_a_request_and_its_answer_pass_byte_by_byte_with_what_is_said_between(
    http: httpx2.AsyncClient,
) -> None:
    answer = await http.post("/mcp", content=ODD)
    notification, result, end = answer.content.split(b"\n\n")
    assert notification == b'event: message\ndata: {"method":  "sent"}'
    assert result == b"event: message\ndata: " + ANSWER
    assert end == b""


async def test_a_session_is_one_program_and_the_next_is_another(http: httpx2.AsyncClient) -> None:
    first = (await http.post("/mcp", content=ODD)).headers[SESSION]
    again = (await http.post("/mcp", content=ODD, headers={SESSION: first})).headers[SESSION]
    other = (await http.post("/mcp", content=ODD)).headers[SESSION]
    assert first == again
    assert first != other


async def test_messages_that_name_their_revision_go_to_one_program_and_name_no_session(
    http: httpx2.AsyncClient,
) -> None:
    message = {"method": "pid", "params": {"_meta": {REVISION: "2026-07-28"}}}
    answers = [await http.post("/mcp", json={"id": number, **message}) for number in (1, 2)]
    assert all(SESSION not in answer.headers for answer in answers)
    first, second = (answer.text.partition('"pid" : ')[2].partition(" ,")[0] for answer in answers)
    assert first
    assert first == second
