"""What is done for pools and claims: members made, given to claims and taken back, and the budget of a pool."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from efrit.controller.act.kube import Kube
from efrit.controller.act.owned_children import OwnedChildren
from efrit.controller.manifests.member_owner import returned, taken
from efrit.controller.model.actions import (
    ApplyDisruptionBudget,
    CreateMember,
    ReturnMember,
    Superseded,
    TakeMember,
)
from efrit.controller.store.store import Store
from efrit.errors import ApiConflict, ApiError, ApiNamespaceTerminating, ApiNotFound, ApiRefused
from efrit.resources import INSTANCES

log = logging.getLogger(__name__)


class PoolActor:
    """The part of the actor that writes for pools and claims."""

    def __init__(self, kube: Kube, store: Store, owned: OwnedChildren) -> None:
        self._kube = kube
        self._store = store
        self._owned = owned

    async def create_member(self, action: CreateMember) -> None:
        """Create a member of a pool. Raises Superseded where the API server refuses it, which the pool is to say."""
        try:
            obj = await self._kube.create(action.manifest)
        except (ApiRefused, ApiNamespaceTerminating) as error:
            self._store.pools.refused(action.pool, action.pool_uid, error.sentence)
            raise Superseded("the member was refused") from error
        # The next decision need not wait for the watch.
        self._store.instances.observe_written(obj)
        self._store.pools.created(action.pool, action.pool_uid)

    async def apply_disruption_budget(self, action: ApplyDisruptionBudget) -> None:
        """Apply the budget of a pool; where that fails the rest of the decision stands, and it is tried again."""
        try:
            await self._owned.apply(action.manifest, create=action.create)
        except ApiError as error:
            log.warning("the PodDisruptionBudget of EfritPool %s/%s: %s", *action.pool, error)
            self._store.pools.budget_refused(action.pool, action.pool_uid, error.sentence)  # gate: budget-refused
        else:
            self._store.pools.budget_applied(action.pool, action.pool_uid, action.manifest)

    async def take_member(self, action: TakeMember) -> None:
        """Make an exclusive claim the owner of a member. Raises Superseded where that is not to be had any more.

        Where it is not known what came of it, the member stays out of its pool, and the claim tries it again.
        """
        if not self._store.claims.take_begins(action.claim, action.claim_uid, action.instance):
            raise Superseded("the member is another's by now")
        try:
            await self._change_owner(action, taken(action))
        except ApiRefused as error:
            self._store.claims.take_refused(action.claim, action.claim_uid, error.sentence)
            raise Superseded("the claim was refused the member") from error
        except Superseded:
            self._store.claims.take_ended(action.claim, action.claim_uid)
            raise
        self._store.claims.take_ended(action.claim, action.claim_uid)

    async def return_member(self, action: ReturnMember) -> None:
        """Make the pool the owner of a member again. Raises Superseded where it has changed since the decision."""
        await self._change_owner(action, returned(action))

    async def _change_owner(self, action: TakeMember | ReturnMember, body: Mapping[str, Any]) -> None:
        """Patch the owner of a member. Raises Superseded where it has changed since the decision, or is gone."""
        try:
            obj = await self._kube.patch(INSTANCES, *action.instance, body)
        except (ApiConflict, ApiNotFound) as error:
            try:
                self._store.instances.observe(await self._kube.get(INSTANCES, *action.instance))
            except ApiNotFound:
                self._store.instances.observe_gone(action.instance, action.uid)
            raise Superseded("the member has changed") from error
        self._store.instances.observe_written(obj)
