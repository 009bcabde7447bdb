"""Who owns a member of a pool: the pool, or an exclusive claim. Merge patches of its metadata alone."""

from __future__ import annotations

from typing import Any

from efrit.controller.model.actions import ReturnMember, TakeMember
from efrit.controller.model.names import CLAIM_LABEL
from efrit.resources import EXCLUSIVE_CLAIMS, POOLS, Resource


def owner_reference(owner: Resource, name: str, uid: str) -> dict[str, Any]:
    """Return the reference to the controlling owner of a member."""
    # Foreground deletion would otherwise need rights on the owner's finalizers.
    return owner.reference(name, uid, controller=True, blockOwnerDeletion=False)


def taken(action: TakeMember) -> dict[str, Any]:
    """Return the patch that makes an exclusive claim the owner, on condition of UID and version."""
    name = action.claim[1]
    return _patch(action, owner_reference(EXCLUSIVE_CLAIMS, name, action.claim_uid), name)


def returned(action: ReturnMember) -> dict[str, Any]:
    """Return the patch that makes the pool the owner again, on condition of UID and version."""
    return _patch(action, owner_reference(POOLS, action.pool, action.pool_uid), None)


def _patch(action: TakeMember | ReturnMember, owner: dict[str, Any], claim: str | None) -> dict[str, Any]:
    metadata = {  # gate: take-version
        "uid": action.uid,
        "resourceVersion": action.resource_version,
        "labels": {CLAIM_LABEL: claim},
        "ownerReferences": [owner],
    }
    return {"metadata": metadata}
