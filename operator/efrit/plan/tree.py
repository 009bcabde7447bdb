"""The task tree of a plan: its shape, its file format, and which task is next.

A tree is its root; it never changes, `operations` makes new ones. Nothing here knows of git, of requests or
of what a model says. Pending waits for a cycle; failed is for the parent to handle; done never changes again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from efrit.errors import InvalidTree
from efrit.protocol.json_limits import MAX_PARTS, exceeds_part_limit
from efrit.protocol.model import error_line
from efrit.protocol.plan_enums import TaskState, TaskType

ROOT = "root"
"""Id of the root of every tree; its description is the intent's."""

MAX_TASKS = 2_000
DEEPEST = 20
LONGEST_DESCRIPTION = 4_000
LONGEST_LESSON = 2_000
MAX_LESSONS = 20

FAILED_FOR_GOOD = 1.0
RISE_PER_FAILURE = 0.2
"""How much each failure of a task raises its threshold."""


TaskId = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}\Z")]
Description = Annotated[str, Field(min_length=1, max_length=LONGEST_DESCRIPTION)]
Lesson = Annotated[str, Field(min_length=1, max_length=LONGEST_LESSON)]


class TaskTree(BaseModel):
    """One task and all below it. Keys nobody knows are refused: writing the file again would lose them."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, regex_engine="python-re")

    id: TaskId
    type: TaskType
    description: Description
    failure_threshold: Annotated[float, Field(ge=0, le=FAILED_FOR_GOOD)] = 0.0
    """Rises with each failure; at 1.0 the task has failed for good and its parent decides."""
    state: TaskState = TaskState.PENDING
    attempts: Annotated[int, Field(ge=0, le=2**31)] = 0
    """How many cycles ended with a verdict."""
    lessons: Annotated[tuple[Lesson, ...], Field(max_length=MAX_LESSONS)] = ()
    """What earlier attempts taught, oldest first."""
    children: tuple[TaskTree, ...] = ()

    @property
    def is_atomic(self) -> bool:
        """Whether it is worked on by one act."""
        return self.type is TaskType.ATOMIC

    @property
    def is_pending(self) -> bool:
        """Whether it is neither done nor failed for good."""
        return self.state is TaskState.PENDING

    def copy_with(self, **changes: Any) -> TaskTree:
        """Return the same task with these fields changed; the caller keeps them valid."""
        return self.model_copy(update=changes)


def walk(task: TaskTree, depth: int = 1) -> Iterator[tuple[TaskTree, int]]:
    """Yield `task` and all below it with their depth, depth-first, in order."""
    yield task, depth
    for child in task.children:
        yield from walk(child, depth + 1)


def ids_of(tree: TaskTree) -> list[str]:
    """Return the ids of all tasks, depth-first."""
    return [task.id for task, _ in walk(tree)]


def path_to(tree: TaskTree, task_id: str) -> tuple[TaskTree, ...]:
    """Return the tasks from the root to the one with this id, both included; empty if there is none."""
    if tree.id == task_id:
        return (tree,)
    for child in tree.children:
        if below := path_to(child, task_id):
            return (tree, *below)
    return ()


def find(tree: TaskTree, task_id: str) -> TaskTree | None:
    """Return the task with this id, or None."""
    path = path_to(tree, task_id)
    return path[-1] if path else None


def replace_task(tree: TaskTree, task_id: str, change: Callable[[TaskTree], tuple[TaskTree, ...]]) -> TaskTree:
    """Return the tree with the tasks `change` returns in place of the one with this id, which exists.

    Only the tasks on the path to it are made anew. The root can be changed, not removed or multiplied.
    """
    path = path_to(tree, task_id)
    now = change(path[-1])
    for parent in reversed(path[:-1]):
        at = next(index for index, child in enumerate(parent.children) if child.id == task_id)
        parent_now = parent.copy_with(children=(*parent.children[:at], *now, *parent.children[at + 1 :]))
        task_id, now = parent.id, (parent_now,)
    (root,) = now
    return root


def next_task(tree: TaskTree) -> TaskTree | None:
    """Return the task of the next cycle; None once the root is done or failed.

    Depth-first: the first pending atomic task. A parent's turn comes when nothing below it is pending, which is
    also so before it has children, and at once when a child failed for good: what comes after may have to change.
    """
    if not tree.is_pending:
        return None
    if tree.is_atomic or any(child.state is TaskState.FAILED for child in tree.children):
        return tree
    for child in tree.children:
        if (below := next_task(child)) is not None:
            return below
    return tree


def raised_threshold(threshold: float) -> float:
    """Return the failure threshold after one more failure."""
    # Rounded, or three failures would be 0.6000000000000001.
    return min(FAILED_FOR_GOOD, round(threshold + RISE_PER_FAILURE, 6))


def counts(tree: TaskTree) -> dict[str, int]:
    """Return how many tasks there are, and how many of them in each state."""
    states = [task.state for task, _ in walk(tree)]
    return {"tasks": len(states), **{state.value: states.count(state) for state in TaskState}}


def problems(tree: TaskTree) -> list[str]:
    """Return what is wrong with the tree as a whole, in sentences; empty for a sound one."""
    sentences = []
    every = list(walk(tree))
    if len(every) > MAX_TASKS:
        sentences.append(f"The tree would have {len(every)} tasks; at most {MAX_TASKS} are allowed.")
    deepest, depth = max(every, key=lambda item: item[1])
    if depth > DEEPEST:
        sentences.append(f"Task {deepest.id} would lie {depth} levels deep; at most {DEEPEST} are allowed.")
    ids: set[str] = set()
    for task, _ in every:
        if task.id in ids:
            sentences.append(f"Two tasks have the id {task.id}.")
        ids.add(task.id)
        if task.is_atomic and task.children:
            sentences.append(f"Task {task.id} is atomic and has children: make it a parent.")
        if task.state is TaskState.DONE and any(child.state is not TaskState.DONE for child in task.children):
            sentences.append(f"Task {task.id} is done, but not everything below it is.")
    return sentences


def parse_tree(text: str | bytes) -> TaskTree:
    """Return the tree in the text of current.json. Raises `InvalidTree` with sentences that say what is wrong."""
    data = text if isinstance(text, bytes) else text.encode("utf-8", "replace")
    if exceeds_part_limit(data):
        raise InvalidTree(f"The task tree has more than {MAX_PARTS} parts.")
    try:
        tree = TaskTree.model_validate_json(data)
    except ValidationError as error:
        raise InvalidTree(f"The task tree cannot be read: {error_line(error)}") from None
    if sentences := problems(tree):
        raise InvalidTree(" ".join(sentences))
    return tree
