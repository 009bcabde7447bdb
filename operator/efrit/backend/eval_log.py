"""The work log of an eval, made of its answer: what it printed, what Emacs said, how it ended. Pure.

Emacs writes a work log for chats and commands alone: an eval is over before anybody could follow it.
"""

from __future__ import annotations

import json
from typing import Any

from efrit.backend.interface import RequestState, RequestType


def is_eval(state: RequestState) -> bool:
    """Return whether the log of the request is to be made here."""
    return state.type is RequestType.EVAL


def lines(state: RequestState) -> list[str]:
    """Return the lines (JSON objects) of a request that is over; none of one that is not."""
    if not state.final:
        return []
    entries: list[dict[str, Any]] = []
    if state.output:
        entries.append({"type": "output", "text": state.output})
    if state.messages:
        entries.append({"type": "messages", "text": state.messages})
    if state.error is not None:
        entries.append({"type": "error", "code": state.error.code, "message": state.error.message})
    entries.append({"type": "end", "reason": str(state.reason), "seconds": state.execution_seconds})
    return [json.dumps(entry, ensure_ascii=False) for entry in entries]
