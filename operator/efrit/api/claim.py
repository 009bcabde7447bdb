"""EfritClaim: have a member of a pool to oneself for a while."""

from __future__ import annotations

from enum import StrEnum
from typing import ClassVar

from pydantic import Field

from efrit.api.conditions import Condition
from efrit.api.meta import ApiModel, PrinterColumn, Resource, Rule, Time
from efrit.api.reasons import ClaimPhase
from efrit.api.request import LocalReference
from efrit.resources import EXCLUSIVE_CLAIMS

CLAIM_READY = "Ready"
MAX_NAME_CHARS = 63
MAX_CLAIM_SECONDS = 30 * 86_400


class ReleasePolicy(StrEnum):
    """What becomes of the member once the claim has ended."""

    RECYCLE = "Recycle"
    RETURN = "Return"


def _immutable(field: str) -> Rule:
    return Rule(
        f"has(self.{field}) == has(oldSelf.{field}) && (!has(self.{field}) || self.{field} == oldSelf.{field})",
        f"spec.{field} is immutable: create a new EfritClaim instead.",
    )


class ClaimSpec(ApiModel):
    """What is wanted. Immutable, but for `ttlSeconds`, which may grow, and `released`, which may turn true."""

    pool_ref: LocalReference = Field(description="The EfritPool whose member is wanted.")
    holder: str | None = Field(
        default=None, min_length=1, max_length=256, description="Name of the holder, for display; not checked."
    )
    ttl_seconds: int = Field(
        default=3600,
        ge=1,
        le=MAX_CLAIM_SECONDS,
        description="How long the member is held, from status.boundTime on. It may grow.",
    )
    release: ReleasePolicy = Field(
        default=ReleasePolicy.RECYCLE,
        description="Recycle deletes the member once the claim has ended. Return gives it back to the pool as it is, "
        "with its files, buffers and sessions. A claim that is deleted before its end always recycles.",
    )
    released: bool = Field(default=False, description="Set to true to end the claim before its time.")
    ttl_seconds_after_finished: int = Field(
        default=86_400,
        ge=0,
        le=10 * 365 * 86_400,
        description="Delete the claim this many seconds after it has ended.",
    )

    rules: ClassVar = (
        Rule(
            "!has(oldSelf.ttlSeconds) || (has(self.ttlSeconds) && self.ttlSeconds >= oldSelf.ttlSeconds)",
            "spec.ttlSeconds can only grow: to end the claim earlier set spec.released to true.",
        ),
        Rule(
            "!has(oldSelf.released) || !oldSelf.released || (has(self.released) && self.released)",
            "spec.released cannot be taken back: create a new EfritClaim instead.",
        ),
        *(_immutable(name) for name in ("poolRef", "holder", "release", "ttlSecondsAfterFinished")),
    )


class ClaimStatus(ApiModel):
    """What became of it. Final once phase is Expired, Released or Failed."""

    observed_generation: int | None = Field(
        default=None, ge=0, description="The metadata.generation that this status describes."
    )
    phase: ClaimPhase | None = Field(default=None, description="Pending, Bound, Expired, Released or Failed.")
    instance_name: str | None = Field(default=None, max_length=253, description="The EfritInstance that is held.")
    instance_uid: str | None = Field(
        default=None,
        max_length=64,
        alias="instanceUID",
        description="UID of that EfritInstance: one created again under the name has another.",
    )
    bound_time: Time | None = Field(default=None, description="When the member was handed to the holder.")
    expiration_time: Time | None = Field(default=None, description="When the claim ends.")
    completion_time: Time | None = Field(default=None, description="When it ended.")
    attach: str | None = Field(
        default=None,
        max_length=1024,
        description="Command that opens the member's Emacs in a terminal, until the claim ends.",
    )
    conditions: tuple[Condition, ...] = Field(
        default=(),
        max_length=8,
        description="Ready: whether the member can be used.",
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
    )


class EfritClaim(Resource):
    """An exclusive claim: a ready member of an EfritPool for one holder, for a while."""

    resource: ClassVar = EXCLUSIVE_CLAIMS
    short_names: ClassVar = ("efc",)
    printer_columns: ClassVar = (
        PrinterColumn("Pool", ".spec.poolRef.name"),
        PrinterColumn("Phase", ".status.phase"),
        PrinterColumn("Instance", ".status.instanceName"),
        PrinterColumn("Holder", ".spec.holder"),
        PrinterColumn("Ready", ".status.conditions[?(@.type=='Ready')].status"),
        PrinterColumn("Expires", ".status.expirationTime"),
        PrinterColumn("Age", ".metadata.creationTimestamp", "date"),
        PrinterColumn("Attach", ".status.attach", "string", "Command that opens its Emacs in a terminal.", 1),
    )
    selectable_fields: ClassVar = (".status.phase", ".status.instanceName", ".spec.poolRef.name")
    rules: ClassVar = (
        Rule(
            f"self.metadata.name.size() <= {MAX_NAME_CHARS}",
            f"metadata.name is also a label of the member: at most {MAX_NAME_CHARS} characters.",
        ),
        Rule(
            "!has(oldSelf.status) || !has(oldSelf.status.phase) || "
            "!(oldSelf.status.phase in ['Expired', 'Released', 'Failed']) || "
            "(has(self.status) && self.status == oldSelf.status)",
            "the status of an EfritClaim that has ended is final: it cannot be changed.",
        ),
    )

    spec: ClaimSpec = Field(description=ClaimSpec.__doc__)
    status: ClaimStatus = Field(default_factory=ClaimStatus, description=ClaimStatus.__doc__)

    @property
    def final(self) -> bool:
        """Whether its status never changes again."""
        return self.status.phase is not None and self.status.phase.final
