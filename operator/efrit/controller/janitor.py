"""Lists one namespace, at first and then again and again: what events cannot be trusted for.

A watch may lose an event; a list does not. Every sweep compares paged lists with the store and only tells the store
what a watch would have told it: ghosts of missed deletions, missed objects, results past their time.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncIterator
from typing import Any, NoReturn

from efrit.api import GROUP, VERSION, EfritInstance, EfritPlan, EfritRequest
from efrit.controller.act.kube import Kube
from efrit.controller.decide.children import naming
from efrit.controller.retry import LONGEST_RETRY_AFTER_SECONDS
from efrit.controller.watch.handlers import OPEN
from efrit.controller.watch.store import Store
from efrit.errors import ApiError, ApiForbidden, ApiNotFound, ApiUnavailable

log = logging.getLogger(__name__)

API_VERSION = f"{GROUP}/{VERSION}"
FIRST_SWEEP_SECONDS = 5.0
FINAL_EVERY = 10
"""One sweep in so many also looks through final requests for a time to live that has run out."""


class Janitor:
    """Compares the lists of one namespace with the store; of the whole cluster where `scope` is None."""

    def __init__(self, kube: Kube, store: Store, scope: str | None, every: float, resync: float) -> None:
        self._kube = kube
        self._store = store
        self._scope = scope
        self._every = every
        self._sweeps_per_resync = max(1, round(resync / every))

    async def list_all(self) -> None:
        """List every kind page by page, before anything of the namespace is decided. Raises ApiError.

        Each kind has a watch of its own, and which one speaks first is chance: a request that an earlier controller
        left open would be judged without its instance, an instance applied anew without its StatefulSet, and one
        taken for idle while its work was not known yet. Children and instances come first: the rest refers to them.
        Of a namespace that was listed before, it also finds what has gone since.
        """
        if self._store.is_listed(self._scope):
            await self.sweep_instances()
            await self.sweep_requests()
            await self.sweep_plans()
            return
        await self._take_in_children()
        async for obj in self._list(EfritInstance.kind):
            self._store.observe_instance(obj)
        async for obj in self._list(EfritRequest.kind, fieldSelector=OPEN):
            self._store.observe_request(obj)
        async for obj in self._list(EfritPlan.kind, fieldSelector=OPEN):
            self._store.plans.observe_plan(obj)
        self._store.first_list_complete(self._scope)

    async def run(self) -> NoReturn:
        """Sweep until cancelled; a sweep that fails is made up for by the next.

        Raises ApiForbidden or ApiNotFound where the API server refuses the lists of the namespace.
        """
        await asyncio.sleep(FIRST_SWEEP_SECONDS)
        sweep = 0
        while True:
            pause = self._every
            try:
                await self.sweep_requests()
                await self.sweep_instances()
                await self.sweep_plans()
                if sweep % FINAL_EVERY == 0:
                    await self.sweep_final()
            except (ApiForbidden, ApiNotFound):
                raise
            except ApiError as error:
                if isinstance(error, ApiUnavailable):
                    pause = max(pause, min(error.retry_after or 0.0, LONGEST_RETRY_AFTER_SECONDS))
                log.warning("sweep cut short, the next comes in %.0f s: %s", pause, error)
            sweep += 1
            if sweep % self._sweeps_per_resync == 0:
                for key in self._store.instance_keys(self._scope):
                    self._store.resync(key)
                self._store.plans.look_at_open(self._scope, anew=True)
            await asyncio.sleep(pause * random.uniform(1.0, 1.2))  # noqa: S311

    async def sweep_requests(self) -> None:
        """Find open requests that no event told of, those that are gone without one, and look at all the others."""
        before = self._store.open_request_uids(self._scope)
        listed: dict[tuple[str, str], str] = {}
        async for obj in self._list(EfritRequest.kind, fieldSelector=OPEN):
            meta = obj["metadata"]
            key = meta["namespace"], meta["name"]
            listed[key] = meta["uid"]
            if before.get(key) != meta["uid"]:
                self._store.observe_request(obj)
        for (namespace, name), uid in before.items():
            if listed.get((namespace, name)) != uid:
                self._store.request_left({"metadata": {"namespace": namespace, "name": name, "uid": uid}})
        self._store.look_at_open(self._every, self._scope)
        for key, uid in self._store.final_requests(self._scope):
            self._store.request_left({"metadata": {"namespace": key[0], "name": key[1], "uid": uid}})

    async def sweep_instances(self) -> None:
        """Find instances and children that appeared, changed or went without an event."""
        # Taken before the lists: what appears meanwhile is in neither.
        known, children = self._store.instance_uids(self._scope), self._store.child_uids(self._scope)
        listed = set()
        async for obj in self._list(EfritInstance.kind):
            listed.add(obj["metadata"]["uid"])
            self._store.observe_instance(obj)
        for key, uid in known.items():
            if uid not in listed:
                self._store.forget_instance(key, uid)
        self._store.forget_children(children - await self._take_in_children())

    async def sweep_plans(self) -> None:
        """Find open plans that no event told of and those that are gone without one, and look at all the others."""
        before, plans = self._store.plans.open_uids(self._scope), self._store.plans
        listed: dict[tuple[str, str], str] = {}
        async for obj in self._list(EfritPlan.kind, fieldSelector=OPEN):
            meta = obj["metadata"]
            listed[meta["namespace"], meta["name"]] = meta["uid"]
            plans.observe_plan(obj)
        gone = [(key, uid) for key, uid in before.items() if listed.get(key) != uid]
        for (namespace, name), uid in gone:
            plans.plan_left({"metadata": {"namespace": namespace, "name": name, "uid": uid}})
        plans.look_at_open(self._scope)

    async def sweep_final(self) -> None:
        """Take in final requests and plans with a time to live: nobody watches them."""
        kinds = ((EfritRequest.kind, self._store.observe_request), (EfritPlan.kind, self._store.plans.observe_plan))
        for kind, observe in kinds:
            for phase in ("Succeeded", "Failed"):
                async for obj in self._list(kind, fieldSelector=f"status.phase={phase}"):
                    if obj["spec"].get("ttlSecondsAfterFinished") is not None:
                        observe(obj)

    async def _take_in_children(self) -> set[str]:
        uids = set()
        for api_version, kind, observe in (
            ("apps/v1", "StatefulSet", self._store.observe_statefulset),
            ("v1", "PersistentVolumeClaim", self._store.observe_claim),
            ("v1", "Pod", self._store.observe_pod),
        ):
            async for obj in self._kube.pages(api_version, kind, self._scope, labelSelector=naming.POD_SELECTOR):
                uids.add(obj["metadata"]["uid"])
                observe(obj)
        return uids

    def _list(self, kind: str, **selectors: str) -> AsyncIterator[dict[str, Any]]:
        return self._kube.pages(API_VERSION, kind, self._scope, **selectors)
