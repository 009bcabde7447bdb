"""What to do next about one request: an ordered list of checks, the first that has an answer wins.

The order is the protocol: an answer that exists is stored before anything else is considered, work that may be
running is stopped before its end is written, and nothing is handed over before its target is recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta

from efrit.api import (
    FINAL_PHASES,
    OperatingMode,
    RequestReason,
    RequestType,
)
from efrit.controller.decide import failed_actions, final_status, preemption
from efrit.controller.decide.binding import bind, move_from_leaving_member, move_from_lost_node, session_wait
from efrit.controller.decide.handover import is_away
from efrit.controller.decide.instances import found_ready_before
from efrit.controller.decide.open_status import open_status, queue_deadline, queued_pause, wait, write_after
from efrit.controller.decide.queue_request import excess, is_attempt_kept, queue_request
from efrit.controller.decide.queue_volume import disk_problem, disk_sentence
from efrit.controller.decide.request_context import RequestContext
from efrit.controller.decide.retention import retention
from efrit.controller.decide.running import queue_fields, running, running_in_stopping_pod
from efrit.controller.model.actions import (
    Acknowledge,
    Action,
    Bind,
    CancelWork,
    ConfirmHandover,
    ConfirmMissing,
    FetchAnswer,
    PatchStatus,
    ReadContent,
    RequeueAfter,
    SettleOrphan,
    Submit,
    Wake,
)
from efrit.controller.model.keys import Key, target_of
from efrit.controller.model.snapshots import EndedRequest, InstanceSnapshot, RequestSnapshot
from efrit.controller.model.views import BridgeView
from efrit.protocol import RequestState

RETRY_CANCEL = timedelta(seconds=2)
ACKNOWLEDGE_AGAIN = timedelta(seconds=30)
"""How often a request is reconciled whose answer waits and whose instance has no pod."""
RETRY_GIVEN_BACK = timedelta(seconds=1)
"""When it is reconciled again in case the pod is being stopped: its bridge may have been faster than the watch."""
# A free place on the instance requeues those that go first at once: this is for figures that were missed.
RETRY_HELD_BACK = timedelta(seconds=30)
HELD_BACK_RETRIED = 10
"""Requests held back by one instance that come back by themselves: each that is handed over brings others back."""


Check = Callable[[RequestContext], list[Action] | None]


def decide_request(snapshot: RequestSnapshot, now: datetime) -> list[Action]:
    """Return the next actions for a request; an empty list waits for the next event."""
    context = RequestContext(snapshot, now)
    for check in CHECKS:
        actions = check(context)
        if actions is not None:
            return [*_confirm_never_ran(context, actions), *actions]
    return []


def decide_ended(ended: EndedRequest, now: datetime) -> list[Action]:
    """Return the next actions for a request that exists and has its final status."""
    actions: list[Action] = []
    view, instance = ended.bridge_view, ended.instance
    if instance is not None and view is not None and view.state == RequestState.ANSWERED:
        actions.append(_acknowledge(instance, ended.request.run_id, ended.bridge))
    return [*actions, *retention("EfritRequest", ended.request, now)]


def _acknowledge(instance: Key, uid: str, bridge: BridgeView) -> Action:
    """Return what lets a bridge archive an answer. One whose pod is gone reports it again once there is another."""
    if bridge.pod_uid is None:  # gate: acknowledge-away
        return RequeueAfter(ACKNOWLEDGE_AGAIN)
    return Acknowledge(instance, uid)


def decide_orphans(request_key: Key, orphans: Iterable[tuple[Key, str]]) -> list[Action]:
    """Return what to do about work on bridges, each an instance and a UID, whose requests are not known."""
    return [SettleOrphan(request_key, *orphan) for orphan in orphans]


def continues_at_once(actions: Sequence[Action]) -> bool:
    """Return whether the request is decided about again once these are carried out, without waiting for a turn.

    They read what the next decision rests on, or end the request: what is left then is to acknowledge its answer.
    """
    return any(
        isinstance(action, ReadContent | FetchAnswer | Bind)
        or (isinstance(action, PatchStatus) and action.status.get("phase") in FINAL_PHASES)
        for action in actions
    )


def _confirm_never_ran(context: RequestContext, actions: list[Action]) -> list[Action]:
    """Return the question to ask before a request ends, or moves, that no bridge was asked about: the watch may lag.

    Another process that believes that it leads may have opened the instance, and handed the request over.
    """
    snapshot, target = context.snapshot, context.snapshot.target
    key = target_of(snapshot.request)
    if key is None or not any(
        isinstance(action, Bind) or (isinstance(action, PatchStatus) and action.status.get("phase") in FINAL_PHASES)
        for action in actions
    ):
        return []
    if target is None:
        return [ConfirmMissing(key)]  # gate: confirm-missing
    # Of one that leaves its pool, though it can be asked, another process may have opened it this very moment.
    moves = any(isinstance(action, Bind) for action in actions)
    if (target.available and not moves) or snapshot.bridge_view is not None or snapshot.request.final:
        return []
    stored = target.instance
    question = ConfirmHandover(snapshot.request.key, key, stored.metadata.uid, stored.status.handover)
    return [question]  # gate: confirm-handover


def _deleted(context: RequestContext) -> list[Action] | None:
    snapshot = context.snapshot
    if not snapshot.gone:
        return None
    if snapshot.target is None:
        return []
    uid = snapshot.request.run_id
    instance = snapshot.target.instance.key
    if snapshot.bridge_view is not None and snapshot.bridge_view.state.final:
        return [_acknowledge(instance, uid, snapshot.target.bridge)]
    if context.may_be_handed_over and snapshot.target.available:
        return [CancelWork(instance, snapshot.request.key, uid), RequeueAfter(RETRY_CANCEL)]
    return []


def _final(context: RequestContext) -> list[Action] | None:
    snapshot = context.snapshot
    if not snapshot.request.final:
        return None
    instance = snapshot.target.instance.key if snapshot.target is not None else None
    bridge = snapshot.target.bridge if snapshot.target is not None else BridgeView()
    return decide_ended(EndedRequest(snapshot.request, instance, snapshot.bridge_view, bridge), context.now)


def _given_back(context: RequestContext) -> list[Action] | None:
    """Take back what an ephemeral queue had and did not begin before its pod ended: another queue may have it.

    The status says so before the bridge may end: whoever leads next must not take it for lost with that queue.
    """
    snapshot, request, view = context.snapshot, context.snapshot.request, context.snapshot.bridge_view
    if view is None or view.response is None or not view.response.is_given_back or snapshot.target is None:
        return None
    if not is_away(snapshot.target):  # gate: given-back-by-stop
        # A bridge whose pod goes on has no reason to: nothing is handed over twice because code there says so.
        return [RequeueAfter(RETRY_GIVEN_BACK)]
    if request.status.queue_id is not None or request.status.handover is not None:  # gate: given-back-recorded
        message = "Its pod was stopped before it began: it is handed over again."
        update = {"queue_id": None, "handover": None, "queued_time": None}
        return [final_status.patch(request, open_status(context, RequestReason.PENDING, message, update))]
    return [Acknowledge(snapshot.target.instance.key, request.run_id)]


def _answered(context: RequestContext) -> list[Action] | None:
    """Store an answer that is known, even where its instance is gone by now."""
    snapshot, view = context.snapshot, context.snapshot.bridge_view
    request = snapshot.request
    if view is None or not view.state.final:
        return None
    if view.response is None:
        if snapshot.target is None:
            return None
        fetch = FetchAnswer(snapshot.target.instance.key, request.key, request.run_id)
        return [*failed_actions.report(context, "FetchAnswer"), fetch]
    pause = failed_actions.result_pause(context)
    if pause is not None:
        return pause
    named = request.spec.instance_ref.name if request.spec.instance_ref else None
    return final_status.store_answer(  # gate: acknowledge-after
        request,
        view,
        view.response,
        context.now,
        pod_uid=snapshot.target.bridge.pod_uid if snapshot.target else None,
        instance_name=request.status.instance_name or named or "",
        # Nothing else withdraws what nobody cancelled. The clock may have been set back since.
        queue_timeout=None if request.spec.cancel else context.queue_timeout_message,
        limits=context.limits,
        unstored=failed_actions.unstored_result(context, truncated=view.response.truncated),
    )


def _queue_lost(context: RequestContext) -> list[Action] | None:
    """End what was handed to a queue that no longer exists: whether it ran is unknown."""
    snapshot = context.snapshot
    target = snapshot.target
    if target is None or not target.available or target.bridge.queue_id is None:
        return None
    request = snapshot.request
    handed_to = request.status.queue_id or (snapshot.handover.queue_id if snapshot.handover else None)
    if not handed_to or handed_to == target.bridge.queue_id:
        return None
    if snapshot.handover is not None and snapshot.handover.absent:
        return None
    if snapshot.never_submitted:  # gate: recorded-alone
        return None
    again_allowed = is_attempt_kept(request, target.instance)
    if again_allowed and preemption.preempted_by(request) is not None and not request.spec.cancel:
        return preemption.put_back(context, attempts=request.spec.max_attempts - 1)
    if again_allowed and not request.spec.cancel and not context.queue_deadline_passed:
        update = {"queue_id": target.bridge.queue_id, "attempt": request.spec.max_attempts}
        status = open_status(context, RequestReason.QUEUED, "Its queue was lost: it is handed over again.", update)
        return [final_status.patch(request, status)]
    return final_status.ended_unknown(
        request,
        "The queue it was handed to is gone with its volume: whether it ran is unknown. "
        "Keep the queue on a storage claim (spec.queue.storage of the EfritInstance) to survive this.",
        context.now,
    )


def _stop(context: RequestContext) -> list[Action] | None:
    """Cancel, or end the wait for a start."""
    snapshot, request = context.snapshot, context.snapshot.request
    late = context.queue_deadline_passed and not context.has_begun
    if not request.spec.cancel and not late:
        return None
    target = snapshot.target
    known_absent = snapshot.handover is not None and snapshot.handover.absent
    if target is not None and target.available and not known_absent:  # gate: stop-at-bridge
        # The queue has the last word, though nothing was handed over: another process's hand-over may be on its way.
        if snapshot.bridge_view is None and snapshot.content_bytes is not None:  # gate: content-before-decline
            return [_read_content(snapshot)]
        # gate: whole-in-cancel
        whole = queue_request(request, target.instance) if snapshot.bridge_view is None else None
        # Emacs may have begun it this very moment: only its user stops what runs.
        ask = CancelWork(target.instance.key, request.key, request.run_id, whole, running=request.spec.cancel)
        return [*_being_stopped(context), ask, RequeueAfter(RETRY_CANCEL)]
    if target is not None and request.spec.cancel and context.stoppable_in_stopping_pod:
        # Only while its pod drains; otherwise the end is known when the instance runs again.
        ask = CancelWork(target.instance.key, request.key, request.run_id)
        return [*running_in_stopping_pod(context), ask, RequeueAfter(RETRY_CANCEL)]
    if context.may_be_handed_over and target is not None:
        # Its file may lie on the volume: the end is known once the instance runs again.
        return None
    if target is None and context.may_be_handed_over:
        return None
    if request.spec.cancel:
        return final_status.never_ran(
            request,
            RequestReason.CANCELLED,
            "It was cancelled before it ran."
            if request.status.preemption is None
            else "It was cancelled while it waited to run again.",
            context.now,
        )
    return final_status.never_ran(
        request,
        RequestReason.TIMED_OUT,
        context.queue_timeout_message,
        context.now,
    )


def _being_stopped(context: RequestContext) -> list[Action]:
    """Say that the request is being stopped, where its status says nothing yet, or why it is not."""
    if failed_actions.failure_of(context, "CancelWork") is not None:
        return failed_actions.report(context, "CancelWork")
    request, config = context.snapshot.request, context.snapshot.config
    late_after = timedelta(0) if request.spec.cancel else context.queue_timeout
    # Whoever is asked answers at once, most of the time: a write of its own is for what lasts.
    if request.status.reason is not None or context.waited - late_after <= config.queued_after:
        return []
    at_once = timedelta(0)
    return write_after(context, at_once, at_once, RequestReason.PENDING, "It is being withdrawn or stopped.", {})


def _target_missing(context: RequestContext) -> list[Action] | None:
    snapshot, request = context.snapshot, context.snapshot.request
    if snapshot.target is not None:
        return None
    spec, status = request.spec, request.status
    if spec.instance_ref is None and status.instance_name is None:
        return bind(context)
    name = status.instance_name or (spec.instance_ref.name if spec.instance_ref else "")
    namespace = request.metadata.namespace
    if context.was_handed_over:
        message = f"EfritInstance {name} was deleted while it had the request: whether it ran is unknown."
        if status.start_time is not None:
            message = f"EfritInstance {name} was deleted while it ran the request: how far it came is unknown."
        return final_status.ended_unknown(request, message, context.now)
    grace = snapshot.config.target_grace
    # Not by the clock: one that is ahead of the API server's must not end what has just been created.
    if snapshot.seen_for < grace:
        message = f"There is no EfritInstance {name} in namespace {namespace} yet."
        return wait(context, RequestReason.INSTANCE_NOT_READY, message, [], requeue_after=grace - snapshot.seen_for)
    if context.may_be_handed_over:
        return final_status.ended_unknown(
            request,
            f"There is no EfritInstance {name} in namespace {namespace}; whether one had the request before the "
            "operator started is unknown. Create it, then create the request again.",
            context.now,
        )
    return final_status.never_ran(
        request,
        RequestReason.REJECTED,
        f"There is no EfritInstance {name} in namespace {namespace}: create it, then create the request again.",
        context.now,
    )


def _read_content(snapshot: RequestSnapshot) -> ReadContent:
    """Return what must come before the content is sent: only some are kept in memory."""
    return ReadContent(snapshot.request.key, snapshot.request.metadata.uid)


def _content_bytes(snapshot: RequestSnapshot) -> int:
    content_bytes = snapshot.content_bytes
    return len(snapshot.request.spec.content.encode()) if content_bytes is None else content_bytes


def _inadmissible(context: RequestContext) -> list[Action] | None:
    snapshot, request, target = context.snapshot, context.snapshot.request, context.snapshot.target
    if target is None or snapshot.bridge_view is not None:
        return None
    if snapshot.handover is not None and snapshot.handover.refused is not None:
        return final_status.never_ran(request, RequestReason.REJECTED, snapshot.handover.refused, context.now)
    if context.may_be_handed_over and not target.available:
        # It was admissible when it was handed over: the queue reports what became of it.
        return None
    size, limit = _content_bytes(snapshot), target.instance.spec.limits.max_request_bytes
    if size > limit:
        return final_status.never_ran(
            request,
            RequestReason.REJECTED,
            f"spec.content has {size} bytes, EfritInstance {target.instance.metadata.name} takes {limit}: send less "
            "(a file of the workspace can hold the rest), or raise its spec.limits.maxRequestBytes.",
            context.now,
        )
    too_much = excess(request, target.instance)
    if too_much is not None:
        return final_status.never_ran(request, RequestReason.REJECTED, too_much, context.now)
    if request.spec.type != RequestType.EVAL and target.instance.spec.model is None:
        return final_status.never_ran(
            request,
            RequestReason.MODEL_NOT_CONFIGURED,
            f"A {request.spec.type.value} needs a model, EfritInstance {target.instance.metadata.name} has none: "
            "set its spec.model, or send an eval.",
            context.now,
        )
    return None


def _target_away(context: RequestContext) -> list[Action] | None:
    target = context.snapshot.target
    if target is None or target.available:
        return None
    if found_ready_before(target):
        # This process is about to connect: a write for every open request would say so after each restart.
        return queue_deadline(context)
    name = target.instance.metadata.name
    if context.runs_in_stopping_pod:
        return running_in_stopping_pod(context)
    to_stop = context.snapshot.request.spec.cancel or context.queue_deadline_passed
    # What is left to be stopped here may be on the queue: anything else has ended before.
    note = " It may be on the queue of the instance: it is stopped once the instance runs again." if to_stop else ""
    if target.instance.spec.operating_mode == OperatingMode.SUSPENDED:
        message = f"EfritInstance {name} is suspended: set its spec.operatingMode to {OperatingMode.RUNNING}.{note}"
        return wait(context, RequestReason.INSTANCE_SUSPENDED, message, [])
    if target.instance.status.suspended_idle:
        message = f"EfritInstance {name} is suspended for idleness and wakes up now.{note}"
        return wait(context, RequestReason.INSTANCE_SUSPENDED, message, [Wake(target.instance.key)])
    if context.has_begun and not note:
        note = " Emacs had begun the request: what became of it is known once the instance is ready."
    # Not the reason itself: each request that waits here would say so by another write.
    message = f"EfritInstance {name} is not ready yet: its condition Ready says why.{note}"
    return wait(context, RequestReason.INSTANCE_NOT_READY, message, [], requeue_after=session_wait(context) or None)


def _known_to_bridge(context: RequestContext) -> list[Action] | None:
    view = context.snapshot.bridge_view
    if view is None:
        return None
    if view.state == RequestState.RUNNING:
        return running(context, "Emacs is working on it.")
    queued = view.queued_time or context.now
    actions = write_after(
        context,
        context.now - queued,
        queued_pause(context),
        RequestReason.QUEUED,
        "It is waiting in the instance's queue.",
        queue_fields(context, view),
    )
    return [*actions, *queue_deadline(context)]


def _recorded_before_update(context: RequestContext, target: InstanceSnapshot) -> bool:
    """Return whether the status names the ephemeral queue: without it a hand-over could not be ruled out later.

    The update waits for it (`InstanceSnapshot.unfinished`), as long as the pod's template is not replaced yet.
    """
    pod, current, recorded = target.pod, target.statefulset, context.snapshot.request.status.queue_id
    if not target.instance.spec.queue.ephemeral or recorded is None or recorded != target.bridge.queue_id:
        return False
    return pod is not None and current is not None and pod.template_hash == current.template_hash


def _target_updating(context: RequestContext) -> list[Action] | None:
    target = context.snapshot.target
    if target is None or not target.held_for_update:  # gate: update-hold
        return None
    if _recorded_before_update(context, target):
        return None
    name = target.instance.metadata.name
    # What that waits for may change: each request that waits here would say so by another write.
    message = (
        f"EfritInstance {name} is being updated: the request waits for its new pod. The condition Updated of the "
        "instance says what the update waits for."
    )
    return wait(context, RequestReason.INSTANCE_UPDATING, message, [])


def _back_pressure(context: RequestContext) -> list[Action] | None:
    target = context.snapshot.target
    if target is None or target.bridge.stats is None:
        return None
    # The bridge counts what it runs, too: offered more, it would refuse it time and again.
    queue_length = target.bridge.stats.pending + target.bridge.stats.processing
    if context.snapshot.ahead < target.instance.spec.queue.max_pending - queue_length:
        return None
    goes_soon = context.snapshot.ahead < HELD_BACK_RETRIED
    return wait(
        context,
        RequestReason.BACKPRESSURE,
        f"EfritInstance {target.instance.metadata.name} has as many requests as its spec.queue.maxPending allows: "
        "this one is held back.",
        [],
        requeue_after=RETRY_HELD_BACK if goes_soon else None,
    )


def _stopping(context: RequestContext) -> list[Action] | None:
    """Wait where the pod is about to be stopped: begun now, the work might be interrupted."""
    target = context.snapshot.target
    if target is None or target.accepts_requests:
        return None
    if target.removing:
        # For two calls to the API server: then the instance is gone, or it takes requests again.
        return []
    name = target.instance.metadata.name
    message = f"EfritInstance {name} is being suspended; the request is handed over when it runs again."
    return wait(context, RequestReason.INSTANCE_SUSPENDED, message, [])


def _disk_problem(context: RequestContext) -> list[Action] | None:
    """Wait while the queue volume takes no work."""
    target = context.snapshot.target
    disk = disk_problem(target) if target is not None else None
    if target is None or disk is None:
        return None
    name = target.instance.metadata.name
    message = f"EfritInstance {name} takes no requests: {disk_sentence(target.instance, disk)}"
    return wait(context, RequestReason.INSTANCE_NOT_READY, message, [], requeue_after=RETRY_HELD_BACK)


def _hand_over(context: RequestContext) -> list[Action] | None:
    _snapshot, request, target = context.snapshot, context.snapshot.request, context.snapshot.target
    if target is None:
        return None
    if target.bridge.queue_id is None or not target.handover_open:
        # The instance's status says first that requests are handed over from now on.
        message = f"EfritInstance {target.instance.metadata.name} is not ready yet."
        return wait(context, RequestReason.INSTANCE_NOT_READY, message, [Wake(target.instance.key)])
    ephemeral = target.instance.spec.queue.ephemeral
    if ephemeral and request.status.queue_id != target.bridge.queue_id:  # gate: ephemeral-recorded
        # A queue that dies with its pod cannot tell later that it had the request: say so first.
        update = {"queue_id": target.bridge.queue_id, "instance_name": target.instance.metadata.name}
        status = open_status(context, RequestReason.QUEUED, "It is being handed to the instance.", update)
        return [final_status.patch(request, status)]
    failure_writes = failed_actions.report(context, "Submit")
    if any(isinstance(action, PatchStatus) for action in failure_writes):  # gate: decide-anew
        # While that is written the pod may be given up, for an update or for idleness: decide anew after it.
        return [*failure_writes, *queue_deadline(context)]
    if context.snapshot.content_bytes is not None:  # gate: content-before-hand-over
        return [_read_content(context.snapshot)]
    return [
        *failure_writes,
        Submit(target.instance.key, request.key, queue_request(request, target.instance), target.facts.handover_id),
        *queue_deadline(context),
    ]


CHECKS: tuple[Check, ...] = (
    _deleted,
    _final,
    preemption.interrupted,
    _given_back,
    _answered,
    _queue_lost,  # gate: queue-lost
    _stop,
    preemption.interrupt,
    move_from_leaving_member,
    _target_missing,
    move_from_lost_node,
    _inadmissible,
    _target_away,
    _known_to_bridge,
    _target_updating,
    _back_pressure,
    _stopping,
    _disk_problem,
    _hand_over,
)
