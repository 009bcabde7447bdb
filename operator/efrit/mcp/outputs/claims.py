"""Structured output about exclusive claims on members of pools."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from pydantic import Field

from efrit.backend.claims import Claim
from efrit.mcp.answer_size import first_that_fit
from efrit.mcp.schema_models import LISTED, ListOutput, Output, left_out


class ClaimOutput(Output):
    """One claim."""

    listed = ("claim_id", "phase", "instance_id", "message")

    claim_id: str
    pool: str
    phase: str = Field(description="Pending, Bound, Expired, Released or Failed.")
    instance_id: str | None = Field(default=None, description="The member, once phase is Bound.")
    ready: bool
    reason: str
    message: str
    holder: str | None = None
    recycle: bool
    attach: str | None = None
    expires: datetime | None = None
    created: datetime | None = None


class ClaimList(ListOutput):
    """Output of efrit_list_claims."""

    listed = ("left_out", "claims")

    claims: list[ClaimOutput]


def claim_output(claim: Claim) -> ClaimOutput:
    """Return everything known about a claim."""
    return ClaimOutput(
        claim_id=claim.name,
        pool=claim.pool,
        phase=claim.phase.value,
        instance_id=claim.instance,
        ready=claim.ready,
        reason=claim.reason,
        message=claim.message,
        holder=claim.holder,
        recycle=claim.recycle,
        attach=claim.attach,
        expires=claim.expires,
        created=claim.created,
    )


def claim_list(claims: Sequence[Claim], limit: int = LISTED) -> ClaimList:
    """Return the first claims, sorted by name."""
    listed = first_that_fit(map(claim_output, sorted(claims, key=lambda claim: claim.name)[:limit]))
    return ClaimList(left_out=left_out(len(listed), len(claims)), claims=listed)
