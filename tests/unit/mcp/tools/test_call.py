"""What a handler can do with its call: questions passed on, work submitted whoever leaves."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import pytest
from mcp import Client

from efrit.backend.interface import Handle, RequestType, Work
from efrit.mcp.access import Access
from efrit.mcp.server import make_server
from tests.support.mcp_results import structured_content
from tests.unit.mcp.clients import COMMAND, Person
from tests.unit.mcp.conftest import Call, Open
from tests.unit.mcp.scripted import ScriptedBackend, evaluated, needs_input


async def test_a_question_is_put_to_the_person_and_the_answer_continues_the_session(
    call: Call, backend: ScriptedBackend
) -> None:
    backend.answers = {"paint it": needs_input("Which colour?"), "Blue.": evaluated("painted blue")}
    person = Person("Blue.")
    answer = structured_content(await call("efrit_execute", COMMAND, elicitation_callback=person))
    assert person.questions == ["Which colour?"]
    assert (answer["status"], answer["result"]) == ("success", "painted blue")
    first, reply = backend.submitted
    assert (reply.content, reply.session, reply.type) == ("Blue.", "session-1", RequestType.COMMAND)
    assert reply.instance == first.instance


async def test_questions_may_follow_each_other(call: Call, backend: ScriptedBackend) -> None:
    backend.answers = {
        "paint it": needs_input("Which colour?"),
        "Blue.": needs_input("Which blue?"),
        "Navy.": evaluated("painted navy"),
    }
    person = Person("Blue.", "Navy.")
    assert (
        structured_content(await call("efrit_execute", COMMAND, elicitation_callback=person))["result"]
        == "painted navy"
    )
    assert person.questions == ["Which colour?", "Which blue?"]
    assert len(backend.submitted) == 3


async def test_who_does_not_answer_gets_the_request_as_it_ended(call: Call, backend: ScriptedBackend) -> None:
    backend.answers = {"paint it": needs_input("Which colour?")}
    assert (await call("efrit_execute", COMMAND, elicitation_callback=Person(None))).is_error
    assert len(backend.submitted) == 1


async def test_a_client_without_elicitation_gets_instructions_how_to_answer(
    call: Call, backend: ScriptedBackend
) -> None:
    backend.answers = {"paint it": needs_input("Which colour?")}
    result = await call("efrit_execute", COMMAND)
    assert result.is_error
    how = "The model asks: Which colour? Answer with efrit_submit: session_id session-1, the answer as content."
    assert structured_content(result)["error"] == how


async def test_a_wait_asks_as_well(open_client: Open, backend: ScriptedBackend) -> None:
    backend.answers = {"paint it": needs_input("Which colour?"), "Blue.": evaluated("painted blue")}
    async with open_client(elicitation_callback=Person("Blue.")) as client:
        handed = structured_content(
            await client.call_tool("efrit_submit", {"type": "command", "content": "paint it"})
        )
        waited = await client.call_tool("efrit_wait", {"request_id": handed["request_id"]})
    assert structured_content(waited)["result"] == "painted blue"


async def test_an_answer_that_comes_twice_is_one_request(backend: ScriptedBackend) -> None:
    backend.answers = {"paint it": needs_input("Which colour?"), "Blue.": evaluated("painted blue")}

    @asynccontextmanager
    async def backend_of(_: object) -> AsyncIterator[ScriptedBackend]:
        yield backend

    async with Client(make_server(backend_of), mode="auto", elicitation_callback=Person("Blue.", "Blue.")) as client:
        handed = structured_content(
            await client.call_tool("efrit_submit", {"type": "command", "content": "paint it"})
        )
        arguments = {"request_id": handed["request_id"], "timeout": 5}
        first, again = [structured_content(await client.call_tool("efrit_wait", arguments)) for _ in range(2)]
    assert first == again
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
    ("access", "kind", "may_ask"),
    [
        (Access.FULL, "command", True),
        (Access.NOT_DESTRUCTIVE, "command", False),
        (Access.NOT_DESTRUCTIVE, "chat", True),
        (Access.READ_ONLY, "chat", False),
    ],
)
async def test_a_question_is_passed_on_only_where_its_answer_may_be_acted_on(
    call: Call, backend: ScriptedBackend, access: Access, kind: str, may_ask: bool
) -> None:
    backend.answers = {"paint it": needs_input("Which colour?"), "Blue.": evaluated("painted blue")}
    name = (await backend.submit(Work(RequestType(kind), "paint it"))).id
    person = Person("Blue.")
    waited = structured_content(
        await call("efrit_wait", {"request_id": name}, access=access, elicitation_callback=person)
    )
    assert (person.questions == ["Which colour?"]) is may_ask
    assert (waited["reason"] == "Succeeded") is may_ask
    assert len(backend.submitted) == 1 + may_ask
