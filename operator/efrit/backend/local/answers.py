"""A request and its response as a client has them. Pure.

`efrit.queue.answers` reads the response. The request is read here, leniently: Emacs judges whether it is valid.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from msgspec.structs import replace

from efrit.backend.interface import (
    Error,
    Handle,
    Outcome,
    Phase,
    RequestReason,
    RequestState,
    RequestType,
)
from efrit.protocol.json_limits import exceeds_part_limit
from efrit.protocol.response import Response

_SENTENCES = {
    RequestReason.QUEUED: "It waits for its turn.",
    RequestReason.RUNNING: "Emacs is at work on it.",
    RequestReason.SUCCEEDED: "It is done.",
}


def json_object(data: bytes | None) -> dict[str, Any]:
    """Return the JSON object in `data`; empty if there is none."""
    if data is None or exceeds_part_limit(data):
        return {}
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def open_state(
    handle: Handle, reason: RequestReason, request: Mapping[str, Any], queued: datetime | None
) -> RequestState:
    """Return the state of a request without a response."""
    return RequestState(
        handle,
        Phase.RUNNING if reason is RequestReason.RUNNING else Phase.QUEUED,
        reason,
        _SENTENCES[reason],
        type=type_of(request),
        content=_text(request.get("content")),
        created=time_if_valid(request.get("timestamp")) or queued,
        queued=queued,
    )


def queued_again(state: RequestState) -> RequestState:
    """Return the state of a request that waits for its turn alone."""
    return replace(state, reason=RequestReason.QUEUED, message=_SENTENCES[RequestReason.QUEUED])


def final_state(handle: Handle, response: Response, request: Mapping[str, Any]) -> RequestState:
    """Return the state of a request that is over."""
    reason, error = response.reason, response.error
    if reason is RequestReason.MODEL_NOT_CONFIGURED and error and handle.instance:
        # Emacs does not know the name of its instance.
        error = f"{error} (efrit restart {handle.instance})"
    return RequestState(
        handle,
        Phase.SUCCEEDED if response.outcome is Outcome.SUCCESS else Phase.FAILED,
        reason,
        error or _SENTENCES.get(reason, f"It ended {reason}."),
        type=type_of(request),
        content=_text(request.get("content")),
        outcome=response.outcome,
        result=response.result,
        truncated=response.truncated or response.result_path is not None,
        result_bytes=response.result_bytes,
        output=response.output,
        messages=response.messages,
        error=None if error is None else Error(response.error_code or reason.value, error),
        context=response.context or None,
        session=response.session,
        progress=response.progress,
        usage=response.usage,
        attempt=response.attempt,
        created=time_if_valid(request.get("timestamp")),
        started=response.started,
        completed=response.timestamp,
        execution_seconds=response.execution_time,
    )


def type_of(request: Mapping[str, Any]) -> RequestType | None:
    """Return the type of a request; None if the file does not say."""
    try:
        return RequestType(request.get("type", ""))
    except ValueError:
        return None


def time_if_valid(value: Any) -> datetime | None:
    """Return an RFC 3339 time as a datetime; None for what is not one: a file may hold anything."""
    try:
        return datetime.fromisoformat(value)
    except (TypeError, ValueError):
        return None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None
