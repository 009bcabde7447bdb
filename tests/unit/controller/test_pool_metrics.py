"""pool_metrics.py: what is measured of pools, and how many series there are at most."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest
from prometheus_client import REGISTRY, CollectorRegistry

from efrit.controller import pool_metrics
from efrit.controller.model.actions import Decision, Placed, Scale
from efrit.controller.pool_metrics import MAX_FLOWS, OTHERS, PoolCollector, PoolLabels
from tests.support.factory import NOW, Json, condition_json, seconds
from tests.unit.controller.store.test_pools import pool_json, pool_request
from tests.unit.controller.store.world import World

pytestmark = pytest.mark.virtual_time

CREW = {"pool_namespace": "team", "pool": "crew"}
COUNTED = {"pool_namespace": "team", "pool": "counted"}
"""Counters are those of the process: other tests count for other pools."""
ELSEWHERE = {"pool_namespace": "", "pool": OTHERS}


@pytest.fixture(autouse=True)
def labels(monkeypatch: pytest.MonkeyPatch) -> Iterator[PoolLabels]:
    labels = PoolLabels(limit=2)
    monkeypatch.setattr(pool_metrics, "LABELS", labels)
    yield labels
    labels.forget_all_but(())


def counted(name: str, **labels: str) -> float | None:
    return REGISTRY.get_sample_value(name, labels)


def placed(pool: str, decision: Decision = Decision.AWAKE, waited: float | None = 2.0) -> Placed:
    return Placed(("team", pool), decision, None if waited is None else timedelta(seconds=waited))


def test_a_placement_is_counted_and_the_wait_only_for_the_first_member() -> None:
    pool_metrics.count_placement(placed("counted"))
    pool_metrics.count_placement(placed("counted", Decision.MOVED, waited=None))

    assert counted("efrit_pool_placements_total", **COUNTED, decision="Awake") == 1
    assert counted("efrit_pool_placements_total", **COUNTED, decision="Moved") == 1
    assert counted("efrit_pool_wait_seconds_count", **COUNTED) == 1
    assert counted("efrit_pool_wait_seconds_sum", **COUNTED) == 2


@pytest.mark.parametrize(
    ("before", "wanted", "direction"), [(1, 3, "up"), (3, 1, "down"), (2, 2, None), (None, 2, None)]
)
def test_a_change_of_size_is_counted_with_its_direction_and_reason(
    before: int | None, wanted: int, direction: str | None
) -> None:
    pool_metrics.count_scaling(Scale(("team", "counted"), "u", wanted, wanted, before, "AtMaximum"))
    for name in ("up", "down"):
        value = counted("efrit_pool_scale_decisions_total", **COUNTED, direction=name, reason="AtMaximum")
        assert value == (1 if name == direction else None)


def test_pools_beyond_a_number_share_one_series_and_one_that_is_gone_leaves_its_place(labels: PoolLabels) -> None:
    before = counted("efrit_pool_wait_seconds_count", **ELSEWHERE) or 0
    for name in ("counted", "second", "third", "fourth"):
        pool_metrics.count_placement(placed(name))
    assert counted("efrit_pool_wait_seconds_count", **ELSEWHERE) == before + 2

    labels.forget_all_but({("team", "second"), ("team", "third")})
    assert counted("efrit_pool_wait_seconds_count", **COUNTED) is None
    assert counted("efrit_pool_placements_total", **COUNTED, decision="Awake") is None
    pool_metrics.count_placement(placed("third"))
    assert counted("efrit_pool_wait_seconds_count", pool_namespace="team", pool="third") == 1


def gauges(world: World, labels: PoolLabels) -> CollectorRegistry:
    registry = CollectorRegistry()
    registry.register(PoolCollector(world.store.pools, world.now, labels))
    return registry


def named_pool(name: str, **status: Json) -> Json:
    obj = pool_json(f"uid-{name}", fairness={"flowLabel": "team"})
    return {**obj, "metadata": {**obj["metadata"], "name": name}, "status": status}


async def test_the_gauges_are_what_the_status_says_and_what_waits_now(world: World, labels: PoolLabels) -> None:
    conditions = [condition_json("ScalingLimited", "True", "AtMaximum"), condition_json("Progressing", "False", "x")]
    world.store.pools.observe(
        {**named_pool("crew"), "status": {"desiredReplicas": 3, "ready": 2, "busy": 1, "conditions": conditions}}
    )
    for number in range(MAX_FLOWS + 3):
        name = f"r{number}"
        world.store.requests.observe(pool_request(name, labels={"team": name}, created=NOW - seconds(60)))
    registry = gauges(world, labels)

    def value(name: str, **more: str) -> float | None:
        return registry.get_sample_value(f"efrit_pool_{name}", {**CREW, **more})

    assert (value("members", state="ready"), value("members", state="busy")) == (2, 1)
    assert value("members_wanted") == 3
    assert value("pending_requests") == MAX_FLOWS + 3
    assert value("oldest_pending_seconds") == 60
    assert value("flow_requests", flow="r0", request_state="pending") == 1
    assert value("flow_requests", flow=OTHERS, request_state="pending") == 3
    assert value("condition", condition="ScalingLimited") == 1
    assert value("condition", condition="Progressing") == 0

    world.store.pools.observe_gone(("team", "crew"), "uid-crew")
    assert value("members_wanted") is None


async def test_gauges_of_pools_beyond_the_number_are_summed_up(world: World, labels: PoolLabels) -> None:
    for name in ("one", "two", "three", "four"):
        world.store.pools.observe({**named_pool(name), "status": {"desiredReplicas": 2}})
    registry = gauges(world, labels)
    assert registry.get_sample_value("efrit_pool_members_wanted", ELSEWHERE) == 4
    assert len([sample for metric in registry.collect() for sample in metric.samples]) < 40


async def test_open_requests_are_those_that_wait_and_those_on_members_and_0_without_any(
    world: World, labels: PoolLabels
) -> None:
    world.store.pools.observe(named_pool("crew"))
    registry = gauges(world, labels)
    assert registry.get_sample_value("efrit_pool_open_requests", CREW) == 0

    bound = pool_request("bound")
    bound["status"] = {"phase": "Pending", "instanceName": "alpha"}
    for request in (bound, pool_request("waits")):
        world.store.requests.observe(request)
    assert registry.get_sample_value("efrit_pool_open_requests", CREW) == 2
    assert registry.get_sample_value("efrit_pool_pending_requests", CREW) == 1
