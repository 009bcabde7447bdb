"""The EfritInstance that a pool makes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from efrit.api import EfritPool
from efrit.controller.manifests.member_owner import owner_reference
from efrit.controller.model.names import POOL_LABEL, REVISION_LABEL
from efrit.resources import INSTANCES, POOLS


def pool_member(pool: EfritPool, template: Mapping[str, Any], revision: str) -> dict[str, Any]:
    """Return the next member of a pool; the API server completes its name."""
    meta = pool.metadata
    labels = template.get("metadata", {}).get("labels", {})
    return INSTANCES.manifest(
        {
            "generateName": f"{meta.name}-",
            "namespace": meta.namespace,
            "labels": {**labels, POOL_LABEL: meta.name, REVISION_LABEL: revision},
            "ownerReferences": [owner_reference(POOLS, meta.name, meta.uid)],
        },
        spec=template.get("spec", {}),
    )
