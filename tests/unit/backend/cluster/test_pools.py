"""Pools of a cluster in the client's words, and the check before work is sent to one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any, cast

import pytest

from efrit.backend.cluster.api import Api
from efrit.backend.cluster.pools import check_pool, get_pool, list_pools, pool_of
from efrit.backend.errors import Forbidden, NotFound, PoolNotFound, Refused
from efrit.backend.local.backend import LocalBackend
from efrit.backend.pools import POOL_LABEL, PoolCondition, PoolFlow, PoolScale
from efrit.resources import INSTANCES, POOLS, Resource

STATUS = {
    "desiredReplicas": 3,
    "replicas": 2,
    "ready": 1,
    "idle": 1,
    "busy": 1,
    "draining": 1,
    "suspended": 1,
    "updated": 2,
    "pending": 7,
    "revision": "abc",
    "flows": [{"name": "blue", "running": 1, "pending": 7}],
    "lastScale": {"from": 2, "to": 3, "reason": "7 requests wait", "time": "2026-01-31T09:30:00Z"},
    "conditions": [{"type": "Backlogged", "status": "True", "reason": "Waiting", "message": "7 requests wait."}],
}


def pool(name: str = "crew", **fields: Any) -> dict[str, Any]:
    created = {"namespace": "team", "creationTimestamp": "2026-01-31T09:00:00Z"}
    return {"metadata": {"name": name, **created}, **fields}


def test_a_pool_has_what_its_status_says() -> None:
    crew = pool_of(pool(spec={"autoscaling": {"maxReplicas": 9}}, status=STATUS))
    assert (crew.name, crew.desired, crew.autoscaled, crew.revision) == ("crew", 3, True, "abc")
    assert (crew.members, crew.ready, crew.idle, crew.busy, crew.draining, crew.suspended) == (2, 1, 1, 1, 1, 1)
    assert (crew.updated, crew.pending, crew.flows) == (2, 7, (PoolFlow("blue", 1, 7),))
    assert crew.conditions == (PoolCondition("Backlogged", "True", "Waiting", "7 requests wait."),)
    assert crew.last_scale == PoolScale(2, 3, "7 requests wait", datetime(2026, 1, 31, 9, 30, tzinfo=UTC))
    assert crew.created == datetime(2026, 1, 31, 9, tzinfo=UTC)


def test_one_that_no_operator_has_seen_has_what_its_spec_says() -> None:
    crew = pool_of(pool(spec={"replicas": 3}))
    assert (crew.desired, crew.autoscaled, crew.members, crew.conditions, crew.last_scale) == (3, False, 0, (), None)


class Server:
    """An API server with some pools and labelled instances; a kind in `refused` cannot be read."""

    def __init__(
        self, pools: tuple[str, ...] = (), labelled: tuple[str, ...] = (), refused: tuple[Resource, ...] = ()
    ) -> None:
        self.objects = {
            POOLS: [pool(name) for name in pools],
            INSTANCES: [{"metadata": {"name": f"{name}-1", "labels": {POOL_LABEL: name}}} for name in labelled],
        }
        self.refused = refused
        self.paths: list[str] = []

    async def get(self, resource: Resource, namespace: str, name: str) -> dict[str, Any]:
        self.paths.append(resource.path(namespace, name))
        if resource in self.refused:
            raise Forbidden("forbidden")
        for obj in self.objects[resource]:
            if obj["metadata"]["name"] == name:
                return obj
        raise NotFound("not found")

    async def pages(self, resource: Resource, namespace: str, labelSelector: str = "") -> AsyncIterator[Any]:  # noqa: N803
        if resource in self.refused:
            raise Forbidden("forbidden")
        key, _, value = labelSelector.partition("=")
        for obj in self.objects[resource]:
            if not key or obj["metadata"]["labels"][key] == value or not value:
                yield obj


def api(server: Server) -> Api:
    return cast("Api", server)


@pytest.mark.parametrize("server", [Server(pools=("crew",)), Server(labelled=("crew",))])
async def test_work_may_go_to_a_pool_or_to_instances_with_its_label(server: Server) -> None:
    await check_pool(api(server), "team", "crew")


@pytest.mark.parametrize("refused", [(POOLS,), (INSTANCES,)])
async def test_who_may_not_read_the_reports_is_not_held_up(refused: tuple[Resource, ...]) -> None:
    await check_pool(api(Server(refused=refused)), "team", "crew")


async def test_what_a_claim_has_of_a_pool_that_is_gone_takes_no_work() -> None:
    server = Server(labelled=("crew", "hand"))
    server.objects[INSTANCES][0]["metadata"]["ownerReferences"] = [{"kind": "EfritClaim", "name": "ada"}]
    with pytest.raises(PoolNotFound) as caught:
        await check_pool(api(server), "team", "crew")
    assert caught.value.advice == "name one of those there are: hand"


async def test_work_for_nobody_is_refused_with_the_pools_there_are() -> None:
    server = Server(pools=("crew", "big"), labelled=("hand", "crew"))
    with pytest.raises(PoolNotFound, match="no pool 'crwe' in the namespace team") as caught:
        await check_pool(api(server), "team", "crwe")
    assert caught.value.advice == "name one of those there are: big, crew, hand"


async def test_of_many_pools_only_some_are_named() -> None:
    server = Server(pools=tuple(f"crew-{number:02}" for number in range(25)))
    with pytest.raises(PoolNotFound) as caught:
        await check_pool(api(server), "team", "crwe")
    assert caught.value.advice.endswith("crew-09 and 15 more")


async def test_without_any_pool_the_advice_is_to_create_one() -> None:
    with pytest.raises(PoolNotFound) as caught:
        await check_pool(api(Server()), "team", "crew")
    assert caught.value.advice == "create an EfritPool, or leave the pool out"


@pytest.mark.parametrize("name", ["../secrets/key", "crew/status", "", "..", "a" * 64])
async def test_a_name_that_no_pool_can_have_becomes_no_part_of_a_path(name: str) -> None:
    server = Server(pools=("crew",))
    with pytest.raises(PoolNotFound):
        await check_pool(api(server), "team", name)
    assert server.paths == []


async def test_pools_are_listed_by_name_and_one_that_is_not_there_is_an_error() -> None:
    server = Server(pools=("crew", "big"))
    assert [found.name for found in await list_pools(api(server), "team")] == ["big", "crew"]
    with pytest.raises(PoolNotFound) as caught:
        await get_pool(api(server), "team", "crwe")
    assert caught.value.advice == "see `efrit pools`"


async def test_this_machine_has_no_pools(tmp_path: Any) -> None:
    backend = LocalBackend.configured(tmp_path / "config.json")
    calls = (backend.pools(), backend.pool("crew"), backend.scale_pool("crew", 1))
    for call in (*calls, backend.pool_history("crew"), backend.undo_pool("crew")):
        with pytest.raises(Refused, match="only a cluster has pools"):
            await call
