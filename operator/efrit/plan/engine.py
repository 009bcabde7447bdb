"""What to do next about one plan: create this request, wait, or end it.

Pure: the same snapshot and the same time give the same decision, so whoever carries it out may die at any moment. The
plan's procedure says what comes next; here the user and the budgets may say something else.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from efrit.api import Outcome
from efrit.api.reasons import PlanReason
from efrit.plan.cost import tokens_spent
from efrit.plan.cursor import Cursor
from efrit.plan.procedure import PlanProcedure
from efrit.plan.replay import Action, Create, Finish, Stop, Wait, budget_exhausted, replay, stop_at_end
from efrit.plan.snapshot import COMMITS, SESSIONS, Snapshot
from efrit.plan.tree import counts
from efrit.protocol.plan_enums import PlanStep

__all__ = ["Action", "Create", "Decision", "Finish", "Snapshot", "Wait", "decide"]

_KEPT_STEPS = 10
"""Steps before the base whose requests are kept for people to read."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do now, and what a status says meanwhile."""

    action: Action
    cursor: Cursor | None
    task: str | None
    phase: PlanStep | None
    message: str
    cancel: tuple[str, ...] = ()
    """Requests to be stopped."""
    superseded: tuple[str, ...] = ()
    """Requests no decision needs any more."""


def decide(snapshot: Snapshot, now: datetime) -> Decision:
    """Return the next action of a plan that is not over."""
    procedure = PlanProcedure(snapshot)
    stop = replay(procedure.run(), snapshot, now)
    cursor = procedure.cursor
    cancel: tuple[str, ...] = ()
    finish = _early_end(snapshot, stop, cursor, now)
    if (under_way := stop.request) is None:
        stop = stop_at_end(finish) if finish is not None else _wait_if_suspended(snapshot, stop)
    elif finish is not None and not _is_commit(stop) and not under_way.spec.cancel:
        cancel = (under_way.metadata.name,)
    return Decision(
        _bounded_by_deadline(snapshot, stop.action, now),
        cursor,
        procedure.task,
        stop.part.phase if stop.part is not None else None,
        stop.message,
        cancel,
        _superseded(snapshot, procedure),
    )


def _early_end(snapshot: Snapshot, stop: Stop, cursor: Cursor | None, now: datetime) -> Finish | None:
    """Return what ends the plan before its work is done."""
    if isinstance(stop.action, Finish):
        return None
    spec = snapshot.plan.spec
    if spec.cancel:
        has_results = cursor is not None and counts(cursor.tree)["done"] > 0
        outcome = Outcome.PARTIAL if has_results else Outcome.FAILURE
        return Finish(outcome, PlanReason.CANCELLED, "The plan was cancelled. Completed tasks stay done.")
    if (deadline := _deadline(snapshot)) is not None and now >= deadline:
        return budget_exhausted(f"{spec.limits.timeout_seconds} seconds (spec.limits.timeoutSeconds)")
    max_tokens = spec.limits.max_tokens
    if max_tokens is None or cursor is None or stop.part not in SESSIONS or not isinstance(stop.action, Create):
        return None
    if tokens_spent(snapshot, cursor) < max_tokens:
        return None
    return budget_exhausted(f"{max_tokens} tokens (spec.limits.maxTokens)")


def _is_commit(stop: Stop) -> bool:
    return stop.part in COMMITS


def _wait_if_suspended(snapshot: Snapshot, stop: Stop) -> Stop:
    """Return the stop, or a wait where a suspended plan would begin something."""
    if isinstance(stop.action, Create) and snapshot.plan.spec.suspend:
        return Stop(Wait(), "The plan is suspended.", stop.part)
    return stop


def _deadline(snapshot: Snapshot) -> datetime | None:
    seconds, start = snapshot.plan.spec.limits.timeout_seconds, snapshot.plan.status.start_time
    return start + timedelta(seconds=seconds) if seconds is not None and start is not None else None


def _bounded_by_deadline(snapshot: Snapshot, action: Action, now: datetime) -> Action:
    """Return the action; a wait ends at the deadline of the plan at the latest."""
    deadline = _deadline(snapshot)
    if not isinstance(action, Wait) or deadline is None or deadline <= now:
        return action
    return Wait(min(action.until or deadline, deadline))


def _superseded(snapshot: Snapshot, procedure: PlanProcedure) -> tuple[str, ...]:
    return tuple(
        request.metadata.name
        for request, step, _ in snapshot.recorded
        if step < procedure.base - _KEPT_STEPS
        and request.final
        and request.metadata.name != procedure.base_request  # gate: plan-base-request
    )
