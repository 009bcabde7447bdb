"""Finds ServiceAccounts, NetworkPolicies and Secrets of the instances of one namespace that were deleted or changed.

Nobody watches these. ServiceAccounts and NetworkPolicies are listed every few seconds, their metadata alone; Secrets
the controller may not list, so each one's turn to be applied again comes, a few in a second. The store records
it, and decides nothing.
"""

from __future__ import annotations

import asyncio
import logging
import random
from typing import NoReturn

from efrit.controller.act.kube import Kube
from efrit.controller.decide.child_presence import missing_children
from efrit.controller.model import names
from efrit.controller.store.store import Store
from efrit.errors import ApiError, ApiForbidden
from efrit.kube.media_types import METADATA_LIST
from efrit.resources import NETWORK_POLICIES, SERVICE_ACCOUNTS, Resource

log = logging.getLogger(__name__)

LISTED = (SERVICE_ACCOUNTS, NETWORK_POLICIES)
LIST_SECONDS = 5.0
SCOPES_PER_SECOND = 2
"""Namespaces that are listed in a second, at most."""
LONGEST_PAUSE_SECONDS = 60.0
LISTS_LEFT_OUT = 60
"""Lists that a kind is left out of once it was refused: five minutes and more."""
BUSY_SHARE = 0.1
"""Share of the time that lists may take: those of many instances are long."""
SECRETS_PER_SECOND = 5
"""Secrets that are applied again in a second, at most, over all namespaces."""


def list_pause(scopes: int, duration: float) -> float:
    """Return the seconds between two lists, where `scopes` namespaces are listed and the last lists took so long."""
    return min(max(LIST_SECONDS, scopes / SCOPES_PER_SECOND, duration / BUSY_SHARE), LONGEST_PAUSE_SECONDS)


def secret_pause(instances: int, scopes: int, every: float) -> float:
    """Return the seconds between two Secrets of a namespace: each one's turn comes once in `every`, or less often."""
    return max(every / max(1, instances), scopes / SECRETS_PER_SECOND)


class ChildCheck:
    """Looks for the children of one namespace's instances; of the whole cluster where `scope` is None."""

    def __init__(self, kube: Kube, store: Store, scope: str | None, scopes: int, secret_every: float) -> None:
        """Check `scope`, one of so many; each Secret is applied again every `secret_every` seconds."""
        self._kube = kube
        self._store = store
        self._scope = scope
        self._scopes = scopes
        self._secret_every = secret_every
        self._left_out: dict[Resource, int] = {}
        """Of how many lists more each kind is left out that was refused."""

    async def run(self) -> None:
        """Check until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._list_repeatedly(), name=f"children {self._scope or '*'}")
            group.create_task(self._check_secrets(), name=f"secrets {self._scope or '*'}")

    async def find_missing(self) -> None:
        """List each kind once and record in the store which instances lack theirs. Raises ApiError.

        A kind that may not be listed is left out for a while: its children come back with the resync alone.
        """
        for resource in LISTED:
            if left := self._left_out.get(resource, 0):
                self._left_out[resource] = left - 1
                continue
            # Taken before the list: what is applied meanwhile may be in neither.
            instances = self._store.children.applied_instances(self._scope)
            if not instances:
                return
            listed_keys = set()
            pages = self._kube.pages(resource, self._scope, accept=METADATA_LIST, labelSelector=names.CHILD_SELECTOR)
            try:
                async for obj in pages:
                    listed_keys.add((obj["metadata"]["namespace"], obj["metadata"]["name"]))
                    self._store.children.observe_listed(resource.kind, obj)
            except ApiForbidden as error:
                self._refused(resource, error)
                continue
            self._store.children.listed(resource.kind, self._scope)  # gate: listed-again
            if self._left_out.pop(resource, None) is not None:
                log.info("%ss are listed again", resource.kind)
            self._store.children.missing(missing_children(resource.kind, instances, listed_keys))

    def _refused(self, resource: Resource, error: ApiForbidden) -> None:
        if resource not in self._left_out:
            self._store.children.not_listed(resource.kind, self._scope)
            log.warning("a deleted %s is remade at the next resync only: %s", resource.kind, error)
        self._left_out[resource] = LISTS_LEFT_OUT

    async def _list_repeatedly(self) -> NoReturn:
        loop = asyncio.get_running_loop()
        duration = 0.0
        while True:
            await asyncio.sleep(list_pause(self._scopes, duration) * random.uniform(0.9, 1.1))  # noqa: S311
            began = loop.time()
            try:
                await self.find_missing()
            except ApiError as error:
                # The sweeps report what lasts.
                log.debug("children could not be listed: %s", error)
            duration = loop.time() - began

    async def _check_secrets(self) -> NoReturn:
        while True:
            keys = [instance.key for instance in self._store.children.applied_instances(self._scope)]
            pause = secret_pause(len(keys), self._scopes, self._secret_every)
            for key in keys:
                await asyncio.sleep(pause)
                self._store.children.check_secret(key)
            if not keys:
                await asyncio.sleep(min(self._secret_every, LIST_SECONDS))
