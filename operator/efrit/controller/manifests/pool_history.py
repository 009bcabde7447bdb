"""The ControllerRevision that keeps a template of a pool, so that a user can go back to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from efrit.api import EfritPool
from efrit.controller.manifests.member_owner import owner_reference
from efrit.controller.model import names
from efrit.controller.model.keys import Key
from efrit.controller.model.pools import PoolRevision
from efrit.resources import CONTROLLER_REVISIONS, POOLS

LARGEST_NUMBER = 2**53
"""No pool has so many templates: another number was written by somebody else."""


def build_revision(pool: EfritPool, template: Mapping[str, Any], digest: str, number: int) -> dict[str, Any]:
    """Return the ControllerRevision of a template; its data is what a pool has of it."""
    meta = pool.metadata
    return CONTROLLER_REVISIONS.manifest(
        {
            "name": names.revision_name(meta.name, digest),
            "namespace": meta.namespace,
            "labels": {
                names.MANAGED_BY_LABEL: names.MANAGED_BY,
                names.POOL_LABEL: meta.name,
                names.REVISION_LABEL: digest,
            },
            "ownerReferences": [owner_reference(POOLS, meta.name, meta.uid)],
        },
        data={"spec": {"template": template}},
        revision=number,
    )


def revision_selector(pool: str) -> str:
    """Return the label selector of all that `build_revision` makes for a pool."""
    return f"{names.MANAGED_BY_LABEL}={names.MANAGED_BY},{names.POOL_LABEL}={pool}"


def revision_of(obj: Mapping[str, Any], pool: Key, pool_uid: str) -> PoolRevision | None:
    """Return what a ControllerRevision keeps; None for one of another owner, whatever its labels say."""
    meta = obj["metadata"]
    digest, number = meta.get("labels", {}).get(names.REVISION_LABEL, ""), obj.get("revision", 0)
    owners = [owner for owner in meta.get("ownerReferences", ()) if owner.get("controller")]
    if [(owner["kind"], owner["uid"]) for owner in owners] != [(POOLS.kind, pool_uid)]:  # gate: revision-owner
        return None
    if meta["name"] != names.revision_name(pool[1], digest) or not 0 < number < LARGEST_NUMBER:
        return None
    return PoolRevision(digest, number, meta["uid"], meta["resourceVersion"])
