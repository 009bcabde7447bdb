"""Which instance each request and plan counts for, and which keys a change requeues: what the store's parts share.

Owns the records. Where a change comes from it does not know.
"""

from __future__ import annotations

import heapq
import random
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime
from typing import NamedTuple

from msgspec import structs

from efrit.api import EfritClaim, EfritInstance, EfritPlan, EfritPool, EfritRequest
from efrit.api.pool import REQUESTER, Fairness, PlacementStrategy
from efrit.controller.manifests import release_digest
from efrit.controller.model import names
from efrit.controller.model.config import ControllerConfig
from efrit.controller.model.keys import Key, WorkKey, target_of
from efrit.controller.store.backlog import BEGINNING, Backlog
from efrit.controller.store.contents import Contents
from efrit.controller.store.flow_backlog import FlowBacklog, Shares
from efrit.controller.store.held_answers import HeldAnswer, HeldAnswers
from efrit.controller.store.label_index import LabelIndex
from efrit.controller.store.plan_contents import PlanContents
from efrit.controller.store.plan_targets import PlanCount, PlansByTarget, PlanTarget, instance_of
from efrit.controller.store.records import (
    ClaimOwner,
    ClaimRecord,
    InstanceRecord,
    Placement,
    PlanRecord,
    PoolOwner,
    PoolRecord,
    RequestRecord,
    Work,
)
from efrit.controller.store.rollouts import Rollouts
from efrit.controller.store.tombstones import Tombstones
from efrit.controller.work_queue import WorkQueue
from efrit.protocol import RequestView, Stats

NO_FAIRNESS = Fairness()
MOST_CANDIDATES = 16
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


class Orphan(NamedTuple):
    """Work on the bridge of an instance whose request is not known: final, deleted, or not seen yet."""

    instance: Key
    uid: str


class Index:
    """Records of all objects and what follows from them. One event loop only; no locks."""

    def __init__(
        self,
        queue: WorkQueue,
        config: ControllerConfig,
        clock: Callable[[], datetime],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.queue = queue
        self.config = config
        self.clock = clock
        self.monotonic = monotonic
        self.started = clock()
        self.instances: dict[Key, InstanceRecord] = defaultdict(InstanceRecord)
        self.requests: dict[Key, RequestRecord] = {}
        self.request_keys: dict[str, Key] = {}
        self.plans: dict[Key, PlanRecord] = {}
        self.pools: dict[Key, PoolRecord] = {}
        self.claims: dict[Key, ClaimRecord] = {}
        self.unbound: dict[str, set[Key]] = {}
        """Open requests without an instance that name no pool, by namespace."""
        self._lines: dict[Key, FlowBacklog] = {}
        """Open requests that name a pool, by pool, whether there is one or not."""
        self._members: dict[PoolOwner, set[Key]] = {}
        """Instances by the pool that owns them."""
        self._claim_lines: dict[Key, Backlog] = {}
        """Exclusive claims that wait for a member, by pool, whether there is one or not."""
        self._claimed: dict[ClaimOwner, set[Key]] = {}
        """Instances by the exclusive claim that owns them."""
        self._claims_of_pool: dict[Key, set[Key]] = {}
        """Exclusive claims that have not ended, by pool."""
        self.orphans: dict[Key, dict[Orphan, None]] = {}
        """By the key of the request, of which there may have been several."""
        self.contents = Contents()
        self.answers = HeldAnswers()
        self.plan_contents = PlanContents()
        self.tombstones = Tombstones()
        self.labels = LabelIndex()
        """Of the instances that exist."""
        self.plans_by_target = PlansByTarget()
        self.rollouts = Rollouts(release_digest(config))
        self._listed: set[str | None] = set()
        """Namespaces whose first list is complete; None for the whole cluster."""

    def first_list_complete(self, namespace: str | None) -> None:
        """Record that every object of a namespace was listed once; None for the whole cluster."""
        self._listed.add(namespace)
        for key in self.instances:
            if namespace in (None, key[0]):
                self.requeue_instance(key)
        for pool in self.pools:
            if namespace in (None, pool[0]):
                self.queue.add(WorkKey(EfritPool.kind, *pool))
        for claim in self.claims:
            if namespace in (None, claim[0]):
                self.requeue_claim(claim)

    def is_listed(self, namespace: str | None) -> bool:
        """Return whether all open requests and plans of a namespace have been listed by this process."""
        return None in self._listed or namespace in self._listed

    # What an instance has to do.

    def update_work(self, *instances: Key | None) -> None:
        """Compare what an instance has to do with what it had: work that comes wakes it, the end of work is activity.

        Call it when the open requests or plans of an instance may be others than before.
        """
        for key in instances:
            entry = self.instances.get(key) if key is not None else None
            if key is None or entry is None:
                continue
            self.requeue_for_member(key)
            plans = self.plans_of(key)
            work = Work(bool(entry.open_requests) or plans.active > 0, plans.suspended > 0)
            previous, entry.work = entry.work, work
            if work.active and not previous.active:
                entry.facts = replace(entry.facts, work_ended=None)
                asleep = entry.instance is not None and entry.instance.status.suspended_idle
                # At a start it waits among all others to be connected.
                unconnected = entry.instance is not None and not entry.bridge.connected
                if entry.facts.handover_paused or asleep or unconnected:
                    self.requeue_instance(key)
            elif previous.active > work.active or previous.suspended > work.suspended:
                now = self.clock()
                entry.facts = replace(entry.facts, last_activity=now, work_ended=None if work.active else now)
                self.queue.add_after(WorkKey(EfritInstance.kind, *key), self.config.settled_after.total_seconds())

    def plans_of(self, key: Key) -> PlanCount:
        """Return how many open plans live on an instance."""
        return self.plans_by_target.count(PlanTarget("instance", key))

    def work_is_listed(self, key: Key, instance: EfritInstance) -> bool:
        """Return whether all open requests and plans that may be on an instance are known."""
        pool = instance.metadata.labels.get(names.POOL_LABEL)
        return self.is_listed(key[0]) and not (
            pool and self.plans_by_target.count(PlanTarget("pool", (key[0], pool))).total
        )

    def instance_of_plan(self, plan: EfritPlan, instance_names: Iterable[str | None]) -> EfritInstance | None:
        """Return the instance of a plan; before a pool has chosen one, any member."""
        namespace, spec = plan.metadata.namespace, plan.spec
        name = instance_of(plan, instance_names)
        if name is not None:
            entry = self.instances.get((namespace, name))
            return entry.whole_instance() if entry is not None else None
        pool = spec.pool_ref.name if spec.pool_ref is not None else None
        for key, entry in self.instances.items():
            instance = entry.instance if key[0] == namespace else None
            if instance is not None and instance.metadata.labels.get(names.POOL_LABEL) == pool:
                return entry.whole_instance()
        return None

    def set_plan_target(self, plan: Key, target: PlanTarget | None, *, suspended: bool) -> None:
        """Count an open plan for its target, None to take it out; requeue the instances that this concerns."""
        self._plan_counts_changed(self.plans_by_target.set_target(plan, target, suspended=suspended))

    def _plan_counts_changed(self, targets: set[PlanTarget]) -> None:
        for target in targets:
            if target.kind == "instance":
                self.update_work(target.key)
            elif not self.plans_by_target.count(target).total:
                for key, entry in self.instances.items():
                    labels = entry.instance.metadata.labels if entry.instance is not None else {}
                    if (key[0], labels.get(names.POOL_LABEL)) == target.key:
                        self.requeue_instance(key)

    # Which instance a request counts for.

    def retarget(self, request: EfritRequest) -> None:
        """Count a request for the instance it is bound to, or among the unbound ones."""
        target = target_of(request)
        if target is None:
            self._retarget_unbound(self.requests[request.key])
            return
        entry = self.instances[target]
        moments = (request.metadata.creation_timestamp, request.status.completion_time, entry.facts.last_activity)
        latest = max((moment for moment in moments if moment is not None), default=None)
        if latest != entry.facts.last_activity:
            entry.facts = replace(entry.facts, last_activity=latest)
        uid = request.metadata.uid
        if request.final and uid in entry.views:
            # The answer is stored; that it is acknowledged is all that is left to do.
            entry.views[uid] = structs.replace(entry.views[uid], response=None)
            self.answers.discard(HeldAnswer(target, uid))
        if self.requests[request.key].open:
            self.count_for(request.key, target)
            self.bound(self.requests[request.key])
            if request.status.queue_id is not None:
                entry.recorded_requests.add(request.key)
            self.place(entry, request.key)

    def count_for(self, request: Key, instance: Key) -> None:
        """Count an open request for an instance; of a member of a pool, remember since when."""
        record, entry = self.requests[request], self.instances[instance]
        entry.open_requests.add(request)
        if entry.pool is not None and (record.placement is None or record.placement.instance != instance):
            # What an earlier process has placed may have been there for long.
            since = self.clock() if self.is_listed(request[0]) else BEGINNING  # gate: placed-before
            record.placement = Placement(instance, since)

    def working_since(self, instance: Key) -> datetime | None:
        """Return since when an instance has its oldest request, or a plan that goes on; None where it has neither."""
        if self.plans_of(instance).active:
            return BEGINNING
        placements = (self.requests[key].placement for key in self.instances[instance].open_requests)
        return min((placed.since if placed is not None else BEGINNING for placed in placements), default=None)

    def _retarget_unbound(self, record: RequestRecord) -> None:
        key, pool = record.packed.key, record.packed.pool
        if not record.open:
            return
        if pool is None:
            self.unbound.setdefault(key[0], set()).add(key)
            return
        line = self._line(pool)
        if not len(line):
            # Perhaps there is no member.
            self._requeue_pool_key(pool)
        self._pool_changed(pool)
        flow = line.known(self._flow(record))
        most = self._fairness(pool).max_pending_per_flow
        record.turned_away |= not record.waited and most is not None and line.waiting_of(flow) >= most
        record.waited = True
        line.add(key, record.packed.rank, flow)

    def _line(self, pool: Key) -> FlowBacklog:
        line = self._lines.get(pool)
        if line is None:
            line = self._lines[pool] = FlowBacklog()
            line.shares = shares_of(self._fairness(pool))
        return line

    def _fairness(self, pool: Key) -> Fairness:
        record = self.pools.get(pool)
        return record.object.spec.fairness if record is not None else NO_FAIRNESS

    def _flow(self, record: RequestRecord) -> str:
        """Return the flow of a request of a pool."""
        pool = record.packed.pool
        label = self._fairness(pool).flow_label if pool is not None else None
        return record.labels.get(label or REQUESTER, "")

    def bound(self, record: RequestRecord) -> None:
        """Count a request of a pool, which is bound to a member or is about to be, as one that a member has."""
        pool = record.packed.pool
        if pool is None or not record.open or record.flow is not None:
            return
        line = self._line(pool)
        record.flow = line.known(self._flow(record))
        line.discard(record.packed.key)
        line.started(record.flow, is_paid=record.paid)
        record.paid = True
        self._pool_changed(pool)

    def _unbound(self, record: RequestRecord) -> None:
        """Take a request out of the line of its pool, and out of what members have."""
        pool = record.packed.pool
        line = self._lines.get(pool) if pool is not None else None
        if pool is None or line is None:
            return
        line.discard(record.packed.key)
        if record.flow is not None:
            line.ended(record.flow)
            record.flow = None
        if line.idle:
            del self._lines[pool]
        self._pool_changed(pool)

    def untarget(self, entry: RequestRecord) -> None:
        """Take a request out of the counts of its instance."""
        key = entry.packed.key
        self._unbound(entry)
        unbound = self.unbound.get(key[0])
        if unbound is not None:
            unbound.discard(key)
            if not unbound:
                del self.unbound[key[0]]
        for target in (entry.target, entry.assumed):
            if target is not None:
                self.instances[target].open_requests.discard(key)
                self.instances[target].recorded_requests.discard(key)
                self.instances[target].backlog.discard(key)
        entry.assumed = None

    def place(self, entry: InstanceRecord, key: Key) -> None:
        """Put an open request into the backlog of its instance, or take it out once the instance has it."""
        record = self.requests[key]
        if record.uid in entry.views:
            entry.backlog.discard(key)
        else:
            entry.backlog.add(key, record.packed.rank)

    def forget_orphans(self, instance: Key) -> None:
        """Forget the orphaned work of an instance: its bridge reports it anew, or never again."""
        for view in self.instances[instance].views.values():
            key = self.forget_orphan(instance, view)
            if key is not None and key not in self.requests and key not in self.orphans:
                self.queue.forget(WorkKey(EfritRequest.kind, *key))

    def add_orphan(self, request: Key, orphan: Orphan) -> None:
        """Remember orphaned work under the key that its request had."""
        self.orphans.setdefault(request, {})[orphan] = None

    def discard_orphan(self, request: Key, orphan: Orphan) -> bool:
        """Forget orphaned work, if it is known; return whether it was."""
        orphans = self.orphans.get(request, {})
        if orphan not in orphans:
            return False
        del orphans[orphan]
        if not orphans:
            del self.orphans[request]
        return True

    def forget_orphan(self, instance: Key, view: RequestView) -> Key | None:
        """Forget the orphaned work that a view told of; return the key of its request, None where there was none."""
        key = instance[0], str((view.metadata or {}).get("name"))
        return key if self.discard_orphan(key, Orphan(instance, view.id)) else None

    # Pools.

    def place_member(self, key: Key, before: PoolOwner | None, pool: PoolOwner | None) -> None:
        """Count an instance as a member of the pool that owns it, None where none does or it is gone."""
        if before != pool and before is not None:
            members = self._members.get(before, set())
            members.discard(key)
            if not members:
                self._members.pop(before, None)
            self._requeue_pool_key((key[0], before.name))
        if pool is not None:
            self._members.setdefault(pool, set()).add(key)

    def members_of(self, pool: Key) -> set[Key]:
        """Return the instances that a pool owns."""
        record = self.pools.get(pool)
        if record is None or record.uid is None:
            return set()
        return self._members.get(PoolOwner(pool[1], record.uid), set())

    def pool_of(self, instance: Key) -> PoolRecord | None:
        """Return the pool that owns an instance."""
        entry = self.instances.get(instance)
        owner = entry.pool if entry is not None else None
        record = self.pools.get((instance[0], owner.name)) if owner is not None else None
        return record if record is not None and owner is not None and record.uid == owner.uid else None

    def pool_backlog(self, pool: Key) -> int:
        """Return how many requests wait for a member of a pool."""
        line = self._lines.get(pool)
        return len(line) if line is not None else 0

    def busiest_flows(self, pool: Key, count: int) -> list[tuple[str, int, int]]:
        """Return name, running and waiting of the flows of a pool with the most requests."""
        line = self._lines.get(pool)
        return line.busiest(count) if line is not None else []

    def ahead_in_pool(self, record: RequestRecord, most: int) -> int:
        """Return how many requests of its pool go before one that waits, `most` where there are as many or more."""
        line = self._lines.get(record.packed.pool) if record.packed.pool is not None else None
        return line.ahead_of(record.packed.key, most) if line is not None else 0

    def room_in_pool(self, pool: Key) -> PoolRoom:
        """Return what the members of a pool have room for."""
        record = self.pools.get(pool)
        if record is None:
            return PoolRoom()
        placement = record.object.spec.placement
        packed = placement.strategy == PlacementStrategy.PACKED
        awake, asleep, members = 0, 0, []
        held = self._held_for_claims(pool)
        for key in self.members_of(pool):
            entry = self.instances[key]
            load = len(entry.open_requests)
            room = placement.max_load_per_instance - load
            sleeps = entry.instance is not None and bool(entry.instance.status.suspended_idle)
            if room <= 0 or key in held or key[1] in record.draining or not (entry.bridge.connected or sleeps):
                continue
            awake, asleep = (awake, asleep + room) if sleeps else (awake + room, asleep)
            members.append((sleeps, -load if packed else load, key))
        return PoolRoom(awake, asleep, tuple(key for *_, key in heapq.nsmallest(MOST_CANDIDATES, members)))

    def share_anew(self, pool: Key) -> None:
        """Put the requests of a pool in line anew, after its fairness has changed."""
        line = self._lines.get(pool)
        if line is not None:
            line.shares = shares_of(self._fairness(pool))
            line.refile(lambda key: self._flow(self.requests[key]))

    def _requeue_pool_key(self, pool: Key) -> None:
        if pool in self.pools:
            self.queue.add(WorkKey(EfritPool.kind, *pool))

    def _pool_changed(self, pool: Key) -> None:
        if pool in self.pools:
            self.queue.add_after(WorkKey(EfritPool.kind, *pool), self.config.settled_after.total_seconds())

    def requeue_for_member(self, instance: Key) -> None:
        """Have as many requests that wait for a pool reconciled as this member has room for."""
        record = self.pool_of(instance)
        if record is None:
            return
        pool = record.object.key
        self._pool_changed(pool)
        self.requeue_claims(pool, 1)
        room = record.object.spec.placement.max_load_per_instance - len(self.instances[instance].open_requests)
        if instance[1] not in record.draining and instance not in self._held_for_claims(pool):
            self._requeue_first(pool, room)

    def requeue_pool(self, pool: Key) -> None:
        """Have as many requests that wait for a pool reconciled as its members have room for."""
        room = self.room_in_pool(pool)
        self._requeue_first(pool, room.awake + room.asleep)

    def requeue_waiting_for_pool(self, pool: Key) -> None:
        """Have all requests reconciled that wait for a pool: it is gone, or there is none of the name."""
        self._requeue_first(pool, self.pool_backlog(pool))
        self.requeue_claims(pool, self.claims_waiting(pool))

    def _requeue_first(self, pool: Key, count: int) -> None:
        line = self._lines.get(pool)
        for key in line.first(count) if line is not None else ():
            self.requeue_request(key)

    # Exclusive claims.

    def place_claimed(self, instance: Key, before: ClaimOwner | None, claim: ClaimOwner | None) -> None:
        """Count an instance as that of the exclusive claim that owns it, None where none does or it is gone."""
        if before is not None and before != claim:
            instances = self._claimed.get(before, set())
            instances.discard(instance)
            if not instances:
                self._claimed.pop(before, None)
        if claim is not None:
            self._claimed.setdefault(claim, set()).add(instance)
        entry = self.instances[instance]
        taker = self.claims.get(entry.taken_by) if entry.taken_by is not None else None
        if taker is not None and (entry.instance is None or claim is not None):
            self.give_up(taker)
        for owner in {before, claim} - {None} if before != claim else ():
            if owner is not None:
                self._owner_changed(owner)

    def _owner_changed(self, owner: ClaimOwner) -> None:
        record = self.claims.get(owner.key)
        if record is not None and record.uid == owner.uid:
            self._pool_changed(self._pool_of_claim(owner.key))
            self.line_up(owner.key)
            self.requeue_claim(owner.key)

    def observe_claim_of_pool(self, claim: Key, before: Key | None, pool: Key | None) -> None:
        """Count an exclusive claim as one of a pool, whether there is one or not; None once it is forgotten."""
        if before is not None and before != pool:
            claims = self._claims_of_pool.get(before, set())
            claims.discard(claim)
            if not claims:
                self._claims_of_pool.pop(before, None)
            self._pool_changed(before)
        if pool is not None:
            self._claims_of_pool.setdefault(pool, set()).add(claim)

    def claimed_from(self, pool: Key) -> list[Key]:
        """Return the instances that exclusive claims of a pool have, or are becoming the owner of."""
        records = [self.claims[claim] for claim in self._claims_of_pool.get(pool, ())]
        owned = (record.taking or self.claimed_by(record.object) for record in records)
        return sorted(instance for instance in owned if instance is not None)

    def claimed_by(self, claim: EfritClaim) -> Key | None:
        """Return the instance that an exclusive claim owns: the one in its status, or else the first by name."""
        owned = self._claimed.get(ClaimOwner(claim.key, claim.metadata.uid), set())
        return min(owned, key=lambda key: (key[1] != claim.status.instance_name, key), default=None)

    def take(self, record: ClaimRecord, instance: Key) -> None:
        """Take a member out of its pool for an exclusive claim that is becoming its owner."""
        entry, claim = self.instances[instance], record.object.key
        if entry.taken_by == claim:
            return
        record.taking, entry.taken_by = instance, claim
        self.labels.put(instance, None)
        pool, entry.pool = entry.pool, None
        self.place_member(instance, pool, None)
        self.leave_line(claim)

    def give_up(self, record: ClaimRecord) -> None:
        """Take a member for that of the owner that its object names, who may be the pool or the claim."""
        entry = self.instances.get(record.taking) if record.taking is not None else None
        instance, record.taking = record.taking, None
        if entry is not None and instance is not None and entry.taken_by == record.object.key:
            entry.taken_by = None
            if entry.object is not None:
                entry.pool = entry.pool_in_object
                self.labels.put(instance, entry.object.metadata.labels if entry.claim is None else None)
                self.place_member(instance, None, entry.pool)
                self.requeue_instance(instance)
                self.requeue_for_member(instance)
        self.line_up(record.object.key)

    def line_up(self, claim: Key) -> None:
        """Put an exclusive claim in the line of its pool if it waits for a member, otherwise take it out."""
        record = self.claims[claim]
        new, meta = record.object, record.object.metadata
        waits = (
            not new.final
            and not new.spec.released
            and new.status.bound_time is None
            and meta.deletion_timestamp is None
            and record.taking is None
            and self.claimed_by(new) is None
        )
        if not waits:
            self.leave_line(claim)
            return
        pool = self._pool_of_claim(claim)
        line = self._claim_lines.setdefault(pool, Backlog())
        is_new = line.ahead_of(claim) == len(line)
        line.add(claim, (meta.creation_timestamp or BEGINNING, meta.name))
        if is_new:
            self._requeue_pool_key(pool)

    def leave_line(self, claim: Key) -> None:
        """Take an exclusive claim out of the line of its pool, and have the next one reconciled."""
        pool = self._pool_of_claim(claim)
        line = self._claim_lines.get(pool)
        if line is None or line.ahead_of(claim) == len(line):
            return
        line.discard(claim)
        if not len(line):
            del self._claim_lines[pool]
        self.requeue_claims(pool, 1)
        # The pool is to have fewer members than while it waited, and those kept for it take requests again.
        self._pool_changed(pool)
        self.requeue_pool(pool)

    def _pool_of_claim(self, claim: Key) -> Key:
        return claim[0], self.claims[claim].object.spec.pool_ref.name

    def is_in_line(self, claim: Key) -> bool:
        """Return whether an exclusive claim waits for a member."""
        line = self._claim_lines.get(self._pool_of_claim(claim))
        return line is not None and line.ahead_of(claim) < len(line)

    def claims_ahead(self, claim: Key) -> int:
        """Return how many exclusive claims come before one that waits."""
        line = self._claim_lines.get(self._pool_of_claim(claim))
        return line.ahead_of(claim) if line is not None else 0

    def claims_waiting(self, pool: Key) -> int:
        """Return how many exclusive claims wait for a member of a pool."""
        line = self._claim_lines.get(pool)
        return len(line) if line is not None else 0

    def idle_members(self, pool: Key) -> list[Key]:
        """Return the members of a pool that an exclusive claim may take: without requests, none that drains."""
        record = self.pools.get(pool)
        if record is None:
            return []
        members = ((key, self.instances[key]) for key in self.members_of(pool) if key[1] not in record.draining)
        return [
            key
            for key, entry in members
            if not entry.open_requests
            and entry.instance is not None
            and (entry.bridge.connected or entry.instance.status.suspended_idle)
            # The patch of the owner would take the others away.
            and entry.sole_owner
        ]

    def preference(self, member: Key) -> tuple[bool, bool, datetime, str]:
        """Return what members are sorted by before one is chosen: awake, current, and least recently used first."""
        entry, pool = self.instances[member], self.pool_of(member)
        instance = entry.instance
        labels = instance.metadata.labels if instance is not None else {}
        asleep = instance is not None and bool(instance.status.suspended_idle)
        current = pool is not None and labels.get(names.REVISION_LABEL) == pool.revision
        return asleep, not current, entry.facts.last_activity or BEGINNING, member[1]

    def _held_for_claims(self, pool: Key) -> set[Key]:
        """Return the members that get no requests because as many exclusive claims wait: those with the fewest."""
        count, record = self.claims_waiting(pool), self.pools.get(pool)
        if not count or record is None:
            return set()
        members = (key for key in self.members_of(pool) if key[1] not in record.draining)
        return set(heapq.nsmallest(count, members, key=lambda key: (len(self.instances[key].open_requests), key)))

    def requeue_claims(self, pool: Key, count: int) -> None:
        """Have the first exclusive claims reconciled that wait for a member of a pool."""
        line = self._claim_lines.get(pool)
        for key in line.first(count) if line is not None else ():
            self.requeue_claim(key)

    def requeue_claim_of(self, instance: Key) -> None:
        """Have the exclusive claim reconciled that owns an instance."""
        owner = self.instances[instance].claim
        record = self.claims.get(owner.key) if owner is not None else None
        if owner is not None and record is not None and record.uid == owner.uid:
            self.requeue_claim(owner.key)

    def requeue_claim(self, key: Key) -> None:
        """Have an exclusive claim reconciled."""
        self.queue.add(WorkKey(EfritClaim.kind, *key))

    # Which keys a change requeues.

    def observe_rollout(self, key: Key) -> None:
        """Take in what an instance says of its update; requeue those whose turn it may be."""
        entry = self.instances[key]
        if self.rollouts.observe(key, entry.instance, entry.own_statefulset):
            for instance_key in self.rollouts.next_waiting(self.config.rollout.max_concurrent_per_namespace):
                self.requeue_instance(instance_key)

    def requeue_instance(self, key: Key, *, first: bool = False) -> None:
        """Have an instance reconciled; one whose requests wait for it to be connected, before those without any."""
        entry = self.instances.get(key)
        awaited = entry is not None and bool(entry.open_requests) and not entry.bridge.connected  # gate: awaited
        self.queue.add(WorkKey(EfritInstance.kind, *key), first=first, awaited=awaited)

    def requeue_request(self, key: Key, *, first: bool = False) -> None:
        """Have a request reconciled."""
        self.queue.add(WorkKey(EfritRequest.kind, *key), first=first)

    def requeue_within(self, key: WorkKey, seconds: float) -> None:
        """Have an object reconciled within so many seconds, after all that somebody waits for."""
        self.queue.add_background_after(key, random.uniform(0, seconds))  # noqa: S311

    def requeue_waiting(self, target: Key) -> None:
        """Have all open requests of an instance reconciled; its next one before those of others, if it can get it."""
        entry = self.instances[target]
        recorded = entry.instance.status.handover if entry.instance is not None else None
        if recorded is not None and recorded.id == entry.facts.handover_id and entry.bridge.connected:
            for key in entry.backlog.first(1):
                self.requeue_request(key, first=True)  # gate: next-request
        for key in entry.open_requests:
            self.requeue_request(key)

    def requeue_held_back(self, target: Key, stats: Stats) -> None:
        """Have as many requests of the backlog reconciled as the instance can take."""
        entry = self.instances[target]
        if entry.instance is None:
            return
        for key in entry.backlog.first(entry.instance.spec.queue.max_pending - stats.pending - stats.processing):
            if not self.requests[key].parked:
                self.requeue_request(key)

    def requeue_unbound(self, namespace: str) -> None:
        """Have all open requests reconciled that select among the instances of a namespace, or by a pool's label."""
        for key in self.unbound.get(namespace, ()):
            self.requeue_request(key)
        for pool in [pool for pool in self._lines if pool[0] == namespace and pool not in self.pools]:
            self.requeue_waiting_for_pool(pool)
