"""Plans as a client sees them: work towards an intent that never changes, and `Plans`, what can be done with it.

Plain immutable values, no I/O, nothing heavy, as in `efrit.backend.interface`: those of the status that is behind
them (task, commit, observation, counts, cost) are defined in `efrit.protocol.plan_values`. In a cluster the operator
carries plans out; on this machine whoever watches a plan does.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any, Protocol

from msgspec import Struct, field

from efrit.api_group import GROUP
from efrit.protocol.enums import Outcome, PlanPhase, PlanReason
from efrit.protocol.plan_values import Commit, Cost, Counts, LoggedCommit, Observation, Task

__all__ = [
    "DIRECTORY",
    "Change",
    "Commit",
    "Cost",
    "Counts",
    "Intent",
    "LoggedCommit",
    "NewPlan",
    "Observation",
    "Outcome",
    "PlanPhase",
    "PlanReason",
    "PlanState",
    "Plans",
    "Task",
]


DIRECTORY = f"{GROUP}/directory"
"""Annotation of a plan of this machine: the directory in which its repository is made."""


class Change(StrEnum):
    """What can be done to a plan as a whole; a plan that is cancelled stays so."""

    SUSPEND = "suspend"
    RESUME = "resume"
    CANCEL = "cancel"


class Intent(Struct, frozen=True):
    """What is to be reached, how one sees it, and what must hold on the way."""

    description: str
    acceptance_criteria: tuple[str, ...] = ()
    constraints: tuple[str, ...] = ()


class PlanState(Struct, frozen=True):
    """A plan as it is now. Once `final` it never changes again, but for amendments nobody reads any more.

    `uid` tells it from earlier ones of its name; `begun`: its instance is chosen for good.

    `tree` is depth first, as much of it as a status has room for; `commits` are the last ones, newest first;
    `observations` those of the last assessment; `step` says what is done with `current_task`, `request` by which
    request. `suspended` and `cancelled` are what was asked for.
    """

    name: str
    phase: PlanPhase
    reason: PlanReason | str
    intent: Intent
    uid: str = ""
    message: str = ""
    outcome: Outcome | None = None
    amendments: tuple[str, ...] = ()
    instance: str | None = None
    pool: str | None = None
    current_task: str | None = None
    step: str | None = None
    request: str | None = None
    tree: tuple[Task, ...] = ()
    commits: tuple[Commit, ...] = ()
    commit_count: int = 0
    observations: tuple[Observation, ...] = ()
    counts: Counts = field(default_factory=Counts)
    cost: Cost = field(default_factory=Cost)
    max_steps: int | None = None
    max_tokens: int | None = None
    timeout_seconds: float | None = None
    suspended: bool = False
    cancelled: bool = False
    begun: bool = False
    created: datetime | None = None
    started: datetime | None = None
    completed: datetime | None = None

    @property
    def final(self) -> bool:
        """Whether it is over."""
        return self.phase.final


class NewPlan(Struct, frozen=True):
    """A plan to be. Times in seconds; None leaves what `spec` says, or the default.

    `spec` is a whole spec as the custom resource has it, over which the other fields go. Where: `instance`, or else
    `pool`, or else the least loaded instance. `build`, `integration` and `quality` are shell commands that gather
    facts after each task. The same `name`, or the same `key`, is the same plan, however often it is created.
    `directory`: an absolute path on this machine, in whose `plans/` the plan's repository is made; None: that of the
    instance's workspace.
    """

    intent: Intent | None = None
    name: str | None = None
    key: str | None = None
    instance: str | None = None
    pool: str | None = None
    directory: str | None = None
    git_url: str | None = None
    git_branch: str | None = None
    git_revision: str | None = None
    git_secret: str | None = None
    build: tuple[str, ...] = ()
    integration: tuple[str, ...] = ()
    quality: tuple[str, ...] = ()
    assess_timeout: float | None = None
    act_timeout: float | None = None
    max_steps: int | None = None
    max_tokens: int | None = None
    timeout: float | None = None
    spec: Mapping[str, Any] = field(default_factory=dict)


class Plans(Protocol):
    """What can be done with plans. Failures are `efrit.backend.errors.ClientError`s."""

    async def create_plan(self, new: NewPlan) -> PlanState:
        """Create the plan; the operator carries it out, on this machine whoever watches it.

        Raises `NoInstance`, `InstanceNotFound`, `Refused`, `Conflict`.
        """

    async def plans(self, *, brief: bool = False) -> Sequence[PlanState]:
        """Return all plans, oldest first. `brief`: without what may be long."""

    async def plan(self, name: str) -> PlanState:
        """Return the present state. Raises `PlanNotFound`."""

    def watch_plan(self, name: str) -> AsyncIterator[PlanState]:
        """Yield the state, then each change of it; end after the final state.

        Raises `PlanNotFound`. Ending the iteration does not affect the plan in a cluster; on this machine it goes on
        while somebody iterates, and stands still meanwhile.
        """

    async def amend_plan(self, name: str, text: str) -> PlanState:
        """Append `text` to the plan's amendments; concurrent ones are all kept. Raises `PlanNotFound`, `Refused`."""

    async def change_plan(self, name: str, change: Change) -> PlanState:
        """Suspend, resume or cancel the plan. Return its state, which need not show the change yet.

        Raises `PlanNotFound`, `Refused`.
        """

    async def plan_history(self, name: str, limit: int | None = None) -> dict[str, Any]:
        """Return the history in the plan's repository: intent, amendments, every commit, the first tree and the last.

        With `limit`, only the last commits. Runs an eval on the plan's instance, and needs the permissions for one.
        Raises `PlanNotFound`, `NotReady`, `Refused`.
        """
