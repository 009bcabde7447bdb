"""EfritInstance: the volumes of the workspace and of the queue, and what the queue holds."""

from __future__ import annotations

from enum import StrEnum
from typing import ClassVar

from pydantic import Field

from efrit.api.meta import ApiModel, Rule
from efrit.api.pod_template import (
    Quantity,
)
from efrit.api.request import ObjectName


class AccessMode(StrEnum):
    """How a volume may be mounted."""

    READ_WRITE_ONCE = "ReadWriteOnce"
    READ_WRITE_ONCE_POD = "ReadWriteOncePod"
    READ_WRITE_MANY = "ReadWriteMany"


class StorageClaim(ApiModel):
    """A volume made for the instance; it stays while the instance is suspended."""

    size: Quantity = Field(default="1Gi", description="Size; may grow where the class allows it, never shrink.")
    storage_class_name: str | None = Field(
        default=None, max_length=253, description="StorageClass; default: the cluster's. Immutable."
    )
    access_modes: tuple[AccessMode, ...] = Field(
        default=(AccessMode.READ_WRITE_ONCE,),
        min_length=1,
        max_length=3,
        description="Access modes. Immutable.",
    )
    rules: ClassVar = (
        Rule(
            "quantity(string(self.size)).isGreaterThan(quantity('0'))",
            "a volume has a size: give one such as 1Gi.",
        ),
        Rule("self.accessModes == oldSelf.accessModes", "accessModes is immutable: create a new EfritInstance."),
        Rule(
            "has(self.storageClassName) == has(oldSelf.storageClassName) && "
            "(!has(self.storageClassName) || self.storageClassName == oldSelf.storageClassName)",
            "storageClassName is immutable: create a new EfritInstance.",
        ),
    )


class Storage(ApiModel):
    """Where files live: a volume of its own (the default), a claim that exists, or the pod's life."""

    storage: StorageClaim | None = Field(default=None, description="A volume made for the instance.")
    existing_claim: ObjectName | None = Field(
        default=None, description="Name of a PersistentVolumeClaim in the same namespace."
    )
    ephemeral: bool | None = Field(
        default=None, description="true: files are deleted with the pod. Only true has an effect."
    )
    size_limit: Quantity | None = Field(
        default=None,
        description="With ephemeral: the pod is evicted when its files take more. "
        "Default: 2Gi for the queue, 10Gi for the workspace.",
    )
    rules: ClassVar = (
        Rule(
            "[has(self.storage), has(self.existingClaim), has(self.ephemeral) && self.ephemeral]"
            ".filter(given, given).size() <= 1",
            "choose one: storage (the default), existingClaim or ephemeral: true.",
        ),
        Rule(
            "!has(self.sizeLimit) || (has(self.ephemeral) && self.ephemeral)",
            "sizeLimit is for ephemeral: true; a volume's size is storage.size.",
        ),
        Rule(
            "!has(self.sizeLimit) || quantity(string(self.sizeLimit)).isGreaterThan(quantity('0'))",
            "sizeLimit must be greater than 0: give one such as 5Gi.",
        ),
        Rule(
            "(has(self.ephemeral) && self.ephemeral) == (has(oldSelf.ephemeral) && oldSelf.ephemeral) "
            "&& has(self.existingClaim) == has(oldSelf.existingClaim) "
            "&& (!has(self.existingClaim) || self.existingClaim == oldSelf.existingClaim)",
            "the kind of storage is immutable, the files would be left behind: create a new EfritInstance.",
        ),
    )

    @property
    def claim(self) -> StorageClaim | None:
        """The volume to make, or None where none is to be made."""
        if self.existing_claim is not None or self.ephemeral:
            return None
        return self.storage or StorageClaim()


class Workspace(Storage):
    """The volume mounted at /workspace: Emacs' default directory."""


class Queue(Storage):
    """The volume of the request queue, and how much may wait on it."""

    max_pending: int = Field(
        default=1000,
        ge=1,
        le=5000,
        description="Requests the instance takes on, the running one included; more are held back in the cluster.",
    )
    concurrency: int = Field(
        default=4,
        ge=1,
        le=100,
        description="Sessions that may wait for the model at a time. Evals always run one after the other.",
    )
    archive_seconds: int = Field(
        default=86_400, ge=60, le=365 * 86_400, description="How long answered requests stay on the volume at most."
    )
    archive_requests: int = Field(
        default=10_000,
        ge=0,
        le=50_000,
        description="Answered requests that stay on the volume at most; the oldest are deleted first.",
    )
    archive_bytes: int = Field(
        default=512 << 20,
        ge=0,
        le=1 << 40,
        description="Bytes of answered requests that stay on the volume at most; the oldest are deleted first.",
    )
    stalled_after_seconds: int = Field(
        default=15,
        ge=1,
        le=86_400,
        description="QueueHealthy turns False with reason Stalled when a request has waited this long and none runs.",
    )
    backlogged_after_seconds: int = Field(
        default=60,
        ge=1,
        le=365 * 86_400,
        description="QueueHealthy turns False with reason Backlogged when a request has waited this long.",
    )
    backlogged_percent: int = Field(
        default=80,
        ge=1,
        le=100,
        description="QueueHealthy turns False with reason Backlogged when this much of maxPending waits, in percent.",
    )
