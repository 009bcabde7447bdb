"""PersistentVolumeClaims of the queue and the workspace, where the instance asks for volumes of its own."""

from __future__ import annotations

from typing import Any

from efrit.api import EfritInstance
from efrit.api.instance_volumes import StorageClaim
from efrit.controller.model.names import child_metadata, claim_name
from efrit.resources import VOLUME_CLAIMS


def build_volume_claims(instance: EfritInstance) -> list[dict[str, Any]]:
    """Return the claims; none for an existing claim or an ephemeral volume."""
    volumes = {"queue": instance.spec.queue, "workspace": instance.spec.workspace}
    return [_claim(instance, name, volume.claim) for name, volume in volumes.items() if volume.claim is not None]


def _claim(instance: EfritInstance, volume: str, storage: StorageClaim) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "accessModes": [mode.value for mode in storage.access_modes],
        "resources": {"requests": {"storage": storage.size}},
    }
    if storage.storage_class_name is not None:
        spec["storageClassName"] = storage.storage_class_name
    return VOLUME_CLAIMS.manifest(
        child_metadata(instance, claim_name(instance, volume)),
        spec=spec,
    )
