"""Subscriptions to requests: notifications of changes between calls, on a connection with one client.

A notification says that a request has changed, not how: the client reads the resource again. Other resources have no
notifications.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager

import anyio
from anyio.abc import TaskGroup

from efrit.backend.errors import NotFound
from efrit.backend.interface import Backend, RequestState
from efrit.errors import EfritError
from efrit.mcp import resources
from efrit.mcp.error_text import error_text
from efrit.mcp.progress import updates_of

log = logging.getLogger(__name__)

MAX_SUBSCRIPTIONS = 100
"""Requests one client can follow at once."""

Notify = Callable[[str], Awaitable[None]]
"""Notifies the client that the resource at a URI has changed."""


class Subscriptions:
    """The subscriptions of one connection, by URI; each ends when its request is final."""

    def __init__(self) -> None:
        self._group: TaskGroup | None = None
        self._open: dict[str, anyio.CancelScope] = {}

    @asynccontextmanager
    async def run(self, _: object) -> AsyncIterator[None]:
        """Run subscriptions for as long as the server runs."""
        async with anyio.create_task_group() as self._group:
            yield
            self._group.cancel_scope.cancel()

    async def begin(self, opened: AbstractAsyncContextManager[Backend], uri: str, notify: Notify) -> None:
        """Start to follow the request at `uri`. Raises MCPError if it cannot be followed.

        The backend is used until the subscription ends.
        """
        handle = resources.request_at(uri)
        if handle is None:
            raise resources.missing(uri, "only efrit://requests/ID can be subscribed to")
        async with AsyncExitStack() as uses:
            backend = await uses.enter_async_context(opened)
            try:
                state = await backend.get(handle)
            except NotFound as error:
                raise resources.missing(uri, error_text(error)) from None
            self.end(uri)
            if state.final or self._group is None:
                return  # nothing more will come
            # Only now: others have been added while this one was read.
            if len(self._open) >= MAX_SUBSCRIPTIONS:  # gate: most-subscriptions
                raise resources.missing(
                    uri, f"at most {MAX_SUBSCRIPTIONS} requests can be followed at once; unsubscribe from one"
                )
            scope = self._open[uri] = anyio.CancelScope()
            self._group.start_soon(self._follow, backend, uses.pop_all(), state, uri, notify, scope)

    def end(self, uri: str) -> None:
        """Stop to follow the request at `uri`."""
        if (scope := self._open.pop(uri, None)) is not None:
            scope.cancel()

    async def _follow(
        self,
        backend: Backend,
        uses: AsyncExitStack,
        reported: RequestState,
        uri: str,
        notify: Notify,
        scope: anyio.CancelScope,
    ) -> None:
        async with uses:
            await self._report(backend, reported, uri, notify, scope)

    async def _report(
        self, backend: Backend, reported: RequestState, uri: str, notify: Notify, scope: anyio.CancelScope
    ) -> None:
        with scope:
            try:
                async with updates_of(backend, reported.handle) as updates:
                    async for update in updates:
                        # The first update repeats the current state, which the client may know.
                        if update.state is not None and update.state != reported:
                            reported = update.state
                            await notify(uri)
            except EfritError as error:
                log.warning("subscription to %s ended: %s", uri, error_text(error))
            except Exception:
                # A defect here must not end the server, which has other calls to answer.
                log.exception("subscription to %s ended", uri)
            if self._open.get(uri) is scope:
                del self._open[uri]
