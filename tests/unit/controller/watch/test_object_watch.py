"""watch/object_watch.py: objects are listed once, watched from there, and listed again where that is lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any, cast

import pytest

from efrit.controller.watch.object_watch import ObjectWatch, watched_kinds
from efrit.errors import ApiError, ApiExpired, ApiForbidden, ApiNotFound, ApiUnavailable
from efrit.kube.client import KubeClient
from tests.support.factory import Json, request_json
from tests.unit.controller.store.world import WORK, World
from tests.unit.controller.virtual_time import elapse

pytestmark = pytest.mark.virtual_time

Event = tuple[str, Json] | ApiError
POOLS_KIND = -1
"""The last of what is watched."""


class Server:
    """What the API server answers to each watch in turn; the last one stays open."""

    def __init__(self, *watches: list[Event]) -> None:
        self.watches = list(watches)
        self.versions: list[str] = []
        self.lists = 0
        self.selected: tuple[str, Json] | None = None

    async def list(self) -> str:
        self.lists += 1
        return f"{self.lists}00"

    async def follow(self, *arguments: Any, **selectors: str) -> AsyncGenerator[tuple[str, Json], None]:
        self.versions.append(arguments[2])
        self.selected = arguments[0].plural, selectors
        for event in self.watches.pop(0):
            if isinstance(event, ApiError):
                raise event
            yield event
        if not self.watches:
            await asyncio.Event().wait()


async def watched(server: Server, kind: int = 0, world: World | None = None) -> World:
    world = world or World()
    watch = ObjectWatch(cast("KubeClient", server), watched_kinds(world.store)[kind], "team", server.list)
    task = asyncio.create_task(watch.run())
    await elapse(60)
    task.cancel()
    return world


def bookmark(version: str) -> tuple[str, Json]:
    return "BOOKMARK", {"metadata": {"resourceVersion": version}}


async def test_a_watch_goes_on_from_the_version_of_the_last_event_or_bookmark() -> None:
    server = Server([("ADDED", request_json(version="120"))], [bookmark("150")], [])
    world = await watched(server)

    assert server.versions == ["100", "120", "150"]
    assert server.lists == 1
    assert world.store.requests.open_uids() == {WORK: "uid-work"}


async def test_a_request_that_leaves_the_selection_is_to_be_verified() -> None:
    added, deleted = ("ADDED", request_json(version="120")), ("DELETED", request_json(version="130"))
    world = await watched(Server([added, deleted]))

    assert world.store.requests.must_verify(WORK)


async def test_of_the_requests_only_open_ones_are_watched_and_of_children_only_ours() -> None:
    selections = []
    for kind in range(4):
        await watched(server := Server([]), kind)
        selections.append(server.selected)

    ours = {"labelSelector": "app.kubernetes.io/managed-by=efrit-operator,efrit.dev/instance"}
    requests = "efritrequests", {"fieldSelector": "status.phase!=Succeeded,status.phase!=Failed"}
    assert selections == [requests, ("pods", ours), ("statefulsets", ours), ("persistentvolumeclaims", ours)]


@pytest.mark.parametrize(("kind", "name"), [(1, "efrit-alpha-0"), (2, "efrit-alpha"), (3, "efrit-alpha-queue")])
async def test_a_child_is_known_from_its_event_on_until_the_one_of_its_end(kind: int, name: str) -> None:
    meta = {"name": name, "namespace": "team", "uid": "u", "labels": {"efrit.dev/instance": "alpha"}}
    world = World()

    await watched(Server([("ADDED", {"metadata": {**meta, "resourceVersion": "120"}})]), kind, world)
    assert world.store.children.uids() == {"u"}
    await watched(Server([("DELETED", {"metadata": {**meta, "resourceVersion": "130"}})]), kind, world)
    assert world.store.children.uids() == set()


@pytest.mark.parametrize(
    ("end", "lists", "versions"),
    [(ApiExpired("410"), 2, ["100", "200"]), (ApiUnavailable("503", retry_after=4), 1, ["100", "100"])],
)
async def test_only_a_version_that_is_too_old_costs_another_list(
    end: ApiError, lists: int, versions: list[str]
) -> None:
    server = Server([end], [])
    await watched(server)

    assert (server.lists, server.versions) == (lists, versions)


async def test_where_every_version_is_too_old_lists_come_ever_more_slowly() -> None:
    """Each of them may be of a whole cluster."""
    too_old: list[Event] = [ApiExpired("410")]
    server = Server(*[too_old] * 1000)
    await watched(server)

    assert server.lists < 20


async def test_a_refusal_ends_the_watch() -> None:
    server = Server([ApiForbidden("403")])

    with pytest.raises(ApiForbidden):
        await ObjectWatch(cast("KubeClient", server), watched_kinds(World().store)[0], "team", server.list).run()


async def test_watches_that_end_at_once_are_begun_again_ever_more_slowly() -> None:
    server = Server(*([] for _ in range(1000)))
    await watched(server)

    assert len(server.versions) < 20


class Unknown(Server):
    """An API server that does not know a kind the first few times that it is listed, or when it is watched."""

    def __init__(self, times: int, *watches: list[Event]) -> None:
        super().__init__(*watches)
        self.times = times

    async def list(self) -> str:
        version = await super().list()
        if self.lists <= self.times:
            raise ApiNotFound("404")
        return version


async def test_pools_are_watched_once_their_definition_is_there() -> None:
    server = Unknown(5, [ApiNotFound("404")], [])
    await watched(server, POOLS_KIND)

    assert (server.lists, server.versions) == (7, ["600", "700"])


async def test_pools_whose_definition_never_comes_are_asked_for_now_and_then() -> None:
    server = Unknown(10**6, [])
    await watched(server, POOLS_KIND)

    assert 5 < server.lists < 20


async def test_any_other_kind_that_is_unknown_ends_the_watch() -> None:
    with pytest.raises(ApiNotFound):
        await ObjectWatch(
            cast("KubeClient", Unknown(1, [])), watched_kinds(World().store)[0], "team", Unknown(1, []).list
        ).run()
