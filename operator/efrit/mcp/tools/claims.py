"""Tools for exclusive claims on members of pools: list, claim, release; offered where the backend has pools."""

from __future__ import annotations

from pydantic import Field

from efrit.backend.claims import MAX_TTL_SECONDS, NewClaim, bound_claim
from efrit.backend.errors import NotReady
from efrit.mcp.access import Effect
from efrit.mcp.outputs.claims import ClaimList, ClaimOutput, claim_list, claim_output
from efrit.mcp.schema_models import Arguments, ClaimName, ListArguments, PoolName, WaitSeconds
from efrit.mcp.tools.call import ToolCall
from efrit.mcp.tools.tool import Tool


async def _list_claims(call: ToolCall, arguments: ListArguments) -> ClaimList:
    return claim_list(await call.backend.claims(), arguments.limit)


LIST_CLAIMS = Tool(
    name="efrit_list_claims",
    title="List claims",
    description="List the exclusive claims on members of pools.",
    arguments=ListArguments,
    output=ClaimList,
    effect=Effect.READS,
    permissions=frozenset({"list efritclaims"}),
    handler=_list_claims,
    idempotent=True,
)


class ClaimMemberArguments(Arguments):
    """Arguments of efrit_claim_member."""

    pool: PoolName = Field(description="Name of the pool.")
    claim_id: ClaimName | None = Field(
        default=None, description="Name of the claim: an open one of this name is returned, not made again."
    )
    holder: str | None = Field(
        default=None, min_length=1, max_length=256, description="Name of the holder, for display."
    )
    ttl: int = Field(default=3600, ge=1, le=MAX_TTL_SECONDS, description="Seconds it lasts once it has a member.")
    recycle: bool = Field(
        default=True,
        description="Delete the member in the end; false gives it back to the pool with files and sessions.",
    )
    timeout: WaitSeconds = Field(default=60, description="Seconds to wait for a member.")


async def _claim_member(call: ToolCall, arguments: ClaimMemberArguments) -> ClaimOutput:
    new = NewClaim(arguments.pool, arguments.claim_id, arguments.holder, arguments.ttl, arguments.recycle)
    claim = await call.uninterrupted(call.backend.claim_member(new))
    if claim.settled or not arguments.timeout:
        return claim_output(claim)
    async with call.keep_alive(f"{claim.name} waits for a member of {claim.pool}"):
        try:
            return claim_output(await bound_claim(call.backend, claim.name, arguments.timeout))
        except NotReady:
            return claim_output(await call.backend.claim(claim.name))


CLAIM_MEMBER = Tool(
    name="efrit_claim_member",
    title="Claim a member of a pool",
    description="Have a ready member of a pool exclusively for a while; instance_id names it. If timeout elapses "
    "first, phase is Pending and the claim goes on waiting: call again with its claim_id.",
    arguments=ClaimMemberArguments,
    output=ClaimOutput,
    effect=Effect.ADDS,
    permissions=frozenset(
        {"create efritclaims", "get efritclaims", "list efritclaims", "watch efritclaims", "get efritpools"}
    ),
    handler=_claim_member,
)


class ReleaseClaimArguments(Arguments):
    """Arguments of efrit_release_claim."""

    claim_id: ClaimName = Field(description="Name of the claim.")


async def _release_claim(call: ToolCall, arguments: ReleaseClaimArguments) -> ClaimOutput:
    return claim_output(await call.backend.release_claim(arguments.claim_id))


RELEASE_CLAIM = Tool(
    name="efrit_release_claim",
    title="Release a claim",
    description="End a claim: its member is deleted with its workspace, or is in the pool again if recycle is false.",
    arguments=ReleaseClaimArguments,
    output=ClaimOutput,
    effect=Effect.DESTROYS,
    permissions=frozenset({"get efritclaims", "patch efritclaims"}),
    handler=_release_claim,
    idempotent=True,
)

TOOLS = (LIST_CLAIMS, CLAIM_MEMBER, RELEASE_CLAIM)
