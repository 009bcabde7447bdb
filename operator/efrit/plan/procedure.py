"""What a plan does from its beginning to its end: cycles, each of one task, until the root is done or failed.

A procedure for `replay`. The commits are its checkpoints: a replay starts after the last commit that the requests
record and asks again for what came after it. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from efrit.api import EfritRequest, Outcome
from efrit.api.reasons import PlanReason
from efrit.errors import InvalidPlanRecord, InvalidTree
from efrit.plan import lisp_calls
from efrit.plan.cursor import Cursor, adapted_tree_in, commit_in, cursor_in, next_cursor
from efrit.plan.cycle import Cycle
from efrit.plan.initial_tree import initial_tree
from efrit.plan.outline import one_line
from efrit.plan.replay import CallError, Finish, PlanError, Procedure, budget_exhausted, call_lisp, check_answer
from efrit.plan.snapshot import Part, Snapshot
from efrit.plan.tree import TaskTree, counts, find, next_task
from efrit.protocol.plan_enums import CommitKind, TaskState

_Record = TypeVar("_Record")

_KINDS = {Part.COMMIT_ACT: CommitKind.ACT, Part.COMMIT_ADAPT: CommitKind.ADAPT, Part.AMEND: CommitKind.AMEND}
_READ_INTERVAL = 20
"""Commits after which the repository is read again, so that the requests before that need not be kept."""
_CLONE_SECONDS = 1_800


class PlanProcedure:
    """One replay of a plan; the fields say how far it came."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.cursor: Cursor | None = None
        self.task: str | None = None
        """Id of the task that the cycle is for."""
        self.base = 0
        """Step at which the repository was read; older requests are not needed."""
        self.base_request: str | None = None
        """Name of the request that read it, which is needed however old it is."""
        self._snapshot = snapshot
        self._spec = snapshot.plan.spec

    def run(self) -> Procedure[Finish]:
        """Run cycles until the root is done or failed."""
        try:
            cursor = self.cursor = yield from self._current_cursor()
            while cursor.tree.is_pending:
                task = _task_at(cursor)
                if self._must_amend(cursor):
                    yield from self._amend(cursor)
                else:
                    self.task = task.id
                    if self._is_out_of_steps(cursor):
                        return budget_exhausted(f"{self._spec.limits.max_steps} steps (spec.limits.maxSteps)")
                    yield from Cycle(self._snapshot, cursor, task).run()
                cursor = self.cursor = yield from self._current_cursor()
            return _end_of(cursor)
        except CallError as error:
            if error.out_of_order and self.cursor is not None:
                self.cursor = yield from self._read_repository(self.cursor.step + 1, self.cursor)
            raise

    # Where it stands

    def _current_cursor(self) -> Procedure[Cursor]:
        """Return the cursor after the last commit that the requests record."""
        cursors = self._recorded_cursors()
        if not cursors:
            yield from call_lisp(self._snapshot, 0, Part.BEGIN, self._begin_arguments, _CLONE_SECONDS + 300)
            cursors = self._recorded_cursors()
        if not cursors:
            raise _workspace_failed(
                "The repository of the plan was created, but is missing from the workspace: create a new plan."
            )
        self.base_request, cursor = max(cursors, key=lambda recorded: recorded[1].step)
        self.base = cursor.step
        while (following := self._after_next_commit(cursor)) is not None:
            cursor = following
        cursor = self._with_tree(cursor)
        latest = max((step for _, step, _ in self._snapshot.recorded), default=0)
        if latest > cursor.step + 1 or cursor.step - self.base >= _READ_INTERVAL:
            cursor = yield from self._read_repository(max(latest, cursor.step), cursor)
        return cursor

    def _recorded_cursors(self) -> list[tuple[str, Cursor]]:
        """Return every cursor that the repository has answered, with the name of the request."""
        requests = self._snapshot.recorded_results(Part.BEGIN, Part.LOOK)
        cursors = (
            (request.metadata.name, self._read(request, cursor_in, self._snapshot.text(request)))
            for request in requests
        )
        return [(name, cursor) for name, cursor in cursors if cursor is not None]

    def _after_next_commit(self, cursor: Cursor) -> Cursor | None:
        """Return the cursor after the next commit if that was made; `_with_tree` adds the tree."""
        for part, kind in _KINDS.items():
            if (request := self._snapshot.succeeded(cursor.step + 1, part)) is not None:
                check_answer(request, part)
                read = partial(commit_in, kind, request.spec.content)
                return next_cursor(cursor, *self._read(request, read, self._snapshot.text(request)))
        return None

    def _with_tree(self, cursor: Cursor) -> Cursor:
        """Return the cursor with the tree and the observations of the last adapt since the base."""
        for step in range(cursor.step, self.base, -1):
            if (request := self._snapshot.succeeded(step, Part.COMMIT_ADAPT)) is not None:
                tree, observations = self._read(request, adapted_tree_in, request.spec.content)
                return replace(cursor, tree=tree, observations=observations)
        return cursor

    def _read_repository(self, step: int, cursor: Cursor) -> Procedure[Cursor]:
        """Return the cursor that the repository has now."""
        yield from call_lisp(self._snapshot, step, Part.LOOK, dict)
        request = self._snapshot.succeeded(step, Part.LOOK)
        current = self._read(request, cursor_in, self._snapshot.text(request)) if request is not None else None
        steps = max(cursor.step, step - 1)
        if request is None or current is None:
            raise _workspace_failed(
                "The repository of the plan is missing from the workspace: restore it, or create a new plan."
            )
        if current.step < steps:
            raise _workspace_failed(
                f"The repository of the plan is at step {current.step}, but step {steps} was committed before: "
                "restore the workspace, or create a new plan."
            )
        self.base, self.base_request = current.step, request.metadata.name
        return current

    def _read(self, request: EfritRequest, reader: Callable[[str], _Record], text: str) -> _Record:
        """Return what a text of the request says. Raises `PlanError` for one that cannot be read."""
        try:
            return reader(text)
        except InvalidPlanRecord as error:
            raise _workspace_failed(f"{request.metadata.name}: {error}") from None

    # What it asks for
    def _begin_arguments(self) -> Mapping[str, Any]:
        try:
            tree = initial_tree(self._spec)
        except InvalidTree as error:
            raise PlanError(PlanReason.REJECTED, str(error)) from None
        git = self._spec.environment.git if self._spec.environment else None
        environment = None
        if git is not None:
            options = {
                "branch": git.branch,
                "revision": git.revision,
                "credentialsFile": self._snapshot.credentials,
            }
            environment = {"git": git.url, **{name: value for name, value in options.items() if value is not None}}
        return {
            "intent": self._spec.intent.to_wire(),
            "tree": lisp_calls.packed(tree.model_dump_json()),
            "environment": environment,
            "timeout": self._snapshot.allowed_seconds(_CLONE_SECONDS),
        }

    def _must_amend(self, cursor: Cursor) -> bool:
        """Return whether an amendment comes before the next cycle; once asked for, it does."""
        is_new = len(self._spec.amendments) > cursor.amendments
        between_cycles = not cursor.acted and not self._has_begun_cycle(cursor)
        return (is_new and between_cycles) or self._snapshot.request(cursor.step + 1, Part.AMEND) is not None

    def _amend(self, cursor: Cursor) -> Procedure[None]:
        step, amendments = cursor.step + 1, self._spec.amendments
        text = amendments[cursor.amendments] if len(amendments) > cursor.amendments else ""
        arguments = {"step": step, "number": cursor.amendments + 1, "text": text}
        yield from call_lisp(self._snapshot, step, Part.AMEND, lambda: arguments)

    def _has_begun_cycle(self, cursor: Cursor) -> bool:
        """Return whether the next cycle has asked for anything."""
        parts = (Part.ACT, Part.FACTS, Part.ASSESS, Part.COMMIT_ADAPT)
        return any(self._snapshot.request(cursor.step + 1, part) is not None for part in parts)

    def _is_out_of_steps(self, cursor: Cursor) -> bool:
        """Return whether no cycle may begin any more."""
        may_begin = cursor.totals.adapts < self._spec.limits.max_steps
        return not (may_begin or cursor.acted or self._has_begun_cycle(cursor))


def _task_at(cursor: Cursor) -> TaskTree:
    """Return the task of the next cycle: the one that was acted on last, until it is adapted."""
    task = find(cursor.tree, cursor.task) if cursor.acted and cursor.task else next_task(cursor.tree)
    if task is None:
        raise _workspace_failed(f"The tree has no task {cursor.task}, on which the last act was.")
    return task


def _end_of(cursor: Cursor) -> Finish:
    done, steps = counts(cursor.tree)["done"], cursor.totals.adapts
    if cursor.tree.state is TaskState.DONE:
        message = f"The intent is reached: {done} tasks done in {steps} steps."
        return Finish(Outcome.SUCCESS, PlanReason.SUCCEEDED, message)
    subject = cursor.commits[-1].subject if cursor.commits else ""
    message = f"The intent was given up after {steps} steps, {done} tasks done: {one_line(subject, 500)}"
    return Finish(Outcome.FAILURE, PlanReason.TASK_FAILED, message)


def _workspace_failed(message: str) -> PlanError:
    return PlanError(PlanReason.WORKSPACE_FAILED, message)
