"""What the navigator answers about a visited task, and what becomes of the tree: all of it, or nothing and why.

Pure. The models are also the JSON schema the navigator is given (`messages`). What the operations promise: ids are
given here and never twice, what is done stays as it is, the intent stays the root, thresholds only rise.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import count
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from efrit.api.plan import TaskState, TaskType
from efrit.plan.tree import (
    FAILED_FOR_GOOD,
    LONGEST_DESCRIPTION,
    LONGEST_LESSON,
    MOST_LESSONS,
    ROOT,
    Task,
    find,
    path_to,
    problems,
    raised,
    replaced,
    walk,
)

MOST_OPERATIONS = 100
LONGEST_REASON = 2_000
_MOST_SENTENCES = 10

_Id = Annotated[str, Field(max_length=64, description="The id of a task of the tree.")]
_Description = Annotated[str, Field(min_length=1, max_length=LONGEST_DESCRIPTION)]
_Lessons = Annotated[
    tuple[Annotated[str, Field(min_length=1, max_length=LONGEST_LESSON)], ...], Field(max_length=MOST_LESSONS)
]


class _Said(BaseModel):
    # A key nobody knows is a wish that would be ignored without a word.
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Verdict(StrEnum):
    """What the navigator says of the visited task. Open is for a parent only."""

    DONE = "done"
    FAILED = "failed"
    OPEN = "open"


class NewTask(_Said):
    """A task to add. An atomic one is work for one command; a parent has tasks, or is planned when it is visited."""

    type: TaskType
    description: _Description
    tasks: tuple[NewTask, ...] = ()


_NewTasks = Annotated[tuple[NewTask, ...], Field(min_length=1)]


class Retry(_Said):
    """Try a task again: a copy with the lessons learned takes its place, before all its pending siblings."""

    operation: Literal["retry"]
    task: _Id
    lessons: _Lessons = ()


class Decompose(_Said):
    """Make a task without children a parent of these tasks."""

    operation: Literal["decompose"]
    task: _Id
    tasks: _NewTasks


class Refine(_Said):
    """Give a task another description."""

    operation: Literal["refine"]
    task: _Id
    description: _Description


class Remove(_Said):
    """Take a task that is not needed any more out of the tree, with all below it."""

    operation: Literal["remove"]
    task: _Id


class Insert(_Said):
    """Add tasks to a parent: before or after one of its children, else at the end."""

    operation: Literal["insert"]
    parent: _Id
    before: _Id | None = None
    after: _Id | None = None
    tasks: _NewTasks


Operation = Annotated[Retry | Decompose | Refine | Remove | Insert, Field(discriminator="operation")]


class Answer(_Said):
    """The navigator's answer about the visited task."""

    verdict: Verdict
    reason: Annotated[str, Field(min_length=1, max_length=LONGEST_REASON)]
    operations: Annotated[tuple[Operation, ...], Field(max_length=MOST_OPERATIONS)] = ()


@dataclass(frozen=True, slots=True)
class Refused:
    """Why an answer was not carried out, for the one who gave it. Nothing of it was."""

    sentences: tuple[str, ...]


class _CannotError(Exception):
    """One operation cannot be carried out. Stays in this module."""


def failure(reason: str) -> Answer:
    """The answer that stands in where the navigator gave none: the visited task failed. It is never refused."""
    return Answer(verdict=Verdict.FAILED, reason=reason[:LONGEST_REASON] or "no reason was given")


def apply(tree: Task, visited: str, answer: Answer, step: int) -> Task | Refused:
    """The tree after `answer` about the pending task `visited`; `step` is the commit this will be.

    The verdict comes first, then the operations in their order: so a task that failed for good by this verdict can
    still be helped by them. The same arguments give the same ids.
    """
    task = find(tree, visited)
    if task is None or not task.is_pending:
        return Refused((f"There is no pending task {visited}.",))
    if said := list(_out_of_place(task, answer)):
        return Refused(tuple(said))
    new_ids = (f"{step}.{number}" for number in count(1))
    now = replaced(tree, visited, lambda each: (_judged(each, answer),))
    for place, operation in enumerate(answer.operations, 1):
        try:
            now = _carry_out(now, operation, new_ids)
        except _CannotError as refusal:
            said.append(f"Operation {place} ({operation.operation}): {refusal}")
    # What an operation that was left out would have changed is not worth a sentence.
    said = said or [*_left_behind(tree, now, visited, answer)] or problems(now)
    return Refused(tuple(said[:_MOST_SENTENCES])) if said else now


def _out_of_place(task: Task, answer: Answer) -> Iterator[str]:
    """What the answer must not say about this task, whatever the operations do."""
    if answer.verdict is Verdict.OPEN:
        if task.is_atomic:
            yield f"Task {task.id} is atomic: it is done or failed. Only a parent can stay open."
        if failed := [child.id for child in task.children if child.state is TaskState.FAILED]:
            yield f"{', '.join(failed)} below {task.id} failed for good: {task.id} is done without it, or failed."
    if task.failure_threshold >= FAILED_FOR_GOOD and any(
        isinstance(each, Retry) and each.task == task.id for each in answer.operations
    ):
        yield f"Task {task.id} failed too often to be retried: decompose it, remove it, or leave it to its parent."


def _judged(task: Task, answer: Answer) -> Task:
    """The visited task after the verdict."""
    task = task.but(attempts=task.attempts + 1)
    if answer.verdict is Verdict.OPEN:
        return task
    if answer.verdict is Verdict.DONE:
        return task.but(state=TaskState.DONE)
    threshold = raised(task.failure_threshold)
    state = TaskState.FAILED if threshold >= FAILED_FOR_GOOD else TaskState.PENDING
    task = task.but(failure_threshold=threshold, state=state)
    if any(getattr(each, "task", None) == task.id for each in answer.operations):
        return task
    # It is tried again as it is: all the next attempt has to go by is why this one failed.
    return task.but(lessons=_with_lessons(task, (answer.reason,)))


def _with_lessons(task: Task, lessons: tuple[str, ...]) -> tuple[str, ...]:
    return (*task.lessons, *lessons)[-MOST_LESSONS:]


def _carry_out(tree: Task, operation: Operation, new_ids: Iterator[str]) -> Task:
    match operation:
        case Retry(task=task_id, lessons=lessons):
            task = _open_task(tree, task_id)
            _not_the_root(task_id, "retried")
            return _moved_up(
                tree, task_id, _revived(task).but(id=next(new_ids), lessons=_with_lessons(task, lessons))
            )
        case Decompose(task=task_id, tasks=tasks):
            if _open_task(tree, task_id).children:
                raise _CannotError(f"{task_id} has children already: insert tasks into it.")
            parts = _made(tasks, new_ids)
            return replaced(tree, task_id, lambda task: (_with_parts(task, parts),))
        case Refine(task=task_id, description=description):
            _open_task(tree, task_id)
            _not_the_root(task_id, "refined")
            return replaced(tree, task_id, lambda task: (task.but(description=description),))
        case Remove(task=task_id):
            task = _open_task(tree, task_id)
            _not_the_root(task_id, "removed")
            if done := [each.id for each, _ in walk(task) if each.state is TaskState.DONE]:
                raise _CannotError(
                    f"{done[0]} below {task_id} is done and stays: remove what is open below it instead."
                )
            return replaced(tree, task_id, lambda _: ())
        case Insert():
            return _inserted(tree, operation, new_ids)


def _open_task(tree: Task, task_id: str) -> Task:
    task = find(tree, task_id)
    if task is None:
        raise _CannotError(f"there is no task {task_id!r} in the tree.")
    if task.state is TaskState.DONE:
        raise _CannotError(f"{task_id} is done: what is done stays as it is.")
    return task


def _not_the_root(task_id: str, done: str) -> None:
    if task_id == ROOT:
        raise _CannotError(f"{ROOT} is the user's intent, which never changes: it cannot be {done}.")


def _revived(task: Task) -> Task:
    """The same, with a chance more for it and for all that failed below it; the thresholds stay."""
    if task.state is TaskState.FAILED:
        task = task.but(state=TaskState.PENDING)
    return task.but(children=tuple(map(_revived, task.children)))


def _moved_up(tree: Task, task_id: str, copy: Task) -> Task:
    """The tree with `copy` before the first pending sibling of the task it replaces."""

    def changed(parent: Task) -> tuple[Task, ...]:
        others = [child for child in parent.children if child.id != task_id]
        at = next((index for index, child in enumerate(others) if child.is_pending), len(others))
        return (parent.but(children=(*others[:at], copy, *others[at:])),)

    return replaced(tree, path_to(tree, task_id)[-2].id, changed)


def _with_parts(task: Task, parts: tuple[Task, ...]) -> Task:
    return task.but(type=TaskType.PARENT, state=TaskState.PENDING, children=parts)


def _made(tasks: tuple[NewTask, ...], new_ids: Iterator[str]) -> tuple[Task, ...]:
    return tuple(
        Task(id=next(new_ids), type=each.type, description=each.description, children=_made(_parts_of(each), new_ids))
        for each in tasks
    )


def _parts_of(task: NewTask) -> tuple[NewTask, ...]:
    if task.tasks and task.type is TaskType.ATOMIC:
        raise _CannotError(f"the new task {task.description[:60]!r} is atomic and has tasks: make it a parent.")
    return task.tasks


def _inserted(tree: Task, insert: Insert, new_ids: Iterator[str]) -> Task:
    parent = _open_task(tree, insert.parent)
    if parent.is_atomic:
        raise _CannotError(f"{parent.id} is atomic: decompose it.")
    if insert.before is not None and insert.after is not None:
        raise _CannotError("name one place: before or after.")
    place = _place(parent, insert)
    added = _made(insert.tasks, new_ids)

    def changed(task: Task) -> tuple[Task, ...]:
        return (task.but(children=(*task.children[:place], *added, *task.children[place:])),)

    return replaced(tree, parent.id, changed)


def _place(parent: Task, insert: Insert) -> int:
    sibling = insert.before if insert.before is not None else insert.after
    if sibling is None:
        return len(parent.children)
    at: dict[str, int] = {child.id: index for index, child in enumerate(parent.children)}
    if sibling not in at:
        raise _CannotError(f"{sibling!r} is no child of {parent.id}.")
    return at[sibling] if insert.before is not None else at[sibling] + 1


def _left_behind(before: Task, now: Task, visited: str, answer: Answer) -> Iterator[str]:
    """What is wrong with where the answer as a whole leaves the tree."""
    task = find(now, visited)
    if answer.verdict is Verdict.DONE and task is not None:
        if unfinished := [child.id for child in task.children if child.state is not TaskState.DONE]:
            yield (
                f"{visited} cannot be done while {_some(unfinished)} below it is not: remove what is not needed, "
                "or give another verdict."
            )
    elif answer.verdict is Verdict.OPEN and (task is None or not any(child.is_pending for child in task.children)):
        yield f"{visited} stays open, but nothing below it is left to do: add what is missing, or say done or failed."
    if now.is_pending and before.children and not now.children:
        yield f"Nothing would be left below {ROOT}, and the intent is not reached: insert what is to be done instead."


def _some(ids: list[str]) -> str:
    return ", ".join(ids[:5]) + (f" and {len(ids) - 5} more" if len(ids) > 5 else "")
