"""The EfritInstance that a pool makes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from efrit.api import API_VERSION, EfritInstance, EfritPool
from efrit.controller.model.names import POOL_LABEL, REVISION_LABEL


def pool_member(pool: EfritPool, template: Mapping[str, Any], revision: str) -> dict[str, Any]:
    """Return the next member of a pool; the API server completes its name."""
    meta = pool.metadata
    labels = template.get("metadata", {}).get("labels", {})
    return {
        "apiVersion": API_VERSION,
        "kind": EfritInstance.kind,
        "metadata": {
            "generateName": f"{meta.name}-",
            "namespace": meta.namespace,
            "labels": {**labels, POOL_LABEL: meta.name, REVISION_LABEL: revision},
            "ownerReferences": [
                {
                    "apiVersion": API_VERSION,
                    "kind": EfritPool.kind,
                    "name": meta.name,
                    "uid": meta.uid,
                    "controller": True,
                    # Foreground deletion would otherwise need rights on the pool's finalizers.
                    "blockOwnerDeletion": False,
                }
            ],
        },
        "spec": template.get("spec", {}),
    }
