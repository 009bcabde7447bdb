"""Which requests wait for a member of a pool, in which order, and which members have room: a part of the index."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Set
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from efrit.api import EfritPool, EfritRequest
from efrit.api.pool import MAX_MEMBERS, REQUESTER, Fairness, PlacementStrategy
from efrit.controller.model.keys import Key, WorkKey
from efrit.controller.model.snapshots import pod_goes_for_update
from efrit.controller.store.flow_backlog import FlowBacklog, Shares
from efrit.controller.store.groups import BoundedGroups
from efrit.controller.store.instance_record import PoolOwner
from efrit.controller.store.pool_record import PoolRecord
from efrit.controller.store.request_record import RequestRecord

if TYPE_CHECKING:
    from efrit.controller.store.index import Index

NO_FAIRNESS = Fairness()
REFILE_SECONDS = 1.0
"""Between two labels by which requests are put in line anew: ten thousand take a tenth of a second of a processor."""
REFILED_AT_ONCE = 500
"""Requests that are put in line anew before all others have a turn."""
REFILE_PAUSE_SECONDS = 0.05
MAX_COUNTED = 2 * MAX_MEMBERS
"""Members of a pool that count: as many as one has of the largest size, all of which are replaced at once.

Without the chart's admission policy anybody who creates instances may name a pool as their owner.
"""
MAX_CANDIDATES = 16
"""Members that a decision about a request chooses between."""


def shares_of(fairness: Fairness) -> Shares:
    """Return how a pool is shared between flows."""
    return Shares(fairness.weights, fairness.max_running_per_flow)


class PoolRoom(NamedTuple):
    """How many requests the members of a pool have room for."""

    awake: int = 0
    asleep: int = 0
    members: tuple[Key, ...] = ()
    """Some of those with room, first those that a request goes to first."""


def _flow(record: RequestRecord, line: FlowBacklog) -> str:
    """Return the flow of a request of a pool, by the label that all in its line go by."""
    return record.labels.get(line.label or REQUESTER, "")


class PoolLines:
    """The line of each pool, and its members."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self._lines: dict[Key, FlowBacklog] = {}
        """Open requests that name a pool, by pool, whether there is one or not."""
        self._members = BoundedGroups[PoolOwner, Key](MAX_COUNTED)
        """Instances by the pool that owns them."""

    def add(self, record: RequestRecord, pool: Key) -> None:
        """Put a request into the line of its pool."""
        line = self._line(pool)
        if not len(line) and not self.has_member_awake(pool):
            self.requeue_key(pool)
        self.changed(pool)
        flow = line.known(_flow(record, line))
        if pool in self._index.pools and self._index.is_listed(pool[0]):  # gate: admit-listed
            self._admit(record, pool, line.staying_of(flow))
        line.add(record.packed.key, record.packed.rank, flow, record.packed.created)

    def _admit(self, record: RequestRecord, pool: Key, waiting: int) -> bool:
        """Have a request wait beside others of its flow, or turn it away: decided once, also by two processes.

        Return whether it waits.
        """
        limit = self._fairness(pool).max_pending_per_flow
        if not record.admitted and limit is not None:
            record.turned_away = waiting >= limit
        record.admitted = True
        return not record.turned_away

    def admit_all(self, pool: Key) -> None:
        """Decide which requests wait that came before their pool, or all of them, were known.

        First those that were let wait before, then by age.
        """
        line = self._lines.get(pool)
        if line is None or not self._index.is_listed(pool[0]):
            return
        records = [self._index.requests[key] for key in line.waiting]
        if self._fairness(pool).max_pending_per_flow is not None:
            self._admit_in_order(pool, line, records)
        else:
            for record in records:
                record.admitted = True
        turned_away = [record.packed.key for record in records if record.turned_away]
        self._index.queue.add_all(EfritRequest.kind, pool[0], turned_away)

    def _admit_in_order(self, pool: Key, line: FlowBacklog, records: list[RequestRecord]) -> None:
        waiting = Counter[str]()
        for record in sorted(records, key=lambda each: (not each.admitted, each.packed.created)):
            flow = line.flow_of(record.packed.key) or ""
            waiting[flow] += self._admit(record, pool, waiting[flow]) and not record.left_selection

    def _line(self, pool: Key) -> FlowBacklog:
        line = self._lines.get(pool)
        if line is None:
            line = self._lines[pool] = FlowBacklog()
            fairness = self._fairness(pool)
            line.shares, line.label = shares_of(fairness), fairness.flow_label
        return line

    def _fairness(self, pool: Key) -> Fairness:
        record = self._index.pools.get(pool)
        return record.object.spec.fairness if record is not None else NO_FAIRNESS

    def line(self, pool: Key) -> FlowBacklog | None:
        """Return the line of a pool, None where it has no open request."""
        return self._lines.get(pool)

    def begun(self, record: RequestRecord) -> None:
        """Take in that Emacs has begun a request that a member has."""
        line = self._lines.get(record.packed.pool) if record.packed.pool is not None else None
        if line is not None:
            line.changes += 1

    def bound(self, record: RequestRecord, *, in_turn: bool = True) -> None:
        """Count a request of a pool, which is bound to a member or is about to be, as one that a member has."""
        pool = record.packed.pool
        if pool is None or not record.open or record.flow is not None:
            return
        line = self._line(pool)
        record.flow = line.known(_flow(record, line))
        line.discard(record.packed.key)
        line.held.add(record.packed.key)
        line.started(record.flow, is_paid=record.paid)
        record.paid = True
        self.changed(pool)
        if not in_turn:
            # It may have been looked at for room that it did not take.
            self.requeue_pool(pool)  # gate: room-not-taken

    def set_aside(self, record: RequestRecord) -> None:
        """Have a request that waits keep no place from others until it is decided about again."""
        pool = record.packed.pool
        line = self._lines.get(pool) if pool is not None else None
        if pool is not None and line is not None and line.set_aside(record.packed.key):
            self.requeue_pool(pool)

    def resume(self, record: RequestRecord) -> None:
        """Put a request that was set aside back to its place in the line of its pool."""
        line = self._lines.get(record.packed.pool) if record.packed.pool is not None else None
        if line is not None:
            line.resume(record.packed.key)

    def note_leaving(self, record: RequestRecord, *, is_leaving: bool) -> None:
        """Take in whether a request has probably left its pool, as the API server is yet to confirm."""
        line = self._lines.get(record.packed.pool) if record.packed.pool is not None else None
        if line is not None:
            line.note_leaving(record.packed.key, is_leaving=is_leaving)

    def remove(self, record: RequestRecord) -> None:
        """Take a request out of the line of its pool, and out of what members have."""
        pool = record.packed.pool
        line = self._lines.get(pool) if pool is not None else None
        key = record.packed.key
        if pool is None or line is None or not (key in line.held or line.flow_of(key) is not None):
            return
        line.discard(key)
        line.held.discard(key)
        if record.flow is not None:
            had_all = line.has_all(record.flow)
            line.ended(record.flow)
            first = line.first_of(record.flow) if had_all else None
            if first is not None:
                # One that continues a session needs no room, and nothing else reports it.
                self._index.requeue_request(first)
            record.flow = None
        if line.idle:
            del self._lines[pool]
        self.changed(pool)

    def place_member(self, key: Key, before: PoolOwner | None, pool: PoolOwner | None) -> None:
        """Count an instance as a member of the pool that owns it, None where none does or it is gone."""
        left = self._move(key, before, pool)
        if left is not None:
            self.requeue_key(left)

    def take_member(self, key: Key, pool: PoolOwner | None) -> None:
        """Count an instance as a member of its pool no more; the pool makes another once others have been taken."""
        left = self._move(key, pool, None)
        if left is not None:
            self.changed(left)

    def _move(self, key: Key, before: PoolOwner | None, pool: PoolOwner | None) -> Key | None:
        """Move an instance from one pool to another, and return the one that it has left."""
        self._members.move(key, before, pool)
        return before.key if before is not None and before != pool else None

    def members_of(self, pool: Key) -> Set[Key]:
        """Return the instances that a pool owns; of more than it can have, as many as are looked at."""
        owner = self._owner(pool)
        return self._members.of(owner) if owner is not None else frozenset()

    def has_too_many(self, pool: Key) -> bool:
        """Return whether more instances have a pool as their owner than are looked at."""
        owner = self._owner(pool)
        return owner is not None and self._members.has_others(owner)

    def _owner(self, pool: Key) -> PoolOwner | None:
        record = self._index.pools.get(pool)
        return PoolOwner(pool, record.uid) if record is not None and record.uid is not None else None

    def flow_has_all(self, pool: Key, flow: str) -> bool:
        """Return whether members have as many requests of a flow as they may have at a time, or may have as many."""
        line = self._lines.get(pool)
        if line is None or line.shares.max_running is None:
            return False
        return line.has_all(flow) or not self._index.is_listed(pool[0])  # gate: flow-listed

    def has_member_awake(self, pool: Key) -> bool:
        """Return whether the Emacs of a member takes work."""
        return any(self._index.instances[key].takes_work for key in self.members_of(pool))

    def pool_of(self, instance: Key) -> PoolRecord | None:
        """Return the pool that owns an instance."""
        entry = self._index.instances.get(instance)
        owner = entry.pool if entry is not None else None
        record = self._index.pools.get(owner.key) if owner is not None else None
        return record if record is not None and owner is not None and record.uid == owner.uid else None

    def backlog(self, pool: Key) -> int:
        """Return how many requests wait for a member of a pool."""
        line = self._lines.get(pool)
        return len(line) if line is not None else 0

    def oldest(self, pool: Key) -> datetime | None:
        """Return when the oldest of the requests was created that wait for a member of a pool."""
        line = self._lines.get(pool)
        return line.oldest if line is not None else None

    def busiest_flows(self, pool: Key, count: int) -> list[tuple[str, int, int]]:
        """Return name, running and waiting of the flows of a pool with the most requests."""
        line = self._lines.get(pool)
        return line.busiest(count) if line is not None else []

    def ahead(self, record: RequestRecord, limit: int) -> int:
        """Return how many requests of its pool go before one that waits, `limit` where there are as many or more."""
        line = self._lines.get(record.packed.pool) if record.packed.pool is not None else None
        return line.ahead_of(record.packed.key, limit) if line is not None else 0

    def room(self, pool: Key) -> PoolRoom:
        """Return what the members of a pool have room for; none before it is known what each of them has."""
        record = self._index.pools.get(pool)
        if record is None or not self._index.is_listed(pool[0]):  # gate: room-listed
            return PoolRoom()
        placement = record.object.spec.placement
        packed = placement.strategy == PlacementStrategy.PACKED
        awake, asleep, members = 0, 0, []
        held = self._index.claim_lines.held(pool)
        for key in self.members_of(pool):
            entry = self._index.instances[key]
            load = len(entry.open_requests)
            room = placement.max_load_per_instance - load
            sleeps = entry.instance is not None and bool(entry.instance.status.suspended_idle)
            if room <= 0 or key in held or key[1] in record.draining:
                continue
            # Of many whose disks are full all that a decision chooses between might be.
            if not sleeps and (not (entry.takes_work and entry.disk_takes_work) or self._waits_for_update(key)):
                continue
            awake, asleep = (awake, asleep + room) if sleeps else (awake + room, asleep)
            members.append((sleeps, -load if packed else load, key))
        return PoolRoom(awake, asleep, tuple(key for *_, key in heapq.nsmallest(MAX_CANDIDATES, members)))

    def _waits_for_update(self, member: Key) -> bool:
        """Return whether a member takes no request until its pod is replaced."""
        entry = self._index.instances[member]
        if entry.replacing or self._index.rollouts.is_reserved(member):
            return True
        return entry.instance is not None and pod_goes_for_update(
            entry.instance, entry.own_pod, entry.own_statefulset
        )  # gate: room-held

    def share_anew(self, pool: Key) -> None:
        """Share a pool as it says now. Its requests are put in line anew for another label, once a second at most.

        A few of them at a time: until all are, the others keep their place by the former label.
        """
        line, fairness = self._lines.get(pool), self._fairness(pool)
        if line is None:
            return
        line.shares = shares_of(fairness)
        line.changes += 1
        if line.label != fairness.flow_label:
            now = self._index.monotonic()
            if line.refiled is None or now - line.refiled >= REFILE_SECONDS:  # gate: refile-pause
                line.label, line.refiled = fairness.flow_label, now
                line.refile_begins()
                self._refile_held(line)  # gate: refile-held
            else:
                self._index.queue.add_after(WorkKey(EfritPool.kind, *pool), REFILE_SECONDS)
        if line.refile(lambda key: _flow(self._index.requests[key], line), REFILED_AT_ONCE):
            self._index.queue.add_after(WorkKey(EfritPool.kind, *pool), REFILE_PAUSE_SECONDS)

    def _refile_held(self, line: FlowBacklog) -> None:
        """Count what members have for its flow by the present label: at a start, requests may be seen before it."""
        for key in line.held:
            record = self._index.requests[key]
            if record.flow is not None:
                line.ended(record.flow)
                record.flow = line.known(_flow(record, line))
                line.started(record.flow, is_paid=True)

    def requeue_key(self, pool: Key) -> None:
        """Have a pool reconciled, if there is one."""
        if pool in self._index.pools:
            self._index.queue.add(WorkKey(EfritPool.kind, *pool))

    def changed(self, pool: Key) -> None:
        """Have a pool reconciled once its load has settled."""
        if pool in self._index.pools:
            self._index.queue.add_after(
                WorkKey(EfritPool.kind, *pool), self._index.config.settled_after.total_seconds()
            )

    def requeue_for_member(self, instance: Key) -> None:
        """Have as many requests that wait for a pool reconciled as this member has room for."""
        record = self.pool_of(instance)
        if record is None:
            return
        pool = record.object.key
        self.changed(pool)
        self._index.claim_lines.requeue_first(pool, 1)
        room = record.object.spec.placement.max_load_per_instance - len(self._index.instances[instance].open_requests)
        if instance[1] not in record.draining and instance not in self._index.claim_lines.held(pool):
            self._requeue_first(pool, room)

    def requeue_pool(self, pool: Key) -> None:
        """Have as many requests that wait for a pool reconciled as its members have room for."""
        if not self.backlog(pool):
            # Each claim comes here, and there may be hundreds of members.
            return
        room = self.room(pool)
        self._requeue_first(pool, room.awake + room.asleep)

    def requeue_waiting(self, pool: Key) -> None:
        """Have all requests reconciled that wait for a pool, a few at a time: it is gone, or never was."""
        line = self._lines.get(pool)
        if line is not None:
            self._requeue_all(pool[0], line.waiting)

    def _requeue_all(self, namespace: str, waiting: Iterable[Key]) -> None:
        keys = [key for key in waiting if not self._index.requests[key].retries_binding]
        self._index.queue.add_all(EfritRequest.kind, namespace, keys)

    def _requeue_first(self, pool: Key, count: int) -> None:
        line = self._lines.get(pool)
        for key in line.first(count) if line is not None and count > 0 and len(line) else ():
            # It is the place of one that waits for the API server to answer; it comes back by itself.
            if not self._index.requests[key].retries_binding:  # gate: bind-backoff
                self._index.requeue_request(key)

    def requeue_listed(self, pool: Key) -> None:
        """Have the requests reconciled that get a member, or another one, now that all open requests are known."""
        line = self._lines.get(pool)
        self._index.queue.add_all(EfritRequest.kind, pool[0], line.held if line is not None else ())
        self.requeue_pool(pool)

    def requeue_without_pool(self, namespace: str) -> None:
        """Have all requests of a namespace reconciled whose pool is not there."""
        for pool, line in self._lines.items():
            if pool[0] == namespace and pool not in self._index.pools:
                self._requeue_all(namespace, line.waiting)
