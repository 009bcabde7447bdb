"""Decides which running request of a pool is interrupted for one of higher priority, and how it comes back in line.

Each step is recorded before the next is taken, in the status of the request that is interrupted:
1. `preemption.inProgress`: nothing is stopped before. Then the other request is bound to the same member, which has
   one more than it may have until the next step is done: the place is nobody else's.
2. The bridge is asked to stop it until the queue has an answer. One that ended by itself has its answer stored.
3. Stopped, it is bound to no instance, and its next run has another id (`EfritRequest.run_id`): what the former queue
   has, or gets late, is of a run that is over.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import fields
from datetime import timedelta

from efrit.api import EfritRequest, RequestReason, RetryPolicy
from efrit.api.request import MAX_PREEMPTIONS, RequestPreemption
from efrit.controller.decide import failed_actions, final_status
from efrit.controller.decide.open_status import open_status
from efrit.controller.decide.request_context import RequestContext
from efrit.controller.model.actions import Action, CancelWork, PutBack, Record, RequeueAfter
from efrit.controller.model.preemption import FlowShare, Preemptor, Running
from efrit.controller.model.snapshots import Victim

RUN_OVER = dict.fromkeys(
    ("instance_name", "pod_uid", "queued_time", "start_time", "session", "progress", "usage"),
)
"""Fields of a status that are about a run."""
RETRY_CANCEL = timedelta(seconds=2)
RETRY_PREEMPT = timedelta(seconds=1)
RETRIED_FOR = timedelta(seconds=10)
"""How long a request looks for one to interrupt that has not begun yet; later the sweeps do."""


def is_preemptible(request: EfritRequest) -> bool:
    """Return whether a request may be interrupted for one of higher priority once it runs.

    One that continues a session has its history on a member, and another run would begin with half of a turn in it.
    """
    spec, preemption = request.spec, request.status.preemption
    if spec.retry_policy != RetryPolicy.IF_INTERRUPTED or spec.session is not None:  # gate: preempt-may-run-twice
        return False
    if request.final or spec.cancel or spec.pool_ref is None:
        return False
    return preemption is None or (preemption.count < MAX_PREEMPTIONS and not preemption.in_progress)


def preempted_by(request: EfritRequest) -> str | None:
    """Return the UID of the request for which one is being interrupted, None while it is not."""
    preemption = request.status.preemption
    in_progress = preemption is not None and preemption.in_progress and not request.final
    return preemption.by_uid if preemption is not None and in_progress else None


def preference(request: Running) -> tuple[object, ...]:
    """Return what requests are sorted by before one is interrupted: the lowest priority, then what began last."""
    began = -request.started.timestamp() if request.started is not None else 0.0
    return request.priority, began, request.key


def victims(preemptor: Preemptor, requests: Iterable[Running]) -> Iterator[Running]:
    """Yield, of requests sorted by `preference`, those that may be interrupted for one that waits.

    Each has a lower priority, whatever the age of either, and got its member before the other came: what goes first
    for its age is not interrupted for one that waited beside it.
    """
    for request in requests:
        if request.priority >= preemptor.priority:  # gate: preempt-priority
            return
        if request.placed <= preemptor.first_seen and _shares_allow(
            preemptor, request
        ):  # gate: preempt-placed-before
            yield request


def _shares_allow(preemptor: Preemptor, victim: Running) -> bool:
    """Return whether one flow may take a member's place from another: what that has beyond its share."""
    if victim.flow == preemptor.flow:
        return True
    own = preemptor.flows.get(preemptor.flow, FlowShare())
    other = preemptor.flows.get(victim.flow, FlowShare())
    if preemptor.max_running is not None and own.running >= preemptor.max_running:
        return False
    # Afterwards its own flow has no more than the other: priority alone takes nothing from those within their share.
    return (own.running + 1) / own.weight <= (other.running - 1) / other.weight  # gate: preempt-share


def mark(context: RequestContext, victim: Victim) -> list[Action]:
    """Return what records that a request is interrupted for this one; nothing where that is recorded."""
    if victim.marked:
        return []
    preemptor, request = context.snapshot.request.metadata, victim.request
    update = {
        "in_progress": True,
        "time": context.now,
        "instance_name": victim.member.instance.metadata.name,
        "by_name": preemptor.name,
        "by_uid": preemptor.uid,
    }
    preemption = (request.status.preemption or RequestPreemption()).model_copy(update=update)
    patch = final_status.patch(request, request.status.model_copy(update={"preemption": preemption}))
    # Somebody may have changed the other one, which ends this decision.
    return [RequeueAfter(RETRY_PREEMPT), patch]  # gate: preempt-recorded


def interrupt(context: RequestContext) -> list[Action] | None:
    """Have the bridge stop a request that is interrupted for another one, until its queue has an answer."""
    snapshot, request = context.snapshot, context.snapshot.request
    target = snapshot.target
    if preempted_by(request) is None or target is None:
        return None
    handover = snapshot.handover
    if target.available and handover is not None and handover.absent and handover.refused is None:
        # The queue has been asked: the run is over, and its answer settled as that of one.
        return put_back(context, attempts=_attempts_that_count(context))
    if not (target.available or context.stoppable_in_stopping_pod):
        # Its file may lie on the volume: it is stopped when the instance runs again.
        return None
    ask = CancelWork(target.instance.key, request.key, request.run_id)
    return [*failed_actions.report(context, "CancelWork"), ask, RequeueAfter(RETRY_CANCEL)]


def interrupted(context: RequestContext) -> list[Action] | None:
    """Put a request back in line whose queue says that it was stopped. Any other answer is the one of the request."""
    request, view = context.snapshot.request, context.snapshot.bridge_view
    if preempted_by(request) is None or view is None or view.response is None:
        return None
    if view.response.reason != RequestReason.CANCELLED or request.spec.cancel:  # gate: preempt-own-end
        return None
    return put_back(context, attempts=_attempts_that_count(context))


def _attempts_that_count(context: RequestContext) -> int:
    """Return how many runs count for spec.maxAttempts: those that Emacs did not survive, not the one just stopped.

    Those of a queue that was lost are known to the status alone.
    """
    view, request = context.snapshot.bridge_view, context.snapshot.request
    attempt = request.attempt(view.attempt if view is not None else 0)
    return max(request.attempts_before, attempt - 1)  # gate: preempted-attempts


def put_back(context: RequestContext, *, attempts: int) -> list[Action]:
    """Bind a request to no instance any more, and let its next run begin: the former one is known to be over."""
    request = context.snapshot.request
    preemption = (request.status.preemption or RequestPreemption()).model_copy(update={"in_progress": None})
    preemption = preemption.model_copy(update={"count": preemption.count + 1, "attempts": attempts or None})
    message = waits_again(preemption)
    status = open_status(context, RequestReason.PREEMPTED, message, {**RUN_OVER, "preemption": preemption})
    # An instance that is away leaves no mark either: the next run is on no queue.
    status = status.model_copy(update={"attempt": attempts or None, "queue_id": None, "handover": None})
    patch = final_status.patch(request, status)
    pool = request.spec.pool_ref.name if request.spec.pool_ref is not None else ""
    back = PutBack(
        **{field.name: getattr(patch, field.name) for field in fields(patch)},
        pool=(request.metadata.namespace, pool),
    )
    return [
        back,
        Record("EfritRequest", request.key, request.metadata.uid, "Normal", RequestReason.PREEMPTED, message),
    ]


def waits_again(preemption: RequestPreemption) -> str:
    """Return what the status of a request says that was interrupted and waits to run again."""
    return (
        f"Interrupted on EfritInstance {preemption.instance_name} for EfritRequest {preemption.by_name}, which has a "
        "higher priority: it waits for a member of the pool, to run again from its beginning."
    )
