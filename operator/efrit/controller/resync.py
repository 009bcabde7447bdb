"""Lists one namespace, at first and then again and again: what events cannot be trusted for.

A watch may lose an event; a list does not. Every sweep compares paged lists with the store and only
reports to the store what a watch would have: objects that are missing or whose deletion was missed, results
past their time. Repeated sweeps have a share of the time (`list_pace.py`); first lists, and those that a
watch waits for, are not held up.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import NoReturn

from efrit.controller.act.kube import Kube
from efrit.controller.decide.retention import due_of
from efrit.controller.definitions import Definitions
from efrit.controller.head_start import read_first
from efrit.controller.list_pace import ListPace
from efrit.controller.model import names
from efrit.controller.model.actions import ResourceKind
from efrit.controller.model.config import HEAD_START_INSTANCES
from efrit.controller.model.keys import Key
from efrit.controller.model.selectors import SELECTORS
from efrit.controller.retry import LONGEST_RETRY_AFTER_SECONDS
from efrit.controller.store.claims import ExclusiveClaims
from efrit.controller.store.expirations import Expiration
from efrit.controller.store.pools import Pools
from efrit.controller.store.store import Store
from efrit.controller.warm_objects import Pages, Place, VerifiedPages, WarmObjects
from efrit.errors import ApiError, ApiForbidden, ApiNotFound, ApiUnavailable
from efrit.kube.listing import Pace
from efrit.kube.media_types import JSON, METADATA_LIST
from efrit.resources import (
    EXCLUSIVE_CLAIMS,
    INSTANCES,
    PLANS,
    PODS,
    POOLS,
    REQUESTS,
    STATEFULSETS,
    VOLUME_CLAIMS,
    Resource,
)

log = logging.getLogger(__name__)

LISTS_AT_A_TIME = 4
"""How many namespaces are listed for the first time at once: a page of each is in memory."""
FIRST_SWEEP_SECONDS = 5.0
FINAL_EVERY = 10
"""One sweep in so many also looks through final requests for a time to live that has run out."""
MAX_NEW = 100
"""Requests without a status that are read before all others."""
MAX_READ_ALONE = 200
"""Requests that are read one by one after their metadata were listed; more come with a list of all."""


class Resync:
    """Compares the lists of one namespace with the store; of the whole cluster where `scope` is None."""

    def __init__(
        self,
        kube: Kube,
        store: Store,
        scope: str | None,
        every: float,
        resync: float,
        turns: asyncio.Semaphore | None = None,
        request_ttl: int | None = None,
        head_start_instances: int = HEAD_START_INSTANCES,
        definitions: Definitions | None = None,
        warm: WarmObjects | None = None,
    ) -> None:
        """Sweep `scope` once in `every` seconds. turns: how many namespaces are listed for the first time at once.

        request_ttl: seconds that a finished request is kept which does not say so itself; None: for ever.
        head_start_instances: from so many on, the first requests do not wait until all instances are listed.
        definitions: records kinds that the API server does not know.
        warm: what was kept while standing by: the first lists read no object that is in it as it is now.
        """
        self._definitions = definitions or Definitions()
        self._kube = kube
        self._store = store
        self._scope = scope
        self._every = every
        self._sweeps_per_resync = max(1, round(resync / every))
        self._turns = turns or asyncio.Semaphore()
        self._head_start_instances = head_start_instances
        self._warm = warm
        self._default_ttl: dict[ResourceKind, int | None] = {"EfritRequest": request_ttl}
        self._versions: dict[Resource, str] = {}
        """Of the last list of plans and of each kind of children, until a watch goes on from it."""

    async def list_all(self) -> None:
        """List what requests refer to, before anything of the namespace is decided. Raises ApiError.

        Each kind has a watch of its own, and which one speaks first is chance: a request that an earlier controller
        left open would be judged without its instance, an instance applied anew without its StatefulSet. Instances
        and children come first: the rest refers to them. The requests come last, and may be many: those that are
        known are worked on meanwhile (`list_requests`). Where there are many instances, a few whose requests wait are
        read and served before the others (`head_start.py`).
        Of a namespace that was listed before, it also finds what has gone since.
        """
        async with self._turns:
            if self._store.is_listed(self._scope):
                await self.sweep_instances()
                await self.sweep_pools()
                await self.sweep_claims()
                await self.sweep_plans()
                return
            try:
                await self._list_instances()
                await self.sweep_pools()
                await self.sweep_claims()
                await self.sweep_plans()
            finally:
                # From here on all of the namespace is served, or nothing.
                self._store.early.clear(self._scope)  # gate: early-ends
            self._release_warm()

    async def list_watched(self, resource: Resource) -> str:
        """List what is watched of a kind, unless that was just done; return the version to watch from.

        A version that turns out to be too old is asked for again, and is then of a new list. Raises ApiError, among
        them ApiNotFound where the kind has no definition.
        """
        if resource == REQUESTS:
            return await self.list_requests()
        if resource not in self._versions:
            sweeps = {PLANS: self.sweep_plans, POOLS: self.sweep_pools, EXCLUSIVE_CLAIMS: self.sweep_claims}
            await sweeps.get(resource, self.sweep_children)()
        if resource not in self._versions:
            raise ApiNotFound(f"the API server does not know {resource.plural}")
        return self._versions.pop(resource)

    async def list_requests(self) -> str:
        """List every open request and return the version to watch from. Raises ApiError.

        Until the first list is complete, no instance counts as idle, and none is stopped for an update.
        """
        async with self._turns:
            if self._store.is_listed(self._scope):
                return await self.sweep_requests()
            await self._observe_new()
            early = {uid: key for key, uid in self._store.requests.open_uids(self._scope).items()}
            pages = self._list(REQUESTS)
            async for obj in pages:
                early.pop(obj["metadata"]["uid"], None)
                self._store.requests.observe(obj)
            for uid, key in early.items():
                # Of those that were read before the list: what has become of them is asked.
                self._store.requests.observe_missing(key, uid)  # gate: early-left
        self._store.first_list_complete(self._scope)
        return pages.version

    async def run(self) -> NoReturn:
        """Sweep until cancelled; a sweep that fails is made up for by the next.

        Raises ApiForbidden or ApiNotFound where the API server refuses the lists of the namespace.
        """
        await asyncio.sleep(FIRST_SWEEP_SECONDS)
        sweep, final_due = 0, False
        while True:
            pause, pace = self._every, ListPace()
            final_due |= sweep % FINAL_EVERY == 0 or self._store.expirations.needs_listing()  # gate: final-again
            try:
                if self._store.is_listed(self._scope):
                    await self.sweep_requests(pace)
                await self.sweep_instances(pace=pace)
                await self.sweep_pools(pace)
                await self.sweep_claims(pace)
                await self.sweep_plans(pace)
                if final_due:
                    await self.sweep_final(pace)
                    final_due = False
            except (ApiForbidden, ApiNotFound):
                raise
            except ApiError as error:
                if isinstance(error, ApiUnavailable):
                    pause = max(pause, min(error.retry_after or 0.0, LONGEST_RETRY_AFTER_SECONDS))
                log.warning("sweep cut short, the next comes in %.0f s: %s", pause, error)
            sweep += 1
            if sweep % self._sweeps_per_resync == 0:
                await self._store.instances.resync_all(self._every * self._sweeps_per_resync, self._scope)
                await self._store.pools.resync_all(self._every * self._sweeps_per_resync, self._scope)
                await self._store.plans.requeue_open(self._every, self._scope, anew=True)
            await asyncio.sleep(pause * random.uniform(1.0, 1.2))  # noqa: S311

    async def sweep_requests(self, pace: Pace | None = None) -> str:
        """Find open requests that no event reported, those that are gone without one, and requeue all others.

        Lists their metadata alone, and reads what is new. Returns the version that the list is of.
        pace: here as in the other sweeps, of one that nobody waits for.
        """
        before = self._store.requests.open_uids(self._scope)
        listed: dict[Key, str] = {}
        new: list[Key] = []
        pages = self._list(REQUESTS, pace, accept=METADATA_LIST)
        async for obj in pages:
            meta = obj["metadata"]
            key = meta["namespace"], meta["name"]
            listed[key] = meta["uid"]
            if before.get(key) != meta["uid"] or self._store.requests.is_outdated(key, meta["resourceVersion"]):
                new.append(key)  # gate: rescan-requests
        await self._read_requests(new, pace)
        for key, uid in before.items():
            if listed.get(key) != uid:  # gate: requests-gone
                self._store.requests.observe_missing(key, uid)
        await self._store.requests.requeue_open(self._every, self._scope)
        for key, uid in self._store.requests.final_uids(self._scope):
            self._store.requests.observe_missing(key, uid)
        return pages.version

    async def _observe_new(self) -> None:
        """Take in requests without a status, of many the first: an instance may be free for them.

        Of thousands of open requests most wait in a queue. The list of all may take seconds, and has the new ones,
        which were made while nobody led, wherever their names are.
        """
        pages = self._kube.pages(REQUESTS, self._scope, fieldSelector=names.NEW_SELECTOR, limit=str(MAX_NEW))
        count = 0
        async for obj in pages:
            self._store.requests.observe(obj)  # gate: new-first
            count += 1
            if count == MAX_NEW:
                break

    async def _list_instances(self) -> None:
        """List instances and their children for the first time; where there are many, after a head start."""
        warm = self._warm
        if warm is not None and warm.count(Place(INSTANCES, self._scope)) >= self._head_start_instances:
            await self._read_first()
            await self.sweep_instances()
        else:
            await self.sweep_instances(self._read_first)

    def _release_warm(self) -> None:
        """Discard what was kept while standing by: from here on the store has it."""
        if self._warm is not None:
            self._warm.release_scope(self._scope)
            self._warm = None

    async def _read_first(self) -> None:
        await read_first(self._kube, self._store, self._scope)

    async def _read_requests(self, keys: Sequence[Key], pace: Pace | None) -> None:
        """Take in open requests of which only the metadata were listed: one by one, or all where that is quicker."""
        if len(keys) > MAX_READ_ALONE:
            async for obj in self._list(REQUESTS, pace):
                self._store.requests.observe(obj)
            return
        for key in keys:
            try:
                self._store.requests.observe(await self._kube.get(REQUESTS, *key))
            except ApiNotFound:
                log.debug("%s/%s is gone since it was listed", *key)

    async def sweep_instances(
        self, many: Callable[[], Awaitable[None]] | None = None, pace: Pace | None = None
    ) -> None:
        """Find instances and children that appeared, changed or went without an event.

        many: called once there turn out to be many instances, before the others are listed.
        """
        # Taken before the lists: what appears meanwhile is in neither.
        uids_before = self._store.instances.uids(self._scope)
        listed = set()
        async for obj in self._list(INSTANCES, pace):
            listed.add(obj["metadata"]["uid"])
            self._store.instances.observe(obj)
            if many is not None and len(listed) == self._head_start_instances:
                await many()
        for key, uid in uids_before.items():
            if uid is None:
                # Only children are left of it.
                self._store.instances.observe_gone(key, uid)
            elif uid not in listed:
                self._store.instances.observe_missing(key, uid)  # gate: instance-missing
        await self.sweep_children(pace)

    async def sweep_children(self, pace: Pace | None = None) -> None:
        """Find pods, StatefulSets and claims that appeared, changed or went without an event."""
        uids_before = self._store.children.uids(self._scope)
        self._store.children.forget(uids_before - await self._take_in_children(pace))  # gate: sweep-children

    async def sweep_pools(self, pace: Pace | None = None) -> None:
        """Find pools that appeared, changed or went without an event, and requeue all others."""
        await self._sweep_optional(POOLS, self._store.pools, pace)

    async def sweep_claims(self, pace: Pace | None = None) -> None:
        """Find exclusive claims that no event reported, those that are gone without one, and requeue all others."""
        await self._sweep_optional(EXCLUSIVE_CLAIMS, self._store.claims, pace)

    async def _sweep_optional(self, resource: Resource, objects: Pools | ExclusiveClaims, pace: Pace | None) -> None:
        """Sweep a kind without whose definition there are no objects of it, and everything else is served."""
        before, listed = objects.open_uids(self._scope), set()
        self._versions.pop(resource, None)
        pages = self._list(resource, pace)
        try:
            async for obj in pages:
                listed.add(obj["metadata"]["uid"])
                objects.observe(obj)
        except ApiNotFound:
            self._definitions.missing(resource)  # gate: definition-missing
        else:
            self._definitions.served(resource)
            self._versions[resource] = pages.version
        for key, uid in before.items():
            if uid not in listed:
                objects.observe_missing(key, uid)
        await objects.requeue_all(self._every, self._scope)

    async def sweep_plans(self, pace: Pace | None = None) -> None:
        """Find open plans that no event reported, those that are gone without one, and requeue all others."""
        before, plans = self._store.plans.open_uids(self._scope), self._store.plans
        listed: dict[tuple[str, str], str] = {}
        pages = self._list(PLANS, pace)
        async for obj in pages:
            meta = obj["metadata"]
            listed[meta["namespace"], meta["name"]] = meta["uid"]
            plans.observe(obj)
        self._versions[PLANS] = pages.version
        missing = [(key, uid) for key, uid in before.items() if listed.get(key) != uid]
        for key, uid in missing:
            plans.observe_missing(key, uid)
        await plans.requeue_open(self._every, self._scope)

    async def sweep_final(self, pace: Pace | None = None) -> None:
        """Find what has ended and has a time to live, its own or the default: nobody watches it."""
        kinds: tuple[tuple[Resource, ResourceKind, tuple[str, ...]], ...] = (
            (REQUESTS, "EfritRequest", ("Succeeded", "Failed")),
            (PLANS, "EfritPlan", ("Succeeded", "Failed")),
            (EXCLUSIVE_CLAIMS, "EfritClaim", ("Expired", "Released", "Failed")),
        )
        for resource, kind, phases in kinds:
            if self._definitions.is_missing(resource):
                continue
            for phase in phases:
                async for obj in self._list(resource, pace, fieldSelector=f"status.phase={phase}"):
                    due, meta = due_of(obj, self._default_ttl.get(kind)), obj["metadata"]
                    if due is not None:
                        key = meta["namespace"], meta["name"]
                        self._store.expirations.add(Expiration(due, kind, key, meta["uid"]))

    async def _take_in_children(self, pace: Pace | None) -> set[str]:
        uids = set()
        for resource, observe in (
            (STATEFULSETS, self._store.children.observe_statefulset),
            (VOLUME_CLAIMS, self._store.children.observe_claim),
            (PODS, self._store.children.observe_pod),
        ):
            pages = self._list(resource, pace)
            async for obj in pages:
                uids.add(obj["metadata"]["uid"])
                observe(obj)
            self._versions[resource] = pages.version
        return uids

    def _list(self, resource: Resource, pace: Pace | None = None, *, accept: str = JSON, **selectors: str) -> Pages:
        place, selectors = Place(resource, self._scope), selectors or dict(SELECTORS[resource])
        if self._warm is not None and accept == JSON and self._warm.is_listed(place):
            return VerifiedPages(self._kube, self._warm, place, selectors)
        return self._kube.paced_pages(resource, self._scope, pace, accept=accept, **selectors)
