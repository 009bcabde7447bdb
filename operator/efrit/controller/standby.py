"""Keeps the objects that a successor would have to list, while another process leads.

It lists and watches, writes nothing, decides nothing and calls no bridge. Kept are instances and their children, of
which there may be tens of thousands of objects that seldom change. Requests, plans and claims are not: they are what
the events of a busy cluster are about, and those that are open are few beside them. Pools are few.

What is kept is verified when this process leads (`warm_objects.py`): a watch that lags, ends or is refused costs time
then and nothing else, so that it is tried again here for as long as it takes.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Sequence
from typing import Any, NoReturn

from efrit.controller.act.kube import Kube
from efrit.controller.model.selectors import SELECTORS
from efrit.controller.warm_objects import Place, WarmObjects
from efrit.controller.watch.object_watch import ObjectWatch, Watched
from efrit.errors import ApiError
from efrit.resources import INSTANCES, PODS, STATEFULSETS, VOLUME_CLAIMS

log = logging.getLogger(__name__)

KINDS = (INSTANCES, STATEFULSETS, VOLUME_CLAIMS, PODS)
"""What is kept."""
PAUSE_SECONDS = 60.0
"""Before a kind is tried again whose list or watch was refused."""


class Standby:
    """The lists and watches of a process that stands by."""

    def __init__(self, kube: Kube, warm: WarmObjects, scopes: Sequence[str | None]) -> None:
        """Keep in `warm` the objects of these namespaces; `(None,)` is the whole cluster."""
        self._kube = kube
        self._warm = warm
        self._scopes = scopes
        self._turn = asyncio.Semaphore()
        """One list at a time: nobody waits for them."""
        self._unlisted = {Place(resource, scope) for scope in scopes for resource in KINDS}

    async def run(self) -> None:
        """List and watch until cancelled."""
        async with asyncio.TaskGroup() as group:
            for scope in self._scopes:
                for resource in KINDS:
                    name = f"standby {resource.plural} {scope or '*'}"
                    group.create_task(self._keep(Place(resource, scope)), name=name)

    async def _keep(self, place: Place) -> NoReturn:
        def observe(obj: dict[str, Any]) -> None:
            self._warm.put(place, obj)

        def observe_left(obj: dict[str, Any]) -> None:
            self._warm.discard(place, (obj["metadata"]["namespace"], obj["metadata"]["name"]))

        async def list_objects() -> str:
            return await self._list(place)

        watched = Watched(place.resource, observe, observe_left)
        while True:
            try:
                await ObjectWatch(self._kube, watched, place.scope, list_objects).run()
            except ApiError as error:  # gate: standby-refused
                self._warm.release(place)
                log.debug("%s cannot be kept while standing by: %s", place.resource.plural, error)
            await asyncio.sleep(PAUSE_SECONDS * random.uniform(1, 1.25))  # noqa: S311

    async def _list(self, place: Place) -> str:
        """Take in all objects of a place, and discard those that are gone; return the version to watch from."""
        async with self._turn:
            listed = set()
            pages = self._kube.pages(place.resource, place.scope, **SELECTORS[place.resource])
            async for obj in pages:
                listed.add((obj["metadata"]["namespace"], obj["metadata"]["name"]))
                self._warm.put(place, obj)
            self._warm.listed(place, listed)
        if self._unlisted == {place}:
            log.info("standing by with %d objects, %d bytes", len(self._warm), self._warm.held_bytes)
        self._unlisted.discard(place)
        return pages.version
