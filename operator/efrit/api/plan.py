"""EfritPlan: work towards an intent that never changes, with a task tree that does."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from efrit.api.conditions import Condition
from efrit.api.meta import ApiModel, PrinterColumn, Resource, Rule, Time
from efrit.api.reasons import PlanPhase
from efrit.api.request import LocalReference
from efrit.api.wire_types import (
    MAX_TIMEOUT_SECONDS,
    BudgetField,
    CommitField,
    CostField,
    CountsField,
    ObservationField,
    TaskField,
)
from efrit.api_group import GROUP
from efrit.protocol.enums import Outcome
from efrit.protocol.plan_enums import PlanStep, TaskType
from efrit.resources import PLANS

MAX_AMENDMENTS = 64
MAX_TREE_NODES = 400
MAX_COMMITS = 20
MAX_OBSERVATIONS = 40

PLAN_UID_LABEL = f"{GROUP}/plan"
PLAN_STEP_LABEL = f"{GROUP}/plan-step"
PLAN_PART_LABEL = f"{GROUP}/plan-part"

Sentence = Annotated[str, Field(min_length=1, max_length=1024)]
Amendment = Annotated[str, Field(min_length=1, max_length=2048)]
Command = Annotated[str, Field(min_length=1, max_length=2048)]
TaskId = Annotated[str, Field(min_length=1, max_length=63, pattern=r"^[a-z]([-a-z0-9]*[a-z0-9])?$")]
Revision = Annotated[
    str, Field(min_length=1, max_length=255, pattern=r"^[A-Za-z0-9_]([-A-Za-z0-9._/]*[A-Za-z0-9_])?$")
]


class Intent(ApiModel):
    """The goal. It never changes; add what was forgotten as an amendment."""

    description: str = Field(min_length=1, max_length=16_384, description="The goal, in your own words.")
    acceptance_criteria: tuple[Sentence, ...] = Field(
        default=(), max_length=32, description="How to tell that the goal is reached, a sentence each."
    )
    constraints: tuple[Sentence, ...] = Field(
        default=(), max_length=32, description="What must hold throughout, a sentence each."
    )


class PlannedTask(ApiModel):
    """One task of the tree at the beginning."""

    name: TaskId = Field(description="Name of the task, unique in the plan; commits mention it.")
    parent: TaskId | None = Field(
        default=None, description="Name of the task of the list that this one is a part of; default: the root."
    )
    type: TaskType = Field(default=TaskType.ATOMIC, description="atomic is work for one command, parent has parts.")
    description: Sentence = Field(description="What to do.")
    failure_threshold: float | None = Field(
        default=None,
        ge=0,
        le=0.9,
        description="Initial failure threshold; it grows by 0.2 with each failure, and at 1.0 the parent is "
        "asked. Default: 0, five tries.",
    )
    rules: ClassVar = (
        Rule("self.name != 'root'", "the root is there already: choose another name."),
        Rule("!has(self.parent) || self.parent != self.name", "a task cannot be a part of itself."),
    )


class GitSource(ApiModel):
    """The repository that the plan works on. It is cloned once and changed on the branch efrit/NAME-OF-THE-PLAN."""

    url: str = Field(
        min_length=1,
        max_length=2048,
        # Not git's ext:: and the like, which run programs, and nothing that begins with a dash.
        pattern=r"^(https?://|ssh://|git://|file:///|[A-Za-z0-9._-]+@[A-Za-z0-9.-]+:)[!#-&(-~]+$",
        description="Where to clone from: https, ssh, git, or file for a repository in the pod. The instance must be "
        "allowed to reach it (spec.network.egress of the EfritInstance).",
    )
    branch: Revision | None = Field(default=None, description="Branch to start from; default: the repository's own.")
    revision: Revision | None = Field(
        default=None, description="Commit or tag to start from; default: the end of the branch."
    )
    secret_ref: LocalReference | None = Field(
        default=None,
        description="Secret with token, username and password, or ssh-privatekey (and known_hosts). The "
        "EfritInstance must mount it (spec.podTemplate.volumes and volumeMounts): its owner decides what Emacs sees.",
    )
    rules: ClassVar = (
        Rule(
            "!self.url.matches('^[a-z]+://[^/]*:[^/]*@')",
            "a password in the URL would be in every object and log: put it into a Secret, see secretRef.",
        ),
        *(
            Rule(f"!has(self.{name}) || !self.{name}.contains('..')", f"{name} names a range: name one {what}.")
            for name, what in (("branch", "branch"), ("revision", "commit"))
        ),
    )


class Environment(ApiModel):
    """What the work is done on: a directory of its own, or a clone of a repository."""

    git: GitSource | None = Field(
        default=None, description="Clone this repository; default: start with an empty repository."
    )


class Act(ApiModel):
    """How the command of a task is run."""

    timeout_seconds: int | None = Field(
        default=None,
        ge=1,
        le=MAX_TIMEOUT_SECONDS,
        description="Longest running time of one command; default: the instance's limits.commandTimeoutSeconds.",
    )
    budget: BudgetField | None = Field(default=None, description="Upper bounds of one command.")


class Assess(ApiModel):
    """Shell commands that gather facts after each task, run in the environment: exit code and output."""

    build: tuple[Command, ...] = Field(default=(), max_length=16, description="Does it build, do its tests pass?")
    integration: tuple[Command, ...] = Field(default=(), max_length=16, description="Does it fit what is around it?")
    quality: tuple[Command, ...] = Field(default=(), max_length=16, description="Is it well made: linters, types, …?")
    timeout_seconds: int = Field(
        default=300, ge=1, le=MAX_TIMEOUT_SECONDS, description="Longest running time of one command, in seconds."
    )


class PlanLimits(ApiModel):
    """Upper bounds of the whole plan. One that is reached ends it with what there is: outcome Partial."""

    max_steps: int = Field(
        default=200, ge=1, le=100_000, description="Steps, those for parents and repeated ones included."
    )
    max_tokens: int | None = Field(
        default=None, ge=1, le=10_000_000_000, description="Tokens in and out of all its requests; default: no bound."
    )
    timeout_seconds: int | None = Field(
        default=None,
        ge=1,
        le=365 * 86_400,
        description="Seconds since status.startTime, suspended ones included; default: no bound.",
    )


def _immutable(field: str) -> Rule:
    return Rule(
        f"has(self.{field}) == has(oldSelf.{field}) && (!has(self.{field}) || self.{field} == oldSelf.{field})",
        f"spec.{field} is immutable: create a new EfritPlan instead.",
    )


PLACES = ", ".join(map(str, range(MAX_AMENDMENTS)))
UNCHANGED = "self.amendments[i] == oldSelf.amendments[i]"  # gate: amendments-kept


class PlanSpec(ApiModel):
    """Desired state. The intent never changes, amendments are only added."""

    intent: Intent = Field(description=Intent.__doc__)
    amendments: tuple[Amendment, ...] = Field(
        default=(),
        max_length=MAX_AMENDMENTS,
        description="Additions to the intent, in the order they were made. Add to the end: the next step sees it.",
    )
    tasks: tuple[PlannedTask, ...] = Field(
        default=(),
        max_length=100,
        description="The tree at the beginning, in the order it is worked on; default: the intent alone.",
    )
    instance_ref: LocalReference | None = Field(
        default=None, description="The EfritInstance whose workspace holds the plan."
    )
    pool_ref: LocalReference | None = Field(
        default=None,
        description="A member of the EfritPool of this name takes the plan, and keeps it.",
    )
    environment: Environment | None = Field(default=None, description=Environment.__doc__)
    act: Act | None = Field(default=None, description=Act.__doc__)
    assess: Assess = Field(default=Assess(), description=Assess.__doc__)
    limits: PlanLimits = Field(default=PlanLimits(), description=PlanLimits.__doc__)
    suspend: bool = Field(
        default=False,
        description="Set to true to start no new work: running work finishes and is kept. Set to false to resume.",
    )
    cancel: bool = Field(
        default=False, description="Set to true to cancel the plan and stop its running work. Completed work is kept."
    )
    ttl_seconds_after_finished: int | None = Field(
        default=None,
        ge=0,
        le=10 * 365 * 86_400,
        description="Delete the plan and its requests this many seconds after it is final; default: keep it. The "
        "repository on the workspace stays.",
    )

    rules: ClassVar = (
        Rule(
            "[has(self.instanceRef), has(self.poolRef)].filter(given, given).size() == 1",
            "name exactly one target: spec.instanceRef or spec.poolRef.",
        ),
        Rule(
            "self.intent == oldSelf.intent",  # gate: intent-immutable
            "spec.intent is immutable: say it in spec.amendments, or create a new EfritPlan.",
        ),
        Rule(
            "!has(oldSelf.amendments) || (has(self.amendments) "
            "&& self.amendments.size() >= oldSelf.amendments.size() "
            f"&& [{PLACES}].all(i, i >= oldSelf.amendments.size() || {UNCHANGED}))",
            "spec.amendments only grows at its end: entries cannot be changed or removed.",
        ),
        Rule(
            "!has(self.tasks) || self.tasks.all(each, self.tasks.exists_one(other, other.name == each.name))",
            "every task of spec.tasks has a name of its own.",
        ),
        Rule(
            "!has(self.tasks) || self.tasks.all(each, !has(each.parent) "
            "|| self.tasks.exists(other, other.name == each.parent && other.type == 'parent'))",
            "the parent of a task is a task of spec.tasks with type parent.",
        ),
        Rule(
            "!has(oldSelf.cancel) || !oldSelf.cancel || (has(self.cancel) && self.cancel)",
            "spec.cancel cannot be taken back: create a new EfritPlan instead.",
        ),
        *(_immutable(name) for name in ("tasks", "instanceRef", "poolRef", "environment")),
    )


class PlanStatus(ApiModel):
    """How far it has come. The whole tree, all observations and each step are in the repository on the workspace.

    Final once phase is Succeeded or Failed: the API server refuses any later change.
    """

    phase: PlanPhase | None = Field(default=None, description="Pending, Running, Suspended, Succeeded or Failed.")
    observed_generation: int | None = Field(
        default=None, ge=0, description="The metadata.generation that this status describes."
    )
    conditions: tuple[Condition, ...] = Field(
        default=(),
        max_length=8,
        description="Complete (True once final, however it ended) and Succeeded, with the same reason.",
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
    )
    reason: str | None = Field(default=None, max_length=128, description="Reason of the conditions, for the column.")
    outcome: Outcome | None = Field(default=None, description="Success, Partial or Failure.")
    instance_name: str | None = Field(
        default=None, max_length=253, description="The instance whose workspace has the plan."
    )
    current_task: str | None = Field(default=None, max_length=128, description="Id of the task that the step is for.")
    step: PlanStep | None = Field(default=None, description="Part of the step: Act, Assess, Adapt; Begin, Amend.")
    current_request: str | None = Field(
        default=None, max_length=253, description="The EfritRequest that last worked on it."
    )
    commit_count: int | None = Field(default=None, ge=0, description="How many commits the plan has made.")
    tree: tuple[TaskField, ...] = Field(
        default=(),
        max_length=MAX_TREE_NODES,
        description="The tree, depth first: the path to the current task and its surroundings, the rest as counts.",
    )
    commits: tuple[CommitField, ...] = Field(
        default=(), max_length=MAX_COMMITS, description="The last commits, newest first."
    )
    observations: tuple[ObservationField, ...] = Field(
        default=(), max_length=MAX_OBSERVATIONS, description="Observations of the last assessment."
    )
    counts: CountsField | None = None
    cost: CostField | None = None
    start_time: Time | None = Field(default=None, description="When the controller started it.")
    completion_time: Time | None = Field(default=None, description="When its end was recorded.")


class EfritPlan(Resource):
    """Work towards an intent with a living task tree: act, assess, adapt, each step a commit."""

    resource: ClassVar = PLANS
    short_names: ClassVar = ("efpl",)
    printer_columns: ClassVar = (
        PrinterColumn("Phase", ".status.phase"),
        PrinterColumn("Reason", ".status.reason"),
        PrinterColumn("Task", ".status.currentTask", "string", "The task that the step is for."),
        PrinterColumn("Step", ".status.step"),
        PrinterColumn("Done", ".status.counts.done", "integer", "Tasks that are done."),
        PrinterColumn("Tasks", ".status.counts.tasks", "integer", "Tasks of the tree."),
        PrinterColumn("Age", ".metadata.creationTimestamp", "date"),
        PrinterColumn("Instance", ".status.instanceName", "string", "Where it lives.", 1),
        PrinterColumn("Commits", ".status.commitCount", "integer", "Commits made.", 1),
        PrinterColumn("Intent", ".spec.intent.description", "string", "Goal of the plan.", 1),
    )
    selectable_fields: ClassVar = (".status.phase", ".status.instanceName", ".spec.instanceRef.name")
    rules: ClassVar = (
        Rule(
            "self.metadata.name.size() <= 63 && self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",
            "metadata.name names a directory and a branch, too: at most 63 lower-case letters, digits and '-'.",
        ),
        Rule(
            "!has(oldSelf.status) || !has(oldSelf.status.phase) || "
            "!(oldSelf.status.phase in ['Succeeded', 'Failed']) || "
            "(has(self.status) && self.status == oldSelf.status)",
            "the status of a finished EfritPlan is final: it cannot be changed.",
        ),
    )

    spec: PlanSpec = Field(description=PlanSpec.__doc__)
    status: PlanStatus = Field(default_factory=PlanStatus, description=PlanStatus.__doc__)

    @property
    def final(self) -> bool:
        """Whether its status never changes again."""
        return self.status.phase is not None and self.status.phase.final
