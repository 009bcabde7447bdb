"""Tools for plans; offered where the backend has plans."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from efrit.backend.errors import Forbidden
from efrit.backend.interface import ANY_INSTANCE
from efrit.backend.plans import Change, Intent, NewPlan
from efrit.mcp.access import Effect
from efrit.mcp.error_text import error_text
from efrit.mcp.outputs.plans import (
    PlanList,
    PlanLogOutput,
    PlanOutput,
    plan_list,
    plan_log_from_history,
    plan_log_from_status,
    plan_output,
)
from efrit.mcp.plan_progress import follow_plan
from efrit.mcp.schema_models import Arguments, ListArguments, PoolName, Seconds, Target, WaitSeconds
from efrit.mcp.tools.call import ToolCall
from efrit.mcp.tools.tool import Tool

PlanName = Annotated[
    str,
    Field(min_length=1, max_length=63, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", description="Name of the plan."),
]
Sentence = Annotated[str, Field(min_length=1, max_length=1024)]
Command = Annotated[str, Field(min_length=1, max_length=2048)]
PlanSeconds = Annotated[float, Field(gt=0, le=31_536_000)]


class GitArgument(Arguments):
    """Git repository of a plan."""

    url: str = Field(min_length=1, max_length=2048, description="URL to clone.")
    branch: str | None = Field(default=None, max_length=255, description="Branch to start from.")
    revision: str | None = Field(default=None, max_length=255, description="Commit or tag to start from.")
    secret: str | None = Field(
        default=None, max_length=253, description="Name of a Secret with credentials that the instance mounts."
    )


class TaskArgument(Arguments):
    """One task of the initial tree."""

    name: Annotated[str, Field(min_length=1, max_length=63, pattern=r"^[a-z]([-a-z0-9]*[a-z0-9])?$")] = Field(
        description="Id of the task, unique in the plan."
    )
    description: Sentence = Field(description="What to do.")
    parent: str | None = Field(default=None, max_length=63, description="Name of the parent task.")
    type: Literal["atomic", "parent"] = Field(
        default="atomic", description="atomic: a piece of work; parent: has subtasks."
    )


class RunPlanArguments(Arguments):
    """Arguments of efrit_run_plan."""

    intent: str = Field(
        min_length=1,
        max_length=16_384,
        description="Goal of the plan. It never changes; use efrit_amend_plan to add to it.",
    )
    acceptance_criteria: list[Sentence] = Field(
        default=[], max_length=32, description="How to tell that the goal is reached, one sentence each."
    )
    constraints: list[Sentence] = Field(
        default=[], max_length=32, description="What the plan must respect, one sentence each."
    )
    instance_id: Target | None = Field(
        default=None,
        description="Instance whose workspace is used: * is the least loaded one. Default: default, or the only one.",
    )
    pool: PoolName | None = Field(
        default=None, description="Instead of an instance: a pool; one of its members is chosen."
    )
    plan_id: PlanName | None = Field(default=None, description="Name of the plan; default: derived from the intent.")
    build: list[Command] = Field(
        default=[], max_length=16, description="Shell commands run after each task: does it build, do the tests pass?"
    )
    integration: list[Command] = Field(
        default=[], max_length=16, description="Shell commands: does it work with its surroundings?"
    )
    quality: list[Command] = Field(default=[], max_length=16, description="Shell commands: is the quality good?")
    tasks: list[TaskArgument] = Field(
        default=[],
        max_length=100,
        description="Initial tasks, in the order of work; default: the plan finds its own.",
    )
    git: GitArgument | None = Field(
        default=None, description="Repository to clone and work on; default: an empty one."
    )
    max_steps: int | None = Field(default=None, ge=1, le=100_000, description="Maximum number of steps.")
    max_tokens: int | None = Field(default=None, ge=1, description="Maximum of input and output tokens together.")
    timeout: PlanSeconds | None = Field(
        default=None, description="Maximum time of the whole plan in seconds; work done by then is kept."
    )
    act_timeout: Seconds | None = Field(default=None, description="Maximum time of the work on one task in seconds.")
    idempotency_key: str | None = Field(
        default=None,
        min_length=1,
        max_length=256,
        description="Running again with the same key returns the same plan. Choose a key, so that a call repeated "
        "after a broken connection does not start a second plan.",
    )


async def _run_plan(call: ToolCall, arguments: RunPlanArguments) -> PlanOutput:
    git = arguments.git
    new = NewPlan(
        intent=Intent(arguments.intent, tuple(arguments.acceptance_criteria), tuple(arguments.constraints)),
        name=arguments.plan_id,
        key=arguments.idempotency_key or call.idempotency_key,
        instance=None if arguments.pool and arguments.instance_id == ANY_INSTANCE else arguments.instance_id,
        pool=arguments.pool,
        git_url=git.url if git else None,
        git_branch=git.branch if git else None,
        git_revision=git.revision if git else None,
        git_secret=git.secret if git else None,
        build=tuple(arguments.build),
        integration=tuple(arguments.integration),
        quality=tuple(arguments.quality),
        act_timeout=arguments.act_timeout,
        max_steps=arguments.max_steps,
        max_tokens=arguments.max_tokens,
        timeout=arguments.timeout,
        spec={"tasks": [task.model_dump(exclude_none=True) for task in arguments.tasks]} if arguments.tasks else {},
    )
    return plan_output(await call.uninterrupted(call.backend.planning().create_plan(new)))


RUN_PLAN = Tool(
    name="efrit_run_plan",
    title="Run a plan",
    description="Start work of many steps towards an intent: a tree of tasks on an instance's workspace. Each task "
    "is done (act), checked (assess) and learned from (adapt), with a git commit for every step. Returns "
    "immediately; plan_id is a durable handle for efrit_wait_plan, efrit_get_plan and efrit_change_plan.",
    arguments=RunPlanArguments,
    output=PlanOutput,
    effect=Effect.DESTROYS,
    permissions=frozenset({"create efritplans", "get efritplans", "get efritinstances"}),
    handler=_run_plan,
    open_world=True,
)


async def _list_plans(call: ToolCall, arguments: ListArguments) -> PlanList:
    return plan_list(await call.backend.planning().plans(brief=True), arguments.limit)


LIST_PLANS = Tool(
    name="efrit_list_plans",
    title="List plans",
    description="List the plans and their status, oldest first; of many, the newest ones.",
    arguments=ListArguments,
    output=PlanList,
    effect=Effect.READS,
    permissions=frozenset({"list efritplans"}),
    handler=_list_plans,
    idempotent=True,
)


class GetPlanArguments(Arguments):
    """Arguments of efrit_get_plan."""

    plan_id: PlanName


async def _get_plan(call: ToolCall, arguments: GetPlanArguments) -> PlanOutput:
    return plan_output(await call.backend.planning().plan(arguments.plan_id))


GET_PLAN = Tool(
    name="efrit_get_plan",
    title="Get a plan",
    description="Return the current state of a plan: its tree of tasks, the current step, the last observations, the "
    "last commits and the cost.",
    arguments=GetPlanArguments,
    output=PlanOutput,
    effect=Effect.READS,
    permissions=frozenset({"get efritplans"}),
    handler=_get_plan,
    idempotent=True,
)


class WaitPlanArguments(Arguments):
    """Arguments of efrit_wait_plan."""

    plan_id: PlanName
    timeout: WaitSeconds = Field(
        default=60,
        description="Maximum wait in seconds. If it elapses, final is false and the plan continues; call again.",
    )


async def _wait_plan(call: ToolCall, arguments: WaitPlanArguments) -> PlanOutput:
    plans = call.backend.planning()
    return plan_output(await follow_plan(plans, arguments.plan_id, arguments.timeout, call.report))


WAIT_PLAN = Tool(
    name="efrit_wait_plan",
    title="Wait for a plan",
    description="Wait until a plan is final, reporting each step as progress, and return it. If timeout elapses "
    "first, final is false and the plan continues.",
    arguments=WaitPlanArguments,
    output=PlanOutput,
    effect=Effect.READS,
    permissions=frozenset({"get efritplans", "watch efritplans"}),
    handler=_wait_plan,
    idempotent=True,
)


class AmendPlanArguments(Arguments):
    """Arguments of efrit_amend_plan."""

    plan_id: PlanName
    text: str = Field(
        min_length=1, max_length=2048, description="What to add, for example a requirement that was missing."
    )


async def _amend_plan(call: ToolCall, arguments: AmendPlanArguments) -> PlanOutput:
    plans = call.backend.planning()
    return plan_output(await call.uninterrupted(plans.amend_plan(arguments.plan_id, arguments.text)))


AMEND_PLAN = Tool(
    name="efrit_amend_plan",
    title="Amend a plan",
    description="Add a requirement or a finding to a plan; it applies from the next task on. The intent and earlier "
    "amendments never change.",
    arguments=AmendPlanArguments,
    output=PlanOutput,
    effect=Effect.DESTROYS,
    permissions=frozenset({"get efritplans", "patch efritplans"}),
    handler=_amend_plan,
)


class ChangePlanArguments(Arguments):
    """Arguments of efrit_change_plan."""

    plan_id: PlanName
    change: Literal["suspend", "resume", "cancel"] = Field(
        description="suspend: finish the current step, start no other. resume: continue. cancel: end it for good."
    )


async def _change_plan(call: ToolCall, arguments: ChangePlanArguments) -> PlanOutput:
    plans = call.backend.planning()
    return plan_output(await call.uninterrupted(plans.change_plan(arguments.plan_id, Change(arguments.change))))


CHANGE_PLAN = Tool(
    name="efrit_change_plan",
    title="Suspend, resume or cancel a plan",
    description="Suspend a plan (the current step finishes, no other starts), resume it, or cancel it for good. "
    "Completed work is kept.",
    arguments=ChangePlanArguments,
    output=PlanOutput,
    effect=Effect.DESTROYS,
    permissions=frozenset({"get efritplans", "patch efritplans"}),
    handler=_change_plan,
    idempotent=True,
)


class PlanLogArguments(Arguments):
    """Arguments of efrit_get_plan_log."""

    plan_id: PlanName
    limit: Annotated[int, Field(ge=1, le=1000)] = Field(
        default=50, description="Maximum number of commits; the last ones are returned."
    )


async def _get_plan_log(call: ToolCall, arguments: PlanLogArguments) -> PlanLogOutput:
    plans = call.backend.planning()
    try:
        async with call.keep_alive(f"reading the history of {arguments.plan_id}"):
            history = await plans.plan_history(arguments.plan_id, arguments.limit)
    except Forbidden as error:
        return plan_log_from_status(await plans.plan(arguments.plan_id), arguments.limit, error_text(error))
    return plan_log_from_history(arguments.plan_id, history)


GET_PLAN_LOG = Tool(
    name="efrit_get_plan_log",
    title="Commits of a plan",
    description="Return the commits of a plan's repository, oldest first, with the outcome and cost of each step. "
    "They are read from the plan's instance; without permission for that, the last commits in the status are "
    "returned.",
    arguments=PlanLogArguments,
    output=PlanLogOutput,
    effect=Effect.READS,
    permissions=frozenset({"get efritplans"}),
    handler=_get_plan_log,
    idempotent=True,
)

TOOLS = (RUN_PLAN, LIST_PLANS, GET_PLAN, WAIT_PLAN, AMEND_PLAN, CHANGE_PLAN, GET_PLAN_LOG)
