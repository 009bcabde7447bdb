"""Waiting with progress, and leaving the wait."""

import anyio
import pytest

from efrit.backend.interface import Setup, Started
from efrit.mcp import progress
from tests.support.mcp_results import structured_content
from tests.support.timeout import TIMEOUT
from tests.unit.mcp.clients import COMMAND, ProgressLog
from tests.unit.mcp.conftest import Open
from tests.unit.mcp.scripted import ScriptedBackend, at


async def test_each_step_is_reported_once_and_in_order(open_client: Open, backend: ScriptedBackend) -> None:
    log = ProgressLog()

    async def work() -> None:
        name = await backend.first()
        for step, message in ((1, "looking"), (1, "looking"), (2, "painting")):
            await backend.put(name, progress=at(step, message))
            await log.until(f"step {step}: {message}")
        await backend.end(name, result="painted", progress=at(2, "painting"))

    async with open_client() as client, anyio.create_task_group() as group:
        group.start_soon(work)
        result = await client.call_tool("efrit_execute", COMMAND, progress_callback=log)
    assert structured_content(result)["status"] == "success"
    steps = [message for message in log.messages if message.startswith("step")]
    assert steps == ["step 1: looking", "step 2: painting"]
    assert [number for number, _ in log.lines] == sorted({number for number, _ in log.lines})


async def test_giving_up_a_call_stops_the_wait_and_not_the_work(open_client: Open, backend: ScriptedBackend) -> None:
    async with open_client() as client:
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as group:

                async def give_up() -> None:
                    await backend.first()
                    scope.cancel()

                group.start_soon(give_up)
                await client.call_tool("efrit_execute", COMMAND)
        name = next(iter(backend.states))
        assert not backend.states[name].final
        await backend.end(name, result="painted")
        late = await client.call_tool("efrit_wait", {"request_id": name})
        assert structured_content(late)["result"] == "painted"


async def test_a_slow_start_says_that_it_goes_on(
    open_client: Open, backend: ScriptedBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "HEARTBEAT_SECONDS", 0.01)
    log, go_on, start = ProgressLog(), anyio.Event(), backend.start

    async def slowly(name: str, setup: Setup | None = None) -> Started:
        await go_on.wait()
        return await start(name, setup)

    async def watch() -> None:
        with anyio.fail_after(TIMEOUT):
            async with log.changed:
                while not log.lines:
                    await log.changed.wait()
        go_on.set()

    monkeypatch.setattr(backend, "start", slowly)
    async with open_client() as client, anyio.create_task_group() as group:
        group.start_soon(watch)
        result = await client.call_tool("efrit_start_instance", {"instance_id": "b"}, progress_callback=log)
    assert not result.is_error
    assert log.messages[0].startswith("starting b")


async def test_a_wait_without_news_says_that_it_goes_on(
    open_client: Open, backend: ScriptedBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "HEARTBEAT_SECONDS", 0.01)
    log = ProgressLog()

    async def end_after_two_signs() -> None:
        name = await backend.first()
        with anyio.fail_after(TIMEOUT):
            async with log.changed:
                while len([message for message in log.messages if message.endswith("s)")]) < 2:
                    await log.changed.wait()
        await backend.end(name, result="painted")

    async with open_client() as client, anyio.create_task_group() as group:
        group.start_soon(end_after_two_signs)
        result = await client.call_tool("efrit_execute", COMMAND, progress_callback=log)
    assert not result.is_error
