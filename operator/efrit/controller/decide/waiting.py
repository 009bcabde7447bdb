"""What is said of a request while it is open: which status, when it is worth a write, when to look again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from efrit.api import (
    ConditionStatus,
    RequestPhase,
    RequestReason,
    RequestStatus,
    condition_of,
    with_condition,
)
from efrit.api.request import COMPLETE, SUCCEEDED
from efrit.controller.decide import answers
from efrit.controller.decide.actions import Action, LookAgain, Wake
from efrit.controller.decide.case import Case

PHASES = {RequestReason.QUEUED: RequestPhase.QUEUED, RequestReason.RUNNING: RequestPhase.RUNNING}


def open_status(case: Case, reason: RequestReason, message: str, update: Mapping[str, object]) -> RequestStatus:
    """Return the status of an open request with this reason, its phase and both conditions to match."""
    request = case.snapshot.request
    generation = request.metadata.generation
    conditions = request.status.conditions
    for kind, status in ((COMPLETE, ConditionStatus.FALSE), (SUCCEEDED, ConditionStatus.UNKNOWN)):
        conditions = with_condition(conditions, kind, status, reason, message, generation=generation, now=case.now)
    target = case.snapshot.target
    named = {"instance_name": target.instance.metadata.name} if target else {}
    fields = {
        "phase": PHASES.get(reason, RequestPhase.PENDING),
        "reason": reason.value,
        "conditions": conditions,
        **named,
        **update,
        **case.handover_mark,
    }
    return request.status.model_copy(update=fields)


def once_it_lasts(
    case: Case, due: datetime, reason: RequestReason, message: str, update: Mapping[str, object]
) -> list[Action]:
    """Write an open status once it has lasted until `due`; short work never gets that far."""
    request = case.snapshot.request
    status = request.status
    told = condition_of(status.conditions, COMPLETE)
    same_attempt = status.attempt == update.get("attempt", status.attempt)
    is_marked = all(getattr(status, name) == value for name, value in case.handover_mark.items())
    if status.reason == reason.value and same_attempt and is_marked and (told is None or told.message == message):
        return []
    if case.now < due:
        return [LookAgain(due - case.now)]
    return [answers.patch(request, open_status(case, reason, message, update))]


def tell_progress(case: Case, update: Mapping[str, object]) -> list[Action]:
    """Write how far a running request has come, if that is news, and once in a while only."""
    snapshot = case.snapshot
    status = snapshot.request.status
    news = {name: update[name] for name in ("progress", "session") if name in update}
    if all(getattr(status, name) == value for name, value in news.items()):
        return []
    if snapshot.progress_told is not None:
        due = snapshot.progress_told + snapshot.config.progress_every
        if case.now < due:
            return [LookAgain(due - case.now)]
    patch = answers.patch(snapshot.request, status.model_copy(update=news))
    return [replace(patch, droppable=True)]


def wait(
    case: Case,
    reason: RequestReason,
    message: str,
    actions: list[Wake],
    look_again: timedelta | None = None,
) -> list[Action]:
    """Say why nothing happens yet (once it has lasted a moment) and look again when something is due."""
    created = case.snapshot.request.metadata.creation_timestamp or case.now
    result: list[Action] = [*actions]
    result += once_it_lasts(case, created + case.snapshot.config.running_after, reason, message, {})
    result += queue_deadline(case)
    if look_again is not None:
        result.append(LookAgain(look_again))
    return result


def queue_deadline(case: Case) -> list[Action]:
    """Return a look at the moment when the wait for a start ends, if it has an end."""
    limit = case.snapshot.request.spec.queue_timeout_seconds
    if limit is None or case.queue_deadline_passed:
        return []
    return [LookAgain(timedelta(seconds=limit) - case.waited)]
