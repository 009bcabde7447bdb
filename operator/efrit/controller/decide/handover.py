"""Whether a request may be on the queue of an instance, and what is recorded of that.

A hand-over is recorded per availability of an instance, not per request: `status.handover` of the instance is Open
before the first request is handed over. While the instance is away, every open request that it may have got is
marked in its own status; when all are, the instance is Closed. An unmarked request of a closed instance was never
handed over by anybody, whatever was restarted meanwhile.
"""

from __future__ import annotations

from datetime import timedelta

from efrit.api import EfritRequest
from efrit.api.instance import HandoverState, InstanceHandover
from efrit.controller.model.snapshots import Handover, InstanceSnapshot

RETRY_CLOSE = timedelta(seconds=2)
"""Marking the open requests of an instance takes about a second; nothing reports when the last one is marked."""


def is_marked(request: EfritRequest) -> bool:
    """Return whether the status of a request says that a queue may have it."""
    return request.status.queue_id is not None or request.status.handover is not None


def may_be_handed_over(
    *,
    marked: bool,
    named: bool,
    handover: Handover | None,
    reported_by_bridge: bool,
    listed_at_start: bool,
    closed_before: bool,
    opened_by_other: bool,
    ephemeral: bool,
) -> bool:
    """Return whether the queue of the request's instance may have it.

    marked: whether its status says that a queue may have it.
    named: whether its spec or its status names the instance.
    handover: what this process remembers of handing it over, or of what the bridge said.
    reported_by_bridge: whether the bridge reports it.
    listed_at_start: whether it is older than this process, so that another may have handed it over.
    closed_before: whether this process has seen its instance Closed, which speaks for all processes before.
    opened_by_other: whether another process has opened its instance since it was last Closed.
    ephemeral: whether the queue goes with its pod; such a queue is recorded in the request before the hand-over.
    """
    if handover is not None:
        return not handover.absent
    if reported_by_bridge or marked:
        return True
    if ephemeral or not named:
        # What must be written before the hand-over is not there.
        return False
    return opened_by_other or (listed_at_start and not closed_before)  # gate: earlier-controller


def is_away(snapshot: InstanceSnapshot) -> bool:
    """Return whether the instance has no pod that requests could be handed to."""
    return snapshot.pod is None or snapshot.pod.deleting


def next_handover(snapshot: InstanceSnapshot) -> InstanceHandover | None:
    """Return what the status of an instance is to say about hand-overs.

    An instance that another process opened is opened anew only when a request waits: it costs a write.
    """
    recorded = snapshot.instance.status.handover
    if is_away(snapshot):
        return InstanceHandover(state=HandoverState.CLOSED) if snapshot.may_close else recorded
    opened_before = recorded is not None and recorded.state == HandoverState.OPEN
    if not snapshot.available or snapshot.handover_open or (opened_before and snapshot.waiting == 0):
        return recorded
    return InstanceHandover(state=HandoverState.OPEN, id=snapshot.facts.handover_id)


def is_closed(snapshot: InstanceSnapshot) -> bool:
    """Return whether the stored status of an instance says Closed."""
    recorded = snapshot.instance.status.handover
    return recorded is not None and recorded.state == HandoverState.CLOSED


def close_check(snapshot: InstanceSnapshot) -> timedelta | None:
    """Return when to check again whether the instance can be closed, None where that is settled."""
    pending = is_away(snapshot) and not is_closed(snapshot) and not snapshot.may_close
    return RETRY_CLOSE if pending else None
