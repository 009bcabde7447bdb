"""watch/request_watch.py: open requests are listed once, watched from there, and listed again where that is lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any, cast

import pytest

from efrit.controller.watch.request_watch import RequestWatch
from efrit.errors import ApiError, ApiExpired, ApiForbidden, ApiUnavailable
from efrit.kube.client import KubeClient
from tests.unit.controller.factory import Json, request_json
from tests.unit.controller.store.test_store import WORK, World
from tests.unit.controller.virtual_time import elapse, on_virtual_time

Event = tuple[str, Json] | ApiError


class Server:
    """What the API server answers to each watch in turn; the last one stays open."""

    def __init__(self, *watches: list[Event]) -> None:
        self.watches = list(watches)
        self.asked: list[str] = []
        self.lists = 0

    async def list(self) -> str:
        self.lists += 1
        return f"{self.lists}00"

    async def follow(self, *given: Any, **selectors: str) -> AsyncGenerator[tuple[str, Json], None]:
        assert selectors["fieldSelector"] == "status.phase!=Succeeded,status.phase!=Failed"
        self.asked.append(given[2])
        for event in self.watches.pop(0):
            if isinstance(event, ApiError):
                raise event
            yield event
        if not self.watches:
            await asyncio.Event().wait()


async def watched(server: Server) -> World:
    world = World()
    watch = RequestWatch(cast("KubeClient", server), world.store, "team", server.list)
    task = asyncio.create_task(watch.run())
    await elapse(60)
    task.cancel()
    return world


def bookmark(version: str) -> tuple[str, Json]:
    return "BOOKMARK", {"metadata": {"resourceVersion": version}}


@on_virtual_time
async def test_a_watch_goes_on_from_the_version_of_the_last_event_or_bookmark() -> None:
    server = Server([("ADDED", request_json(version="120"))], [bookmark("150")], [])
    world = await watched(server)

    assert server.asked == ["100", "120", "150"]
    assert server.lists == 1
    assert world.store.requests.open_uids() == {WORK: "uid-work"}


@on_virtual_time
async def test_a_request_that_leaves_the_selection_is_to_be_verified() -> None:
    added, left = ("ADDED", request_json(version="120")), ("DELETED", request_json(version="130"))
    world = await watched(Server([added, left]))

    assert world.store.requests.must_verify(WORK)


@pytest.mark.parametrize(
    ("end", "lists", "asked"),
    [
        (ApiExpired("410"), 2, ["100", "200"]),
        (ApiUnavailable("503", retry_after=4), 1, ["100", "100"]),
    ],
)
@on_virtual_time
async def test_only_a_version_that_is_too_old_costs_another_list(end: ApiError, lists: int, asked: list[str]) -> None:
    server = Server([end], [])
    await watched(server)

    assert (server.lists, server.asked) == (lists, asked)


def test_a_refusal_ends_the_watch() -> None:
    server = Server([ApiForbidden("403")])

    with pytest.raises(ApiForbidden):
        asyncio.run(RequestWatch(cast("KubeClient", server), cast("Any", None), "team", server.list).run())


@on_virtual_time
async def test_watches_that_end_at_once_are_begun_again_ever_more_slowly() -> None:
    server = Server(*([] for _ in range(1000)))
    await watched(server)

    assert len(server.asked) < 20
