"""The in-memory picture of the world: fed by watch events and by what actions learned, read as snapshots.

Level-triggered: every change requeues the keys it may matter to, and nothing here says what is to be done.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

from efrit.api import EfritClaim, EfritInstance, EfritPlan, EfritPool, EfritRequest
from efrit.controller.model.config import ControllerConfig
from efrit.controller.model.keys import WorkKey
from efrit.controller.store.bridge_events import BridgeEvents
from efrit.controller.store.children import Children
from efrit.controller.store.claims import ExclusiveClaims
from efrit.controller.store.early import EarlyInstances
from efrit.controller.store.expirations import Expirations
from efrit.controller.store.handovers import Handovers
from efrit.controller.store.index import Index
from efrit.controller.store.instances import Instances
from efrit.controller.store.plans import Plans
from efrit.controller.store.pools import Pools
from efrit.controller.store.records import in_scope
from efrit.controller.store.requests import Requests
from efrit.controller.store.watched_objects import WatchedObjects
from efrit.controller.work_queue import WorkQueue


class Store:
    """The world as last seen, in parts over one index."""

    def __init__(
        self,
        queue: WorkQueue,
        config: ControllerConfig,
        clock: Callable[[], datetime],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._index = Index(queue, config, clock, monotonic)
        self.rollouts = self._index.rollouts
        self.handovers = Handovers(self._index)
        self.instances = Instances(self._index, self.handovers)
        self.early = EarlyInstances(self._index, self.instances)
        self.pools = Pools(self._index, self.instances)
        self.claims = ExclusiveClaims(self._index, self.instances)
        self.plans = Plans(self._index)
        self.requests = Requests(self._index, self.instances, self.plans)
        self._kinds: Mapping[str, WatchedObjects[Any, Any]] = {
            EfritInstance.kind: self.instances,
            EfritRequest.kind: self.requests,
            EfritPlan.kind: self.plans,
            EfritPool.kind: self.pools,
            EfritClaim.kind: self.claims,
        }
        self.children = Children(self._index)
        self.bridges = BridgeEvents(self._index)
        self.expirations = Expirations()

    def of(self, kind: str) -> WatchedObjects[Any, Any]:
        """Return the objects of a kind."""
        return self._kinds[kind]

    def requeue_after(self, key: WorkKey, after: timedelta) -> None:
        """Have an object reconciled again after this time."""
        self._index.queue.add_after(key, after.total_seconds())

    def set_aside(self, key: WorkKey) -> None:
        """Let others be worked on beside an object whose reconciliation waits for what is slow."""
        self._index.queue.set_aside(key)

    def decided_anew(self, key: WorkKey) -> None:
        """Take in that a reconciliation decides anew, with all that has had it reconciled again so far."""
        self._index.queue.decided_anew(key)

    def backlog(self, namespace: str) -> int:
        """Return how many objects of a namespace wait to be reconciled."""
        return self._index.queue.backlog(namespace)

    def detach(self, key: WorkKey) -> None:
        """Have the reconciliation of an object go on without a worker until `release`."""
        self._index.queue.detach(key)

    def release(self, key: WorkKey, error: Exception | None = None) -> None:
        """End a reconciliation that was detached; error: what it failed with, so that it is tried again."""
        self._index.queue.release(key, error)

    def first_list_complete(self, namespace: str | None) -> None:
        """Record that every object of a namespace was listed once; None for the whole cluster."""
        self._index.first_list_complete(namespace)

    def is_listed(self, namespace: str | None) -> bool:
        """Return whether all open requests and plans of a namespace have been listed by this process."""
        return self._index.is_listed(namespace)

    def requeue_namespace(self, scope: str | None) -> None:
        """Reconcile all that is known of a namespace, None for the whole cluster."""
        for key in self.instances.keys(scope):
            self._index.requeue_instance(key)
        for key in list(self._index.requests):
            if in_scope(key, scope):
                self._index.requeue_request(key)
        for key in list(self._index.orphans):
            if in_scope(key, scope):
                self._index.requeue_request(key)
        for key in self.plans.open_uids(scope):
            self.plans.requeue(key)
        for key in self.pools.open_uids(scope):
            self.pools.requeue(key)
        for key in self.claims.open_uids(scope):
            self.claims.requeue(key)

    def counts(self) -> tuple[int, int]:
        """Return how many instances and open requests are known."""
        return self.instances.count_open(), self.requests.count_open()

    def held_bytes(self) -> dict[str, int]:
        """Return how many bytes are held of what is bounded by a budget."""
        index = self._index
        return {
            "contents": index.contents.held_bytes,
            "answers": index.answers.held_bytes,
            "plans": index.plan_contents.held_bytes,
        }

    def records(self) -> dict[str, int]:
        """Return how many objects of each sort something is kept of."""
        index = self._index
        return {
            "instances": len(index.instances),
            "requests": len(index.requests),
            "plans": len(index.plans),
            "pools": len(index.pools),
            "claims": len(index.claims),
            "expirations": len(self.expirations),
        }
