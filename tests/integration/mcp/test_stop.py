"""A server that is asked to stop while calls wait: it ends, and the work does not."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
from pathlib import Path
from typing import Any

import anyio
import httpx2

from tests.cluster.ports import free_port
from tests.integration.mcp.conftest import PROGRAM, Laptop, Serve
from tests.support.mcp_results import structured_content
from tests.support.processes import Process
from tests.support.timeout import TIMEOUT

WAIT_SECONDS = 10 * TIMEOUT
"""Longer than the server may take to end: who waited for the call would not be there in time."""
HEADERS = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-11-25"}


def call(tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}


def streamed_content(answer: httpx2.Response) -> dict[str, Any]:
    """Return the structured content of the one message in an event stream."""
    (line,) = [line for line in answer.text.splitlines() if line.startswith("data: {")]
    content: dict[str, Any] = json.loads(line.removeprefix("data: "))["result"]["structuredContent"]
    return content


async def test_an_http_server_that_is_asked_to_stop_ends_and_the_work_goes_on(laptop: Laptop, serve: Serve) -> None:
    go_on, began = laptop.home / "go", laptop.home / "began"
    form = f'(progn (write-region "" nil "{began}") (while (not (file-exists-p "{go_on}")) (sleep-for 0.05)) 42)'
    work = {"type": "eval", "content": form, "timeout": 3600, "idempotency_key": "stop"}
    port = free_port()
    words = ["--transport", "http", "--auth", "none", "--port", str(port)]
    server = Process([PROGRAM, *words], laptop.env, laptop.home / "mcp.log", laptop.home)
    try:
        await _until_it_serves(port)
        async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}", headers=HEADERS, timeout=TIMEOUT) as http:
            name = streamed_content(await http.post("/mcp", json=call("efrit_submit", work)))["request_id"]
            wait = asyncio.create_task(
                http.post("/mcp", json=call("efrit_wait", {"request_id": name, "timeout": WAIT_SECONDS}))
            )
            await _until_there(began)
            assert not wait.done()
            await asyncio.to_thread(server.terminate, TIMEOUT)
            with contextlib.suppress(httpx2.TransportError):
                await wait
    finally:
        server.kill()
    go_on.touch()
    async with serve() as client:
        ended = structured_content(await client.call_tool("efrit_wait", {"request_id": name, "timeout": TIMEOUT}))
    assert (ended["outcome"], ended["result"], ended["attempt"]) == ("Success", "42", 1)


async def _until_it_serves(port: int) -> None:
    async with httpx2.AsyncClient() as http:
        with anyio.fail_after(TIMEOUT):
            while True:
                try:
                    if (await http.get(f"http://127.0.0.1:{port}/healthz")).status_code == 200:
                        return
                except httpx2.TransportError:
                    await anyio.sleep(0.05)


async def _until_there(file: Path) -> None:
    with anyio.fail_after(TIMEOUT):
        while not await anyio.Path(file).exists():  # noqa: ASYNC110 - it is another process that makes it
            await anyio.sleep(0.02)


async def test_a_server_on_stdin_that_ctrl_c_reaches_ends_without_another_line(laptop: Laptop) -> None:
    server = await asyncio.create_subprocess_exec(
        PROGRAM, env=laptop.env, cwd=laptop.home, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    assert server.stdin is not None
    assert server.stdout is not None
    try:
        server.stdin.write(b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n')
        with anyio.fail_after(TIMEOUT):
            assert json.loads(await server.stdout.readline())["id"] == 1
            server.send_signal(signal.SIGINT)
            assert await server.wait() == -signal.SIGINT
    finally:
        if server.returncode is None:
            server.kill()
            await server.wait()
