"""What an API server takes without a controller: a process that decides nothing and makes the same number of writes.

Of each object that it sees created it makes two writes, by the controller's client, rights and admission: the floor
under a figure of the same run. All else of the bench goes on beside it as before.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

from efrit.controller.manifests.member_owner import taken
from efrit.controller.model.actions import TakeMember
from efrit.kube.client import KubeClient
from efrit.kube.connection import load_connection
from efrit.resources import EXCLUSIVE_CLAIMS, INSTANCES, REQUESTS, Resource
from tests.bench.other_machines import SPAWN
from tests.support.kube import Json

PLACES = 2
"""Requests of the loud flow that are written about at a time: the places of one member."""


@dataclass(frozen=True)
class Writes:
    """What is written of each object: `statuses`, after the change of the owner of a member where there are any."""

    kubeconfig: Path
    namespace: str
    statuses: Sequence[Json]
    members: Sequence[Json] = ()


class Floor:
    """The process. Close it."""

    def __init__(self, writes: Writes) -> None:
        """Return once it watches."""
        ours, theirs = SPAWN.Pipe()
        self._process = SPAWN.Process(target=_run, args=(writes, theirs), daemon=True)
        self._process.start()
        ours.recv()

    def close(self) -> None:
        """End it."""
        self._process.terminate()
        self._process.join()


def _run(writes: Writes, watches: Connection) -> None:
    asyncio.run(_write(writes, watches))


async def _write(writes: Writes, watches: Connection) -> None:
    connection = await load_connection(writes.kubeconfig)
    kube = KubeClient(connection.configuration, field_manager="efrit-operator")
    resource = EXCLUSIVE_CLAIMS if writes.members else REQUESTS
    _, version = await kube.list(resource, writes.namespace)
    places, members = asyncio.Semaphore(PLACES), iter(writes.members)
    watches.send(None)
    async with asyncio.TaskGroup() as group, aclosing(kube.follow(resource, writes.namespace, version)) as events:
        async for kind, obj in events:
            if kind == "ADDED":
                member = next(members) if writes.members else None
                group.create_task(_write_of(kube, resource, obj, member, writes.statuses, places))


async def _write_of(
    kube: KubeClient,
    resource: Resource,
    obj: Json,
    member: Json | None,
    statuses: Sequence[Json],
    places: asyncio.Semaphore,
) -> None:
    if obj["metadata"].get("labels", {}).get("flow") == "loud":
        async with places:
            await _write_statuses(kube, resource, obj, statuses)
        return
    if member is not None:
        meta, own = member["metadata"], obj["metadata"]
        claim, instance = (own["namespace"], own["name"]), (meta["namespace"], meta["name"])
        action = TakeMember(claim, own["uid"], instance, meta["uid"], meta["resourceVersion"])
        await kube.patch(INSTANCES, *instance, taken(action))
    await _write_statuses(kube, resource, obj, statuses)


async def _write_statuses(kube: KubeClient, resource: Resource, obj: Json, statuses: Sequence[Json]) -> None:
    for status in statuses:
        await kube.patch_status(resource, obj["metadata"]["namespace"], obj["metadata"]["name"], {"status": status})
