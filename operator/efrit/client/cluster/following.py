"""An object of the API server as it changes, until it is final: the same for requests and for plans."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Protocol, TypeVar

from efrit.client.cluster.api import Api, Json, WatchOver
from efrit.client.errors import NotFound

_AGAIN_SECONDS = 0.2


class State(Protocol):
    """What is made of an object."""

    @property
    def final(self) -> bool:
        """Whether nothing of it changes any more."""


S = TypeVar("S", bound=State)


async def states_of(
    api: Api, plural: str, namespace: str, name: str, read: Callable[[Json], S], gone: Callable[[], NotFound]
) -> AsyncIterator[S]:
    """What `read` makes of the object, each time that is something else; ends with the final one. Raises `gone()`."""
    last: S | None = None
    selector = f"metadata.name={name}"
    while True:
        found, version = await api.list(plural, namespace, fieldSelector=selector)
        if not found:
            raise gone()
        if (state := read(found[0])) != last:
            last = state
            yield state
        if state.final:
            return
        try:
            async for kind, each in api.watch(plural, namespace, version, fieldSelector=selector):
                if kind == "DELETED":
                    raise gone()
                if (state := read(each)) != last:
                    last = state
                    yield state
                if state.final:
                    return
        except WatchOver:
            await asyncio.sleep(_AGAIN_SECONDS)
