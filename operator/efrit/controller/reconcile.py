"""One look at one key: snapshot -> decide -> act. The only place where the three meet."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from datetime import datetime

from efrit.api import FINAL_PHASES, GROUP, VERSION, EfritInstance, EfritPlan, EfritRequest
from efrit.controller import metrics
from efrit.controller.act.actor import Actor
from efrit.controller.act.bridges import Bridges
from efrit.controller.act.kube import Kube
from efrit.controller.decide.actions import (
    Acknowledge,
    Action,
    CancelWork,
    DisconnectBridge,
    LookAgain,
    PatchStatus,
    ReserveUpdate,
    Wake,
)
from efrit.controller.decide.children import Identity
from efrit.controller.decide.instances import decide_instance
from efrit.controller.decide.plans import decide_plan
from efrit.controller.decide.requests import decide_request
from efrit.controller.decide.views import Key
from efrit.controller.watch.queue import WorkKey, WorkQueue
from efrit.controller.watch.records import target_of
from efrit.controller.watch.store import Store
from efrit.errors import ApiNotFound, NotAnswered

log = logging.getLogger(__name__)

API_VERSION = f"{GROUP}/{VERSION}"
PULSE = WorkKey("Pulse", "", "")


class Reconciler:
    """Looks at keys of the work queue."""

    def __init__(
        self,
        store: Store,
        queue: WorkQueue,
        actor: Actor,
        kube: Kube,
        bridges: Bridges,
        identity: Identity,
        clock: Callable[[], datetime],
        is_served: Callable[[str], bool],
    ) -> None:
        self._store = store
        self._queue = queue
        self._actor = actor
        self._kube = kube
        self._bridges = bridges
        self._identity = identity
        self._clock = clock
        self._is_served = is_served
        self.pulse = time.monotonic()
        """When a key last went through the whole queue, on the monotonic clock."""

    async def look(self, key: WorkKey) -> None:
        """Look at one key. Raises EfritError where it should be looked at again."""
        if key == PULSE:
            self.pulse = time.monotonic()
            return
        if not self._is_served(key.namespace):
            # All of a namespace is looked at when it is served again.
            return
        began = time.perf_counter()
        try:
            if key.kind == EfritRequest.kind:
                await self._request((key.namespace, key.name), key)
            elif key.kind == EfritPlan.kind:
                await self._plan((key.namespace, key.name), key)
            else:
                await self._instance((key.namespace, key.name), key)
        except Exception:
            metrics.RECONCILE_FAILURES.labels(key.kind).inc()
            raise
        finally:
            metrics.RECONCILE_SECONDS.labels(key.kind).observe(time.perf_counter() - began)

    async def _instance(self, key: Key, work: WorkKey) -> None:
        self._store.rollouts.take_back(key)
        snapshot = self._store.instance_snapshot(key, deciding=True)
        if snapshot is None:
            await self._actor.carry_out(DisconnectBridge(key))
            self._store.prune(key)
            return
        await self._carry_out(work, decide_instance(snapshot, self._identity, self._clock()))

    async def _request(self, key: Key, work: WorkKey) -> None:
        if self._store.must_verify(key):
            await self._verify(key)
        self._store.assume(key, None)
        snapshot = self._store.request_snapshot(key)
        if snapshot is None:
            await self._unclaimed(key)
            return
        actions = decide_request(snapshot, self._clock())
        if snapshot.target is None and await self._instance_is_there(snapshot.request, actions):
            return
        await self._carry_out(work, actions)
        # An earlier request of the name, deleted while a queue had it.
        await self._unclaimed(key)
        if self._store.finished_with(key):
            self._store.drop_request(key)

    async def _plan(self, key: Key, work: WorkKey) -> None:
        plans = self._store.plans
        uid = plans.must_verify(key)
        if uid is not None:
            await self._verify_plan(key, uid)
        snapshot = plans.snapshot(key)
        if snapshot is None:
            return
        await self._carry_out(work, decide_plan(snapshot, self._clock()))
        if plans.finished_with(key):
            plans.drop(key)

    async def _verify_plan(self, key: Key, uid: str) -> None:
        """Ask whether a plan that left the watched selection exists: deleted, final, or a false alarm."""
        try:
            obj = await self._kube.get(API_VERSION, EfritPlan.kind, *key)
        except ApiNotFound:
            self._store.plans.plan_gone(key, uid)
            return
        self._store.plans.observe_plan(obj)
        if obj.get("status", {}).get("phase") not in FINAL_PHASES:
            self._store.plans.verified(key)

    async def _carry_out(self, work: WorkKey, actions: list[Action]) -> None:
        for action in actions:
            match action:
                case LookAgain(after=after):
                    self._queue.add_after(work, after.total_seconds())
                case ReserveUpdate(instance=instance, cause=cause):
                    # Others that are decided about while the status is being written must see it.
                    self._store.rollouts.reserve(instance, cause, self._clock())
                case Wake(instance=instance):
                    self._queue.add(WorkKey(EfritInstance.kind, *instance))
                case PatchStatus(kind=EfritRequest.kind, key=key, status={"instanceName": str(name)}):
                    # Others that look for an instance meanwhile must see that this one is taken.
                    self._store.assume(key, (key[0], name))
                    await self._actor.carry_out(action)
                case _:
                    if not await self._actor.carry_out(action):
                        # Learned on the way: a status decided before that would speak of a world that is not.
                        return

    async def _instance_is_there(self, request: EfritRequest, actions: list[Action]) -> bool:
        """Ask before a request ends because its instance is not known: the watch that would tell of it may lag."""
        target = target_of(request)
        final = any(isinstance(each, PatchStatus) and each.status.get("phase") in FINAL_PHASES for each in actions)
        if target is None or not final:
            return False
        try:
            obj = await self._kube.get(API_VERSION, EfritInstance.kind, *target)
        except ApiNotFound:
            return False
        # This looks at the request again.
        self._store.observe_instance(obj)
        return True

    async def _verify(self, key: Key) -> None:
        """Ask whether a request that left the watched selection exists: deleted, final, or a false alarm."""
        snapshot = self._store.request_snapshot(key)
        if snapshot is None:
            return
        uid = snapshot.request.metadata.uid
        try:
            obj = await self._kube.get(API_VERSION, EfritRequest.kind, *key)
        except ApiNotFound:
            self._store.request_gone(key, uid)
            return
        if obj["metadata"]["uid"] != uid:
            self._store.request_gone(key, uid)
            return
        self._store.observe_request(obj)
        if obj.get("status", {}).get("phase") not in FINAL_PHASES:
            self._store.verified(key)

    async def _unclaimed(self, key: Key) -> None:
        """Settle work on a bridge whose request is not known: final, deleted, or not seen yet."""
        found = self._store.unclaimed(key)
        if found is None:
            return
        instance, uid = found
        try:
            obj = await self._kube.get(API_VERSION, EfritRequest.kind, *key)
        except ApiNotFound:
            obj = None
        if obj is not None and obj["metadata"]["uid"] == uid:
            if obj.get("status", {}).get("phase") not in FINAL_PHASES:
                self._store.observe_request(obj)
                return
        else:
            log.info("%s/%s: its work on %s is stopped: the request is deleted", *key, instance[1])
            await self._actor.carry_out(CancelWork(instance, key, uid))
        try:
            await self._actor.carry_out(Acknowledge(instance, uid))
        except NotAnswered:
            log.debug("%s/%s: waiting for the end of its work", *key)
        else:
            self._store.claim(key)
