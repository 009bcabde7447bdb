"""A server over a scripted backend, and real client sessions with it, of both ages of the protocol."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest
from mcp import Client

from efrit.mcp.catalogue import Access
from efrit.mcp.server import make_server
from tests.unit.mcp.scripted import ScriptedBackend

Open = Callable[..., AbstractAsyncContextManager[Client]]


@pytest.fixture
def backend() -> ScriptedBackend:
    scripted = ScriptedBackend()
    scripted.add("default", queue_dir="~/.emacs.d/.efrit/queues", uptime_seconds=3600.0)
    return scripted


@pytest.fixture(params=["legacy", "auto"])
def mode(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def open_client(backend: ScriptedBackend, mode: str) -> Open:
    @asynccontextmanager
    async def opened(
        access: Access = Access.FULL, patience: float = 60.0, plans: bool = False, **options: Any
    ) -> AsyncIterator[Client]:
        async def backend_of(_: object) -> ScriptedBackend:
            return backend

        server = make_server(backend_of, access, patience=patience, plans=plans)
        async with Client(server, mode=mode, **options) as client:
            yield client

    return opened
