"""One reconciliation of one key: snapshot -> decide -> act. It joins the three and decides nothing."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime, timedelta

from efrit.api import EfritClaim, EfritInstance, EfritPlan, EfritPool, EfritRequest
from efrit.controller import metrics
from efrit.controller.act.actor import Actor
from efrit.controller.decide.claims import decide_claim
from efrit.controller.decide.instances import decide_absent, decide_instance
from efrit.controller.decide.plans import decide_plan, reads_first
from efrit.controller.decide.pool_disruption import release_budget
from efrit.controller.decide.pools import decide_pool
from efrit.controller.decide.requests import (
    continues_at_once,
    decide_ended,
    decide_orphans,
    decide_request,
)
from efrit.controller.fair_semaphore import FairSemaphore
from efrit.controller.model.actions import (
    Action,
    ConfirmLeft,
    DecisionOutcome,
    ResourceKind,
)
from efrit.controller.model.credentials import Identity
from efrit.controller.model.keys import RESYNC, Key, WorkKey
from efrit.controller.store.store import Store

MAX_READS = 3
"""Decisions about a request in a row: it gets its instance, and its content is read, or its answer, or it ends."""


class Reconciler:
    """Reconciles keys of the work queue."""

    def __init__(
        self,
        store: Store,
        actor: Actor,
        identity: Identity,
        clock: Callable[[], datetime],
        is_served: Callable[[str], bool],
    ) -> None:
        self._store = store
        self._actor = actor
        self._identity = identity
        self._clock = clock
        self._is_served = is_served
        self._plan_semaphore = FairSemaphore(lambda work: store.requeue_after(work, timedelta(0)))

    async def reconcile(self, work: WorkKey) -> None:
        """Reconcile one key. Raises EfritError where it should be tried again."""
        try:
            if self._is_served(work.namespace) or self._store.early.serves(work):  # gate: namespace-served
                await self._reconcile(work)
            elif self._store.is_listed(work.namespace):
                # All else of the namespace is reconciled when it is served again.
                await self._forget_gone(work)
        finally:
            self._actor.reconciled(work)
            self._store.early.reconciled(work)
            if work.kind == EfritPlan.kind:
                self._plan_semaphore.reconciled(work)

    async def _forget_gone(self, work: WorkKey) -> None:
        """Forget an object that is gone, of a namespace that is not served any more: nobody can be asked about it."""
        key = (work.namespace, work.name)
        if work.kind == EfritRequest.kind:
            self._store.requests.drop_if_left(key)
        elif work.kind == EfritInstance.kind and self._store.instances.is_done(key):
            await self._instance(key, work)
        elif work.kind == EfritPool.kind:
            self._store.pools.forget_remains(key)

    async def _reconcile(self, work: WorkKey) -> None:
        key, began = (work.namespace, work.name), time.perf_counter()
        try:
            reconcile_kind: Mapping[str, Callable[[Key, WorkKey], Awaitable[None]]] = {
                EfritRequest.kind: self._request,
                EfritPlan.kind: self._plan,
                EfritPool.kind: self._pool,
                EfritClaim.kind: self._claim,
                EfritInstance.kind: self._instance,
                RESYNC: self._resync,
            }
            await reconcile_kind[work.kind](key, work)
        except Exception:
            metrics.RECONCILE_FAILURES.labels(work.kind).inc()
            raise
        finally:
            metrics.reconcile_seconds(work.kind).observe(time.perf_counter() - began)

    async def _instance(self, key: Key, work: WorkKey) -> None:
        await self._confirm_left("EfritInstance", key, work)
        self._store.rollouts.cancel_reservation(key)
        snapshot = self._store.instances.snapshot(key, deciding=True)
        if snapshot is None:
            await self._actor.carry_out_all(work, decide_absent(key))
            self._store.instances.drop_if_done(key)
            return
        early = self._store.early.serves(work)
        await self._actor.carry_out_all(work, decide_instance(snapshot, self._identity, self._clock(), early=early))
        # Not where a call has failed: whether the StatefulSet was applied is not known then.
        self._store.instances.replace_ended(key)

    async def _resync(self, key: Key, _work: WorkKey) -> None:
        self._store.instances.resync(key)

    async def _pool(self, key: Key, work: WorkKey) -> None:
        await self._confirm_left("EfritPool", key, work)
        self._store.pools.requeue_waiting(key)
        snapshot = self._store.pools.snapshot(key)
        left = self._store.pools.left(key)
        if snapshot is not None:
            if left is not None:
                # It takes over what another of its name has left.
                self._store.pools.forget_left(key, left)
            await self._actor.carry_out_all(work, decide_pool(snapshot, self._clock()))
        elif left is not None:
            await self._actor.carry_out_all(work, release_budget(key, left))

    async def _claim(self, key: Key, work: WorkKey) -> None:
        claims = self._store.claims
        await self._confirm_left("EfritClaim", key, work)
        snapshot = claims.snapshot(key)
        if snapshot is not None:
            await self._actor.carry_out_all(work, decide_claim(snapshot, self._clock()))
        claims.drop_if_done(key)

    async def _request(self, key: Key, work: WorkKey) -> None:
        requests = self._store.requests
        await self._confirm_left("EfritRequest", key, work)
        requests.assume(key, None)
        for decisions_left in reversed(range(MAX_READS)):
            actions = self._decide_request(key)
            outcome = await self._actor.carry_out_all(work, actions)
            if outcome is DecisionOutcome.SUPERSEDED or not continues_at_once(actions):
                break
            # At once: what was read may be dropped again as soon as others have their turn.
            if decisions_left and requests.must_verify(key) is None:  # gate: decides-anew
                self._store.decided_anew(work)
        # Of an earlier request of the name, too, which was deleted while a queue had it.
        await self._actor.carry_out_all(work, decide_orphans(key, self._store.bridges.orphans(key)))
        requests.drop_if_done(key)

    def _decide_request(self, key: Key) -> list[Action]:
        """Return a decision about a request; one about what has ended needs no picture of its instance."""
        ended = self._store.requests.ended(key)
        if ended is not None:
            return decide_ended(ended, self._clock())
        snapshot = self._store.requests.snapshot(key)
        return decide_request(snapshot, self._clock()) if snapshot is not None else []

    async def _plan(self, key: Key, work: WorkKey) -> None:
        plans = self._store.plans
        await self._confirm_left("EfritPlan", key, work)
        actions = self._decide_plan(key)
        if reads_first(actions):
            with self._plan_semaphore.acquire(work) as acquired:
                if not acquired:
                    return
                with plans.pinned(key):
                    for _ in range(MAX_READS):
                        if not reads_first(actions):
                            break
                        if await self._actor.carry_out_all(work, actions) is DecisionOutcome.SUPERSEDED:
                            break
                        actions = self._decide_plan(key)
        if not reads_first(actions):
            await self._actor.carry_out_all(work, actions)
        plans.drop_if_done(key)

    def _decide_plan(self, key: Key) -> list[Action]:
        """Return a decision about a plan; the whole plan is parsed for that long only."""
        snapshot = self._store.plans.snapshot(key)
        return decide_plan(snapshot, self._clock()) if snapshot is not None else []

    async def _confirm_left(self, kind: ResourceKind, key: Key, work: WorkKey) -> None:
        """Learn what became of an object that left the watched selection, before it is decided about."""
        uid = self._store.of(kind).must_verify(key)
        if uid is not None:
            await self._actor.carry_out(work, ConfirmLeft(kind, key, uid))
