"""What a handler can do with its call: questions passed on, work submitted whoever leaves."""

from typing import Any

import anyio
import pytest
from mcp import Client

from efrit.client.interface import Handle, RequestType, Work
from efrit.mcp.access import Access
from efrit.mcp.server import make_server
from tests.unit.mcp.clients import COMMAND, Person
from tests.unit.mcp.conftest import Open
from tests.unit.mcp.scripted import ScriptedBackend, asking, evaluated


async def test_a_question_is_put_to_the_person_and_the_answer_continues_the_session(
    open_client: Open, backend: ScriptedBackend
) -> None:
    backend.answers = {"paint it": asking("Which colour?"), "Blue.": evaluated("painted blue")}
    person = Person("Blue.")
    async with open_client(elicitation_callback=person) as client:
        result = await client.call_tool("efrit_execute", COMMAND)
    assert person.asked == ["Which colour?"]
    assert result.structured_content is not None
    assert (result.structured_content["status"], result.structured_content["result"]) == ("success", "painted blue")
    first, reply = backend.submitted
    assert (reply.content, reply.session, reply.type) == ("Blue.", "session-1", RequestType.COMMAND)
    assert reply.instance == first.instance


async def test_questions_may_follow_each_other(open_client: Open, backend: ScriptedBackend) -> None:
    backend.answers = {
        "paint it": asking("Which colour?"),
        "Blue.": asking("Which blue?"),
        "Navy.": evaluated("painted navy"),
    }
    person = Person("Blue.", "Navy.")
    async with open_client(elicitation_callback=person) as client:
        result = await client.call_tool("efrit_execute", COMMAND)
    assert person.asked == ["Which colour?", "Which blue?"]
    assert result.structured_content is not None
    assert result.structured_content["result"] == "painted navy"
    assert len(backend.submitted) == 3


async def test_who_does_not_answer_gets_the_request_as_it_ended(open_client: Open, backend: ScriptedBackend) -> None:
    backend.answers = {"paint it": asking("Which colour?")}
    async with open_client(elicitation_callback=Person(None)) as client:
        result = await client.call_tool("efrit_execute", COMMAND)
    assert result.is_error
    assert len(backend.submitted) == 1


async def test_a_client_that_cannot_ask_is_told_how_to_answer(open_client: Open, backend: ScriptedBackend) -> None:
    backend.answers = {"paint it": asking("Which colour?")}
    async with open_client() as client:
        result = await client.call_tool("efrit_execute", COMMAND)
    assert result.is_error
    assert result.structured_content is not None
    error = result.structured_content["error"]
    assert (
        error
        == "The model asks: Which colour? Answer with efrit_submit: session_id session-1, the answer as content."
    )


async def test_a_wait_asks_as_well(open_client: Open, backend: ScriptedBackend) -> None:
    backend.answers = {"paint it": asking("Which colour?"), "Blue.": evaluated("painted blue")}
    async with open_client(elicitation_callback=Person("Blue.")) as client:
        handed = await client.call_tool("efrit_submit", {"type": "command", "content": "paint it"})
        assert handed.structured_content is not None
        waited = await client.call_tool("efrit_wait", {"request_id": handed.structured_content["request_id"]})
    assert waited.structured_content is not None
    assert waited.structured_content["result"] == "painted blue"


async def test_an_answer_that_comes_twice_is_one_request(backend: ScriptedBackend) -> None:
    backend.answers = {"paint it": asking("Which colour?"), "Blue.": evaluated("painted blue")}
    arguments: dict[str, Any] = {"request_id": "", "timeout": 5}

    async def backend_of(_: object) -> ScriptedBackend:
        return backend

    async with Client(make_server(backend_of), mode="auto", elicitation_callback=Person("Blue.", "Blue.")) as client:
        handed = await client.call_tool("efrit_submit", {"type": "command", "content": "paint it"})
        assert handed.structured_content is not None
        arguments["request_id"] = handed.structured_content["request_id"]
        first = await client.call_tool("efrit_wait", arguments)
        again = await client.call_tool("efrit_wait", arguments)
    assert first.structured_content == again.structured_content
    assert len(backend.states) == 2


async def test_work_is_handed_over_though_its_caller_goes_away_meanwhile(
    open_client: Open, backend: ScriptedBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    began, go_on = anyio.Event(), anyio.Event()
    submit = backend.submit

    async def slowly(work: Work) -> Handle:
        began.set()
        await go_on.wait()
        return await submit(work)

    monkeypatch.setattr(backend, "submit", slowly)
    async with open_client() as client, anyio.create_task_group() as group:
        gone = anyio.Event()

        async def give_up_early() -> None:
            with anyio.CancelScope() as scope:
                async with anyio.create_task_group() as inner:

                    async def leave() -> None:
                        await began.wait()
                        scope.cancel()
                        gone.set()
                        # In one process the server's half is the same call: it can only end once it may.
                        go_on.set()

                    inner.start_soon(leave)
                    await client.call_tool("efrit_submit", {"type": "eval", "content": "1"})

        group.start_soon(give_up_early)
        await gone.wait()
        assert await backend.first()


@pytest.mark.parametrize(
    ("access", "kind", "asked"),
    [
        (Access.FULL, "command", True),
        (Access.NOT_DESTRUCTIVE, "command", False),
        (Access.NOT_DESTRUCTIVE, "chat", True),
        (Access.READ_ONLY, "chat", False),
    ],
)
async def test_a_question_is_passed_on_only_where_its_answer_may_be_acted_on(
    open_client: Open, backend: ScriptedBackend, access: Access, kind: str, asked: bool
) -> None:
    backend.answers = {"paint it": asking("Which colour?"), "Blue.": evaluated("painted blue")}
    name = (await backend.submit(Work(RequestType(kind), "paint it"))).id
    person = Person("Blue.")
    async with open_client(access, elicitation_callback=person) as client:
        waited = await client.call_tool("efrit_wait", {"request_id": name})
    assert waited.structured_content is not None
    assert (person.asked == ["Which colour?"]) is asked
    assert (waited.structured_content["reason"] == "Succeeded") is asked
    assert len(backend.submitted) == 1 + asked
