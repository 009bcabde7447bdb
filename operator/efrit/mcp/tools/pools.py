"""Tools for pools: list, get, scale, former templates; offered where the backend has pools."""

from __future__ import annotations

from pydantic import Field

from efrit.backend.errors import NotFound
from efrit.mcp.access import Effect
from efrit.mcp.outputs.pools import PoolHistory, PoolList, PoolOutput, pool_history, pool_list, pool_output
from efrit.mcp.schema_models import Arguments, ListArguments, Output, PoolName
from efrit.mcp.tools.call import ToolCall
from efrit.mcp.tools.tool import Tool


async def _list_pools(call: ToolCall, arguments: ListArguments) -> PoolList:
    return pool_list(await call.backend.pools(), arguments.limit)


LIST_POOLS = Tool(
    name="efrit_list_pools",
    title="List pools",
    description="List the pools of instances: members, and requests that wait for one.",
    arguments=ListArguments,
    output=PoolList,
    effect=Effect.READS,
    permissions=frozenset({"list efritpools"}),
    handler=_list_pools,
    idempotent=True,
)


class GetPoolArguments(Arguments):
    """Arguments of efrit_get_pool."""

    pool: PoolName = Field(description="Name of the pool.")


async def _get_pool(call: ToolCall, arguments: GetPoolArguments) -> PoolOutput:
    return pool_output(await call.backend.pool(arguments.pool))


GET_POOL = Tool(
    name="efrit_get_pool",
    title="Get a pool",
    description="Return a pool: its members, conditions, busiest flows of requests and last change of size.",
    arguments=GetPoolArguments,
    output=PoolOutput,
    effect=Effect.READS,
    permissions=frozenset({"get efritpools"}),
    handler=_get_pool,
    idempotent=True,
)


class ScalePoolArguments(Arguments):
    """Arguments of efrit_scale_pool."""

    pool: PoolName = Field(description="Name of the pool.")
    replicas: int = Field(ge=0, le=1000, description="Desired number of members.")


class ScalePoolOutput(Output):
    """Output of efrit_scale_pool."""

    pool: str
    desired: int
    members: int
    message: str


async def _scale_pool(call: ToolCall, arguments: ScalePoolArguments) -> ScalePoolOutput:
    return ScalePoolOutput.model_validate(await call.backend.scale_pool(arguments.pool, arguments.replicas))


SCALE_POOL = Tool(
    name="efrit_scale_pool",
    title="Scale a pool",
    description="Set how many members a pool has. A member too many ends its work and is deleted with its workspace.",
    arguments=ScalePoolArguments,
    output=ScalePoolOutput,
    effect=Effect.DESTROYS,
    permissions=frozenset({"patch efritpools/scale"}),
    handler=_scale_pool,
    idempotent=True,
)


class GetPoolHistoryArguments(Arguments):
    """Arguments of efrit_get_pool_history."""

    pool: PoolName = Field(description="Name of the pool.")
    revision: int | None = Field(default=None, ge=1, description="Also return the template of this revision.")


async def _get_pool_history(call: ToolCall, arguments: GetPoolHistoryArguments) -> PoolHistory:
    revisions = await call.backend.pool_history(arguments.pool)
    asked_for = next((revision for revision in revisions if revision.number == arguments.revision), None)
    if arguments.revision is not None and asked_for is None:
        numbers = ", ".join(str(revision.number) for revision in revisions) or "none"
        raise NotFound(
            f"{arguments.pool} has no revision {arguments.revision}", f"Revisions that are kept: {numbers}."
        )
    return pool_history(arguments.pool, revisions, asked_for)


GET_POOL_HISTORY = Tool(
    name="efrit_get_pool_history",
    title="List the templates of a pool",
    description="List the present and former templates of a pool, to which efrit_undo_pool can go back.",
    arguments=GetPoolHistoryArguments,
    output=PoolHistory,
    effect=Effect.READS,
    permissions=frozenset({"get efritpools", "list controllerrevisions", "list efritinstances"}),
    handler=_get_pool_history,
    idempotent=True,
)


class UndoPoolArguments(Arguments):
    """Arguments of efrit_undo_pool. The revision is required: a model names what it has seen in the history."""

    pool: PoolName = Field(description="Name of the pool.")
    revision: int = Field(ge=1, description="Number of the former template, from efrit_get_pool_history.")


class UndoPoolOutput(Output):
    """Output of efrit_undo_pool."""

    pool: str
    revision: int = Field(description="Number of the template; a restored one gets a new number soon after.")
    changed: bool = Field(description="False if the pool had this template already: a repeated call changes nothing.")
    fields: list[str] = Field(description="Fields of the template that differ from before.")
    message: str


async def _undo_pool(call: ToolCall, arguments: UndoPoolArguments) -> UndoPoolOutput:
    return UndoPoolOutput.model_validate(await call.backend.undo_pool(arguments.pool, arguments.revision))


UNDO_POOL = Tool(
    name="efrit_undo_pool",
    title="Restore a former template of a pool",
    description="Give a pool a former template again. Members of the present one are deleted with their workspaces.",
    arguments=UndoPoolArguments,
    output=UndoPoolOutput,
    effect=Effect.DESTROYS,
    permissions=frozenset({"get efritpools", "patch efritpools", "list controllerrevisions"}),
    handler=_undo_pool,
    idempotent=True,
)

TOOLS = (LIST_POOLS, GET_POOL, SCALE_POOL, GET_POOL_HISTORY, UNDO_POOL)
