"""What a chat or command tells of itself, as its status says it: progress, session, use of the model.

While it runs, from its bridge's view of it; at the end, from its answer. An eval tells nothing of the kind.
"""

from __future__ import annotations

from typing import Any

from efrit.api.request import Progress, SessionState, SessionStatus, Usage
from efrit.controller.decide.room import Room, cut
from efrit.protocol import Progress as WireProgress
from efrit.protocol import RequestView, Response


def while_running(view: RequestView, room: Room) -> dict[str, Any]:
    """Return the fields of the status that tell how far it has come; none where nothing was told yet."""
    told = view.progress
    if told is None:
        return {}
    fields: dict[str, Any] = {"progress": _progress(told, room)}
    if told.session is not None:
        fields["session"] = SessionState(id=told.session, status=SessionStatus.CONTINUE)
    return fields


def last_words(view: RequestView, response: Response, room: Room) -> dict[str, Any]:
    """Return the same fields of the final status, within its room.

    What an answer does not say (Emacs died) stays as it was told last.
    """
    fields = while_running(view, room)
    if response.progress is not None:
        fields["progress"] = _progress(response.progress, room)
    session = response.session
    if session is not None:
        fields["session"] = SessionState(
            id=session.id,
            status=SessionStatus(session.status.value) if session.status is not None else None,
            question=cut(session.question, room.error) if session.question is not None else None,
        )
    if response.usage is not None:
        known = response.usage.model_dump(include=set(Usage.model_fields))
        fields["usage"] = Usage.model_validate(known)
    return fields


def _progress(told: WireProgress, room: Room) -> Progress:
    message = cut(told.message, room.message) if told.message is not None else None
    return Progress(step=told.step, message=message, tool_calls=told.tool_calls, tokens=told.tokens)
