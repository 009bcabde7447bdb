"""Tools for pools: list, get, scale; offered where the backend has pools."""

from __future__ import annotations

from pydantic import Field

from efrit.mcp.access import Effect
from efrit.mcp.outputs.pools import PoolList, PoolOutput, pool_list, pool_output
from efrit.mcp.schema_models import Arguments, Output, PoolName
from efrit.mcp.tools.call import ToolCall
from efrit.mcp.tools.tool import Tool


class ListPoolsArguments(Arguments):
    """Arguments of efrit_list_pools: none."""


async def _list_pools(call: ToolCall, _: ListPoolsArguments) -> PoolList:
    return pool_list(await call.backend.pools())


LIST_POOLS = Tool(
    name="efrit_list_pools",
    title="List pools",
    description="List the pools of instances: members, and requests that wait for one.",
    arguments=ListPoolsArguments,
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

TOOLS = (LIST_POOLS, GET_POOL, SCALE_POOL)
