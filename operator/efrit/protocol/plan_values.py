"""What a plan reports of itself: a task of its tree, a commit, an observation, counts, costs.

In the status of an EfritPlan, and so what a client returns. The bounds are those of the status; those of a commit are
in `efrit.api.wire_types`, as a history may have any.
"""

from datetime import datetime
from typing import Annotated

from msgspec import Meta, Struct

from efrit.protocol.plan_enums import Perspective, TaskState, TaskType

Number = Annotated[int, Meta(ge=0)]
_TaskId = Annotated[str, Meta(max_length=128)]
_Lesson = Annotated[str, Meta(max_length=1024)]
_Text = Annotated[str, Meta(max_length=2048)]


class HiddenTasks(Struct, frozen=True):
    """Tasks below a node that the status has no room for, by state."""

    pending: Annotated[Number, Meta(description="Tasks that have not started or not finished.")] = 0
    done: Annotated[Number, Meta(description="Tasks that are done.")] = 0
    failed: Annotated[Number, Meta(description="Tasks that failed permanently.")] = 0


class Task(Struct, frozen=True, kw_only=True):
    """One task of the tree."""

    id: Annotated[_TaskId, Meta(description="Id of the task, as in its commits.")]
    parent: Annotated[_TaskId | None, Meta(description="Id of its parent; the root has none.")] = None
    type: Annotated[TaskType, Meta(description="atomic or parent.")]
    description: Annotated[str, Meta(max_length=4096, description="What to do; a long text is truncated.")]
    failure_threshold: Annotated[
        float, Meta(ge=0, description="Grows by 0.2 with each failure; at 1.0 the parent is asked.")
    ] = 0.0
    state: Annotated[TaskState, Meta(description="pending, done or failed.")]
    attempts: Annotated[Number, Meta(description="Number of attempts so far.")] = 0
    lessons: Annotated[
        tuple[_Lesson, ...], Meta(max_length=20, description="Lessons of earlier attempts at the current task.")
    ] = ()
    children: Annotated[Number, Meta(description="Number of its subtasks.")] = 0
    hidden: Annotated[HiddenTasks | None, Meta(description="Tasks below it that are left out here, by state.")] = None


class Commit(Struct, frozen=True):
    """One commit of the plan's repository."""

    # Whoever commits by hand gives it neither kind nor step, and an instance of a later version may have other kinds.
    hash: Annotated[str, Meta(description="Its hash.")] = ""
    subject: Annotated[str, Meta(description="First line of its message.")] = ""
    kind: Annotated[str | None, Meta(description="begin, act, adapt or amend.")] = None
    task: Annotated[str | None, Meta(description="The task that the commit is about.")] = None
    step: Annotated[int | None, Meta(description="Its number in the plan, from 0.")] = None
    time: Annotated[datetime | None, Meta(description="When it was made.")] = None


class LoggedCommit(Commit, frozen=True):
    """A commit of the plan's repository, with the outcome and cost of its step.

    As the history of a plan has it. The commits of a status have no room for these fields: it has the sums of them.
    """

    outcome: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    seconds: float | None = None

    @property
    def tokens(self) -> int:
        """Return the tokens sent and received."""
        return (self.input_tokens or 0) + (self.output_tokens or 0)


class Observation(Struct, frozen=True):
    """One fact. What follows from it is decided elsewhere."""

    perspective: Annotated[Perspective, Meta(description="build, requirements, integration or quality.")]
    statement: Annotated[_Text, Meta(description="What was seen.")]
    evidence: Annotated[_Text | None, Meta(description="Evidence: output, file, line.")] = None


class Counts(Struct, frozen=True):
    """How much there is and how much was done."""

    tasks: Annotated[Number, Meta(description="Tasks of the tree, the root included.")] = 0
    pending: Annotated[Number, Meta(description="Tasks that have not started or not finished.")] = 0
    done: Annotated[Number, Meta(description="Tasks that are done.")] = 0
    failed: Annotated[Number, Meta(description="Tasks that failed permanently.")] = 0
    steps: Annotated[Number, Meta(description="Steps so far: what limits.maxSteps bounds.")] = 0
    acts: Annotated[Number, Meta(description="Commits of acts.")] = 0
    adapts: Annotated[Number, Meta(description="Commits of changes to the tree.")] = 0
    amendments: Annotated[Number, Meta(description="Amendments that the plan has taken in.")] = 0


class Cost(Struct, frozen=True):
    """What the plan has cost so far."""

    input_tokens: Annotated[Number, Meta(description="Tokens sent to the model.")] = 0
    output_tokens: Annotated[Number, Meta(description="Tokens received from it.")] = 0
    seconds: Annotated[float, Meta(ge=0, description="Running time of its requests, in seconds.")] = 0.0
