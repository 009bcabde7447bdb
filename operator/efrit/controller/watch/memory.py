"""What the store remembers and the bookkeeping under it: which instance a request counts for, whom a change concerns.

The lowest of three layers over the same records (memory, bridge news, store). Where news comes from it does not know.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from datetime import datetime

from efrit.api import EfritInstance, EfritPlan, EfritRequest
from efrit.controller.decide.children import release_digest
from efrit.controller.decide.views import ControllerConfig, Key
from efrit.controller.watch.line import rank
from efrit.controller.watch.plan_homes import Home, PlanCount
from efrit.controller.watch.plans import Plans
from efrit.controller.watch.queue import WorkKey, WorkQueue
from efrit.controller.watch.records import InstanceRecord, RequestRecord, Work, target_of
from efrit.controller.watch.rollouts import Rollouts
from efrit.protocol import Stats

POOL_LABEL = "efrit.dev/pool"


class Memory:
    """Records of instances and requests. One event loop only; no locks."""

    def __init__(self, queue: WorkQueue, config: ControllerConfig, clock: Callable[[], datetime]) -> None:
        self._queue = queue
        self._config = config
        self._clock = clock
        self._started = clock()
        self._instances: dict[Key, InstanceRecord] = defaultdict(InstanceRecord)
        self._requests: dict[Key, RequestRecord] = {}
        self._keys: dict[str, Key] = {}
        self._unbound: dict[str, set[Key]] = defaultdict(set)
        """Open requests without an instance, by namespace."""
        self._unclaimed: dict[Key, tuple[Key, str]] = {}
        self._listed: set[str | None] = set()
        """Namespaces whose first list is complete; None for the whole cluster."""
        self.rollouts = Rollouts(release_digest(config))
        self.plans = Plans(queue, clock, self._home_of, self._homes_changed, self.is_listed)

    def first_list_complete(self, namespace: str | None) -> None:
        """Record that every object of a namespace was listed once; None for the whole cluster."""
        self._listed.add(namespace)
        for key in self._instances:
            if namespace in (None, key[0]):
                self._look_instance(key)

    def is_listed(self, namespace: str | None) -> bool:
        """Whether all open requests and plans of a namespace have been listed by this process."""
        return None in self._listed or namespace in self._listed

    def assume(self, request: Key, instance: Key | None) -> None:
        """Count a request as the instance's while its binding is being written; None takes that back."""
        entry = self._requests.get(request)
        if entry is None or target_of(entry.request) is not None:
            return
        before = entry.assumed
        self._untarget(entry)
        self._retarget(entry.request)
        if instance is not None:
            entry.assumed = instance
            self._instances[instance].open_requests.add(request)
        self._note_work(before, instance)

    def _note_work(self, *instances: Key | None) -> None:
        """Compare what an instance has to do with what it had: work that comes wakes it, the end of work is activity.

        Call it when the open requests or plans of an instance may be others than before.
        """
        for key in instances:
            entry = self._instances.get(key) if key is not None else None
            if key is None or entry is None:
                continue
            plans = self._plans_of(key)
            work = Work(bool(entry.open_requests) or plans.active > 0, plans.suspended > 0)
            known, entry.work = entry.work, work
            if work.active and not known.active:
                entry.work_ended = None
                if entry.handover_paused or (entry.instance is not None and entry.instance.status.suspended_idle):
                    self._look_instance(key)
            elif known.active > work.active or known.suspended > work.suspended:
                entry.last_activity = self._clock()
                entry.work_ended = None if work.active else entry.last_activity
                self._queue.add_after(WorkKey(EfritInstance.kind, *key), self._config.settled_after.total_seconds())

    def _plans_of(self, key: Key) -> PlanCount:
        """Return how many open plans live on an instance."""
        return self.plans.count_at(Home("instance", key))

    def _work_is_listed(self, key: Key, instance: EfritInstance) -> bool:
        """Whether all open requests and plans that may be on an instance are known."""
        pool = instance.metadata.labels.get(POOL_LABEL)
        return self.is_listed(key[0]) and not (pool and self.plans.count_at(Home("pool", (key[0], pool))).total)

    def _homes_changed(self, homes: set[Home]) -> None:
        for home in homes:
            if home.kind == "instance":
                self._note_work(home.key)
            elif not self.plans.count_at(home).total:
                for key, entry in self._instances.items():
                    labels = entry.instance.metadata.labels if entry.instance is not None else {}
                    if (key[0], labels.get(POOL_LABEL)) == home.key:
                        self._look_instance(key)

    def _home_of(self, plan: EfritPlan, requests: Iterable[EfritRequest]) -> EfritInstance | None:
        """Return the instance of a plan; before a pool has chosen one, any member."""
        namespace, spec = plan.metadata.namespace, plan.spec
        names = (plan.status.instance_name, spec.instance_ref.name if spec.instance_ref else None)
        name = next(filter(None, (*names, *(each.status.instance_name for each in requests))), None)
        if name is not None:
            entry = self._instances.get((namespace, name))
            return entry.instance if entry is not None else None
        pool = spec.pool_ref.name if spec.pool_ref is not None else None
        known = (entry.instance for key, entry in self._instances.items() if key[0] == namespace)
        return next((each for each in known if each and each.metadata.labels.get(POOL_LABEL) == pool), None)

    def _retarget(self, request: EfritRequest) -> None:
        target = target_of(request)
        if target is None:
            if self._requests[request.key].open:
                self._unbound[request.metadata.namespace].add(request.key)
            return
        entry = self._instances[target]
        moments = (request.metadata.creation_timestamp, request.status.completion_time, entry.last_activity)
        entry.last_activity = max((each for each in moments if each is not None), default=None)
        uid = request.metadata.uid
        if request.final and uid in entry.views:
            # The answer is stored; that it is acknowledged is all that is left to do.
            entry.views[uid] = entry.views[uid].model_copy(update={"response": None})
        if self._requests[request.key].open:
            entry.open_requests.add(request.key)
            if request.status.queue_id is not None:
                entry.recorded_requests.add(request.key)
            self._place(entry, request.key)

    def _untarget(self, entry: RequestRecord) -> None:
        key = entry.request.key
        self._unbound[key[0]].discard(key)
        for target in (target_of(entry.request), entry.assumed):
            if target is not None:
                self._instances[target].open_requests.discard(key)
                self._instances[target].recorded_requests.discard(key)
                self._instances[target].line.discard(key)
        entry.assumed = None

    def _place(self, entry: InstanceRecord, key: Key) -> None:
        """Put an open request into the line of its instance, or take it out once the instance has it."""
        request = self._requests[key].request
        if request.metadata.uid in entry.views:
            entry.line.discard(key)
        else:
            entry.line.add(key, rank(request))

    def _observe_rollout(self, key: Key) -> None:
        """Take in what an instance says of its update; look at those whose turn it may be."""
        entry = self._instances[key]
        if self.rollouts.observe(key, entry.instance, entry.own_statefulset):
            for each in self.rollouts.next_waiting(self._config.rollout.max_concurrent_per_namespace):
                self._look_instance(each)

    def _look_instance(self, key: Key) -> None:
        self._queue.add(WorkKey(EfritInstance.kind, *key))

    def _look_request(self, key: Key) -> None:
        self._queue.add(WorkKey(EfritRequest.kind, *key))

    def _look_waiting(self, target: Key) -> None:
        for key in self._instances[target].open_requests:
            self._look_request(key)

    def _look_held_back(self, target: Key, stats: Stats) -> None:
        """Look at as many requests in the line as the instance has room for."""
        entry = self._instances[target]
        if entry.instance is None:
            return
        for key in entry.line.first(entry.instance.spec.queue.max_pending - stats.pending - stats.processing):
            self._look_request(key)

    def _look_unbound(self, namespace: str) -> None:
        for key in self._unbound[namespace]:
            self._look_request(key)
