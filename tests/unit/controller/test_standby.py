"""standby.py: what is kept while another leads follows lists and watches, and outlives their failures."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any, cast

import pytest

from efrit.controller.act.kube import Kube
from efrit.controller.standby import KINDS, PAUSE_SECONDS, Standby
from efrit.controller.warm_objects import Place, WarmObjects
from efrit.errors import ApiError, ApiExpired, ApiForbidden, ApiNotFound, ApiUnavailable
from efrit.resources import INSTANCES, PODS, Resource
from tests.unit.controller.virtual_time import elapse

pytestmark = pytest.mark.virtual_time

Json = dict[str, Any]
Event = tuple[str, Json] | ApiError
INSTANCES_OF_TEAM = Place(INSTANCES, "team")


def obj(name: str, version: int) -> Json:
    return {"metadata": {"name": name, "namespace": "team", "uid": f"uid-{name}", "resourceVersion": str(version)}}


class Server:
    """Answers lists and watches of instances in turn, the last watch stays open; there is nothing else."""

    def __init__(self, lists: list[list[Json] | ApiError], *watches: list[Event]) -> None:
        self.lists = lists
        self.watches = list(watches)
        self.calls: list[tuple[str, str]] = []
        self.selectors: dict[str, Json] = {}

    def pages(self, resource: Resource, _scope: str | None, **selectors: str) -> Pages:
        self.calls.append(("list", resource.plural))
        self.selectors[resource.plural] = selectors
        return Pages(self.lists.pop(0) if resource == INSTANCES else [])

    async def follow(
        self, resource: Resource, _scope: str | None, _version: str, **selectors: str
    ) -> AsyncGenerator[tuple[str, Json], None]:
        self.calls.append(("watch", resource.plural))
        assert selectors == self.selectors[resource.plural]
        for event in self.watches.pop(0) if resource == INSTANCES else ():
            if isinstance(event, ApiError):
                raise event
            yield event
        if resource != INSTANCES or not self.watches:
            await asyncio.Event().wait()

    def count(self, verb: str) -> int:
        return self.calls.count((verb, INSTANCES.plural))


class Pages:
    version = "100"

    def __init__(self, answer: list[Json] | ApiError) -> None:
        self._answer = answer

    async def __aiter__(self) -> AsyncIterator[Json]:
        if isinstance(self._answer, ApiError):
            raise self._answer
        for each in self._answer:
            yield each


async def standing_by(server: Server, seconds: float = 30, warm: WarmObjects | None = None) -> WarmObjects:
    warm = WarmObjects(1 << 20) if warm is None else warm
    task = asyncio.create_task(Standby(cast("Kube", server), warm, ("team",)).run())
    await elapse(seconds)
    assert not task.done()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return warm


def versions(warm: WarmObjects) -> Json:
    kept = warm._objects.get(INSTANCES_OF_TEAM, {})
    return {name: warm_object.version for (_, name), warm_object in kept.items()}


async def test_lists_and_events_are_kept_and_what_is_deleted_is_not() -> None:
    events: list[Event] = [("ADDED", obj("new", 101)), ("MODIFIED", obj("one", 102)), ("DELETED", obj("two", 103))]
    warm = await standing_by(Server([[obj("one", 1), obj("two", 2)]], events))

    assert versions(warm) == {"one": "102", "new": "101"}
    assert all(warm.is_listed(Place(resource, "team")) for resource in KINDS)


async def test_after_a_watch_that_has_expired_what_went_meanwhile_is_not_kept() -> None:
    server = Server([[obj("one", 1), obj("two", 2)], [obj("two", 5)]], [ApiExpired("too old")], [])
    warm = await standing_by(server)

    assert versions(warm) == {"two": "5"}
    assert server.count("list") == 2


async def test_a_watch_that_ends_goes_on_without_a_list() -> None:
    server = Server([[obj("one", 1)]], [("MODIFIED", obj("one", 101))], [], [("MODIFIED", obj("one", 102))])
    warm = await standing_by(server)

    assert versions(warm) == {"one": "102"}
    assert (server.count("list"), server.count("watch")) == (1, 3)


@pytest.mark.parametrize("error", [ApiForbidden("no"), ApiNotFound("no such kind")])
async def test_what_is_refused_is_not_kept_and_tried_again_after_a_while(error: ApiError) -> None:
    server = Server([[obj("one", 1)], error, [obj("one", 3)]], [error], [])
    warm = WarmObjects(1 << 20)
    await standing_by(server, PAUSE_SECONDS, warm)
    assert (versions(warm), warm.is_listed(INSTANCES_OF_TEAM)) == ({}, False)
    assert warm.is_listed(Place(PODS, "team"))

    server = Server([error, [obj("one", 3)]], [])
    await standing_by(server, 2 * PAUSE_SECONDS, warm)
    assert versions(warm) == {"one": "3"}
    assert server.count("list") == 2


async def test_an_api_server_that_is_away_is_waited_for() -> None:
    server = Server([ApiUnavailable("away"), ApiUnavailable("away"), [obj("one", 1)]], [])

    assert versions(await standing_by(server)) == {"one": "1"}
