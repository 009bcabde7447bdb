"""Which instance each request and plan counts for, and which keys a change requeues: what the store's parts share.

Owns the records. Where a change comes from it does not know. What waits for a member of a pool is in `pool_lines` and
`claim_lines`.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime
from typing import NamedTuple

from msgspec import structs

from efrit.api import EfritInstance, EfritPlan, EfritPool, EfritRequest
from efrit.controller.manifests import release_digest
from efrit.controller.model import names
from efrit.controller.model.config import ControllerConfig
from efrit.controller.model.keys import Key, WorkKey, target_of
from efrit.controller.store.backlog import BEGINNING
from efrit.controller.store.claim_lines import ClaimLines
from efrit.controller.store.claim_record import ClaimRecord
from efrit.controller.store.contents import Contents
from efrit.controller.store.held_answers import HeldAnswer, HeldAnswers
from efrit.controller.store.instance_record import InstanceRecord, Work
from efrit.controller.store.label_index import LabelIndex
from efrit.controller.store.plan_contents import PlanContents
from efrit.controller.store.plan_record import PlanRecord
from efrit.controller.store.plan_targets import PlanCount, PlansByTarget, PlanTarget, instance_of
from efrit.controller.store.pool_lines import PoolLines
from efrit.controller.store.pool_record import PoolRecord
from efrit.controller.store.request_record import Placement, RequestRecord
from efrit.controller.store.rollouts import Rollouts
from efrit.controller.store.tombstones import Tombstones
from efrit.controller.store.unreadable_times import ObjectReader
from efrit.controller.work_queue import WorkQueue
from efrit.protocol.handover import MAX_BATCH_ELEMENTS
from efrit.protocol.view import RequestView, Stats

HELD_BACK_AT_ONCE = 2 * MAX_BATCH_ELEMENTS
"""Requests of a backlog that figures have reconciled: as many as may be on their way to a bridge at a time."""

SPREAD_AT_ONCE = 200
"""Objects that a sweep puts off before all others have a turn: ten thousand take a tenth of a second."""


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
        self.orphans: dict[Key, dict[Orphan, None]] = {}
        """By the key of the request, of which there may have been several."""
        self.contents = Contents()
        self.answers = HeldAnswers()
        self.plan_contents = PlanContents()
        self.tombstones = Tombstones()
        self.reader = ObjectReader()
        self.labels = LabelIndex()
        """Of the instances that exist."""
        self.pool_lines = PoolLines(self)
        self.claim_lines = ClaimLines(self)
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
                self.pool_lines.admit_all(pool)
                self.pool_lines.requeue_listed(pool)  # gate: listed-requeue
        for claim in self.claims:
            if namespace in (None, claim[0]):
                self.claim_lines.requeue(claim)

    def is_listed(self, namespace: str | None) -> bool:
        """Return whether all open requests and plans of a namespace have been listed by this process."""
        return None in self._listed or namespace in self._listed

    # What an instance has to do.

    def update_work(self, *instances: Key | None) -> None:
        """Compare what an instance has to do with what it had: work that comes wakes it, the end of work is activity.

        Call it when the open requests or plans of an instance may be others than before.
        """
        for key in dict.fromkeys(instances):
            entry = self.instances.get(key) if key is not None else None
            if key is None or entry is None:
                continue
            self.pool_lines.requeue_for_member(key)
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
        run_id = request.run_id
        if request.final and run_id in entry.views:
            # The answer is stored; that it is acknowledged is all that is left to do.
            entry.views[run_id] = structs.replace(entry.views[run_id], response=None)
            self.answers.discard(HeldAnswer(target, run_id))
        if self.requests[request.key].open:
            self.count_for(request.key, target)
            self.pool_lines.bound(self.requests[request.key])
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
        if not record.open:
            return
        if record.packed.pool is not None:
            self.pool_lines.add(record, record.packed.pool)
            return
        key = record.packed.key
        self.unbound.setdefault(key[0], set()).add(key)

    def untarget(self, entry: RequestRecord) -> list[Key]:
        """Take a request out of the counts of its instance; return those that it was counted for."""
        key = entry.packed.key
        self.pool_lines.remove(entry)
        unbound = self.unbound.get(key[0])
        if unbound is not None:
            unbound.discard(key)
            if not unbound:
                del self.unbound[key[0]]
        counted = []
        for target in (entry.target, entry.assumed):
            if target is not None:
                instance = self.instances[target]
                if key in instance.open_requests:
                    counted.append(target)
                instance.open_requests.discard(key)
                instance.recorded_requests.discard(key)
                instance.backlog.discard(key)
        entry.assumed = None
        return counted

    def place(self, entry: InstanceRecord, key: Key) -> None:
        """Put an open request into the backlog of its instance, or take it out once the instance has it."""
        record = self.requests[key]
        if record.run_id in entry.views:
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
        """Forget the orphaned work that a view reported; return the key of its request, None where there was none."""
        key = instance[0], str((view.metadata or {}).get("name"))
        return key if self.discard_orphan(key, Orphan(instance, view.id)) else None

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

    def requeue_within(self, key: WorkKey, seconds: float, *, least: float = 0.0) -> None:
        """Have an object reconciled within so many seconds, after all that somebody waits for; not before `least`."""
        self.queue.add_background_after(key, random.uniform(least, seconds))  # noqa: S311

    async def requeue_all_within(self, kind: str, keys: Iterable[Key], seconds: float) -> None:
        """Have objects reconciled within so many seconds, each at a moment of its own, while others have a turn."""
        for place, key in enumerate(keys, 1):
            self.requeue_within(WorkKey(kind, *key), seconds)
            if place % SPREAD_AT_ONCE == 0:
                await asyncio.sleep(0)  # gate: spread-turn

    def requeue_waiting(self, target: Key) -> None:
        """Have all open requests of an instance reconciled, a few at a time.

        Its next one goes before those of others, if the instance can get it.
        """
        entry = self.instances[target]
        recorded = entry.instance.status.handover if entry.instance is not None else None
        if recorded is not None and recorded.id == entry.facts.handover_id and entry.bridge.connected:
            for key in entry.backlog.first(1):
                self.requeue_request(key, first=True)  # gate: next-request
        self.queue.add_all(EfritRequest.kind, target[0], entry.open_requests)

    def requeue_held_back(self, target: Key, stats: Stats) -> None:
        """Have as many requests of the backlog reconciled as the instance can take, some at a time.

        What comes of them changes the figures, and has the next ones reconciled.
        """
        entry = self.instances[target]
        if entry.instance is None:
            return
        room = entry.instance.spec.queue.max_pending - stats.pending - stats.processing
        for key in entry.backlog.first(min(room, HELD_BACK_AT_ONCE)):
            if not self.requests[key].parked:
                self.requeue_request(key)

    def requeue_unbound(self, namespace: str) -> None:
        """Have all open requests reconciled that select among the instances of a namespace, or by a pool's label."""
        self.queue.add_all(EfritRequest.kind, namespace, self.unbound.get(namespace, ()))
        self.pool_lines.requeue_without_pool(namespace)
