"""The examples of the original design's MCP server, as they are written there: calls, results, files of a queue.

Where an example has alternatives (`command|eval|chat`) or dots, each alternative is one, and dots are filled in.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from efrit.backend.interface import Handle, Outcome, Phase, RequestType
from efrit.backend.local.files import QueueFiles
from tests.support.mcp_results import structured_content
from tests.unit.mcp.clients import run
from tests.unit.mcp.conftest import Call, Open
from tests.unit.mcp.scripted import ScriptedBackend, evaluated

RID = "efrit_1735939200_1234"
REQUEST: dict[str, Any] = {
    "id": RID,
    "type": "command",
    "content": "create a buffer called test.txt with hello world",
    "options": {"timeout": 30, "return_context": True},
}
RESPONSE: dict[str, Any] = {
    "id": RID,
    "timestamp": "2025-01-03T18:30:00Z",
    "status": "success",
    "result": "Buffer 'test.txt' created with content",
    "execution_time": 1.25,
    "context": {"current_buffer": "test.txt", "buffer_count": 3, "cursor_position": 12},
}
EXECUTED: dict[str, Any] = {
    "status": "success",
    "result": "execution output or response",
    "execution_time": 1.25,
    "context": {"buffers": ["a"], "current_buffer": "a", "cursor_position": 123},
}


@pytest.fixture
def files(tmp_path: Path) -> Iterator[QueueFiles]:
    opened = QueueFiles(tmp_path)
    assert opened.disk  # makes the directories
    yield opened
    opened.close()


@pytest.mark.parametrize("kind", ["command", "eval", "chat"])
@pytest.mark.parametrize("status", ["success", "error"])
def test_the_files_of_a_queue(files: QueueFiles, kind: str, status: str) -> None:
    (files.root / f"requests/req_{RID}.json").write_text(json.dumps({**REQUEST, "type": kind}))
    waits = files.state(Handle(RID))
    assert waits is not None
    assert (waits.type, waits.phase) == (RequestType(kind), Phase.QUEUED)
    (files.root / f"requests/req_{RID}.json").rename(files.root / f"archive/req_{RID}.json")
    (files.root / f"responses/resp_{RID}.json").write_text(json.dumps({**RESPONSE, "status": status}))
    ended = files.state(Handle(RID))
    assert ended is not None
    assert ended.outcome is (Outcome.SUCCESS if status == "success" else Outcome.FAILURE)
    assert ended.result == RESPONSE["result"]
    assert (ended.execution_seconds, ended.context) == (1.25, RESPONSE["context"])


async def test_the_metadata_of_the_server(open_client: Open) -> None:
    async with open_client() as client:
        server = client.server_info
    assert server is not None
    assert (server.name, bool(server.version)) == ("efrit", True)


async def test_the_result_of_execute(call: Call, backend: ScriptedBackend) -> None:
    backend.answers["x"] = evaluated(EXECUTED["result"], 1.25) | {"context": EXECUTED["context"]}
    answer = structured_content(await call("efrit_execute", run("x")))
    assert answer.pop("request_id")
    assert answer == EXECUTED


async def test_the_usage_example(call: Call, backend: ScriptedBackend) -> None:
    content = "create a new Python file with a hello world function"
    backend.answers[content] = evaluated("Created hello.py with hello_world() function")
    response = await call("efrit_execute", run(content, type="command", return_context=True))
    assert structured_content(response)["result"] == "Created hello.py with hello_world() function"
    assert (backend.submitted[0].type, backend.submitted[0].return_context) == (RequestType.COMMAND, True)
