"""Metrics of pools. How many series there are is bounded, whatever users name their pools and flows.

Counts of members and conditions are those of the status, so that a scrape costs nothing that grows with the members.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator
from datetime import datetime

from prometheus_client import Counter, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from efrit.api import ConditionStatus
from efrit.controller.model.actions import Placed, PutBack, Scale
from efrit.controller.model.keys import Key
from efrit.controller.store.flow_backlog import OTHER_FLOWS
from efrit.controller.store.pools import Pools

MAX_POOLS = 100
"""Pools with series of their own; all others share one of each."""
MAX_FLOWS = 5
"""Flows of a pool with series of their own, those with the most open requests; all others share one of each."""
OTHERS = OTHER_FLOWS
"""The name under which pools and flows are counted that have no series of their own."""
MEMBER_STATES = ("ready", "idle", "busy", "draining", "suspended")
"""Figures of the status; a member may be counted in several."""
POOL = ["pool_namespace", "pool"]

WAIT_SECONDS = Histogram(
    "efrit_pool_wait_seconds",
    "Time from the creation of a request of a pool, which is recorded in whole seconds, until a member has it.",
    POOL,
    buckets=(0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 7200),
)
PLACEMENTS = Counter(
    "efrit_pool_placements_total",
    "Requests that were given to a member of their pool, by how it was chosen.",
    [*POOL, "decision"],
)
PREEMPTIONS = Counter(
    "efrit_pool_preemptions_total",
    "Requests that were interrupted for one of higher priority and put back in line (spec.preemption of the pool).",
    POOL,
)
SCALE_DECISIONS = Counter(
    "efrit_pool_scale_decisions_total",
    "Changes of the number of members by spec.autoscaling; the reason is that of the condition ScalingLimited.",
    [*POOL, "direction", "reason"],
)


class PoolLabels:
    """Which pools have series of their own: the first ones, until they are gone."""

    def __init__(self, limit: int = MAX_POOLS) -> None:
        self._limit = limit
        self._named: set[Key] = set()

    def of(self, pool: Key) -> tuple[str, str]:
        """Return the labels of a pool."""
        if pool not in self._named and len(self._named) >= self._limit:
            return "", OTHERS
        self._named.add(pool)
        return pool

    def forget_all_but(self, pools: Collection[Key]) -> None:
        """Remove the series of pools that are gone."""
        for pool in [pool for pool in self._named if pool not in pools]:
            self._named.discard(pool)
            for metric in (WAIT_SECONDS, PLACEMENTS, PREEMPTIONS, SCALE_DECISIONS):
                metric.remove_by_labels(dict(zip(POOL, pool, strict=True)))


LABELS = PoolLabels()


def count_placement(placed: Placed) -> None:
    """Count a request that was given to a member."""
    labels = LABELS.of(placed.pool)
    PLACEMENTS.labels(*labels, placed.decision).inc()
    if placed.waited is not None:
        WAIT_SECONDS.labels(*labels).observe(max(0.0, placed.waited.total_seconds()))


def count_preemption(action: PutBack) -> None:
    """Count a request that was interrupted for another one."""
    PREEMPTIONS.labels(*LABELS.of(action.pool)).inc()


def count_scaling(scale: Scale) -> None:
    """Count a change of how many members a pool is to have."""
    if scale.before is not None and scale.before != scale.wanted:
        direction = "up" if scale.wanted > scale.before else "down"
        SCALE_DECISIONS.labels(*LABELS.of(scale.pool), direction, scale.reason).inc()


class PoolCollector(Collector):
    """The gauges, made at each scrape: what is gone has none."""

    def __init__(
        self,
        pools: Pools,
        clock: Callable[[], datetime],
        labels: PoolLabels = LABELS,
    ) -> None:
        self._pools = pools
        self._clock = clock
        self._labels = labels

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield the gauges of all pools."""
        members = _Family("efrit_pool_members", "Members of a pool; one may be in several states.", "state")
        wanted = _Family("efrit_pool_members_wanted", "Desired number of members of a pool.")
        pending = _Family("efrit_pool_pending_requests", "Open requests of a pool that wait for a member.")
        opened = _Family(
            "efrit_pool_open_requests", "Open requests of a pool: those that wait, and those on members."
        )
        oldest = _Family(
            "efrit_pool_oldest_pending_seconds", "Age of the oldest request that waits for a member; 0 if none waits."
        )
        flows = _Family(
            "efrit_pool_flow_requests", "Open requests of the busiest flows of a pool.", "flow", "request_state"
        )
        conditions = _Family("efrit_pool_condition", "1 while a condition of a pool is True.", "condition")
        now = self._clock()
        for key in self._pools.open_uids():
            pool, status, waiting = self._labels.of(key), self._pools.status(key), self._pools.waiting(key)
            for state in MEMBER_STATES:
                members.add(getattr(status, state) or 0, *pool, state)
            wanted.add(status.desired_replicas or 0, *pool)
            pending.add(waiting.pending, *pool)
            # Also of a pool without work: an autoscaler that reads nothing changes nothing.
            opened.add(waiting.pending + sum(running for _, running, _ in waiting.flows), *pool)
            since = waiting.oldest
            oldest.at_least(max(0.0, (now - since).total_seconds()) if since is not None else 0.0, *pool)
            for place, (name, running, pending_of_flow) in enumerate(waiting.flows):
                flow = name if place < MAX_FLOWS and pool == key else OTHERS
                flows.add(running, *pool, flow, "running")
                flows.add(pending_of_flow, *pool, flow, "pending")
            for condition in status.conditions if pool == key else ():
                conditions.add(condition.status == ConditionStatus.TRUE, *pool, condition.type)
        for family in (members, wanted, pending, opened, oldest, flows, conditions):
            yield family.metric()


class _Family:
    """Samples of one gauge; those with the same labels are one."""

    def __init__(self, name: str, text: str, *labels: str) -> None:
        self._name, self._text, self._labels = name, text, [*POOL, *labels]
        self._values: dict[tuple[str, ...], float] = defaultdict(float)

    def add(self, value: float, *labels: str) -> None:
        self._values[labels] += value

    def at_least(self, value: float, *labels: str) -> None:
        self._values[labels] = max(self._values[labels], value)

    def metric(self) -> GaugeMetricFamily:
        family = GaugeMetricFamily(self._name, self._text, labels=self._labels)
        for labels, value in self._values.items():
            family.add_metric(labels, value)
        return family
