"""namespaces.py: one namespace that is refused leaves the others alone and is tried again."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections import defaultdict
from collections.abc import Sequence

import pytest

from efrit.controller import metrics
from efrit.controller.namespaces import LAST_BACKOFF_SECONDS, Namespaces
from efrit.errors import ApiForbidden, ApiNotFound, ApiUnavailable, EfritError, WatchEnded
from tests.unit.controller.virtual_time import elapse, now

pytestmark = pytest.mark.virtual_time

FORBIDDEN = ApiForbidden("403: lists are forbidden")


class Cluster:
    """Namespaces that can be listed and watched, or refused: `refusals` says by what."""

    def __init__(self, scopes: Sequence[str | None]) -> None:
        self.refusals: dict[str | None, EfritError] = {}
        self.listed: dict[str | None, list[float]] = defaultdict(list)
        self.requeued: list[str | None] = []
        self.watches: dict[str | None, asyncio.Future[None]] = {}
        self.namespaces = Namespaces(
            scopes, lambda scope: Lists(self, scope), self.watch, self.check, self.requeued.append
        )

    async def watch(self, scope: str | None) -> None:
        self.watches[scope] = asyncio.get_running_loop().create_future()
        await self.watches[scope]

    async def check(self, scope: str | None) -> None:
        """Check nothing."""

    def watching(self) -> list[str | None]:
        return [scope for scope, task in self.watches.items() if not task.done()]


class Lists:
    def __init__(self, cluster: Cluster, scope: str | None) -> None:
        self.cluster = cluster
        self.scope = scope

    async def list_all(self) -> None:
        self.cluster.listed[self.scope].append(now())
        await asyncio.sleep(0.1)
        if self.scope in self.cluster.refusals:
            raise self.cluster.refusals[self.scope]

    async def run(self) -> None:
        while True:
            await asyncio.sleep(60)
            await self.list_all()


def served(namespace: str) -> float:
    return float(metrics.NAMESPACE_SERVED.labels(namespace)._value.get())


async def test_a_refused_namespace_keeps_nobody_waiting_and_is_retried_about_once_a_minute() -> None:
    cluster = Cluster(("good", "bad"))
    cluster.refusals["bad"] = FORBIDDEN
    running = asyncio.create_task(cluster.namespaces.run())
    async with asyncio.timeout(10):
        await cluster.namespaces.tried.wait()

    await elapse(3600)

    assert cluster.namespaces.is_served("good")
    assert not cluster.namespaces.is_served("bad")
    assert cluster.watching() == ["good"]
    assert (served("good"), served("bad")) == (1, 0)
    attempts = cluster.listed["bad"]
    pauses = [later - earlier for earlier, later in itertools.pairwise(attempts)]
    assert pauses[0] < 2
    assert max(pauses) < LAST_BACKOFF_SECONDS * 1.3
    assert len(attempts) < 90
    running.cancel()


async def test_a_namespace_is_served_once_it_is_allowed_and_all_of_it_is_reconciled() -> None:
    cluster = Cluster(("late",))
    cluster.refusals["late"] = ApiNotFound("404")
    running = asyncio.create_task(cluster.namespaces.run())
    await elapse(600)
    assert cluster.requeued == []

    del cluster.refusals["late"]
    await elapse(90)

    assert cluster.namespaces.is_served("late")
    assert cluster.requeued == ["late"]
    assert served("late") == 1
    running.cancel()


async def test_a_watch_that_is_refused_takes_only_its_namespace_out_of_service() -> None:
    cluster = Cluster(("a", "b"))
    running = asyncio.create_task(cluster.namespaces.run())
    await elapse(1)
    cluster.refusals["a"] = FORBIDDEN

    cluster.watches["a"].set_exception(FORBIDDEN)
    await elapse(300)

    assert not cluster.namespaces.is_served("a")
    assert cluster.namespaces.is_served("b")
    assert cluster.watching() == ["b"]
    assert not running.done()
    running.cancel()


async def test_a_sweep_that_is_refused_ends_the_watch_of_its_namespace_too() -> None:
    cluster = Cluster(("a",))
    running = asyncio.create_task(cluster.namespaces.run())
    await elapse(1)
    cluster.refusals["a"] = FORBIDDEN

    await elapse(61)

    assert not cluster.namespaces.is_served("a")
    assert cluster.watching() == []
    running.cancel()


async def test_a_watch_that_ends_for_another_reason_ends_everything() -> None:
    cluster = Cluster(("a", "b"))
    running = asyncio.create_task(cluster.namespaces.run())
    await elapse(1)

    cluster.watches["a"].set_exception(WatchEnded("410"))

    with pytest.raises(ExceptionGroup) as raised:
        await running
    assert raised.group_contains(WatchEnded)
    assert cluster.watching() == []


async def test_of_the_whole_cluster_nothing_may_be_refused() -> None:
    cluster = Cluster((None,))
    cluster.refusals[None] = FORBIDDEN

    with pytest.raises(ExceptionGroup) as raised:
        await cluster.namespaces.run()
    assert raised.group_contains(ApiForbidden)


async def test_one_line_is_logged_for_a_change_and_none_for_an_attempt() -> None:
    lines: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    logger = logging.getLogger("efrit.controller.namespaces")
    logger.addHandler(handler)
    level = logger.level
    logger.setLevel(logging.INFO)
    try:
        cluster = Cluster(("bad",))
        cluster.refusals["bad"] = FORBIDDEN
        running = asyncio.create_task(cluster.namespaces.run())
        await elapse(3600)
        del cluster.refusals["bad"]
        await elapse(90)
        running.cancel()
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
    assert [line.split(":")[0] for line in lines] == ["namespace bad is not served", "namespace bad is served"]


async def test_an_api_server_that_is_away_is_no_refusal() -> None:
    cluster = Cluster(("a",))
    cluster.refusals["a"] = ApiUnavailable("no answer")
    running = asyncio.create_task(cluster.namespaces.run())
    await elapse(60)
    assert not cluster.namespaces.tried.is_set()

    del cluster.refusals["a"]
    await elapse(10)

    assert cluster.namespaces.is_served("a")
    running.cancel()


async def test_namespaces_that_cannot_be_listed_keep_no_other_waiting() -> None:
    slow = [f"n{number}" for number in range(5)]
    cluster = Cluster((*slow, "good"))
    cluster.refusals = dict.fromkeys(slow, ApiUnavailable("no answer"))
    running = asyncio.create_task(cluster.namespaces.run())

    await elapse(10)

    assert cluster.namespaces.is_served("good")
    assert cluster.watching() == ["good"]
    running.cancel()
