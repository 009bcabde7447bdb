"""A session of a real client with `efrit-mcp` over stdio, and a real Emacs that does the work."""

from __future__ import annotations

import json
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp.types import (
    ResourceUpdatedNotification,
    TextResourceContents,
)

from tests.integration.mcp.conftest import Laptop, Serve
from tests.support.mcp_results import structured_content
from tests.support.timeout import TIMEOUT

RENAME = "Rename the function old-name to new-name everywhere. (scenario=rename)"
QUESTION = "Write my favourite colour to colour.txt. (scenario=question)"
SLOW = "Act, then speak slowly. (scenario=slow-command)"
MODES = pytest.mark.parametrize("mode", ["legacy", "auto"])


def evaluate(content: str, **more: Any) -> dict[str, Any]:
    return {"instance_id": "default", "type": "eval", "content": content, **more}


async def processed(client: Client, number: int) -> dict[str, Any]:
    """Return the queue's figures once they count `number` answers."""
    with anyio.fail_after(TIMEOUT):
        while True:
            stats = structured_content(await client.call_tool("efrit_get_queue_stats", {"instance_id": "default"}))
            if stats["requests_processed"] >= number:
                return stats


@MODES
async def test_a_session_starts_evals_commands_reads_figures_and_stops(
    laptop: Laptop, serve: Serve, mode: str
) -> None:
    (laptop.workspace / "one.el").write_text("(defun old-name () 1)\n")
    (laptop.workspace / "two.el").write_text("(list (old-name) (old-name))\n")
    (laptop.workspace / "sub").mkdir()
    (laptop.workspace / "sub/three.el").write_text("(defun other () (+ 1 (old-name)))\n")
    (laptop.workspace / "sub/four.el").write_text("(defun unrelated () 'older-names)\n")
    messages: list[str] = []

    async def progress(progress: float, total: float | None, message: str | None) -> None:
        messages.append(message or "")

    async with serve(mode=mode) as client:
        started = structured_content(await client.call_tool("efrit_start_instance", {"instance_id": "default"}))
        assert (started["status"], started["queue_dir"]) == ("started", str(laptop.queue))
        again = structured_content(await client.call_tool("efrit_start_instance", {"instance_id": "default"}))
        assert again["status"] == "already_running"
        listed = structured_content(await client.call_tool("efrit_list_instances"))["instances"]
        assert [(instance["id"], instance["status"]) for instance in listed] == [("default", "active")]

        three = structured_content(await client.call_tool("efrit_execute", evaluate("(+ 1 2)", return_context=True)))
        assert (three["status"], three["result"]) == ("success", "3")
        assert three["context"]["emacs_version"]
        bad = await client.call_tool("efrit_execute", evaluate("(car 1)"))
        assert bad.is_error
        assert "listp" in structured_content(bad)["error"]

        command = {"instance_id": "default", "type": "command", "content": RENAME, "timeout": 600}
        renamed = structured_content(await client.call_tool("efrit_execute", command, progress_callback=progress))
        assert (renamed["status"], renamed["result"]) == ("success", "Renamed old-name in 3 files.")
        assert any(message.startswith("step") for message in messages), messages
        assert "new-name" in (laptop.workspace / "one.el").read_text()

        stats = await processed(client, 3)
        assert (stats["requests_succeeded"], stats["requests_failed"]) == (2, 1)
        stopped = structured_content(await client.call_tool("efrit_stop_instance", {"instance_id": "default"}))
        assert stopped["status"] == "stopped"
        again = structured_content(await client.call_tool("efrit_stop_instance", {"instance_id": "default"}))
        assert again["status"] == "not_running"


async def test_work_outlives_the_server_it_was_handed_to(laptop: Laptop, serve: Serve) -> None:
    go_on = laptop.home / "go"
    form = f'(progn (while (not (file-exists-p "{go_on}")) (sleep-for 0.05)) (list 4 2))'
    key = "outlives"
    async with serve() as client:
        work = {"type": "eval", "content": form, "timeout": 600, "idempotency_key": key}
        handed = structured_content(await client.call_tool("efrit_submit", work))
        assert handed["final"] is False
        # Given up while it waits, and then gone altogether.
        with anyio.move_on_after(0.2):
            await client.call_tool("efrit_wait", {"request_id": handed["request_id"]})
    go_on.touch()
    async with serve() as client:
        again = structured_content(await client.call_tool("efrit_submit", work))
        assert again["request_id"] == handed["request_id"]
        wait = {"request_id": handed["request_id"], "timeout": TIMEOUT}
        ended = structured_content(await client.call_tool("efrit_wait", wait))
    assert (ended["outcome"], ended["result"], ended["attempt"]) == ("Success", "(4 2)", 1)


@pytest.mark.filterwarnings("ignore:resources/(un)?subscribe is removed:mcp.shared.exceptions.MCPDeprecationWarning")
async def test_a_client_that_subscribes_is_notified_when_its_work_is_done(laptop: Laptop, serve: Serve) -> None:
    go_on = laptop.home / "go"
    form = f'(progn (while (not (file-exists-p "{go_on}")) (sleep-for 0.05)) 42)'
    changed = anyio.Event()

    async def receive(message: Any) -> None:
        if isinstance(message, ResourceUpdatedNotification):
            changed.set()

    async with serve(mode="legacy", message_handler=receive) as client:
        work = {"type": "eval", "content": form, "timeout": 600}
        name = structured_content(await client.call_tool("efrit_submit", work))["request_id"]
        await client.subscribe_resource(f"efrit://requests/{name}")
        go_on.touch()
        with anyio.fail_after(TIMEOUT):
            while not (
                state := structured_content(await client.call_tool("efrit_get_request", {"request_id": name}))
            )["final"]:
                await changed.wait()
                changed = anyio.Event()
        # A client that leaves while it is notified of something fails.
        await client.unsubscribe_resource(f"efrit://requests/{name}")
    assert state["result"] == "42"


async def test_a_command_is_cancelled_and_its_log_read(laptop: Laptop, serve: Serve) -> None:
    async with serve() as client:
        work = {"type": "command", "content": SLOW, "timeout": 600}
        name = structured_content(await client.call_tool("efrit_submit", work))["request_id"]
        with anyio.fail_after(TIMEOUT):
            while not (laptop.workspace / "acted.txt").exists():
                await client.call_tool("efrit_wait", {"request_id": name, "timeout": 0.1})
        await client.call_tool("efrit_cancel", {"request_id": name})
        ended = structured_content(await client.call_tool("efrit_wait", {"request_id": name, "timeout": TIMEOUT}))
        assert (ended["reason"], ended["outcome"]) == ("Cancelled", "Partial")
        contents = (await client.read_resource(f"efrit://requests/{name}/log")).contents[0]
    assert isinstance(contents, TextResourceContents)
    assert "end" in [json.loads(line)["type"] for line in contents.text.splitlines()]


async def test_many_calls_at_once_each_get_their_own_answer(serve: Serve) -> None:
    answers: dict[int, str] = {}
    async with serve() as client:

        async def one(number: int) -> None:
            result = structured_content(await client.call_tool("efrit_execute", evaluate(f"(* {number} 10)")))
            answers[number] = result["result"]

        async with anyio.create_task_group() as group:
            for number in range(12):
                group.start_soon(one, number)
    assert answers == {number: str(number * 10) for number in range(12)}


async def test_an_instance_that_another_program_adds_is_seen(laptop: Laptop, serve: Serve) -> None:
    config = laptop.home / "config.json"
    async with serve() as client:
        assert len(structured_content(await client.call_tool("efrit_list_instances"))["instances"]) == 1
        loaded = json.loads(config.read_text())
        loaded["instances"]["another"] = {"queue_dir": str(laptop.home / "another")}
        config.write_text(json.dumps(loaded))
        listed = structured_content(await client.call_tool("efrit_list_instances"))["instances"]
        assert [instance["id"] for instance in listed] == ["another", "default"]
        config.write_text("{")
        wrong = await client.call_tool("efrit_list_instances")
    assert wrong.is_error
    assert "is not JSON" in str(wrong.content)
