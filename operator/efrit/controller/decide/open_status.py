"""What is said of a request while it is open: which status, when it is worth a write, when to reconcile again.

Under load it is worth none: what the status says of an open request helps nobody as much as its end, which comes
sooner without. Only what must be recorded is written then.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from zlib import crc32

from efrit.api import (
    ConditionStatus,
    RequestPhase,
    RequestReason,
    RequestStatus,
    condition_of,
    with_condition,
)
from efrit.api.request import COMPLETE, SUCCEEDED
from efrit.controller.decide import final_status
from efrit.controller.decide.request_context import RequestContext
from efrit.controller.model.actions import Action, RequeueAfter, Wake
from efrit.controller.model.pauses import pause_remaining

WRITES_A_SECOND = 10
"""Requests that wait for one instance, or for a member of one pool, say so at this rate at most, each in its turn.

Most are answered before.
"""
MAX_REPORT_DELAY = timedelta(minutes=5)
FEW = 50
"""Of so many open requests of an instance each says at once that it is on the queue, once it has been for a while."""
REQUEUE_UNDER_LOAD = timedelta(seconds=5)
"""When a request is reconciled again, in case the controller is not loaded any more by then."""

MAX_REQUEUE = timedelta(hours=6)
"""Sweeps reconcile each open request every minute or so."""
PHASES = {RequestReason.QUEUED: RequestPhase.QUEUED, RequestReason.RUNNING: RequestPhase.RUNNING}


def open_status(
    context: RequestContext, reason: RequestReason, message: str, update: Mapping[str, object]
) -> RequestStatus:
    """Return the status of an open request with this reason, its phase and both conditions to match."""
    request = context.snapshot.request
    generation = request.metadata.generation
    conditions = request.status.conditions
    for kind, status in ((COMPLETE, ConditionStatus.FALSE), (SUCCEEDED, ConditionStatus.UNKNOWN)):
        conditions = with_condition(conditions, kind, status, reason, message, generation=generation, now=context.now)
    target = context.snapshot.target
    named = {"instance_name": target.instance.metadata.name} if target else {}
    fields = {
        "phase": PHASES.get(reason, RequestPhase.PENDING),
        "reason": reason.value,
        "conditions": conditions,
        **named,
        **update,
        **context.handover_mark,
    }
    return request.status.model_copy(update=fields)


def write_after(
    context: RequestContext,
    lasted: timedelta,
    pause: timedelta,
    reason: RequestReason,
    message: str,
    update: Mapping[str, object],
) -> list[Action]:
    """Write an open status once it has lasted for `pause`; short work never gets that far.

    What has begun far in the future, by the clock of somebody else or before ours was set back, is written at once.
    """
    request = context.snapshot.request
    status = request.status
    complete = condition_of(status.conditions, COMPLETE)
    same_attempt = status.attempt == update.get("attempt", status.attempt)
    is_marked = all(getattr(status, name) == value for name, value in context.handover_mark.items())
    if (
        status.reason == reason.value
        and same_attempt
        and is_marked
        and (complete is None or complete.message == message)
    ):
        return []
    remaining = pause - lasted
    if timedelta(0) < remaining <= 2 * pause:
        return [RequeueAfter(remaining)]
    if context.snapshot.loaded and is_marked:  # gate: dropped-under-load
        return [RequeueAfter(_requeue_under_load(context, reason))]
    return [final_status.patch(request, open_status(context, reason, message, update))]


def progress_writes(context: RequestContext, update: Mapping[str, object]) -> list[Action]:
    """Write the progress of a running request where it has changed, at most once in `progress_every`."""
    snapshot = context.snapshot
    status = snapshot.request.status
    changes = {name: update[name] for name in ("progress", "session") if name in update}
    if all(getattr(status, name) == value for name, value in changes.items()):
        return []
    if snapshot.loaded:
        return [RequeueAfter(REQUEUE_UNDER_LOAD)]
    if snapshot.progress_written is not None:  # gate: progress-pause
        remaining = pause_remaining(snapshot.progress_written, snapshot.config.progress_every, context.now)
        if remaining:
            return [RequeueAfter(remaining)]
    patch = final_status.patch(snapshot.request, status.model_copy(update=changes))
    return [replace(patch, droppable=True)]


def wait(
    context: RequestContext,
    reason: RequestReason,
    message: str,
    actions: list[Wake],
    requeue_after: timedelta | None = None,
) -> list[Action]:
    """Write why nothing happens yet, once that has lasted a moment, and requeue for when something is due."""
    result: list[Action] = [*actions]
    result += write_after(context, context.waited, _report_delay(context), reason, message, {})
    result += queue_deadline(context)
    if requeue_after is not None:
        result.append(RequeueAfter(requeue_after))
    return result


def _report_delay(context: RequestContext) -> timedelta:
    """Return how long a request waits before its status says so: longer among many."""
    return max(context.snapshot.config.running_after, _stagger_delay(context))


def _stagger_delay(context: RequestContext) -> timedelta:
    """Return how long it takes until each that waits for the instance, or for a member of the pool, has said so."""
    waited_for = context.snapshot.target or context.snapshot.pool
    if waited_for is None:
        return timedelta(0)
    return min(timedelta(seconds=waited_for.waiting / WRITES_A_SECOND), MAX_REPORT_DELAY)  # gate: report-stagger


def queued_pause(context: RequestContext) -> timedelta:
    """Return how long a request is on the queue before its status says so: among many, each a different time."""
    pause, target = context.snapshot.config.queued_after, context.snapshot.target
    if target is None or target.open_requests <= FEW:
        return pause
    return pause + _moment(context, target.open_requests)


def _requeue_under_load(context: RequestContext, reason: RequestReason) -> timedelta:
    """Return when to reconcile again under load: each at a moment of its own, or all at once would be the next load.

    Of those that an instance has, too: few of them run at a time, all others wait.
    """
    target, count = context.snapshot.target, 0
    if (waited_for := target or context.snapshot.pool) is not None:
        count = waited_for.waiting
    if target is not None and reason != RequestReason.RUNNING:
        count = max(count, target.open_requests)
    return REQUEUE_UNDER_LOAD + _moment(context, count)


def _moment(context: RequestContext, count: int) -> timedelta:
    """Return a moment of its own for a request, where so many are to have theirs at WRITES_A_SECOND."""
    uid = context.snapshot.request.metadata.uid
    return min(timedelta(seconds=count / WRITES_A_SECOND), MAX_REPORT_DELAY) * (crc32(uid.encode()) / 2**32)


def queue_deadline(context: RequestContext) -> list[Action]:
    """Return a requeue for the moment when the wait for a start ends; the sweeps do for one that is far."""
    remaining = context.queue_timeout - context.waited
    if context.queue_deadline_passed or remaining > MAX_REQUEUE:
        return []
    return [RequeueAfter(remaining)]
