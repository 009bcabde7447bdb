"""The status of a plan: what a decision of the engine says of it, and whether that is worth a write.

Pure. Whoever drives a plan writes it: the controller into the object, a laptop into the plan's record.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from efrit.api import (
    ConditionStatus,
    EfritPlan,
    Outcome,
    PlanPhase,
    PlanReason,
    PlanStatus,
    condition_of,
    with_condition,
)
from efrit.api.request import COMPLETE, SUCCEEDED
from efrit.plan.engine import Create, Decision, Finish

RETRY_BLOCKED = timedelta(seconds=10)
"""When a plan that something keeps from its next step is tried again."""

_PHASES = {
    PlanReason.PENDING: PlanPhase.PENDING,
    PlanReason.RUNNING: PlanPhase.RUNNING,
    PlanReason.SUSPENDED: PlanPhase.SUSPENDED,
}


def status_of(
    plan: EfritPlan, decision: Decision, described: Mapping[str, Any], instance: str | None, now: datetime
) -> PlanStatus:
    """Return the status after a decision; `described` are its fields from `view`, `instance` has the workspace."""
    current = decision.action.name if isinstance(decision.action, Create) else None
    status = PlanStatus.model_validate({**_carried_fields(plan.status), **described, "currentRequest": current})
    status = status.model_copy(update={"instance_name": instance} if instance else {})
    if isinstance(decision.action, Finish):
        return _finished(plan, decision.action, status, now)
    if plan.spec.cancel:
        return _open(
            plan, PlanReason.CANCELLING, "The plan is being cancelled: its running request is stopped.", status, now
        )
    if plan.spec.suspend:
        return _open(
            plan,
            PlanReason.SUSPENDED,
            f"The plan is suspended: `efrit plan resume {plan.metadata.name}` (in a cluster, spec.suspend: false, "
            "too) lets it continue.",
            status,
            now,
        )
    reason = PlanReason.RUNNING if decision.cursor is not None else PlanReason.PENDING
    return _open(plan, reason, decision.message, status, now)


def blocked(plan: EfritPlan, sentence: str, now: datetime) -> PlanStatus:
    """Return the status of a plan that can do nothing until somebody changes something else."""
    return _open(plan, PlanReason.BLOCKED, sentence, plan.status, now)


def differs_in_substance(old: PlanStatus, new: PlanStatus) -> bool:
    """Return whether a status is worth a write: once a step, not once a request."""
    return _substance(new) != _substance(old)


def _carried_fields(status: PlanStatus) -> dict[str, Any]:
    """Return what stands whatever the engine says: what it leaves out is gone."""
    fields = ("conditions", "instanceName", "startTime")
    return {name: value for name, value in status.to_wire().items() if name in fields}


def _open(plan: EfritPlan, reason: PlanReason, message: str, status: PlanStatus, now: datetime) -> PlanStatus:
    begun = status.commit_count is not None
    phase = _PHASES.get(reason, PlanPhase.RUNNING if begun else PlanPhase.PENDING)
    conditions = status.conditions
    for kind, value in ((COMPLETE, ConditionStatus.FALSE), (SUCCEEDED, ConditionStatus.UNKNOWN)):
        conditions = with_condition(
            conditions, kind, value, reason, message, generation=plan.metadata.generation, now=now
        )
    return status.model_copy(
        update={
            "phase": phase,
            "reason": reason.value,
            "conditions": conditions,
            "observed_generation": plan.metadata.generation,
            "start_time": status.start_time or now,
        }
    )


def _finished(plan: EfritPlan, end: Finish, status: PlanStatus, now: datetime) -> PlanStatus:
    good = end.outcome == Outcome.SUCCESS
    succeeded = ConditionStatus.TRUE if good else ConditionStatus.FALSE
    conditions = status.conditions
    for kind, value in ((COMPLETE, ConditionStatus.TRUE), (SUCCEEDED, succeeded)):
        conditions = with_condition(
            conditions, kind, value, end.reason, end.message, generation=plan.metadata.generation, now=now
        )
    return status.model_copy(
        update={
            "phase": PlanPhase.SUCCEEDED if good else PlanPhase.FAILED,
            "reason": end.reason.value,
            "conditions": conditions,
            "outcome": end.outcome,
            "observed_generation": plan.metadata.generation,
            "start_time": status.start_time or now,
            "completion_time": now,
        }
    )


def _substance(status: PlanStatus) -> tuple[object, ...]:
    complete = condition_of(status.conditions, COMPLETE)
    # While it runs the message names the request at work, which changes several times a step.
    message = complete.message if complete is not None and status.reason != PlanReason.RUNNING else ""
    return (
        status.phase,
        status.reason,
        message,
        status.observed_generation,
        status.instance_name,
        status.current_task,
        status.step,
        status.commit_count,
        status.tree,
        status.observations,
    )
