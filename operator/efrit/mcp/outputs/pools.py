"""Structured output about pools."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from pydantic import Field

from efrit.backend.pools import Pool, PoolRevision
from efrit.mcp.answer_size import first_that_fit
from efrit.mcp.schema_models import LISTED, ListOutput, Output, left_out


class PoolSummary(Output):
    """One pool of the list. The counts are of members, pending of requests that no member has."""

    pool: str
    desired: int | None = None
    members: int
    ready: int
    idle: int
    busy: int
    pending: int


class PoolList(ListOutput):
    """Output of efrit_list_pools."""

    pools: list[PoolSummary]


class FlowOutput(Output):
    """Open requests of one flow."""

    name: str
    running: int
    pending: int


class ConditionOutput(Output):
    """One condition."""

    type: str
    status: str
    reason: str
    message: str


class ScaleOutput(Output):
    """The last change of the number of members by autoscaling."""

    before: int
    after: int
    reason: str
    time: datetime | None = None


class PoolOutput(PoolSummary):
    """Output of efrit_get_pool."""

    listed = ("pool", "desired", "members", "ready", "pending")

    autoscaled: bool = Field(description="Whether the pool decides itself how many members there are.")
    draining: int
    suspended: int
    updated: int
    revision: str | None = None
    flows: list[FlowOutput]
    conditions: list[ConditionOutput]
    last_scale: ScaleOutput | None = None
    created: datetime | None = None


class PoolRevisionOutput(Output):
    """One template that a pool has or had."""

    revision: int
    digest: str
    current: bool
    members: int | None = Field(default=None, description="Members made from it.")
    created: datetime | None = None


class PoolHistory(Output):
    """Output of efrit_get_pool_history."""

    pool: str
    revisions: list[PoolRevisionOutput] = Field(description="Oldest first.")
    template: dict[str, Any] | None = Field(default=None, description="Of the revision that was asked for.")


def pool_list(pools: Sequence[Pool], limit: int = LISTED) -> PoolList:
    """Return the first pools, sorted by name."""
    listed = first_that_fit(map(_summary, sorted(pools, key=lambda pool: pool.name)[:limit]))
    return PoolList(left_out=left_out(len(listed), len(pools)), pools=listed)


def _summary(pool: Pool) -> PoolSummary:
    return PoolSummary(
        pool=pool.name,
        desired=pool.desired,
        members=pool.members,
        ready=pool.ready,
        idle=pool.idle,
        busy=pool.busy,
        pending=pool.pending,
    )


def pool_output(pool: Pool) -> PoolOutput:
    """Return everything known about a pool."""
    scale = pool.last_scale
    return PoolOutput(
        **_summary(pool).model_dump(),
        autoscaled=pool.autoscaled,
        draining=pool.draining,
        suspended=pool.suspended,
        updated=pool.updated,
        revision=pool.revision,
        flows=[FlowOutput.model_validate(flow) for flow in pool.flows],
        conditions=[ConditionOutput.model_validate(condition) for condition in pool.conditions],
        last_scale=None if scale is None else ScaleOutput.model_validate(scale),
        created=pool.created,
    )


def pool_history(pool: str, revisions: Sequence[PoolRevision], template_of: PoolRevision | None) -> PoolHistory:
    """Return the templates of a pool, with the content of one of them."""
    return PoolHistory(
        pool=pool,
        revisions=[
            PoolRevisionOutput(
                revision=revision.number,
                digest=revision.digest,
                current=revision.current,
                members=revision.members,
                created=revision.created,
            )
            for revision in revisions
        ],
        template=None if template_of is None else template_of.template,
    )
