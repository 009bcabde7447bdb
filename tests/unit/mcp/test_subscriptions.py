"""A client that subscribes to a request is notified of its changes, on a connection that is its own."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import anyio
import pytest
from anyio.streams.memory import MemoryObjectReceiveStream
from mcp import Client, MCPError
from mcp.types import ResourceUpdatedNotification

from efrit.backend.errors import NotReady
from efrit.backend.interface import Handle, RequestState, RequestType, Update, Work
from efrit.mcp.server import make_server
from efrit.mcp.subscriptions import MAX_SUBSCRIPTIONS
from tests.support.timeout import TIMEOUT
from tests.unit.mcp.conftest import Open
from tests.unit.mcp.scripted import ScriptedBackend

# Clients of the revisions that have these methods keep them: only the newest has another way.
pytestmark = pytest.mark.filterwarnings(
    "ignore:resources/(un)?subscribe is removed:mcp.shared.exceptions.MCPDeprecationWarning"
)

Listening = Callable[[], AbstractAsyncContextManager[tuple[Client, MemoryObjectReceiveStream[str]]]]


class Uses:
    """How many calls and subscriptions use the backend."""

    def __init__(self) -> None:
        self.count = 0
        self.none = anyio.Event()

    def begun(self) -> None:
        self.count += 1
        self.none = anyio.Event()

    def ended(self) -> None:
        self.count -= 1
        if self.count == 0:
            self.none.set()


@pytest.fixture
def uses() -> Uses:
    return Uses()


@pytest.fixture
def listening(backend: ScriptedBackend, uses: Uses) -> Listening:
    @asynccontextmanager
    async def opened() -> AsyncIterator[tuple[Client, MemoryObjectReceiveStream[str]]]:
        send, updates = anyio.create_memory_object_stream[str](100)

        async def receive(message: Any) -> None:
            if isinstance(message, ResourceUpdatedNotification):
                send.send_nowait(str(message.params.uri))

        @asynccontextmanager
        async def backend_of(_: object) -> AsyncIterator[ScriptedBackend]:
            uses.begun()
            try:
                yield backend
            finally:
                uses.ended()

        with send, updates:
            server = make_server(backend_of, one_client=True)
            async with Client(server, mode="legacy", message_handler=receive) as client:
                yield client, updates

    return opened


async def waiting(backend: ScriptedBackend, content: str = "slow") -> str:
    """Return a request that is not final."""
    return (await backend.submit(Work(RequestType.COMMAND, content))).id


async def test_each_change_is_sent_until_the_request_is_final(listening: Listening, backend: ScriptedBackend) -> None:
    name = await waiting(backend)
    uri = f"efrit://requests/{name}"
    async with listening() as (client, updates):
        await client.subscribe_resource(uri)
        with anyio.fail_after(TIMEOUT):
            await backend.put(name, message="half of it")
            assert await updates.receive() == uri
            await backend.end(name)
            assert await updates.receive() == uri


async def test_what_was_unsubscribed_is_not_sent(listening: Listening, backend: ScriptedBackend) -> None:
    first, second = await waiting(backend, "a"), await waiting(backend, "b")
    async with listening() as (client, updates):
        await client.subscribe_resource(f"efrit://requests/{first}")
        await client.subscribe_resource(f"efrit://requests/{second}")
        await client.unsubscribe_resource(f"efrit://requests/{first}")
        with anyio.fail_after(TIMEOUT):
            await backend.end(first)
            await backend.end(second)
            assert await updates.receive() == f"efrit://requests/{second}"
        assert updates.statistics().current_buffer_used == 0


@pytest.mark.parametrize("ends", ["request", "unsubscribed", "connection"])
async def test_a_subscription_uses_its_backend_until_it_ends(
    listening: Listening, backend: ScriptedBackend, uses: Uses, ends: str
) -> None:
    name = await waiting(backend)
    uri = f"efrit://requests/{name}"
    async with listening() as (client, _):
        await client.subscribe_resource(uri)
        assert uses.count == 1
        if ends == "request":
            await backend.end(name)
        elif ends == "unsubscribed":
            await client.unsubscribe_resource(uri)
        if ends != "connection":
            with anyio.fail_after(TIMEOUT):
                await uses.none.wait()
    assert uses.count == 0


async def test_what_cannot_be_subscribed_to_uses_no_backend(listening: Listening, uses: Uses) -> None:
    async with listening() as (client, _):
        with pytest.raises(MCPError):
            await client.subscribe_resource("efrit://requests/nobody")
        assert uses.count == 0


async def test_subscribing_twice_sends_once(listening: Listening, backend: ScriptedBackend) -> None:
    name, other = await waiting(backend, "a"), await waiting(backend, "b")
    async with listening() as (client, updates):
        for request_name in (name, name, other):
            await client.subscribe_resource(f"efrit://requests/{request_name}")
        with anyio.fail_after(TIMEOUT):
            await backend.end(name)
            assert await updates.receive() == f"efrit://requests/{name}"
            await backend.end(other)
            assert await updates.receive() == f"efrit://requests/{other}"


@pytest.mark.parametrize(
    "uri", ["efrit://requests/nobody", "efrit://instances", "efrit://requests/x/log", "test://watched-resource"]
)
async def test_what_cannot_be_followed_is_refused(listening: Listening, uri: str) -> None:
    async with listening() as (client, _):
        with pytest.raises(MCPError, match="no resource"):
            await client.subscribe_resource(uri)


async def test_no_more_than_so_many_are_followed(listening: Listening, backend: ScriptedBackend) -> None:
    names = [await waiting(backend, f"{number}") for number in range(MAX_SUBSCRIPTIONS + 1)]
    async with listening() as (client, _):
        for name in names[:MAX_SUBSCRIPTIONS]:
            await client.subscribe_resource(f"efrit://requests/{name}")
        with pytest.raises(MCPError, match="followed at once"):
            await client.subscribe_resource(f"efrit://requests/{names[MAX_SUBSCRIPTIONS]}")
        await client.unsubscribe_resource(f"efrit://requests/{names[0]}")
        await client.subscribe_resource(f"efrit://requests/{names[MAX_SUBSCRIPTIONS]}")


async def test_a_final_request_takes_no_place_of_those_that_are_followed(
    listening: Listening, backend: ScriptedBackend, uses: Uses
) -> None:
    names = [await waiting(backend, f"{number}") for number in range(MAX_SUBSCRIPTIONS + 1)]
    final = names.pop()
    await backend.end(final)
    async with listening() as (client, _):
        for name in names:
            await client.subscribe_resource(f"efrit://requests/{name}")
        await client.subscribe_resource(f"efrit://requests/{final}")
        assert uses.count == MAX_SUBSCRIPTIONS


async def test_of_subscriptions_that_are_asked_for_all_at_once_no_more_are_followed_than_may(
    listening: Listening, backend: ScriptedBackend, uses: Uses, monkeypatch: pytest.MonkeyPatch
) -> None:
    get, asked, all_asked = backend.get, itertools.count(1), anyio.Event()

    async def answered_once_all_have_asked(handle: Handle) -> RequestState:
        if next(asked) == MAX_SUBSCRIPTIONS + 3:
            all_asked.set()
        await all_asked.wait()
        return await get(handle)

    monkeypatch.setattr(backend, "get", answered_once_all_have_asked)
    names = [await waiting(backend, f"{number}") for number in range(MAX_SUBSCRIPTIONS + 3)]
    refused: list[str] = []

    async def subscribe(client: Client, name: str) -> None:
        try:
            await client.subscribe_resource(f"efrit://requests/{name}")
        except MCPError:
            refused.append(name)

    async with listening() as (client, _):
        with anyio.fail_after(TIMEOUT):
            async with anyio.create_task_group() as group:
                for name in names:
                    group.start_soon(subscribe, client, name)
        assert (len(refused), uses.count) == (3, MAX_SUBSCRIPTIONS)


class Broken(ScriptedBackend):
    """One whose first watch breaks off."""

    def __init__(self, problem: Exception) -> None:
        super().__init__()
        self.problem: Exception | None = problem
        self.broke = anyio.Event()

    async def watch(self, handle: Handle, *, words: bool = False) -> AsyncIterator[Update]:
        if self.problem is not None:
            problem, self.problem = self.problem, None
            self.broke.set()
            raise problem
        async for update in super().watch(handle, words=words):
            yield update


@pytest.fixture(params=[NotReady("gone"), RuntimeError("a defect")], ids=["refused", "defect"])
def problem(request: pytest.FixtureRequest) -> Exception:
    error: Exception = request.param
    return error


class TestABrokenWatch:
    @pytest.fixture
    def backend(self, problem: Exception) -> ScriptedBackend:
        broken = Broken(problem)
        broken.add("default")
        return broken

    async def test_ends_its_subscription_and_nothing_else(self, listening: Listening, backend: Broken) -> None:
        first, second = await waiting(backend, "a"), await waiting(backend, "b")
        async with listening() as (client, updates):
            await client.subscribe_resource(f"efrit://requests/{first}")
            with anyio.fail_after(TIMEOUT):
                await backend.broke.wait()
                await client.subscribe_resource(f"efrit://requests/{second}")
                await backend.end(second)
                assert await updates.receive() == f"efrit://requests/{second}"


async def test_a_server_of_many_clients_offers_no_subscription(open_client: Open) -> None:
    async with open_client() as client:
        assert client.server_capabilities.resources is not None
        assert not client.server_capabilities.resources.subscribe
