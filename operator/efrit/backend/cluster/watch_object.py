"""Follows an object of the API server until it is final: the same for requests, plans and claims."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Protocol, TypeVar

from efrit.backend.cluster.api import Api, Json
from efrit.backend.errors import NotFound
from efrit.kube.client import name_selector
from efrit.resources import Resource

_RELIST_SECONDS = 0.2


class State(Protocol):
    """What is made of an object."""

    @property
    def final(self) -> bool:
        """Whether nothing of it changes any more."""


S = TypeVar("S", bound=State)


async def states_of(
    api: Api,
    resource: Resource,
    namespace: str,
    name: str,
    read: Callable[[Json], S],
    not_found: Callable[[], NotFound],
) -> AsyncIterator[S]:
    """Yield what `read` makes of the object whenever that changes, the final state last. Raises `not_found()`."""
    last: S | None = None
    selector = name_selector(name)
    while True:
        objects, version = await api.list(resource, namespace, fieldSelector=selector)
        if not objects:
            raise not_found()
        if (state := read(objects[0])) != last:
            last = state
            yield state
        if state.final:
            return
        async for kind, obj in api.watch(resource, namespace, version, fieldSelector=selector):
            if kind == "DELETED":
                raise not_found()
            if (state := read(obj)) != last:
                last = state
                yield state
            if state.final:
                return
        await asyncio.sleep(_RELIST_SECONDS)
