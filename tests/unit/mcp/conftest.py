"""A server over a scripted backend, and real client sessions with it, of both ages of the protocol."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, cast

import pytest
from mcp import Client
from mcp.types import CallToolResult, RequestParamsMeta

from efrit.mcp.access import Access
from efrit.mcp.server import make_server
from efrit.mcp.tools.call import KEY_META
from tests.unit.mcp.scripted import ScriptedBackend
from tests.unit.mcp.scripted_plans import ScriptedPlans

Open = Callable[..., AbstractAsyncContextManager[Client]]
Call = Callable[..., Awaitable[CallToolResult]]


@pytest.fixture
def backend() -> ScriptedBackend:
    scripted = ScriptedBackend()
    scripted.add("default", queue_dir="~/.emacs.d/.efrit/queues", uptime_seconds=3600.0)
    return scripted


@pytest.fixture
def plans(backend: ScriptedBackend) -> ScriptedPlans:
    backend.plans_of = ScriptedPlans(backend)
    return backend.plans_of


@pytest.fixture(params=["legacy", "auto"])
def mode(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def open_client(backend: ScriptedBackend, mode: str) -> Open:
    @asynccontextmanager
    async def opened(
        access: Access = Access.FULL, grace_seconds: float = 60.0, plans: bool = False, **options: Any
    ) -> AsyncIterator[Client]:
        @asynccontextmanager
        async def backend_of(_: object) -> AsyncIterator[ScriptedBackend]:
            yield backend

        server = make_server(backend_of, access, grace_seconds=grace_seconds, plans=plans)
        async with Client(server, mode=mode, **options) as client:
            yield client

    return opened


@pytest.fixture
def call(open_client: Open) -> Call:
    """Call one tool over a connection of its own, made with `options`; `key` is its idempotency key."""

    async def called(
        tool: str, arguments: dict[str, Any] | None = None, key: str | None = None, **options: Any
    ) -> CallToolResult:
        meta = None if key is None else cast(RequestParamsMeta, {KEY_META: key})
        async with open_client(**options) as client:
            return await client.call_tool(tool, arguments, meta=meta)

    return called
