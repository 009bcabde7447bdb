"""Which running request of a pool may be interrupted for one that waits: what the choice reads, and the choice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import timedelta

from efrit.api.plan import PLAN_UID_LABEL
from efrit.api.pool import PreemptionPolicy
from efrit.controller.decide.placement import takes_requests
from efrit.controller.decide.preemption import victims
from efrit.controller.model.keys import Key
from efrit.controller.model.preemption import FlowShare, Preemptor, Running
from efrit.controller.model.snapshots import InstanceSnapshot, Victim
from efrit.controller.store.backlog import BEGINNING
from efrit.controller.store.flow_backlog import FlowBacklog
from efrit.controller.store.index import Index
from efrit.controller.store.instances import Instances
from efrit.controller.store.records import PoolRecord, RequestRecord
from efrit.protocol import RequestState

MOST_CANDIDATES = 16
"""Requests whose members are looked at for one that waits."""

Choice = tuple[Victim | None, bool]
NOBODY: Choice = None, False


class Preemptions:
    """Finds the request that is interrupted for another one."""

    def __init__(self, index: Index, instances: Instances) -> None:
        self._index = index
        self._instances = instances

    def victim(self, waiting: RequestRecord, pool: PoolRecord) -> Choice:
        """Return the request that is interrupted for one that waits, and whether there may be one soon."""
        key = pool.object.key
        line = self._index.pool_lines.line(key)
        flow = line.flow_of(waiting.packed.key) if line is not None else None
        if line is None or flow is None or pool.object.spec.preemption == PreemptionPolicy.NEVER:
            return NOBODY
        # Before all are listed nobody knows what each flow has.
        if not self._index.is_listed(key[0]):
            return NOBODY
        marked = self._marked(waiting, line)
        if marked is not None:
            member = self._member(marked, waiting, pool)
            return (Victim(marked.request, member, marked=True), False) if member is not None else (None, True)
        running = list(self._running(waiting, line))
        if running:
            running = victims(self._preemptor(waiting, flow, line, pool), running)
        for candidate in running[:MOST_CANDIDATES]:
            record = self._index.requests[candidate.key]
            member = self._member(record, waiting, pool) if candidate.started is not None else None
            if member is not None:
                return Victim(record.request, member), False
        return None, bool(running)

    def _marked(self, waiting: RequestRecord, line: FlowBacklog) -> RequestRecord | None:
        """Return the request whose status says that it is interrupted for this one: an earlier process chose it."""
        held = (self._index.requests[key] for key in line.held)
        return next((record for record in held if record.packed.preempted_by == waiting.uid), None)

    def _preemptor(self, waiting: RequestRecord, flow: str, line: FlowBacklog, pool: PoolRecord) -> Preemptor:
        leaving: Counter[str] = Counter()
        flows = {flow}
        for key in line.held:
            record = self._index.requests[key]
            if record.flow is not None:
                flows.add(record.flow)
                leaving[record.flow] += record.packed.preempted_by is not None
        seen_for = timedelta(seconds=self._index.monotonic() - waiting.first_seen)
        return Preemptor(
            priority=waiting.packed.priority,
            flow=flow,
            first_seen=self._index.clock() - seen_for,
            flows={
                name: FlowShare(line.running_of(name) - leaving[name], line.shares.weight(name)) for name in flows
            },
            max_running=pool.object.spec.fairness.max_running_per_flow,
        )

    def _running(self, waiting: RequestRecord, line: FlowBacklog) -> Iterator[Running]:
        for key in line.held:
            record = self._index.requests[key]
            packed = record.packed
            if not packed.preemptible or packed.priority >= waiting.packed.priority or packed.target is None:
                continue
            # What a plan has is on its member: its requests stay there.
            if PLAN_UID_LABEL in record.labels or record.flow is None:
                continue
            placed = record.placement.since if record.placement is not None else BEGINNING
            view = self._index.instances[packed.target].views.get(record.run_id)
            runs = view is not None and view.state == RequestState.RUNNING
            started = (view.started_time or placed) if view is not None and runs else None
            yield Running(key, packed.priority, record.flow, placed, started)

    def _member(self, record: RequestRecord, waiting: RequestRecord, pool: PoolRecord) -> InstanceSnapshot | None:
        """Return the member that has a request, if it would go on with the one that waits; otherwise None."""
        member = record.packed.target
        if member is None or member not in self._index.pool_lines.members_of(pool.object.key):
            return None
        if member[1] in pool.draining or member in self._index.claim_lines.held(pool.object.key):
            return None
        snapshot = self._instances.snapshot(member)
        if snapshot is None or not takes_requests(snapshot) or not self._runs_next(member, record, waiting):
            return None
        return snapshot

    def _runs_next(self, member: Key, record: RequestRecord, waiting: RequestRecord) -> bool:
        """Return whether nothing else that a member has goes before one that comes in place of another."""
        entry = self._index.instances[member]
        others = (self._index.requests[key] for key in entry.open_requests if key != record.packed.key)
        views = ((other, entry.views.get(other.run_id)) for other in others)
        return all(
            waiting.packed.rank < other.packed.rank
            for other, view in views
            if view is None or view.state == RequestState.QUEUED
        )
