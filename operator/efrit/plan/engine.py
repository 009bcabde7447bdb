"""What to do next about one plan: create this request, wait, or end it.

Pure: the same requests and the same time give the same decision, so whoever carries it out may die at any moment. All
that is known of a plan is read from its requests: `begin` and `look` tell where it stands, each commit moves it on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any, TypeVar

from efrit.api import EfritRequest, Outcome, RequestReason
from efrit.api.plan import CommitKind, PlanStep, TaskState
from efrit.api.reasons import PlanReason
from efrit.errors import InvalidPosition, InvalidTree
from efrit.plan import calls
from efrit.plan.asking import (
    ACT,
    AMEND,
    ASSESS,
    BEGIN,
    COMMIT_ACT,
    COMMIT_ADAPT,
    COMMITS,
    FACTS,
    LOOK,
    SESSIONS,
    Action,
    Asking,
    CallFailed,
    Create,
    Finish,
    Known,
    Settled,
    Wait,
    failed,
    finished,
    tries,
)
from efrit.plan.beginning import first_tree
from efrit.plan.outline import one_line
from efrit.plan.position import Position, adapted_in, commit_in, moved_on, position_in
from efrit.plan.tree import counts, find, next_task
from efrit.plan.visit import Visit, spent

__all__ = ["Action", "Create", "Decision", "Finish", "Known", "Wait", "decide"]

_Read = TypeVar("_Read")

_KINDS = {COMMIT_ACT: CommitKind.ACT, COMMIT_ADAPT: CommitKind.ADAPT, AMEND: CommitKind.AMEND}
_LOOK_EVERY = 20
"""Commits after which the repository is asked anew, so that requests before that need not be kept."""
_KEPT = 10
"""Steps whose requests are kept for people to read."""
_CLONE_SECONDS = 1_800


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do now, and what a status says meanwhile."""

    action: Action
    position: Position | None
    task: str | None
    phase: PlanStep | None
    message: str
    cancel: tuple[str, ...] = ()
    """Requests to be stopped."""
    superseded: tuple[str, ...] = ()
    """Requests no decision needs any more."""


def decide(known: Known, now: datetime) -> Decision:
    """The next action of a plan that is not over."""
    return _Engine(Asking(known, now)).decide()


class _Engine:
    def __init__(self, asking: Asking) -> None:
        self._asking = asking
        self._spec = asking.plan.spec
        self._base = 0
        self._position: Position | None = None
        self._task: str | None = None

    def decide(self) -> Decision:
        try:
            self._go_on()
        except Settled as settled:
            return self._bounded(settled)
        except CallFailed as call:
            return self._bounded(self._after_failed_call(call))
        raise AssertionError("a plan goes on until something is settled")

    # Where it stands

    def _go_on(self) -> None:
        position = self._position = self._where()
        if not position.tree.is_pending:
            raise self._over(position)
        task = find(position.tree, position.task) if position.acted and position.task else next_task(position.tree)
        if task is None:
            raise failed(PlanReason.WORKSPACE_FAILED, f"The tree has no task {position.task}, the last to act on.")
        self._amend(position)
        self._task = task.id
        if not position.acted and not self._begun(position):
            self._check_the_steps(position)
        Visit(self._asking, position, task).go_on()

    def _where(self) -> Position:
        """The position after the last commit that the requests tell of, or what is to be done to learn it."""
        told = self._told()
        if not told:
            self._asking.value(0, BEGIN, self._beginning, _CLONE_SECONDS + 300)
            told = self._told()
        if not told:
            raise failed(PlanReason.WORKSPACE_FAILED, "The repository of the plan was begun, and is not there.")
        position = max(told, key=lambda each: each.step)
        self._base = position.step
        while (after := self._next(position)) is not None:
            position = after
        position = self._with_tree(position)
        latest = max((step for _, step, _ in self._asking.parts()), default=0)
        if latest > position.step + 1 or position.step - self._base >= _LOOK_EVERY:
            return self._look(max(latest, position.step), position)
        return position

    def _told(self) -> list[Position]:
        """Every position that was told."""
        requests = self._asking.known.requests
        told = (
            self._read(requests[name], position_in)
            for name, _, what in self._asking.parts()
            if what in (BEGIN, LOOK) and _succeeded(requests[name])
        )
        return [position for position in told if position is not None]

    def _read(self, request: EfritRequest, reader: Callable[[str], _Read], text: str | None = None) -> _Read:
        """What the result of a request says, or `text`. Ends the plan where it cannot be read."""
        try:
            return reader(self._asking.text(request) if text is None else text)
        except InvalidPosition as error:
            raise failed(PlanReason.WORKSPACE_FAILED, f"{request.metadata.name}: {error}") from None

    def _made(self, step: int, what: str) -> EfritRequest | None:
        """The request that made this commit."""
        requests = (self._asking.request(step, each) for each in tries(what))
        return next((request for request in requests if request is not None and _succeeded(request)), None)

    def _next(self, position: Position) -> Position | None:
        """The position after the next commit, if it was made. The tree is left for `_with_tree`."""
        for what, kind in _KINDS.items():
            if (request := self._made(position.step + 1, what)) is not None:
                return moved_on(position, *self._read(request, partial(commit_in, kind, request.spec.content)))
        return None

    def _with_tree(self, position: Position) -> Position:
        """The position with the tree and the observations of the last adapt since the base."""
        for step in range(position.step, self._base, -1):
            if (request := self._made(step, COMMIT_ADAPT)) is not None:
                tree, observations = self._read(request, adapted_in, request.spec.content)
                return replace(position, tree=tree, observations=observations)
        return position

    def _look(self, step: int, position: Position) -> Position:
        """The position as the repository tells it anew."""
        self._asking.value(step, LOOK, dict)
        request = self._made(step, LOOK)
        told = self._read(request, position_in) if request is not None else None
        made = max(position.step, step - 1)
        if told is None:
            raise failed(
                PlanReason.WORKSPACE_FAILED,
                "The repository of the plan is gone from the workspace: restore it, or create a new EfritPlan.",
            )
        if told.step < made:
            raise failed(
                PlanReason.WORKSPACE_FAILED,
                f"The repository of the plan stands at step {told.step}, but step {made} was made: restore the "
                "workspace, or create a new EfritPlan.",
            )
        self._base = told.step
        return told

    def _after_failed_call(self, call: CallFailed) -> Settled:
        """What follows from a call that failed: a look, where the repository has other steps than we know of."""
        position = self._position
        if not call.out_of_order or position is None:
            return call.as_end()
        try:
            self._position = self._look(position.step + 1, position)
        except Settled as settled:
            return settled
        except CallFailed as look:
            return look.as_end()
        return call.as_end()

    # What comes before a visit

    def _beginning(self) -> Mapping[str, Any]:
        try:
            tree = first_tree(self._spec)
        except InvalidTree as error:
            raise failed(PlanReason.REJECTED, str(error)) from None
        git = self._spec.environment.git if self._spec.environment else None
        environment = None
        if git is not None:
            credentials = self._asking.known.credentials
            options = {"branch": git.branch, "revision": git.revision, "credentialsFile": credentials}
            environment = {"git": git.url, **{name: value for name, value in options.items() if value is not None}}
        return {
            "intent": self._spec.intent.to_wire(),
            "tree": calls.packed(tree.model_dump_json()),
            "environment": environment,
            "timeout": _CLONE_SECONDS,
        }

    def _amend(self, position: Position) -> None:
        """Take in the next amendment, unless a visit is under way."""
        number, step = position.amendments + 1, position.step + 1
        waits = len(self._spec.amendments) >= number and not position.acted and not self._begun(position)
        if waits or self._asking.request(step, AMEND) is not None:
            text = self._spec.amendments[number - 1] if len(self._spec.amendments) >= number else ""
            self._asking.value(step, AMEND, lambda: {"step": step, "number": number, "text": text})

    def _begun(self, position: Position) -> bool:
        """Whether the next visit has asked for anything."""
        parts = (ACT, FACTS, ASSESS, COMMIT_ADAPT)
        return any(self._asking.request(position.step + 1, what) is not None for what in parts)

    def _check_the_steps(self, position: Position) -> None:
        most = self._spec.limits.max_steps
        if position.totals.adapts >= most:
            raise _out_of_budget(f"{most} visits of tasks (spec.limits.maxSteps)")

    def _over(self, position: Position) -> Settled:
        told = counts(position.tree)
        visits = position.totals.adapts
        if position.tree.state is TaskState.DONE:
            message = f"The intent is reached: {told['done']} tasks done in {visits} visits."
            return finished(Outcome.SUCCESS, PlanReason.SUCCEEDED, message)
        last = position.commits[-1].subject if position.commits else ""
        return failed(
            PlanReason.TASK_FAILED,
            f"The intent was given up after {visits} visits, {told['done']} tasks done: {one_line(last, 500)}",
        )

    # Bounds

    def _bounded(self, settled: Settled) -> Decision:
        """The decision, unless the user or a budget wants another."""
        end = self._end(settled)
        if settled.waits_for is None:
            settled = end or self._held_back(settled)
            return self._decision(settled)
        under_way = self._asking.known.requests[settled.waits_for]
        stop = end is not None and settled.what not in COMMITS and not under_way.spec.cancel
        return self._decision(settled, (settled.waits_for,) if stop else ())

    def _end(self, settled: Settled) -> Settled | None:
        """What ends the plan before its work is done."""
        if isinstance(settled.action, Finish):
            return None
        if self._spec.cancel:
            some = self._position is not None and counts(self._position.tree)["done"] > 0
            outcome = Outcome.PARTIAL if some else Outcome.FAILURE
            return finished(outcome, PlanReason.CANCELLED, "It was cancelled; what was done stays done.")
        if (deadline := self._deadline()) is not None and self._asking.now >= deadline:
            return _out_of_budget(f"{self._spec.limits.timeout_seconds} seconds (spec.limits.timeoutSeconds)")
        most = self._spec.limits.max_tokens
        if settled.what not in SESSIONS or self._position is None or most is None:
            return None
        asks = isinstance(settled.action, Create) and spent(self._asking, self._position) >= most
        return _out_of_budget(f"{most} tokens (spec.limits.maxTokens)") if asks else None

    def _held_back(self, settled: Settled) -> Settled:
        if isinstance(settled.action, Create) and self._spec.suspend:
            return Settled(Wait(), "It is suspended (spec.suspend).", settled.what)
        return settled

    def _deadline(self) -> datetime | None:
        seconds, began = self._spec.limits.timeout_seconds, self._asking.plan.status.start_time
        return began + timedelta(seconds=seconds) if seconds is not None and began is not None else None

    def _decision(self, settled: Settled, cancel: tuple[str, ...] = ()) -> Decision:
        action = settled.action
        if isinstance(action, Wait) and (deadline := self._deadline()) is not None and deadline > self._asking.now:
            action = Wait(min(action.until or deadline, deadline))
        return Decision(
            action, self._position, self._task, settled.phase, str(settled), cancel, tuple(self._superseded())
        )

    def _superseded(self) -> list[str]:
        requests = self._asking.known.requests
        return [name for name, step, _ in self._asking.parts() if step < self._base - _KEPT and requests[name].final]


def _out_of_budget(what: str) -> Settled:
    message = f"The budget of {what} is used up; what was done stays done."
    return finished(Outcome.PARTIAL, PlanReason.BUDGET_EXHAUSTED, message)


def _succeeded(request: EfritRequest) -> bool:
    return request.final and request.status.reason == RequestReason.SUCCEEDED
