"""Which running request of a pool may be interrupted for one that waits: what the choice reads, and the choice."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from itertools import islice
from typing import NamedTuple
from weakref import WeakKeyDictionary

from efrit.api.plan import PLAN_UID_LABEL
from efrit.api.pool import PreemptionPolicy
from efrit.controller.decide.placement import takes_requests
from efrit.controller.decide.preemption import preference, victims
from efrit.controller.model.keys import Key
from efrit.controller.model.preemption import FlowShare, Preemptor, Running
from efrit.controller.model.snapshots import InstanceSnapshot, Victim
from efrit.controller.store.backlog import BEGINNING
from efrit.controller.store.flow_backlog import FlowBacklog
from efrit.controller.store.index import Index
from efrit.controller.store.instances import Instances
from efrit.controller.store.pool_record import PoolRecord
from efrit.controller.store.request_record import RequestRecord
from efrit.protocol import RequestState
from efrit.protocol.view import RequestView

MAX_CANDIDATES = 16
"""Candidates that are checked for one request that waits."""

Choice = tuple[Victim | None, bool]
NOBODY: Choice = None, False


class PoolWork(NamedTuple):
    """The running requests of a pool, as the choice needs them; kept until the backlog of the pool changes."""

    changes: int
    """`FlowBacklog.changes` when this was computed."""
    running: list[Running]
    """Requests that may be interrupted, the preferred one first."""
    flows: dict[str, FlowShare]
    interrupted: dict[str, Key]
    """Requests that are being interrupted, by the UID of the one for which they are."""


class Preemptions:
    """Finds the request that is interrupted for another one."""

    def __init__(self, index: Index, instances: Instances) -> None:
        self._index = index
        self._instances = instances
        self._work: WeakKeyDictionary[FlowBacklog, PoolWork] = WeakKeyDictionary()
        """Thousands that wait are checked one after the other: their common part is computed once."""

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
        work = self._work_of(line)
        marked = work.interrupted.get(waiting.uid)
        if marked is not None:
            # An earlier process chose it.
            record = self._index.requests[marked]
            member = self._member(record, waiting, pool)
            return (Victim(record.request, member, marked=True), False) if member is not None else (None, True)
        if waiting.status_refused:
            return NOBODY
        may_come = False
        work.flows.setdefault(flow, FlowShare(0, line.shares.weight(flow)))
        preemptor = self._preemptor(waiting, flow, work, pool)
        for candidate in islice(victims(preemptor, work.running), MAX_CANDIDATES):
            record = self._index.requests[candidate.key]
            member = self._member(record, waiting, pool) if candidate.started is not None else None
            if member is not None:
                return Victim(record.request, member), False
            may_come = True
        return None, may_come

    def _preemptor(self, waiting: RequestRecord, flow: str, work: PoolWork, pool: PoolRecord) -> Preemptor:
        seen_for = timedelta(seconds=self._index.monotonic() - waiting.first_seen)
        max_running = pool.object.spec.fairness.max_running_per_flow
        return Preemptor(waiting.packed.priority, flow, self._index.clock() - seen_for, work.flows, max_running)

    def _work_of(self, line: FlowBacklog) -> PoolWork:
        work = self._work.get(line)
        if work is None or work.changes != line.changes:
            work = self._work[line] = self._compute_work(line)
        return work

    def _compute_work(self, line: FlowBacklog) -> PoolWork:
        running, interrupted, leaving = [], {}, Counter[str]()
        flows: set[str] = set()
        for key in line.held:
            record = self._index.requests[key]
            if record.flow is None:
                continue
            flows.add(record.flow)
            if record.packed.preempted_by is not None:
                interrupted[record.packed.preempted_by] = key
                leaving[record.flow] += 1
            # What a plan has is on its member: its requests stay there.
            elif record.packed.preemptible and PLAN_UID_LABEL not in record.labels and record.packed.target:
                running.append(self._running(record, record.packed.target, record.flow))
        running.sort(key=preference)
        shares = {name: FlowShare(line.running_of(name) - leaving[name], line.shares.weight(name)) for name in flows}
        return PoolWork(line.changes, running, shares, interrupted)

    def _running(self, record: RequestRecord, member: Key, flow: str) -> Running:
        placed = record.placement.since if record.placement is not None else BEGINNING
        view = self._view_of_running(record, member)
        started = (view.started_time or placed) if view is not None else None
        return Running(record.packed.key, record.packed.priority, flow, placed, started)

    def _view_of_running(self, record: RequestRecord, member: Key) -> RequestView | None:
        """Return what the bridge of a member says of a request, None where Emacs does not run it."""
        view = self._index.instances[member].views.get(record.run_id)
        return view if view is not None and view.state == RequestState.RUNNING else None

    def _member(self, record: RequestRecord, waiting: RequestRecord, pool: PoolRecord) -> InstanceSnapshot | None:
        """Return the member that has a request, if it would go on with the one that waits; otherwise None."""
        member = record.packed.target
        if member is None:
            return None
        if self._view_of_running(record, member) is None and record.packed.preempted_by != waiting.uid:
            return None
        if member not in self._index.pool_lines.members_of(pool.object.key):
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
