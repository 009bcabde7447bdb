"""Reads from the API server what a decision must be sure of: the watch may lag.

What is found goes to the store as if the watch had reported it. A decision that it contradicts is superseded.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from efrit.api import FINAL_PHASES, EfritRequest
from efrit.controller.act.kube import Kube
from efrit.controller.model import names
from efrit.controller.model.actions import (
    ConfirmClaims,
    ConfirmHandover,
    ConfirmLeft,
    ConfirmMissing,
    ConfirmPlan,
    ReadContent,
    Superseded,
)
from efrit.controller.model.keys import Key, WorkKey
from efrit.controller.store.store import Store
from efrit.errors import ApiNotFound
from efrit.protocol.ids import run_id
from efrit.resources import INSTANCES, PLANS, REQUESTS, VOLUME_CLAIMS, Resource, resource_named

log = logging.getLogger(__name__)

DECIDE_AGAIN = timedelta(seconds=1)
BOUND_BY = ("spec.instanceRef.name", "status.instanceName")
"""Selectable fields of requests and plans that name their instance."""


class Confirmations:
    """Asks before something that cannot be undone. All of it raises ApiError."""

    def __init__(self, kube: Kube, store: Store) -> None:
        self._kube = kube
        self._store = store

    async def left(self, action: ConfirmLeft) -> None:
        """Take in what is in the place of an object that left the watched selection."""
        objects = self._store.of(action.kind)
        objects.verification_begins(action.key, action.uid)
        objects.observe_verified(action.key, action.uid, await self._get(resource_named(action.kind), action.key))

    async def missing(self, action: ConfirmMissing) -> None:
        """Raise Superseded where the instance is there: the request is then decided about again."""
        obj = await self._get(INSTANCES, action.instance)
        if obj is not None:
            self._store.instances.observe(obj)
            raise Superseded("the instance exists")

    async def handover(self, action: ConfirmHandover) -> None:
        """Raise Superseded where an instance was opened, closed or replaced: the request is decided about again."""
        obj = await self._get(INSTANCES, action.instance)
        if obj is None:
            self._store.instances.observe_gone(action.instance, action.uid)
        else:
            self._store.instances.observe(obj)
        status_handover = action.handover.to_wire() if action.handover is not None else None
        if (
            obj is None
            or obj["metadata"]["uid"] != action.uid
            or obj.get("status", {}).get("handover") != status_handover
        ):
            self._store.requeue_after(WorkKey(EfritRequest.kind, *action.request_key), DECIDE_AGAIN)
            raise Superseded("the instance has changed")

    async def content(self, action: ReadContent) -> None:
        """Take in a request with its content. Raises Superseded where it is gone, or another one has its name."""
        obj = await self._get(REQUESTS, action.request_key)
        if obj is None or obj["metadata"]["uid"] != action.uid:  # gate: content-of-uid
            self._store.requests.deleted(action.request_key, action.uid)
            raise Superseded("the request is gone")
        self._store.requests.content_read(action.request_key, action.uid, obj)

    async def claims(self, action: ConfirmClaims) -> None:
        """Raise Superseded where a claim of an instance that is about to start is gone or being deleted."""
        confirmed = True
        for name in action.names:
            claim = await self._get(VOLUME_CLAIMS, (action.instance[0], name))
            if claim is None:
                self._store.children.claim_gone(action.instance, name)
                confirmed = False
                continue
            self._store.children.observe_claim(claim)
            confirmed = confirmed and claim["metadata"].get("deletionTimestamp") is None
        if not confirmed:
            raise Superseded("a claim is gone or being deleted")

    async def plan(self, action: ConfirmPlan) -> None:
        """Raise Superseded where a plan is gone or being deleted: its requests went with it."""
        plans = self._store.plans
        plans.confirmation_begins(action.plan, action.uid)
        obj = await self._get(PLANS, action.plan)
        if obj is None or obj["metadata"]["uid"] != action.uid:
            plans.observe_gone(action.plan, action.uid)
            raise Superseded("the plan is gone")
        plans.observe(obj)
        if obj["metadata"].get("deletionTimestamp") is not None:
            raise Superseded("the plan is being deleted")
        plans.confirmed(action.plan, action.uid)

    async def idle(self, instance: Key) -> None:
        """Raise Superseded where an open request or plan names the instance, a suspended plan included.

        Costs four lists of at most one object each.
        """
        namespace, name = instance
        for resource in (REQUESTS, PLANS):
            for field in BOUND_BY:
                selector = f"{field}={name},{names.OPEN_SELECTOR}"
                async for obj in self._kube.pages(resource, namespace, fieldSelector=selector, limit="1"):
                    kind, open_name = resource.kind, obj["metadata"]["name"]
                    log.info("%s/%s is not idle: %s %s is open", *instance, kind, open_name)
                    self._store.of(kind).observe(obj)
                    self._store.instances.not_idle(instance)
                    raise Superseded(f"{kind} {open_name} is open")

    async def orphan_is_open(self, key: Key, uid: str) -> bool | None:
        """Return whether the request of work that nobody knows is open; None where it does not exist.

        None as well for a run of it that was preempted. One that is open is taken in.
        """
        obj = await self._get(REQUESTS, key)
        if obj is None or _run_id(obj) != uid:  # gate: run-of-orphan
            return None
        if obj.get("status", {}).get("phase") in FINAL_PHASES:
            return False
        self._store.requests.observe(obj)
        return True

    async def _get(self, resource: Resource, key: Key) -> dict[str, Any] | None:
        try:
            return await self._kube.get(resource, *key)
        except ApiNotFound:
            return None


def _run_id(obj: Mapping[str, Any]) -> str:
    preemptions = obj.get("status", {}).get("preemption", {}).get("count", 0)
    return run_id(obj["metadata"]["uid"], preemptions)
