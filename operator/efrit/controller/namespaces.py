"""Serves each namespace on its own: lists it, watches it, sweeps it, tries again where the API server refuses that.

A namespace of `watchNamespaces` may be missing, deleted, or without rights for the controller: the others go on, and
it comes into service by itself. Stands between app.py and the resync and the watch of each namespace. What ends for
any other reason ends the process.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from efrit.controller import metrics
from efrit.controller.retry import retry_while_unavailable
from efrit.errors import ApiForbidden, ApiNotFound, first_leaf

log = logging.getLogger(__name__)

FIRST_BACKOFF_SECONDS = 1.0
LAST_BACKOFF_SECONDS = 60.0


class Lists(Protocol):
    """The lists of one namespace."""

    async def list_all(self) -> None:
        """List what must be known of the namespace before anything is decided. Raises ApiError."""

    async def run(self) -> None:
        """Repeat the lists until cancelled. Raises ApiForbidden, ApiNotFound."""


class Namespaces:
    """The namespaces to serve; `(None,)` is the whole cluster, of which nothing may be refused."""

    def __init__(
        self,
        scopes: Sequence[str | None],
        lists_of: Callable[[str | None], Lists],
        watch: Callable[[str | None], Awaitable[None]],
        check: Callable[[str | None], Awaitable[None]],
        requeue: Callable[[str | None], None],
    ) -> None:
        """Serve `scopes` by their lists, watches and checks of children.

        requeue: has all known objects of a namespace reconciled.
        """
        self._scopes = scopes
        self._lists_of = lists_of
        self._watch = watch
        self._check = check
        self._requeue = requeue
        self._served: set[str | None] = set()
        self._untried = set(scopes)
        self.tried = asyncio.Event()
        """Set once each namespace is served or was refused."""

    def is_served(self, namespace: str) -> bool:
        """Return whether a namespace has been listed and the API server has not refused it since."""
        return None in self._served or namespace in self._served

    async def run(self) -> None:
        """Serve all of them until cancelled. Raises what ends a watch, but for a namespace that is refused."""
        async with asyncio.TaskGroup() as group:
            for scope in self._scopes:
                group.create_task(self._serve_again_and_again(scope), name=f"namespace {scope or '*'}")

    async def _serve_again_and_again(self, scope: str | None) -> None:
        loop = asyncio.get_running_loop()
        backoff = FIRST_BACKOFF_SECONDS
        lists = self._lists_of(scope)
        while True:
            began = loop.time()
            try:
                await self._serve(scope, lists)
            except* (ApiForbidden, ApiNotFound) as group:
                if scope is None:  # gate: namespace-refused
                    raise
                self._refuse(scope, first_leaf(group))
            if loop.time() - began > LAST_BACKOFF_SECONDS:
                backoff = FIRST_BACKOFF_SECONDS
            await asyncio.sleep(backoff * random.uniform(0.75, 1.25))  # noqa: S311
            backoff = min(backoff * 2, LAST_BACKOFF_SECONDS)

    async def _serve(self, scope: str | None, lists: Lists) -> None:
        await retry_while_unavailable(lists.list_all)
        self._serving(scope)
        async with asyncio.TaskGroup() as group:
            group.create_task(_awaited(self._watch(scope)), name=f"watch {scope or '*'}")
            group.create_task(_awaited(self._check(scope)), name=f"child check {scope or '*'}")
            group.create_task(lists.run(), name=f"resync {scope or '*'}")

    def _serving(self, scope: str | None) -> None:
        self._served.add(scope)
        if scope is not None:
            metrics.NAMESPACE_SERVED.labels(scope).set(1)
            log.info("namespace %s is served", scope)
        self._requeue(scope)
        self._was_tried(scope)

    def _refuse(self, scope: str, error: BaseException) -> None:
        if scope in self._served or scope in self._untried:
            log.warning(
                "namespace %s is not served: %s; the others continue, and it is retried within %.0f s",
                scope,
                error,
                LAST_BACKOFF_SECONDS,
            )
        self._served.discard(scope)
        metrics.NAMESPACE_SERVED.labels(scope).set(0)
        self._was_tried(scope)

    def _was_tried(self, scope: str | None) -> None:
        self._untried.discard(scope)
        if not self._untried:
            self.tried.set()


async def _awaited(watch: Awaitable[None]) -> None:
    await watch
