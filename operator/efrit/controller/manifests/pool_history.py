"""The ControllerRevision that keeps a template of a pool, so that a user can go back to it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from efrit.api import EfritPool
from efrit.api_group import LARGEST_REVISION
from efrit.controller.manifests.member_owner import owner_reference
from efrit.controller.model import names
from efrit.controller.model.keys import Key
from efrit.controller.model.pools import PoolRevision
from efrit.resources import CONTROLLER_REVISIONS, POOLS


def build_revision(pool: EfritPool, template: Mapping[str, Any], digest: str, number: int) -> dict[str, Any]:
    """Return the ControllerRevision of a template; its data is what a pool has of it.

    Its keys are sorted: a strategic merge patch, as garbage collector and kubectl send it, writes them anew so, and
    the API server refuses each patch that changes the text.
    """
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
        data={"spec": {"template": json.loads(json.dumps(template, sort_keys=True))}},
        revision=number,
    )


def revision_selector(pool: str) -> str:
    """Return the label selector of all that `build_revision` makes for a pool.

    A StatefulSet's have the labels of its pods: those of members have the instance's, and the pool's.
    """
    ours = f"{names.MANAGED_BY_LABEL}={names.MANAGED_BY},{names.POOL_LABEL}={pool}"
    return f"{ours},{names.REVISION_LABEL},!{names.INSTANCE_LABEL}"


def revision_of(obj: Mapping[str, Any], pool: Key, pool_uid: str) -> PoolRevision | None:
    """Return what a ControllerRevision keeps.

    None for one of another owner, whatever its labels say, and for one that is being deleted.
    """
    meta = obj["metadata"]
    digest, number = meta.get("labels", {}).get(names.REVISION_LABEL, ""), obj.get("revision", 0)
    if POOLS.owner_of(meta) != (pool[1], pool_uid):  # gate: revision-owner
        return None
    if meta.get("deletionTimestamp") is not None:  # gate: revision-deleting
        return None
    if meta["name"] != names.revision_name(pool[1], digest) or not 0 < number <= LARGEST_REVISION:
        return None
    return PoolRevision(digest, number, meta["uid"], meta["resourceVersion"])
