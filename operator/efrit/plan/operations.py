"""The navigator's answer about the current task, and the tree after it: all of it is applied, or nothing.

Pure. The models, with their docstrings, are also the JSON schema that the navigator gets (`messages`). Invariants:
ids are assigned here and never reused, done tasks never change, the intent stays the root, thresholds only rise.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import count
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from efrit.plan.tree import (
    FAILED_FOR_GOOD,
    LONGEST_DESCRIPTION,
    LONGEST_LESSON,
    MAX_LESSONS,
    ROOT,
    TaskTree,
    find,
    path_to,
    problems,
    raised_threshold,
    replace_task,
    walk,
)
from efrit.protocol.plan_enums import TaskState, TaskType

MAX_OPERATIONS = 100
LONGEST_REASON = 2_000
_MAX_SENTENCES = 10

_Id = Annotated[str, Field(max_length=64, description="The id of a task of the tree.")]
_Description = Annotated[str, Field(min_length=1, max_length=LONGEST_DESCRIPTION)]
_Lessons = Annotated[
    tuple[Annotated[str, Field(min_length=1, max_length=LONGEST_LESSON)], ...], Field(max_length=MAX_LESSONS)
]


class _Output(BaseModel):
    # An unknown key is a wish that would be ignored silently.
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Verdict(StrEnum):
    """What the navigator says of the current task. Open is for a parent only."""

    DONE = "done"
    FAILED = "failed"
    OPEN = "open"


class NewTask(_Output):
    """A task to add. An atomic one is work for one command; a parent has tasks, or is planned when its turn comes."""

    type: TaskType
    description: _Description
    tasks: tuple[NewTask, ...] = ()


_NewTasks = Annotated[tuple[NewTask, ...], Field(min_length=1)]


class Retry(_Output):
    """Try a task again: a copy with the lessons learned takes its place, before all its pending siblings."""

    operation: Literal["retry"]
    task: _Id
    lessons: _Lessons = ()


class Decompose(_Output):
    """Make a task without children a parent of these tasks."""

    operation: Literal["decompose"]
    task: _Id
    tasks: _NewTasks


class Refine(_Output):
    """Give a task another description."""

    operation: Literal["refine"]
    task: _Id
    description: _Description


class Remove(_Output):
    """Take a task that is not needed any more out of the tree, with all below it."""

    operation: Literal["remove"]
    task: _Id


class Insert(_Output):
    """Add tasks to a parent: before or after one of its children, else at the end."""

    operation: Literal["insert"]
    parent: _Id
    before: _Id | None = None
    after: _Id | None = None
    tasks: _NewTasks


Operation = Annotated[Retry | Decompose | Refine | Remove | Insert, Field(discriminator="operation")]


class Answer(_Output):
    """The navigator's answer about the current task."""

    verdict: Verdict
    reason: Annotated[str, Field(min_length=1, max_length=LONGEST_REASON)]
    operations: Annotated[tuple[Operation, ...], Field(max_length=MAX_OPERATIONS)] = ()


@dataclass(frozen=True, slots=True)
class Refused:
    """Why no part of an answer was applied, in sentences for the model that gave it."""

    sentences: tuple[str, ...]


class _OperationError(Exception):
    """One operation cannot be applied. Stays in this module."""


def failure(reason: str) -> Answer:
    """Return the answer for a navigator that gave none: the current task failed. It is never refused."""
    return Answer(verdict=Verdict.FAILED, reason=reason[:LONGEST_REASON] or "no reason was given")


def apply(tree: TaskTree, current: str, answer: Answer, step: int) -> TaskTree | Refused:
    """Return the tree after `answer` about the pending task `current`; `step` is that of the commit to come.

    The verdict comes first, then the operations in their order, so that they can still replace a task that failed for
    good by this verdict. Equal arguments give equal ids.
    """
    task = find(tree, current)
    if task is None or not task.is_pending:
        return Refused((f"There is no pending task {current}.",))
    if sentences := list(_verdict_problems(task, answer)):
        return Refused(tuple(sentences))
    new_ids = (f"{step}.{number}" for number in count(1))
    after = replace_task(tree, current, lambda task: (_with_verdict(task, answer),))
    for number, operation in enumerate(answer.operations, 1):
        try:
            after = _apply_operation(after, operation, new_ids)
        except _OperationError as error:
            sentences.append(f"Operation {number} ({operation.operation}): {error}")
    # After a failed operation the tree is not the one that was meant: its problems would only confuse.
    sentences = sentences or [*_result_problems(tree, after, current, answer)] or problems(after)
    return Refused(tuple(sentences[:_MAX_SENTENCES])) if sentences else after


def _verdict_problems(task: TaskTree, answer: Answer) -> Iterator[str]:
    """Yield what the answer must not say about this task, whatever the operations do."""
    if answer.verdict is Verdict.OPEN:
        if task.is_atomic:
            yield f"Task {task.id} is atomic: it is done or failed. Only a parent can stay open."
        if failed := [child.id for child in task.children if child.state is TaskState.FAILED]:
            yield f"{', '.join(failed)} below {task.id} failed for good: {task.id} is done without it, or failed."
    if task.failure_threshold >= FAILED_FOR_GOOD and any(
        isinstance(operation, Retry) and operation.task == task.id for operation in answer.operations
    ):
        yield f"Task {task.id} failed too often to be retried: decompose it, remove it, or leave it to its parent."


def _with_verdict(task: TaskTree, answer: Answer) -> TaskTree:
    """Return the current task after the verdict."""
    task = task.copy_with(attempts=task.attempts + 1)
    if answer.verdict is Verdict.OPEN:
        return task
    if answer.verdict is Verdict.DONE:
        return task.copy_with(state=TaskState.DONE)
    threshold = raised_threshold(task.failure_threshold)
    state = TaskState.FAILED if threshold >= FAILED_FOR_GOOD else TaskState.PENDING
    task = task.copy_with(failure_threshold=threshold, state=state)
    if any(getattr(operation, "task", None) == task.id for operation in answer.operations):
        return task
    # It is tried again unchanged: the next attempt should at least know why this one failed.
    return task.copy_with(lessons=_with_lessons(task, (answer.reason,)))


def _with_lessons(task: TaskTree, lessons: tuple[str, ...]) -> tuple[str, ...]:
    return (*task.lessons, *lessons)[-MAX_LESSONS:]


def _apply_operation(tree: TaskTree, operation: Operation, new_ids: Iterator[str]) -> TaskTree:
    match operation:
        case Retry(task=task_id, lessons=lessons):
            task = _open_task(tree, task_id)
            _check_not_root(task_id, "retried")
            return _with_retry(
                tree,
                task_id,
                _reset_to_pending(task).copy_with(id=next(new_ids), lessons=_with_lessons(task, lessons)),
            )
        case Decompose(task=task_id, tasks=tasks):
            if _open_task(tree, task_id).children:
                raise _OperationError(f"{task_id} has children already: insert tasks into it.")
            parts = _new_tasks(tasks, new_ids)
            return replace_task(tree, task_id, lambda task: (_with_parts(task, parts),))
        case Refine(task=task_id, description=description):
            _open_task(tree, task_id)
            _check_not_root(task_id, "refined")
            return replace_task(tree, task_id, lambda task: (task.copy_with(description=description),))
        case Remove(task=task_id):
            task = _open_task(tree, task_id)
            _check_not_root(task_id, "removed")
            if done := [below.id for below, _ in walk(task) if below.state is TaskState.DONE]:
                raise _OperationError(
                    f"{done[0]} below {task_id} is done and stays: remove what is open below it instead."
                )
            return replace_task(tree, task_id, lambda _: ())
        case Insert():
            return _insert_tasks(tree, operation, new_ids)


def _open_task(tree: TaskTree, task_id: str) -> TaskTree:
    task = find(tree, task_id)
    if task is None:
        raise _OperationError(f"there is no task {task_id!r} in the tree.")
    if task.state is TaskState.DONE:
        raise _OperationError(f"{task_id} is done: what is done stays as it is.")
    return task


def _check_not_root(task_id: str, participle: str) -> None:
    if task_id == ROOT:
        raise _OperationError(f"{ROOT} is the user's intent, which never changes: it cannot be {participle}.")


def _reset_to_pending(task: TaskTree) -> TaskTree:
    """Return the task pending again, with all that failed below it; the thresholds stay."""
    if task.state is TaskState.FAILED:
        task = task.copy_with(state=TaskState.PENDING)
    return task.copy_with(children=tuple(map(_reset_to_pending, task.children)))


def _with_retry(tree: TaskTree, task_id: str, copy: TaskTree) -> TaskTree:
    """Return the tree with `copy` before the first pending sibling of the task that it replaces."""

    def changed(parent: TaskTree) -> tuple[TaskTree, ...]:
        others = [child for child in parent.children if child.id != task_id]
        at = next((index for index, child in enumerate(others) if child.is_pending), len(others))
        return (parent.copy_with(children=(*others[:at], copy, *others[at:])),)

    return replace_task(tree, path_to(tree, task_id)[-2].id, changed)


def _with_parts(task: TaskTree, parts: tuple[TaskTree, ...]) -> TaskTree:
    return task.copy_with(type=TaskType.PARENT, state=TaskState.PENDING, children=parts)


def _new_tasks(tasks: tuple[NewTask, ...], new_ids: Iterator[str]) -> tuple[TaskTree, ...]:
    return tuple(
        TaskTree(
            id=next(new_ids), type=new.type, description=new.description, children=_new_tasks(_parts_of(new), new_ids)
        )
        for new in tasks
    )


def _parts_of(task: NewTask) -> tuple[NewTask, ...]:
    if task.tasks and task.type is TaskType.ATOMIC:
        raise _OperationError(f"the new task {task.description[:60]!r} is atomic and has tasks: make it a parent.")
    return task.tasks


def _insert_tasks(tree: TaskTree, insert: Insert, new_ids: Iterator[str]) -> TaskTree:
    parent = _open_task(tree, insert.parent)
    if parent.is_atomic:
        raise _OperationError(f"{parent.id} is atomic: decompose it.")
    if insert.before is not None and insert.after is not None:
        raise _OperationError("name one place: before or after.")
    place = _place(parent, insert)
    added = _new_tasks(insert.tasks, new_ids)

    def changed(task: TaskTree) -> tuple[TaskTree, ...]:
        return (task.copy_with(children=(*task.children[:place], *added, *task.children[place:])),)

    return replace_task(tree, parent.id, changed)


def _place(parent: TaskTree, insert: Insert) -> int:
    sibling = insert.before if insert.before is not None else insert.after
    if sibling is None:
        return len(parent.children)
    indices: dict[str, int] = {child.id: index for index, child in enumerate(parent.children)}
    if sibling not in indices:
        raise _OperationError(f"{sibling!r} is not a child of {parent.id}.")
    return indices[sibling] if insert.before is not None else indices[sibling] + 1


def _result_problems(before: TaskTree, after: TaskTree, current: str, answer: Answer) -> Iterator[str]:
    """Yield what is wrong with the tree that the whole answer leads to."""
    task = find(after, current)
    if answer.verdict is Verdict.DONE and task is not None:
        if unfinished := [child.id for child in task.children if child.state is not TaskState.DONE]:
            yield (
                f"{current} cannot be done while {_listed_ids(unfinished)} below it is not: remove what is not "
                "needed, or give another verdict."
            )
    elif answer.verdict is Verdict.OPEN and (task is None or not any(child.is_pending for child in task.children)):
        yield f"{current} stays open, but nothing below it is left to do: add what is missing, or say done or failed."
    if after.is_pending and before.children and not after.children:
        yield f"Nothing would be left below {ROOT}, and the intent is not reached: insert what is to be done instead."


def _listed_ids(ids: list[str]) -> str:
    return ", ".join(ids[:5]) + (f" and {len(ids) - 5} more" if len(ids) > 5 else "")
