"""Who owns a member of a pool: the pool, or an exclusive claim. Merge patches of its metadata alone."""

from __future__ import annotations

from typing import Any

from efrit.api import API_VERSION, EfritClaim, EfritPool
from efrit.controller.model.actions import ReturnMember, TakeMember
from efrit.controller.model.names import CLAIM_LABEL


def owner_reference(kind: str, name: str, uid: str) -> dict[str, Any]:
    """Return the reference to the controlling owner of a member."""
    return {
        "apiVersion": API_VERSION,
        "kind": kind,
        "name": name,
        "uid": uid,
        "controller": True,
        # Foreground deletion would otherwise need rights on the owner's finalizers.
        "blockOwnerDeletion": False,
    }


def taken(action: TakeMember) -> dict[str, Any]:
    """Return the patch that makes an exclusive claim the owner, on condition of UID and version."""
    name = action.claim[1]
    return _patch(action, owner_reference(EfritClaim.kind, name, action.claim_uid), name)


def returned(action: ReturnMember) -> dict[str, Any]:
    """Return the patch that makes the pool the owner again, on condition of UID and version."""
    return _patch(action, owner_reference(EfritPool.kind, action.pool, action.pool_uid), None)


def _patch(action: TakeMember | ReturnMember, owner: dict[str, Any], claim: str | None) -> dict[str, Any]:
    metadata = {  # gate: take-version
        "uid": action.uid,
        "resourceVersion": action.resource_version,
        "labels": {CLAIM_LABEL: claim},
        "ownerReferences": [owner],
    }
    return {"metadata": metadata}
