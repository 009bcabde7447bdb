"""Long work as tasks: a client that declares the extension gets one at once, and any server knows it afterwards."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client
from mcp.types import CallToolResult, ClientCapabilities, Request
from mcp.types.jsonrpc import HEADER_MISMATCH, INVALID_PARAMS, METHOD_NOT_FOUND, MISSING_REQUIRED_CLIENT_CAPABILITY

from efrit.backend.interface import RequestReason, RequestType
from efrit.mcp.access import Access
from efrit.mcp.access_review import Caller
from efrit.mcp.authorized_backend import AuthorizedBackend
from efrit.mcp.request_tasks import NO_ANSWER
from efrit.mcp.server import make_server
from efrit.mcp.tasks import EXTENSION, Task
from efrit.mcp.tools.call import MAX_QUESTIONS
from tests.support.mcp_tasks import Params, Tasks, ask, begin
from tests.unit.mcp.clients import COMMAND, Person, run
from tests.unit.mcp.scripted import ScriptedBackend, at, broken, evaluated, needs_input
from tests.unit.mcp.test_http import URL, Site, site
from tests.unit.mcp.tools.test_registry_permissions import Reviewer

__all__ = ["site"]


@asynccontextmanager
async def opened(
    backend: object, access: Access = Access.FULL, *, declared: bool = True, **options: Any
) -> AsyncIterator[Client]:
    @asynccontextmanager
    async def backend_of(_: object) -> AsyncIterator[Any]:
        yield backend

    extensions = [Tasks()] if declared else []
    server = make_server(backend_of, access, task_seconds=options.pop("task_seconds", 0.0))
    async with Client(server, mode=options.pop("mode", "auto"), extensions=extensions, **options) as client:
        yield client


def answered(key: str, text: str | None) -> dict[str, Any]:
    if text is None:
        return {key: {"action": "decline"}}
    return {key: {"action": "accept", "content": {"answer": text}}}


async def test_long_work_returns_a_task_at_once_whose_id_is_that_of_the_request(backend: ScriptedBackend) -> None:
    async with opened(backend) as client:
        created = await begin(client, COMMAND)
        assert (created.task_id, created.status) == (next(iter(backend.states)), "working")
        await backend.put(created.task_id, progress=at(3, "mixing colours"))
        working = await ask(client, "tasks/get", created.task_id)
        assert (working["status"], working["status_message"]) == ("working", "step 3: mixing colours")
        await backend.end(created.task_id, **evaluated("painted"))
        completed = await ask(client, "tasks/get", created.task_id)
    assert completed["status"] == "completed"
    assert completed["result"]["structuredContent"]["result"] == "painted"
    assert completed["result"]["structuredContent"]["request_id"] == created.task_id


async def test_a_server_that_was_started_again_still_knows_the_task(backend: ScriptedBackend) -> None:
    async with opened(backend) as client:
        created = await begin(client, COMMAND)
    await backend.end(created.task_id, **evaluated("painted"))
    async with opened(backend) as client:
        assert (await ask(client, "tasks/get", created.task_id))["status"] == "completed"


async def test_short_work_is_answered_without_a_task(backend: ScriptedBackend) -> None:
    backend.answers["(+ 1 2)"] = evaluated("3")
    async with opened(backend, task_seconds=60.0) as client:
        result = await client.session.call_tool("efrit_execute", run("(+ 1 2)"), allow_claimed=True)
    assert isinstance(result, CallToolResult)
    assert (result.structured_content or {})["result"] == "3"


@pytest.mark.parametrize(
    ("end", "status", "is_error"),
    [
        (broken("void-variable", "x"), "completed", True),
        ({"reason": RequestReason.TIMED_OUT}, "completed", True),
        ({"reason": RequestReason.CANCELLED}, "cancelled", None),
    ],
)
async def test_work_that_fails_is_completed_with_an_error_and_cancelled_work_is_cancelled(
    backend: ScriptedBackend, end: dict[str, Any], status: str, is_error: bool | None
) -> None:
    async with opened(backend) as client:
        created = await begin(client, COMMAND)
        await backend.end(created.task_id, **end)
        task = await ask(client, "tasks/get", created.task_id)
    assert (task["status"], task.get("result", {}).get("isError")) == (status, is_error)


async def test_cancelling_a_task_cancels_its_request_and_does_nothing_once_it_is_over(
    backend: ScriptedBackend,
) -> None:
    async with opened(backend) as client:
        created = await begin(client, COMMAND)
        await ask(client, "tasks/cancel", created.task_id)
        assert backend.states[created.task_id].reason is RequestReason.CANCELLED
        await ask(client, "tasks/cancel", created.task_id)
        assert (await ask(client, "tasks/get", created.task_id))["status"] == "cancelled"


async def test_a_server_without_destructive_tools_takes_a_cancel_and_stops_nothing(backend: ScriptedBackend) -> None:
    async with opened(backend, Access.NOT_DESTRUCTIVE) as client:
        created = await begin(client, COMMAND | {"type": "chat"})
        await ask(client, "tasks/cancel", created.task_id)
        assert (await ask(client, "tasks/get", created.task_id))["status"] == "working"


@pytest.mark.parametrize(("answer", "content"), [("Blue.", "Blue."), (None, NO_ANSWER)])
async def test_a_task_asks_and_goes_on_with_the_first_answer(
    backend: ScriptedBackend, answer: str | None, content: str
) -> None:
    async with opened(backend, elicitation_callback=Person()) as client:
        created = await begin(client, COMMAND)
        await backend.end(created.task_id, **needs_input("Which colour?"))
        task = await ask(client, "tasks/get", created.task_id)
        ((key, request),) = task["input_requests"].items()
        assert (task["status"], request["params"]["message"]) == ("input_required", "Which colour?")
        await ask(client, "tasks/update", created.task_id, {"another": {"odd": 1}})
        with pytest.raises(MCPError) as caught:
            await ask(client, "tasks/update", created.task_id, {key: {"odd": 1}})
        assert caught.value.error.code == INVALID_PARAMS
        assert len(backend.submitted) == 1
        await ask(client, "tasks/update", created.task_id, answered(key, answer))
        assert (await ask(client, "tasks/get", created.task_id))["status"] == "working"
        await ask(client, "tasks/update", created.task_id, answered(key, "Green."))
        _, reply = backend.submitted
        assert (reply.content, reply.session, reply.type) == (content, "session-1", RequestType.COMMAND)
        await backend.end(next(name for name in backend.states if name != created.task_id), **evaluated("painted"))
        completed = await ask(client, "tasks/get", created.task_id)
    assert (completed["task_id"], completed["status"]) == (created.task_id, "completed")
    assert completed["result"]["structuredContent"]["result"] == "painted"


async def test_questions_of_a_task_are_bounded_and_each_has_its_own_key(backend: ScriptedBackend) -> None:
    backend.answers["Blue."] = needs_input("Which blue?")
    async with opened(backend, elicitation_callback=Person()) as client:
        created = await begin(client, COMMAND)
        await backend.end(created.task_id, **needs_input("Which colour?"))
        keys = []
        for _ in range(MAX_QUESTIONS):
            ((key, _request),) = (await ask(client, "tasks/get", created.task_id))["input_requests"].items()
            keys.append(key)
            await ask(client, "tasks/update", created.task_id, answered(key, "Blue."))
        last = await ask(client, "tasks/get", created.task_id)
    assert len(set(keys)) == MAX_QUESTIONS
    assert (last["status"], last["result"]["isError"]) == ("completed", True)


async def test_a_client_that_cannot_be_asked_gets_the_question_as_an_error(backend: ScriptedBackend) -> None:
    async with opened(backend) as client:
        created = await begin(client, COMMAND)
        await backend.end(created.task_id, **needs_input("Which colour?"))
        task = await ask(client, "tasks/get", created.task_id)
    assert task["status"] == "completed"
    assert "efrit_submit" in task["result"]["structuredContent"]["error"]


async def test_a_task_is_certain_to_be_known_for_an_hour_after_its_end(backend: ScriptedBackend) -> None:
    async with opened(backend) as client:
        created = await begin(client, COMMAND)
        began = backend.states[created.task_id].created
        assert began is not None
        await backend.end(created.task_id, completed=began.replace(hour=began.hour + 2))
        task = await ask(client, "tasks/get", created.task_id)
    assert task["ttl_ms"] == 3 * 3_600_000


@pytest.mark.parametrize("method", ["tasks/get", "tasks/update", "tasks/cancel"])
async def test_only_who_declares_the_extension_has_tasks_and_only_those_that_exist(
    backend: ScriptedBackend, method: str
) -> None:
    responses: dict[str, Any] | None = {} if method == "tasks/update" else None
    codes = {}
    for name, options in (
        ("unknown", {}),
        ("undeclared", {"declared": False}),
        ("legacy", {"mode": "legacy"}),
        ("read-only", {"access": Access.READ_ONLY}),
    ):
        async with opened(backend, **options) as client:
            with pytest.raises(MCPError) as caught:
                await ask(client, method, "nothing", responses)
        codes[name] = caught.value.error.code
    assert codes == {
        "unknown": INVALID_PARAMS,
        "undeclared": MISSING_REQUIRED_CLIENT_CAPABILITY,
        "legacy": METHOD_NOT_FOUND,
        "read-only": METHOD_NOT_FOUND,
    }
    needed = ClientCapabilities(extensions={EXTENSION: {}})
    async with opened(backend, declared=False) as client:
        with pytest.raises(MCPError) as caught:
            await ask(client, method, "nothing", responses)
    assert caught.value.error.data == {"requiredCapabilities": needed.model_dump(exclude_none=True)}


async def test_the_extension_is_declared_where_it_works(backend: ScriptedBackend) -> None:
    async def declares(**options: Any) -> bool:
        async with opened(backend, **options) as client:
            return EXTENSION in (
                (client.server_capabilities.extensions if client.server_capabilities else None) or {}
            )

    assert await declares()
    assert not await declares(mode="legacy")
    assert not await declares(access=Access.READ_ONLY)


async def test_a_client_that_does_not_declare_it_waits_as_ever(backend: ScriptedBackend) -> None:
    backend.answers["paint it"] = evaluated("painted")
    async with opened(backend, declared=False) as client:
        result = await client.call_tool("efrit_execute", COMMAND)
    assert (result.structured_content or {})["result"] == "painted"


@pytest.mark.parametrize(
    ("method", "needed"),
    [
        ("tasks/get", {"get efritrequests"}),
        ("tasks/cancel", {"get efritrequests", "patch efritrequests"}),
        ("tasks/update", {"get efritrequests", "create efritrequests", "get efritinstances"}),
    ],
)
async def test_in_a_cluster_a_task_needs_the_rights_of_its_caller(
    backend: ScriptedBackend, method: str, needed: set[str]
) -> None:
    async def unrestricted() -> ScriptedBackend:
        return backend

    def of(*permissions: str) -> AuthorizedBackend:
        return AuthorizedBackend(Reviewer(frozenset(permissions)), Caller("ann"), "team", unrestricted)

    async with opened(backend) as client:
        task_id = (await begin(client, COMMAND)).task_id
    if method == "tasks/update":
        await backend.end(task_id, **needs_input("Which colour?"))
    responses = answered(task_id, "Blue.") if method == "tasks/update" else None
    backend.handle_of = of().handle_of  # type: ignore[method-assign]
    for missing in sorted(needed):
        async with opened(of(*(needed - {missing})), elicitation_callback=Person()) as client:
            with pytest.raises(MCPError, match="may not"):
                await ask(client, method, task_id, responses)
    assert len(backend.submitted) == 1
    async with opened(of(*needed), elicitation_callback=Person()) as client:
        await ask(client, method, task_id, responses)


async def test_the_header_that_routes_a_task_is_that_of_the_task(site: Site) -> None:
    backend = site.spaces["default"]

    async with site.http("ann") as http:
        transport = streamable_http_client(URL, http_client=http)
        async with Client(transport, mode="auto", extensions=[Tasks()]) as client:
            result = await client.session.call_tool(
                "efrit_submit", {"type": "command", "content": "paint it", "instance_id": "of-default"}
            )
            task_id = result.structured_content["request_id"]
            assert task_id in backend.states
            assert (await ask(client, "tasks/get", task_id))["status"] == "working"
            unrouted = Request[Params, str](method="tasks/get", params=Params(task_id=task_id))
            with pytest.raises(MCPError) as caught:
                await client.session.send_request(unrouted, Task)
    assert caught.value.error.code == HEADER_MISMATCH
