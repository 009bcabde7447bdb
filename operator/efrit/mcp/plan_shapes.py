"""What the tools for plans take and what they return, as `shapes` has them for instances and requests."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field

from efrit.client.interface import Outcome
from efrit.client.plans import PlanPhase, PlanReason
from efrit.mcp.shapes import Answer, Arguments, NoArguments, Seconds, Target

PlanName = Annotated[
    str,
    Field(min_length=1, max_length=63, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", description="Name of the plan."),
]
Sentence = Annotated[str, Field(min_length=1, max_length=1024)]
Command = Annotated[str, Field(min_length=1, max_length=2048)]
LongSeconds = Annotated[float, Field(gt=0, le=31_536_000)]


class GitArgument(Arguments):
    """The repository a plan works on."""

    url: str = Field(min_length=1, max_length=2048, description="Where to clone it from.")
    branch: str | None = Field(default=None, max_length=255, description="Branch to begin from.")
    revision: str | None = Field(default=None, max_length=255, description="Commit or tag to begin from.")
    secret: str | None = Field(
        default=None, max_length=253, description="Name of a Secret with credentials, which the instance mounts."
    )


class TaskArgument(Arguments):
    """One task of the tree at the beginning."""

    name: Annotated[str, Field(min_length=1, max_length=63, pattern=r"^[a-z]([-a-z0-9]*[a-z0-9])?$")] = Field(
        description="Its id, used once in the plan."
    )
    description: Sentence = Field(description="What is to be done.")
    parent: str | None = Field(default=None, max_length=63, description="Name of the task it is a part of.")
    type: Literal["atomic", "parent"] = Field(default="atomic", description="atomic is work, parent has parts.")


class RunPlanArguments(Arguments):
    """Of efrit_run_plan."""

    intent: str = Field(
        min_length=1,
        max_length=16_384,
        description="What is to be reached. It never changes: what is forgotten here is said with efrit_amend_plan.",
    )
    acceptance_criteria: list[Sentence] = Field(
        default=[], max_length=32, description="How one sees that it is reached, a sentence each."
    )
    constraints: list[Sentence] = Field(
        default=[], max_length=32, description="What must hold on the way, a sentence each."
    )
    instance_id: Target | None = Field(
        default=None,
        description="On whose workspace: * is the least loaded instance, left out is default (or the only one).",
    )
    pool: str | None = Field(
        default=None, description="Instead of an instance: a pool, of which one member takes it."
    )
    plan_id: PlanName | None = Field(default=None, description="Its name; default: made from the intent.")
    build: list[Command] = Field(
        default=[], max_length=16, description="Shell commands run after each task: does it build, do tests pass?"
    )
    integration: list[Command] = Field(default=[], max_length=16, description="Does it fit what is around it?")
    quality: list[Command] = Field(default=[], max_length=16, description="Is it well made?")
    tasks: list[TaskArgument] = Field(
        default=[],
        max_length=100,
        description="The tree at the beginning, in the order it is worked on; default: the plan finds its own.",
    )
    git: GitArgument | None = Field(
        default=None, description="Work on a clone of this repository; default: begin with nothing."
    )
    max_steps: int | None = Field(default=None, ge=1, le=100_000, description="Most visits of tasks.")
    max_tokens: int | None = Field(default=None, ge=1, description="Most tokens in and out, together.")
    timeout: LongSeconds | None = Field(
        default=None, description="Longest time of the whole plan in seconds; what was done by then is kept."
    )
    act_timeout: Seconds | None = Field(default=None, description="Longest time of the work on one task, in seconds.")
    idempotency_key: str | None = Field(
        default=None,
        min_length=1,
        max_length=256,
        description="The same key is the same plan, however often it is run: choose one, and a call that is repeated "
        "after a broken connection does not begin a second plan.",
    )


class ListPlansArguments(NoArguments):
    """Of efrit_list_plans."""


class PlanArguments(Arguments):
    """Of efrit_get_plan."""

    plan_id: PlanName


class WaitPlanArguments(Arguments):
    """Of efrit_wait_plan."""

    plan_id: PlanName
    timeout: Annotated[float, Field(ge=0, le=604_800)] = Field(
        default=60,
        description="Longest wait in seconds; the plan goes on after it (final is false): call again to wait on.",
    )


class AmendPlanArguments(Arguments):
    """Of efrit_amend_plan."""

    plan_id: PlanName
    text: str = Field(min_length=1, max_length=2048, description="What was forgotten, or became clear.")


class ChangePlanArguments(Arguments):
    """Of efrit_change_plan."""

    plan_id: PlanName
    change: Literal["suspend", "resume", "cancel"] = Field(
        description="suspend: begin nothing more, what runs ends. resume: go on. cancel: end it, for good."
    )


class PlanLogArguments(Arguments):
    """Of efrit_get_plan_log."""

    plan_id: PlanName
    limit: Annotated[int, Field(ge=1, le=1000)] = Field(default=50, description="Most commits, the last ones.")


class IntentAnswer(Answer):
    """What is to be reached."""

    description: str
    acceptance_criteria: list[str]
    constraints: list[str]


class HiddenAnswer(Answer):
    """Tasks below one that are left out, by state."""

    pending: int
    done: int
    failed: int


class TaskAnswer(Answer):
    """One task of the tree."""

    id: str
    parent: str | None = None
    type: str = Field(description="atomic is work, parent has parts.")
    description: str
    state: str = Field(description="pending, done or failed.")
    failure_threshold: float = Field(description="Grows by 0.2 with each failure; at 1.0 the parent is asked.")
    attempts: int
    lessons: list[str]
    children: int
    hidden: HiddenAnswer | None = Field(default=None, description="What is below it and left out here.")


class CommitAnswer(Answer):
    """One commit of the plan's repository."""

    hash: str
    subject: str
    kind: str | None = Field(default=None, description="begin, act, adapt or amend.")
    task: str | None = None
    step: int | None = Field(
        default=None, description="Its number in the plan; what was committed by hand has neither kind nor number."
    )
    time: datetime | None = None


class LoggedCommitAnswer(CommitAnswer):
    """A commit with what its step came to."""

    outcome: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    seconds: float | None = None


class ObservationAnswer(Answer):
    """One fact."""

    perspective: str
    statement: str
    evidence: str | None = None


class CountsAnswer(Answer):
    """Tasks of the tree by state, and what was done."""

    tasks: int
    pending: int
    done: int
    failed: int
    steps: int
    acts: int
    adapts: int
    amendments: int


class CostAnswer(Answer):
    """What it has cost so far."""

    input_tokens: int
    output_tokens: int
    seconds: float


class PlanSummary(Answer):
    """One plan of the list."""

    plan_id: str
    instance_id: str | None = None
    phase: PlanPhase
    reason: PlanReason = Field(description="Why it stands where it stands.")
    final: bool = Field(description="Whether it is over: it never changes again.")
    outcome: Outcome | None = Field(default=None, description="How much was reached, once it is final.")
    intent: str
    current_task: str | None = None
    step: str | None = Field(default=None, description="What is done with the current task.")
    tasks: int
    done: int
    created: datetime | None = None


class PlansAnswer(Answer):
    """Of efrit_list_plans."""

    plans: list[PlanSummary]


class PlanAnswer(Answer):
    """A plan as it is now: of efrit_run_plan, _get_plan, _wait_plan, _amend_plan and _change_plan."""

    plan_id: str
    instance_id: str | None = None
    pool: str | None = None
    phase: PlanPhase
    reason: PlanReason = Field(description="Why it stands where it stands.")
    final: bool = Field(description="Whether it is over: it never changes again.")
    outcome: Outcome | None = Field(default=None, description="How much was reached, once it is final.")
    message: str = Field(description="Where it stands, in a sentence.")
    intent: IntentAnswer
    amendments: list[str]
    suspended: bool = Field(description="Whether it was told to begin nothing more.")
    cancelled: bool = Field(description="Whether it was told to end.")
    current_task: str | None = None
    step: str | None = Field(default=None, description="What is done with the current task: Act, Assess, Adapt, …")
    request: str | None = Field(default=None, description="By which request: efrit_get_request tells of it.")
    tree: list[TaskAnswer] = Field(description="The tree, depth first, as much of it as a status has room for.")
    commits: list[CommitAnswer] = Field(description="The last commits, newest first.")
    commit_count: int
    observations: list[ObservationAnswer] = Field(description="What the last assessment saw.")
    counts: CountsAnswer
    cost: CostAnswer
    created: datetime | None = None
    started: datetime | None = None
    completed: datetime | None = None


class PlanLogAnswer(Answer):
    """Of efrit_get_plan_log."""

    plan_id: str
    complete: bool = Field(description="Whether these are from the repository itself; else they are from the status.")
    note: str = Field(default="", description="Why they are not.")
    commits: list[LoggedCommitAnswer] = Field(description="Oldest first.")
