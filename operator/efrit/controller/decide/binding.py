"""Which instance is recorded for a request that names none: the first one, and another where that is lost or goes."""

from __future__ import annotations

from dataclasses import fields
from datetime import timedelta

from efrit.api import EfritRequest, RequestReason
from efrit.controller.decide import final_status, placement, preemption
from efrit.controller.decide.open_status import open_status, wait
from efrit.controller.decide.request_context import RequestContext
from efrit.controller.model.actions import Action, Bind, Decision, FindSession, Placed, Wake
from efrit.controller.model.snapshots import InstanceSnapshot, PoolPlace, Victim

BOUND = "Bound to an instance."
RETRY_MOVE = timedelta(seconds=2)
"""A request of a member that is gone has no place in the line of its pool: nothing reports when there is room."""


def bind(context: RequestContext) -> list[Action]:
    """Record the instance that gets the request; one that sleeps wakes up because the request is its own."""
    snapshot, request = context.snapshot, context.snapshot.request
    if request.spec.session is not None and snapshot.session_instance != "":
        return _bind_to_session(context, request.spec.session.id)
    if snapshot.pool is not None:
        return _bind_to_member(context, snapshot.pool)
    ready, asleep = placement.least_loaded(snapshot.candidates), placement.instance_to_wake(snapshot.candidates)
    chosen = ready or next(iter(asleep), None)
    if chosen is None:
        return wait(context, RequestReason.INSTANCE_NOT_READY, _no_match(context), [])
    return _bound(context, chosen)


def _bind_to_member(context: RequestContext, place: PoolPlace) -> list[Action]:
    """Record the member of its pool that gets the request, one that sleeps where none that is awake has room."""
    if place.turned_away is not None:  # gate: turned-away
        return _turned_away(context, place, place.turned_away)
    chosen = placement.choose_member(context.snapshot.candidates, place)
    if chosen is not None:
        return _bound(context, chosen)
    if place.victim is not None:
        return [*preemption.mark(context, place.victim), *_bound_in_place_of(context, place.victim)]
    seen_for = context.snapshot.seen_for
    retries = place.victim_may_come and seen_for < preemption.RETRIED_FOR
    # Each time twice as late: there may be thousands.
    return _wait_for_member(context, place, max(preemption.RETRY_PREEMPT, seen_for) if retries else None)


def _turned_away(context: RequestContext, place: PoolPlace, limit: int) -> list[Action]:
    message = (
        f"EfritPool {place.name} allows {limit} waiting requests of a flow (spec.fairness.maxPendingPerFlow), and "
        "this flow had as many: create the request again when some have ended."
    )
    return final_status.never_ran(context.snapshot.request, RequestReason.REJECTED, message, context.now)


def _wait_for_flow(context: RequestContext, place: PoolPlace) -> list[Action]:
    """Have a request that continues a session wait, as members have all that they may have of its flow."""
    if place.turned_away is not None:
        return _turned_away(context, place, place.turned_away)
    message = (
        f"Members of EfritPool {place.name} have as many requests of this flow as they may have at a time "
        "(spec.fairness.maxRunningPerFlow): waiting for one of them to end."
    )
    again = max(RETRY_MOVE, context.snapshot.seen_for)
    return wait(context, RequestReason.BACKPRESSURE, message, [], again)


def _bound_in_place_of(context: RequestContext, victim: Victim) -> list[Action]:
    name, member = victim.request.metadata.name, victim.member.instance.metadata.name
    message = f"Bound to EfritInstance {member}, where EfritRequest {name} of lower priority is interrupted for it."
    return _bound(context, victim.member, message, RequestReason.PREEMPTING)


def _wait_for_member(
    context: RequestContext, place: PoolPlace, requeue_after: timedelta | None = None
) -> list[Action]:
    status = context.snapshot.request.status
    if status.preemption is not None and status.instance_name is None:
        message = preemption.waits_again(status.preemption)
        return wait(context, RequestReason.PREEMPTED, message, [], requeue_after)
    message = f"EfritPool {place.name} has no member with room for the request: waiting for one."
    return wait(context, RequestReason.BACKPRESSURE, message, [], requeue_after)


def _no_match(context: RequestContext) -> str:
    """Return why no instance gets the request: none matches, or none of those that do is ready."""
    spec, count = context.snapshot.request.spec, len(context.snapshot.candidates)
    if count:
        return f"None of the EfritInstances that match is ready ({count} match): waiting for one."
    if spec.pool_ref is not None:
        return f"There is no EfritInstance of the pool {spec.pool_ref.name}: waiting for one."
    return "No EfritInstance has the labels of spec.selector: waiting for one."


def move_from_lost_node(context: RequestContext) -> list[Action] | None:
    """Record another instance where the node of the recorded one is lost, if the request was never handed over.

    A session stays where it is: no other instance knows it.
    """
    request, target = context.snapshot.request, context.snapshot.target
    if target is None or not placement.node_is_lost(target) or request.spec.instance_ref is not None:
        return None
    if request.spec.session is not None or context.may_be_handed_over:  # gate: lost-node
        return None
    chosen = placement.least_loaded(
        candidate for candidate in context.snapshot.candidates if candidate.instance.key != target.instance.key
    )
    if chosen is None:
        return None
    name = target.instance.metadata.name
    return _bound(context, chosen, f"Bound to another instance: the node of EfritInstance {name} is lost.")


def move_from_leaving_member(context: RequestContext) -> list[Action] | None:
    """Record another member of the pool where the recorded one leaves, if the request was never handed over.

    A member leaves while it drains or its pod stops, and when it is gone. While nobody else has room, one that is
    there may still take it. A request that continues a session goes, where the pool allows that, when the member that
    has it has been away for as long as the pool says.
    """
    snapshot, request, target = context.snapshot, context.snapshot.request, context.snapshot.target
    place = snapshot.pool
    if place is None or place.leaves is None:
        return None
    continues_session = request.spec.session is not None and not request.status.session_left
    if continues_session and _stays_with_session(context, place):
        return None
    if context.may_be_handed_over or context.was_handed_over:  # gate: leaving-member
        return None
    others = [member for member in snapshot.candidates if member.instance.metadata.name != place.leaves]
    chosen = placement.choose_member(others, place)
    if chosen is not None:
        return _bound(context, chosen, f"Bound to another instance: EfritInstance {place.leaves} leaves the pool.")
    if target is not None:
        return None
    return _wait_for_member(context, place, RETRY_MOVE)


def _instance_of_session(context: RequestContext) -> str | None:
    """Return the name of the instance that has the session the request continues, None where none is known to."""
    snapshot = context.snapshot
    # Of a request that is bound, what was found before is not known any more after a restart.
    return snapshot.session_instance or snapshot.request.status.instance_name


def _stays_with_session(context: RequestContext, place: PoolPlace) -> bool:
    if context.snapshot.target is None:
        return place.affinity_wait is None
    return session_wait(context) != timedelta(0)  # gate: session-instance


def session_wait(context: RequestContext) -> timedelta | None:
    """Return how much longer a request waits for the member that has its session; None for as long as it takes."""
    place, request = context.snapshot.pool, context.snapshot.request
    if place is None or place.affinity_wait is None or request.spec.session is None or request.status.session_left:
        return None
    return max(place.affinity_wait - context.waited, timedelta(0))


def _bound(
    context: RequestContext,
    chosen: InstanceSnapshot,
    message: str = BOUND,
    reason: RequestReason = RequestReason.PENDING,
) -> list[Action]:
    request = context.snapshot.request
    name = chosen.instance.metadata.name
    # One that was never handed over may have been recorded on the queue of the instance before.
    queue = _queue_to_record(chosen) if reason != RequestReason.PREEMPTING else None
    update: dict[str, object] = {"instance_name": name, "queue_id": queue, "handover": None}
    session, session_instance = request.spec.session, _instance_of_session(context)
    if session is not None and session_instance not in (None, name) and not request.status.session_left:
        update["session_left"] = session.id
        message = (
            f"Bound to EfritInstance {name}, where a new session begins: EfritInstance {session_instance}, "
            f"which has session {session.id}, is away."
        )
    if message == BOUND and _goes_at_once(chosen) and _has_said_nothing(request):
        # For a request that names its instance nothing is written before it is handed over: what is said here would
        # be out of date at once, and the API server checks it in this write, where the member waits, and the next.
        status = request.status.model_copy(update=update)
    else:
        status = open_status(context, reason, message, update)
    patch = final_status.patch(request, status)
    bound = Bind(
        **{field.name: getattr(patch, field.name) for field in fields(patch)},
        instance=chosen.instance.key,
        placed=_placed(
            context,
            chosen,
            is_session_left="session_left" in update,
            preempts=reason == RequestReason.PREEMPTING,
        ),
    )
    return [bound] if chosen.accepts_requests else [bound, Wake(chosen.instance.key)]


def _queue_to_record(chosen: InstanceSnapshot) -> str | None:
    """Return the ephemeral queue that gets the request next, None where it is not handed over at once.

    It has to be recorded before the hand-over: here it costs no write of its own. One that is held back, as
    the queue is full, is recorded on none: an update would wait for it, and whoever leads next could not tell that it
    was never handed over.
    """
    return chosen.bridge.queue_id if chosen.instance.spec.queue.ephemeral and _goes_at_once(chosen) else None


def _goes_at_once(chosen: InstanceSnapshot) -> bool:
    """Return whether the instance gets the request as soon as that is recorded."""
    has_room = chosen.load < chosen.instance.spec.queue.max_pending  # gate: bound-next
    return chosen.handover_open and placement.takes_requests(chosen) and has_room


def _has_said_nothing(request: EfritRequest) -> bool:
    """Return whether the status says nothing yet that a binding would have to take back."""
    return request.status.reason is None and not request.status.conditions  # gate: bound-briefly


def _placed(
    context: RequestContext, chosen: InstanceSnapshot, *, is_session_left: bool, preempts: bool
) -> Placed | None:
    request, place = context.snapshot.request, context.snapshot.pool
    if place is None:
        return None
    moves = request.status.instance_name is not None
    if preempts:
        decision = Decision.PREEMPTING
    elif is_session_left:
        decision = Decision.SESSION_LEFT
    elif moves:
        decision = Decision.MOVED
    elif request.spec.session is not None and _instance_of_session(context) == chosen.instance.metadata.name:
        decision = Decision.SESSION_HOME
    else:
        decision = Decision.AWAKE if chosen.accepts_requests else Decision.WOKEN
    pool = (request.metadata.namespace, place.name)
    # One that was interrupted has had its first member long since.
    is_first = not moves and request.status.preemption is None
    return Placed(pool, decision, context.waited if is_first else None)


def _bind_to_session(context: RequestContext, session: str) -> list[Action]:
    """Record the instance that has the session, ready or not: no other knows it."""
    snapshot, request = context.snapshot, context.snapshot.request
    instance_name = snapshot.session_instance
    if instance_name is None:
        return [FindSession(request.key, request.metadata.uid, session)]
    for candidate in snapshot.candidates:
        if candidate.instance.metadata.name == instance_name:
            place = snapshot.pool
            if place is not None and place.flow_has_all:  # gate: session-flow-limit
                return _wait_for_flow(context, place)
            return _bound(context, candidate)
    if snapshot.pool is not None and snapshot.pool.affinity_wait is not None:
        return _bind_to_member(context, snapshot.pool)
    return final_status.never_ran(
        request,
        RequestReason.REJECTED,
        f"Session {session} is on EfritInstance {instance_name}, which no longer exists or is not a target of this "
        "request: name it with spec.instanceRef, or begin a new session.",
        context.now,
    )
