"""What the JSON files of a queue say of a request, in the client's words. Pure, and without the models of the wire.

Who writes an answer is Emacs, or whatever ran in it: what does not fit is told as `Interrupted`, as a bridge would.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from efrit.client.interface import (
    Error,
    Handle,
    Outcome,
    Phase,
    Progress,
    Reason,
    RequestState,
    RequestType,
    Session,
    SessionStatus,
    Usage,
)
from efrit.protocol.answer_rules import concluded, contradicts_itself, is_another_result
from efrit.protocol.json_limits import too_heavy

_SENTENCES = {
    Reason.QUEUED: "It waits for its turn.",
    Reason.RUNNING: "Emacs is at work on it.",
    Reason.SUCCEEDED: "It is done.",
}


def loaded(data: bytes | None) -> dict[str, Any]:
    """Return the JSON object in `data`; empty if there is none."""
    if data is None or too_heavy(data):
        return {}
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def open_state(handle: Handle, reason: Reason, request: Mapping[str, Any], queued: datetime | None) -> RequestState:
    """Return the state of a request without a response."""
    return RequestState(
        handle,
        Phase.RUNNING if reason is Reason.RUNNING else Phase.QUEUED,
        reason,
        _SENTENCES[reason],
        type=type_of(request),
        content=_text(request.get("content")),
        created=moment(request.get("timestamp")) or queued,
        queued=queued,
    )


def final_state(handle: Handle, data: bytes, request: Mapping[str, Any]) -> RequestState:
    """Return the state of a request whose response is `data`."""
    answer = loaded(data)
    problem = _problem(handle, answer)
    if problem:
        message = f"The answer to {handle.id} is not a response: {problem}. What the request did is unknown."
        answer = {"reason": Reason.INTERRUPTED, "outcome": Outcome.FAILURE, "error": message}
    reason = _reason(answer)
    outcome = _outcome(answer, reason)
    error = _text(answer.get("error"))
    code = _text(answer.get("error_code")) or reason.value
    return RequestState(
        handle,
        Phase.SUCCEEDED if outcome is Outcome.SUCCESS else Phase.FAILED,
        reason,
        error or _SENTENCES.get(reason, f"It ended {reason}."),
        type=type_of(request),
        content=_text(request.get("content")),
        outcome=outcome,
        result=_text(answer.get("result")),
        truncated=answer.get("truncated") is True or isinstance(answer.get("result_path"), str),
        result_bytes=_count(answer.get("result_bytes")) or 0,
        output=_text(answer.get("output")) or "",
        messages=_text(answer.get("messages")) or "",
        error=None if error is None else Error(code, error),
        context=_object(answer.get("context")) or None,
        session=_session(answer.get("session")),
        progress=progress(_object(answer.get("progress"))),
        usage=_usage(answer.get("usage")),
        attempt=_count(answer.get("attempt")) or 0,
        created=moment(request.get("timestamp")),
        started=moment(answer.get("started")),
        completed=moment(answer.get("timestamp")),
        execution_seconds=_number(answer.get("execution_time")),
    )


def _problem(handle: Handle, answer: Mapping[str, Any]) -> str:
    if not answer:
        return "it is not a JSON object"
    if answer.get("id") != handle.id:
        return "it answers another request"
    whole = not answer.get("truncated") and not answer.get("result_path")
    if is_another_result(_text(answer.get("result")), _text(answer.get("sha256")), whole=whole):
        return "its result is not the one its sha256 speaks of"
    reason = _reason(answer)
    if contradicts_itself(str(answer.get("status")), reason, _outcome(answer, reason)):
        return "its status, reason and outcome contradict each other"
    return ""


def _reason(answer: Mapping[str, Any]) -> Reason:
    try:
        reason = Reason(concluded(answer)["reason"])
    except ValueError:
        # A later version's word: the status says enough.
        reason = Reason(concluded({"status": answer.get("status")})["reason"])
    return reason if reason.final else Reason.EVAL_ERROR


def _outcome(answer: Mapping[str, Any], reason: Reason) -> Outcome:
    try:
        return Outcome(answer["outcome"])
    except (KeyError, ValueError):
        return Outcome.SUCCESS if reason is Reason.SUCCEEDED else Outcome.FAILURE


def type_of(request: Mapping[str, Any]) -> RequestType | None:
    """Return the type of a request; None if the file does not say."""
    try:
        return RequestType(request.get("type", ""))
    except ValueError:
        return None


def _session(value: Any) -> Session | None:
    session = _object(value)
    if not isinstance(session.get("id"), str):
        return None
    words = {status.value: status for status in SessionStatus}
    return Session(session["id"], words.get(str(session.get("status"))), _text(session.get("question")))


def progress(entry: Mapping[str, Any]) -> Progress | None:
    """Return the progress in a progress object or in a line of type `progress` of a work log."""
    if not entry:
        return None
    return Progress(
        _count(entry.get("step")),
        _text(entry.get("message")),
        _count(entry.get("tool_calls")),
        _count(entry.get("tokens")),
    )


def _usage(value: Any) -> Usage | None:
    usage = _object(value)
    names = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "model_calls")
    return Usage.from_dict({name: _count(usage.get(name)) or 0 for name in names}) if usage else None


def moment(value: Any) -> datetime | None:
    """Return an RFC 3339 time as a datetime, or None."""
    try:
        return datetime.fromisoformat(value)
    except (TypeError, ValueError):
        return None


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0 else None
