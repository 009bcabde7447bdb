"""Watches the open requests of one namespace, one event in memory at a time.

kopf keeps a task and a queue for each object, and the whole objects in them: thousands of open requests would take
hundreds of megabytes at each start. What it does beside that, a controller that is level-triggered does not need.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any, NoReturn

from efrit.controller.model import names
from efrit.controller.retry import retry_while_unavailable
from efrit.controller.store.store import Store
from efrit.errors import ApiExpired, ApiUnavailable
from efrit.kube.client import KubeClient
from efrit.kube.resources import REQUESTS

log = logging.getLogger(__name__)

PAUSE_SECONDS = 0.1
"""Between two watches: one that ends at once must not be begun without end."""
LONGEST_PAUSE_SECONDS = 10.0


class RequestWatch:
    """The watch of one namespace, of the whole cluster where `scope` is None."""

    def __init__(
        self, kube: KubeClient, store: Store, scope: str | None, list_requests: Callable[[], Awaitable[str]]
    ) -> None:
        """Watch `scope`; list_requests tells the store of all open requests and returns the version to watch from."""
        self._kube = kube
        self._store = store
        self._scope = scope
        self._list = list_requests

    async def run(self) -> NoReturn:
        """List, and watch from there, until cancelled. Raises what the API server refuses it with."""
        while True:
            version = await retry_while_unavailable(self._list)
            with contextlib.suppress(ApiExpired):
                await self._follow(version)

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
                            self._store.requests.left(obj)
                        elif kind != "BOOKMARK":
                            self._store.requests.observe(obj)
            except ApiExpired:
                raise
            except ApiUnavailable as error:
                log.debug("open requests cannot be watched yet: %s", error)
                pause = max(pause, min(error.retry_after or 0.0, LONGEST_PAUSE_SECONDS))
            if loop.time() - began > LONGEST_PAUSE_SECONDS:
                pause = PAUSE_SECONDS
            await asyncio.sleep(pause * random.uniform(1, 1.25))  # noqa: S311
            pause = min(pause * 2, LONGEST_PAUSE_SECONDS)

    def _events(self, version: str) -> AsyncGenerator[tuple[str, dict[str, Any]], None]:
        return self._kube.follow(REQUESTS, self._scope, version, fieldSelector=names.OPEN_SELECTOR)
