"""Structured output about plans."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any

from msgspec.structs import asdict
from pydantic import Field, TypeAdapter, ValidationError
from pydantic.alias_generators import to_snake

from efrit.backend.errors import Refused
from efrit.backend.interface import Outcome
from efrit.backend.plans import (
    Commit,
    Cost,
    Counts,
    Intent,
    LoggedCommit,
    Observation,
    PlanPhase,
    PlanState,
    Task,
)
from efrit.mcp.answer_size import first_that_fit
from efrit.mcp.error_text import for_model
from efrit.mcp.schema_models import LISTED, ListOutput, Output, Value, left_out
from efrit.struct_field import StructField, all_fields

LoggedCommitOutput = Annotated[LoggedCommit, StructField(all_fields, required=("hash", "subject"))]
_COMMIT = TypeAdapter[LoggedCommit](LoggedCommitOutput)


class PlanSummary(Output):
    """One plan of the list."""

    plan_id: str
    instance_id: str | None = None
    phase: PlanPhase
    reason: str = Field(description="Reason for the phase.")
    final: bool = Field(description="Whether the plan has ended and never changes again.")
    outcome: Outcome | None = Field(default=None, description="How much of the goal was reached; set once final.")
    intent: str
    current_task: str | None = None
    step: str | None = Field(default=None, description="Current step of the current task.")
    tasks: int
    done: int
    created: datetime | None = None


class PlanList(ListOutput):
    """Output of efrit_list_plans."""

    plans: list[PlanSummary]


class PlanOutput(Output):
    """Current state of a plan: output of efrit_run_plan, _get_plan, _wait_plan, _amend_plan and _change_plan."""

    listed = ("plan_id", "reason", "final", "outcome", "message", "tree", "commits", "observations", "counts", "cost")

    plan_id: str
    instance_id: str | None = None
    pool: str | None = None
    phase: PlanPhase
    reason: str = Field(description="Reason for the phase.")
    final: bool = Field(description="Whether the plan has ended and never changes again.")
    outcome: Outcome | None = Field(default=None, description="How much of the goal was reached; set once final.")
    message: str = Field(description="The state in one sentence.")
    intent: Value[Intent]
    amendments: list[str]
    suspended: bool = Field(description="Whether it was asked to suspend.")
    cancelled: bool = Field(description="Whether it was cancelled.")
    current_task: str | None = None
    step: str | None = Field(default=None, description="Current part of the step: Act, Assess, Adapt, …")
    request: str | None = Field(default=None, description="Request of the current step, for efrit_get_request.")
    tree: list[Value[Task]] = Field(description="The tree, depth first, as far as it fits in the status.")
    commits: list[Value[Commit]] = Field(description="The last commits, newest first.")
    commit_count: int
    observations: list[Value[Observation]] = Field(description="Observations of the last assessment.")
    counts: Value[Counts]
    cost: Value[Cost]
    created: datetime | None = None
    started: datetime | None = None
    completed: datetime | None = None


class PlanLogOutput(Output):
    """Output of efrit_get_plan_log."""

    plan_id: str
    complete: bool = Field(description="Whether the commits are from the repository; else from the status.")
    note: str = Field(default="", description="Why commits are missing, or not from the repository.")
    commits: list[LoggedCommitOutput] = Field(description="Oldest first.")


def plan_output(state: PlanState) -> PlanOutput:
    """Return everything known about a plan."""
    return PlanOutput.model_validate(
        asdict(state)
        | {
            "plan_id": state.name,
            "instance_id": state.instance,
            "final": state.final,
            "message": for_model(state.message),
        }
    )


def plan_list(states: Sequence[PlanState], limit: int = LISTED) -> PlanList:
    """Return a summary of each of the last plans, in the order given."""
    newest = first_that_fit(map(_summary, reversed(states[-limit:])))
    return PlanList(left_out=left_out(len(newest), len(states)), plans=newest[::-1])


def _summary(state: PlanState) -> PlanSummary:
    return PlanSummary(
        plan_id=state.name,
        instance_id=state.instance,
        phase=state.phase,
        reason=state.reason,
        final=state.final,
        outcome=state.outcome,
        intent=state.intent.description[:200],
        current_task=state.current_task,
        step=state.step,
        tasks=state.counts.tasks,
        done=state.counts.done,
        created=state.created,
    )


def plan_log_from_history(plan_id: str, history: Mapping[str, Any]) -> PlanLogOutput:
    """Return the commits of the plan's repository. Raises `Refused` where one is not as such a commit is."""
    values = [{to_snake(key): value for key, value in commit.items()} for commit in history.get("commits") or ()]
    try:
        commits = [_COMMIT.validate_python(value) for value in values]
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise Refused(f"the history of {plan_id} cannot be read: {where} of a commit: {first['msg']}") from error
    newest = first_that_fit(reversed(commits), lambda commit: _COMMIT.dump_python(commit, mode="json"))
    note = f"The answer has room for the last {len(newest)} of {len(commits)}." if len(newest) < len(commits) else ""
    return PlanLogOutput(plan_id=plan_id, complete=True, note=note, commits=newest[::-1])


def plan_log_from_status(state: PlanState, limit: int, note: str) -> PlanLogOutput:
    """Return the last commits the status holds; `note` says why they are not from the repository."""
    commits = [LoggedCommit(**asdict(commit)) for commit in reversed(state.commits[:limit])]
    return PlanLogOutput(plan_id=state.name, complete=False, note=note, commits=commits)
