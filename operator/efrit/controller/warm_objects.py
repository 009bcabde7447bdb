"""Objects as a process that stands by has last seen them, and lists that use them: neither is ever taken on trust.

A watch may lag behind the last writes of a leader that has died. Once this process leads, a list therefore asks the
API server for the metadata of all objects, takes from here what has the same UID and version, and reads the rest: it
yields what a list of the whole objects would. Only which bytes cross the wire differs. Nothing here decides, and the
store does not know of it.

An API server that came to show other fields at the same version, as with a new default of a definition, is noticed by
the first sweep, which lists whole objects.
"""

from __future__ import annotations

import asyncio
import logging
import zlib
from collections.abc import AsyncIterator, Mapping
from typing import Any, NamedTuple, Protocol

import msgspec

from efrit.controller.act.kube import Kube
from efrit.controller.model.keys import Key
from efrit.kube.loop_yield import LoopYield
from efrit.kube.media_types import METADATA_LIST
from efrit.resources import Resource

log = logging.getLogger(__name__)

MAX_READ_ALONE = 50
"""Objects of a kind that are read one by one, each by a list of one; where more have changed, all are listed."""
READS_AT_A_TIME = 8
OBJECT_BYTES = 440
"""What an object costs in memory beside its data: its name, UID and version, and its place."""
LEVEL = 1
"""Of the compression: five times less, for a third of a millisecond an instance with its children."""

Json = dict[str, Any]


class Place(NamedTuple):
    """The objects of a kind in a namespace, in the whole cluster where `scope` is None."""

    resource: Resource
    scope: str | None


class WarmObject(NamedTuple):
    """One version of an object."""

    uid: str
    version: str
    data: bytes
    """JSON of it, compressed."""


class Pages(Protocol):
    """The objects of a collection, to be iterated over once. `version` is known then: that to watch from."""

    @property
    def version(self) -> str:
        """The version of the list."""

    def __aiter__(self) -> AsyncIterator[Json]:
        """Return the objects."""


class WarmObjects:
    """Those of each place, within a budget of bytes; what is beyond it is not kept, and read when it is needed."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._objects: dict[Place, dict[Key, WarmObject]] = {}
        self._listed: set[Place] = set()
        self.held_bytes = 0

    def __len__(self) -> int:
        return sum(map(len, self._objects.values()))

    def put(self, place: Place, obj: Json) -> None:
        """Keep an object as it is now, in place of what was kept under its name."""
        meta = obj["metadata"]
        key = meta["namespace"], meta["name"]
        self.discard(place, key)
        # Who has written which field is a third of a small object, and nobody reads it off a list.
        lean = {**obj, "metadata": {name: value for name, value in meta.items() if name != "managedFields"}}
        data = zlib.compress(msgspec.json.encode(lean), LEVEL)
        size = len(data) + OBJECT_BYTES
        if self.held_bytes + size <= self._max_bytes:  # gate: warm-bytes
            self._objects.setdefault(place, {})[key] = WarmObject(meta["uid"], meta["resourceVersion"], data)
            self.held_bytes += size

    def discard(self, place: Place, key: Key) -> None:
        """Keep nothing under a name."""
        kept = self._objects.get(place, {}).pop(key, None)
        if kept is not None:
            self.held_bytes -= len(kept.data) + OBJECT_BYTES

    def listed(self, place: Place, keys: set[Key]) -> None:
        """Take in that these are all objects of a place."""
        for key in [key for key in self._objects.get(place, ()) if key not in keys]:
            self.discard(place, key)
        self._listed.add(place)

    def is_listed(self, place: Place) -> bool:
        """Return whether all objects of a place have been listed."""
        return place in self._listed

    def release(self, place: Place) -> None:
        """Discard all objects of a place."""
        self.listed(place, set())
        self._listed.discard(place)
        self._objects.pop(place, None)

    def release_scope(self, scope: str | None) -> None:
        """Discard all objects of a namespace, of the whole cluster with None."""
        for place in [place for place in self._listed | self._objects.keys() if place.scope == scope]:
            self.release(place)

    def count(self, place: Place) -> int:
        """Return how many objects of a place are kept."""
        return len(self._objects.get(place, ()))

    def kept(self, place: Place, key: Key, metadata: Mapping[str, Any]) -> WarmObject | None:
        """Return an object if it is kept in the version that the API server has now."""
        kept, now = self._objects.get(place, {}).get(key), (metadata["uid"], metadata["resourceVersion"])
        return kept if kept is not None and (kept.uid, kept.version) == now else None  # gate: warm-version


class VerifiedPages:
    """A list of a place that takes from the warm objects what the API server has in the same version."""

    def __init__(self, kube: Kube, warm: WarmObjects, place: Place, selectors: Mapping[str, str]) -> None:
        self._kube = kube
        self._warm = warm
        self._place = place
        self._selectors = dict(selectors)
        self.version = ""

    async def __aiter__(self) -> AsyncIterator[Json]:
        resource, scope = self._place
        kept, changed = [], list[Key]()
        heads = self._kube.pages(resource, scope, accept=METADATA_LIST, **self._selectors)
        async for head in heads:
            meta = head["metadata"]
            key = meta["namespace"], meta["name"]
            warm = self._warm.kept(self._place, key, meta)
            if warm is None:
                changed.append(key)
            else:
                kept.append(warm.data)
        # All that came after it is in the events of a watch from here.
        self.version = heads.version
        log.info("%s: %d as they were seen while standing by, %d to read", resource.plural, len(kept), len(changed))
        if len(changed) > MAX_READ_ALONE:
            pages = self._kube.pages(resource, scope, **self._selectors)
            async for obj in pages:
                yield obj
            self.version = pages.version
            return
        loop_yield = LoopYield()
        for data in kept:
            yield msgspec.json.decode(zlib.decompress(data))
            await loop_yield.tick()
        for begin in range(0, len(changed), READS_AT_A_TIME):
            for objects in await asyncio.gather(*map(self._read, changed[begin : begin + READS_AT_A_TIME])):
                for obj in objects:
                    yield obj

    async def _read(self, key: Key) -> list[Json]:
        """Return an object, nothing where it is gone by now."""
        # The controller may get no pods and StatefulSets.
        return [obj async for obj in self._kube.named(self._place.resource, *key, **self._selectors)]
