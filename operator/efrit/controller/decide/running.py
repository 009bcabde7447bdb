"""What is said of a request that runs: its status, and how far it has come."""

from __future__ import annotations

from efrit.api import RequestReason
from efrit.controller.decide import news
from efrit.controller.decide.actions import Action
from efrit.controller.decide.case import Case
from efrit.controller.decide.waiting import once_it_lasts, tell_progress
from efrit.protocol import RequestView


def running(case: Case, message: str) -> list[Action]:
    """Return the writes that say that a request runs, with its progress; none where its bridge did not report it."""
    view = case.snapshot.bridge_view
    if view is None:
        return []
    started = view.started_time or case.now
    fields = queue_fields(case, view) | news.while_running(view, case.room) | {"start_time": started}
    due = started + case.snapshot.config.running_after
    return once_it_lasts(case, due, RequestReason.RUNNING, message, fields) or tell_progress(case, fields)


def running_in_stopping_pod(case: Case) -> list[Action]:
    """Say that the work goes on while its pod drains."""
    message = (
        "Emacs works on it. Its pod is being stopped: if the work does not end within the pod's grace period, it is "
        "interrupted."
    )
    if case.snapshot.request.spec.cancel:
        message += " The cancel takes effect when the instance runs again, if the work has not ended by then."
    return running(case, message)


def queue_fields(case: Case, view: RequestView) -> dict[str, object]:
    """Return what the status says of the queue that has the request: its id, the attempt and the time."""
    # A queue knows nothing of one that was lost before it; the status counts that one's attempts, too.
    attempt = max(view.attempt, case.snapshot.request.status.attempt or 0)
    fields: dict[str, object] = {"attempt": attempt, "queued_time": view.queued_time}
    if case.snapshot.target is not None:
        fields["queue_id"] = case.snapshot.target.bridge.queue_id
    return fields
