"""Requests whose changes a client wants to hear of between its calls, on the one connection it has.

It is told that a request has changed, not how: it reads the resource again. Nothing is told of other resources.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import anyio
from anyio.abc import TaskGroup

from efrit.client.errors import NotFound
from efrit.client.interface import Backend, RequestState
from efrit.errors import EfritError
from efrit.mcp import resources
from efrit.mcp.failures import in_words
from efrit.mcp.waiting import watching

log = logging.getLogger(__name__)

MOST = 100
"""Requests one client follows at once."""

Tell = Callable[[str], Awaitable[None]]
"""Tells the client that what is at a URI has changed."""


class Subscriptions:
    """Those of one connection, by URI; each ends with its request."""

    def __init__(self) -> None:
        self._group: TaskGroup | None = None
        self._open: dict[str, anyio.CancelScope] = {}

    @asynccontextmanager
    async def running(self, _: object) -> AsyncIterator[None]:
        """As long as the server runs; all of them end with it."""
        async with anyio.create_task_group() as self._group:
            yield
            self._group.cancel_scope.cancel()

    async def begin(self, backend: Backend, uri: str, tell: Tell) -> None:
        """Follow what is at `uri` from now on. Raises MCPError where nothing there can be followed."""
        handle = resources.request_at(uri)
        if handle is None:
            raise resources.missing(uri, "changes are told of efrit://requests/ID alone")
        if uri not in self._open and len(self._open) >= MOST:
            raise resources.missing(uri, f"no more than {MOST} requests are followed at once")
        try:
            state = await backend.get(handle)
        except NotFound as error:
            raise resources.missing(uri, in_words(error)) from None
        self.end(uri)
        if not state.final and self._group is not None:
            scope = self._open[uri] = anyio.CancelScope()
            self._group.start_soon(self._follow, backend, state, uri, tell, scope)

    def end(self, uri: str) -> None:
        """Follow it no longer."""
        if (scope := self._open.pop(uri, None)) is not None:
            scope.cancel()

    async def _follow(
        self, backend: Backend, known: RequestState, uri: str, tell: Tell, scope: anyio.CancelScope
    ) -> None:
        with scope:
            try:
                async with watching(backend, known.handle) as updates:
                    async for update in updates:
                        # The first is the state as it is, which may be what the client knows.
                        if update.state is not None and update.state != known:
                            known = update.state
                            await tell(uri)
            except EfritError as error:
                log.warning("%s is followed no longer: %s", uri, in_words(error))
            except Exception:
                # It is one of many, and the server has calls to answer.
                log.exception("%s is followed no longer", uri)
            if self._open.get(uri) is scope:
                del self._open[uri]
