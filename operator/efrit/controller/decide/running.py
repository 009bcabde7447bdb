"""What is said of a request that runs: its status, and how far it has come."""

from __future__ import annotations

from efrit.api import RequestReason
from efrit.controller.decide import progress_status
from efrit.controller.decide.open_status import progress_writes, write_after
from efrit.controller.decide.request_context import RequestContext
from efrit.controller.model.actions import Action
from efrit.protocol.view import RequestView


def running(context: RequestContext, message: str) -> list[Action]:
    """Return the writes that say that a request runs, with its progress; none where its bridge did not report it."""
    view = context.snapshot.bridge_view
    if view is None:
        return []
    started = view.started_time or context.now
    fields = (
        queue_fields(context, view) | progress_status.running_progress(view, context.limits) | {"start_time": started}
    )
    lasted, pause = context.now - started, context.snapshot.config.running_after
    return write_after(context, lasted, pause, RequestReason.RUNNING, message, fields) or progress_writes(
        context, fields
    )


def running_in_stopping_pod(context: RequestContext) -> list[Action]:
    """Say that the work goes on while its pod drains."""
    message = (
        "Emacs is working on it. Its pod is being stopped: if the work does not end within the pod's grace period, "
        "it is interrupted."
    )
    if context.snapshot.request.spec.cancel and not context.stoppable_in_stopping_pod:
        message += " The cancel takes effect when the instance runs again, if the work has not ended by then."
    return running(context, message)


def queue_fields(context: RequestContext, view: RequestView) -> dict[str, object]:
    """Return what the status says of the queue that has the request: its id, the attempt and the time."""
    attempt = context.snapshot.request.attempt(view.attempt)
    fields: dict[str, object] = {"attempt": attempt, "queued_time": view.queued_time}
    if context.snapshot.target is not None:
        fields["queue_id"] = context.snapshot.target.bridge.queue_id
    return fields
