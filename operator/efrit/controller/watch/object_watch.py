"""Watches the objects of one kind in one namespace, one event in memory at a time.

kopf keeps a task and a queue for each object, and the whole objects in them: thousands of open requests, hundreds of
plans with large trees, or the children of a thousand instances would take hundreds of megabytes at each start. What
it does beside that, a controller that is level-triggered does not need.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any, NamedTuple, NoReturn

from efrit.controller.model.selectors import SELECTORS
from efrit.controller.retry import retry_while_unavailable
from efrit.controller.store.store import Store
from efrit.errors import ApiExpired, ApiNotFound, ApiUnavailable
from efrit.kube.client import KubeClient
from efrit.resources import EXCLUSIVE_CLAIMS, PLANS, PODS, POOLS, REQUESTS, STATEFULSETS, VOLUME_CLAIMS, Resource

log = logging.getLogger(__name__)

PAUSE_SECONDS = 0.1
"""Between two watches: one that ends at once must not be begun without end."""
LONGEST_PAUSE_SECONDS = 10.0


class Watched(NamedTuple):
    """A kind of objects and what takes the events of those that are watched in."""

    resource: Resource
    observe: Callable[[dict[str, Any]], None]
    observe_left: Callable[[dict[str, Any]], None]
    """Called with an object that was deleted, or is not selected any more."""
    optional: bool = False
    """Whether everything else is served where the API server does not know the kind."""


def watched_kinds(store: Store) -> tuple[Watched, ...]:
    """Return what is watched without kopf: what there may be thousands of."""
    children = store.children
    return (
        Watched(REQUESTS, store.requests.observe_event, store.requests.observe_left),
        Watched(PODS, children.observe_pod, children.forget_pod),
        Watched(STATEFULSETS, children.observe_statefulset, children.forget_statefulset),
        Watched(VOLUME_CLAIMS, children.observe_claim, children.forget_claim),
        Watched(PLANS, store.plans.observe_event, store.plans.observe_left),
        Watched(POOLS, store.pools.observe_event, store.pools.observe_left, optional=True),
        Watched(EXCLUSIVE_CLAIMS, store.claims.observe_event, store.claims.observe_left, optional=True),
    )


class ObjectWatch:
    """The watch of one kind in one namespace, in the whole cluster where `scope` is None."""

    def __init__(
        self, kube: KubeClient, watched: Watched, scope: str | None, list_objects: Callable[[], Awaitable[str]]
    ) -> None:
        """Watch `scope`; list_objects takes all these objects in and returns the version to watch from."""
        self._kube = kube
        self._watched = watched
        self._scope = scope
        self._list = list_objects

    async def run(self) -> NoReturn:
        """List, and watch from there, until cancelled. Raises what the API server refuses it with.

        A kind that the API server does not know is tried again, if it is optional.
        """
        loop = asyncio.get_running_loop()
        pause = PAUSE_SECONDS
        while True:
            try:
                version = await retry_while_unavailable(self._list)
                began = loop.time()
                with contextlib.suppress(ApiExpired):
                    await self._follow(version)
                if loop.time() - began > LONGEST_PAUSE_SECONDS:
                    pause = PAUSE_SECONDS
            except ApiNotFound:
                if not self._watched.optional:
                    raise
            # Where every version is too old at once, a list would follow on the other without end.
            await asyncio.sleep(pause * random.uniform(1, 1.25))  # noqa: S311
            pause = min(pause * 2, LONGEST_PAUSE_SECONDS)

    async def _follow(self, version: str) -> NoReturn:
        """Hand every event from `version` on to the store. Raises ApiExpired where one has to list again."""
        loop = asyncio.get_running_loop()
        pause = PAUSE_SECONDS
        while True:
            began = loop.time()
            try:
                async with contextlib.aclosing(self._events(version)) as events:
                    async for kind, obj in events:
                        version = obj["metadata"]["resourceVersion"]
                        if kind == "DELETED":
                            self._watched.observe_left(obj)
                        elif kind != "BOOKMARK":
                            self._watched.observe(obj)
            except ApiExpired:
                raise
            except ApiUnavailable as error:
                log.debug("%s cannot be watched yet: %s", self._watched.resource.plural, error)
                pause = max(pause, min(error.retry_after or 0.0, LONGEST_PAUSE_SECONDS))
            if loop.time() - began > LONGEST_PAUSE_SECONDS:
                pause = PAUSE_SECONDS
            await asyncio.sleep(pause * random.uniform(1, 1.25))  # noqa: S311
            pause = min(pause * 2, LONGEST_PAUSE_SECONDS)

    def _events(self, version: str) -> AsyncGenerator[tuple[str, dict[str, Any]], None]:
        resource = self._watched.resource
        return self._kube.follow(resource, self._scope, version, **SELECTORS[resource])
