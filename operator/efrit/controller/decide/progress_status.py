"""The progress, session and model usage of a chat or command, as its status reports them.

While it runs, from its bridge's view of it; at the end, from its answer. An eval has none of them.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from efrit.api.request import SessionState
from efrit.controller.decide.status_limits import StatusLimits, cut
from efrit.protocol import Progress, Response, SessionStatus
from efrit.protocol.view import RequestView


def running_progress(view: RequestView, limits: StatusLimits) -> dict[str, Any]:
    """Return the status fields that report progress; none where nothing was reported yet."""
    progress = view.progress
    if progress is None:
        return {}
    fields: dict[str, Any] = {"progress": _progress(progress, limits)}
    if progress.session is not None:
        fields["session"] = SessionState(id=progress.session, status=SessionStatus.CONTINUE)
    return fields


def final_progress(view: RequestView, response: Response, limits: StatusLimits) -> dict[str, Any]:
    """Return the same fields of the final status, within its limits.

    What an answer does not say (Emacs died) stays as it was reported last.
    """
    fields = running_progress(view, limits)
    if response.progress is not None:
        fields["progress"] = _progress(response.progress, limits)
    session = response.session
    if session is not None:
        fields["session"] = SessionState(
            id=session.id,
            status=session.status,
            question=cut(session.question, limits.error) if session.question is not None else None,
        )
    if response.usage is not None:
        fields["usage"] = response.usage
    return fields


def _progress(progress: Progress, limits: StatusLimits) -> Progress:
    message = cut(progress.message, limits.message) if progress.message is not None else None
    return replace(progress, message=message, session=None)
