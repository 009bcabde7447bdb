"""What is done for pools and claims: members made, given to claims and taken back, budgets and templates kept."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Mapping
from typing import Any

from efrit.controller.act.kube import Kube
from efrit.controller.act.owned_children import OwnedChildren
from efrit.controller.manifests.member_owner import returned, taken
from efrit.controller.manifests.pool_history import revision_of, revision_selector
from efrit.controller.model.actions import (
    ApplyDisruptionBudget,
    CreateMember,
    KeepRevision,
    ReadHistory,
    ReleaseDisruptionBudget,
    RemoveRevision,
    ReturnMember,
    Superseded,
    TakeMember,
)
from efrit.controller.model.keys import Key
from efrit.controller.model.names import revision_name
from efrit.controller.model.pools import PoolRevision
from efrit.controller.store.store import Store
from efrit.errors import ApiConflict, ApiError, ApiExists, ApiNamespaceTerminating, ApiNotFound, ApiRefused
from efrit.resources import CONTROLLER_REVISIONS, INSTANCES, POOLS

MAX_READ = 2000
"""ControllerRevisions of a pool: anybody may have made some."""
NOT_OURS = (
    "ControllerRevision {} already exists and is not as the operator makes it for this EfritPool: "
    "delete it, if nobody needs it."
)
DELETED = "ControllerRevision {} is still being deleted: see its finalizers."
OF_FORMER_POOL = "ControllerRevision {} of a former EfritPool of this name is not deleted yet."

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

    async def release_disruption_budget(self, action: ReleaseDisruptionBudget) -> None:
        """Have the budget of a pool that is gone be deleted. Raises ApiError where that is to be tried again."""
        try:
            await self._owned.apply(action.manifest, create=False)  # gate: left-until-released
        except ApiRefused as error:
            # It may be another's, or an admission policy may not let us: the next resync tries again.
            log.warning("the PodDisruptionBudget that EfritPool %s/%s has left: %s", *action.pool, error)
        self._store.pools.forget_left(action.pool, action.pool_uid)

    async def read_history(self, action: ReadHistory) -> None:
        """Read which templates of a pool are kept. Where that fails the rest of the decision stands."""
        try:
            revisions = await self._revisions(action.pool, action.pool_uid)
        except ApiError as error:
            self._history_failed(action, error)
        else:
            self._store.pools.history_read(action.pool, action.pool_uid, tuple(revisions))

    async def _revisions(self, pool: Key, uid: str) -> list[PoolRevision]:
        revisions: list[PoolRevision] = []
        count = 0
        async for obj in self._kube.pages(CONTROLLER_REVISIONS, pool[0], labelSelector=revision_selector(pool[1])):
            count += 1
            if count > MAX_READ:  # gate: history-bound
                raise ApiRefused(f"More than {MAX_READ} ControllerRevisions have its label: delete most of them.")
            revision = revision_of(obj, pool, uid)
            if revision is not None:
                revisions.append(revision)
        return revisions

    async def keep_revision(self, action: KeepRevision) -> None:
        """Keep a template of a pool. Where that fails the rest of the decision stands.

        One that is kept already is made anew, for the operator has no right to change one.
        """
        try:
            if action.former is not None:
                await self._delete_revision(action.pool, action.former)
            revision = await self._create_revision(action)
        except ApiError as error:
            self._history_failed(action, error)
        else:
            self._store.pools.revision_kept(action.pool, action.pool_uid, revision)

    async def _create_revision(self, action: KeepRevision) -> PoolRevision:
        """Create a ControllerRevision, or return the one that this pool has. Raises ApiError for another's."""
        name = action.manifest["metadata"]["name"]
        try:
            obj = await self._kube.create(action.manifest)
        except ApiExists:
            # By its name, for its labels may be anything. The role has no right to `get` one.
            objects = [obj async for obj in self._kube.named(CONTROLLER_REVISIONS, action.pool[0], name)]
            if not objects:
                raise
            obj = objects[0]
        revision = revision_of(obj, action.pool, action.pool_uid)
        if revision is None:
            raise _not_usable(obj["metadata"], action)
        return revision

    async def remove_revision(self, action: RemoveRevision) -> None:
        """Delete a ControllerRevision of a pool, if nobody has changed it; where that fails the decision stands."""
        try:
            await self._delete_revision(action.pool, action.revision)
        except ApiError as error:
            self._history_failed(action, error)
        else:
            self._store.pools.revision_removed(action.pool, action.pool_uid, action.revision)

    async def _delete_revision(self, pool: Key, revision: PoolRevision) -> None:
        name = revision_name(pool[1], revision.digest)
        with contextlib.suppress(ApiNotFound):
            await self._kube.delete(
                CONTROLLER_REVISIONS,
                pool[0],
                name,
                uid=revision.uid,
                resource_version=revision.resource_version,  # gate: revision-version
            )

    def _history_failed(self, action: ReadHistory | KeepRevision | RemoveRevision, error: ApiError) -> None:
        """Read the templates of a pool again: at once where they have changed, else after a while."""
        log.warning("the history of EfritPool %s/%s: %s", *action.pool, error)
        pools = self._store.pools
        if isinstance(error, ApiConflict):
            pools.history_changed(action.pool, action.pool_uid)
        else:
            lasting = isinstance(error, ApiRefused)
            pools.history_refused(action.pool, action.pool_uid, error.sentence, lasting=lasting)

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
            self._store.claims.requeue(action.claim)  # gate: take-again
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


def _not_usable(meta: Mapping[str, Any], action: KeepRevision) -> ApiError:
    """Return why what has the name of a ControllerRevision is not taken for it; ApiRefused where that lasts."""
    name, owner = meta["name"], POOLS.owner_of(meta)
    if owner is not None and owner[0] == action.pool[1] and owner[1] != action.pool_uid:  # gate: former-pool
        # The garbage collector deletes it.
        return ApiError(OF_FORMER_POOL.format(name))
    return ApiRefused((NOT_OURS if meta.get("deletionTimestamp") is None else DELETED).format(name))
