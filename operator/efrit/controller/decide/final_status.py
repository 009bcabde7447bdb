"""The one final status of a request: from an answer of Emacs, or from a decision that it will never run.

Large results do not fit into a status: up to the size of a Secret they go into one, owned by the request; beyond
that Emacs has left them on the workspace volume.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from efrit.api import (
    ConditionStatus,
    EfritRequest,
    Outcome,
    RequestPhase,
    RequestReason,
    RequestStatus,
    with_condition,
)
from efrit.api.request import (
    COMPLETE,
    SUCCEEDED,
    EmacsContext,
    RequestError,
    RequestPreemption,
    ResultRef,
)
from efrit.controller.decide import progress_status
from efrit.controller.decide.status_limits import FULL, MAX_TEXT_CHARS, REDUCED_NOTE, StatusLimits, cut
from efrit.controller.manifests.result_secret import result_secret
from efrit.controller.model import names
from efrit.controller.model.actions import Action, PatchStatus, StoreResult
from efrit.protocol import Response
from efrit.protocol.view import RequestView

NO_REASON_TEXT = {
    RequestReason.SUCCEEDED: "The work is done.",
    RequestReason.EVAL_ERROR: "Lisp signalled an error.",
    RequestReason.TIMED_OUT: "It ran longer than its timeout and was stopped.",
    RequestReason.CANCELLED: "It was cancelled.",
    RequestReason.INTERRUPTED: "Emacs died while it ran: what it did is unknown.",
    RequestReason.REJECTED: "It was refused and never ran.",
    RequestReason.PARTIAL: "Part of the work is done.",
    RequestReason.INPUT_REQUIRED: "The model asked a question: answer with a request that continues the session.",
    RequestReason.MODEL_ERROR: "The model could not be called.",
    RequestReason.BUDGET_EXHAUSTED: "Its budget was used up before the work was done.",
    RequestReason.CIRCUIT_BROKEN: "It was stopped because of too many tool calls, or the same one over and over.",
    RequestReason.MODEL_NOT_CONFIGURED: "The instance has no model: set spec.model, or send an eval.",
}

NEVER_RUN = frozenset({RequestReason.REJECTED, RequestReason.MODEL_NOT_CONFIGURED})
"""Whoever reads one of these may create the request again without it being run twice."""


def _finish(
    request: EfritRequest,
    status: RequestStatus,
    reason: RequestReason,
    message: str,
    outcome: Outcome,
    now: datetime,
) -> PatchStatus:
    succeeded = ConditionStatus.TRUE if outcome == Outcome.SUCCESS else ConditionStatus.FALSE
    generation = request.metadata.generation
    conditions = with_condition(
        status.conditions, COMPLETE, ConditionStatus.TRUE, reason, message, generation=generation, now=now
    )
    conditions = with_condition(conditions, SUCCEEDED, succeeded, reason, message, generation=generation, now=now)
    final = status.model_copy(
        update={
            "phase": RequestPhase.SUCCEEDED if outcome == Outcome.SUCCESS else RequestPhase.FAILED,
            "conditions": conditions,
            "reason": reason.value,
            "outcome": outcome,
            "completion_time": now,
            "handover": None,
            "preemption": _preempted(status),
        }
    )
    return patch(request, final)


def _preempted(status: RequestStatus) -> RequestPreemption | None:
    """Return what a final status says of preemption: of one that its own end came before, nothing."""
    preemption = status.preemption
    return (
        preemption.model_copy(update={"in_progress": None}) if preemption is not None and preemption.count else None
    )


def patch(request: EfritRequest, status: RequestStatus) -> PatchStatus:
    """Return the action that replaces a request's status by this one."""
    meta = request.metadata
    return PatchStatus(
        "EfritRequest",
        request.key,
        meta.uid,
        meta.resource_version,
        status.to_wire(),
        request.status.to_wire(),
        meta.creation_timestamp,
    )


def _reason_of_end(
    request: EfritRequest, reason: RequestReason, message: str, attempt: int | None = None
) -> tuple[RequestReason, str]:
    """Return reason and message of an end: what is refused has never run, unless it was begun before.

    attempt: which one it is, as far as it is known.
    """
    preemption = request.status.preemption
    earlier = (attempt or request.status.attempt or 0) > 1 or (preemption is not None and preemption.count > 0)
    if reason in NEVER_RUN and earlier:  # gate: refused-later
        message = f"It was interrupted: what it did until then is unknown. It cannot run again: {message}"
        return RequestReason.INTERRUPTED, message
    return reason, message


def never_ran(request: EfritRequest, reason: RequestReason, message: str, now: datetime) -> list[Action]:
    """Return the final status of a request that was never started, with what to change."""
    reason, message = _reason_of_end(request, reason, message)
    error = RequestError(code=reason.value, message=cut(message, MAX_TEXT_CHARS))
    status = request.status.model_copy(update={"error": error})
    return [_finish(request, status, reason, message, Outcome.FAILURE, now)]


def ended_unknown(request: EfritRequest, message: str, now: datetime) -> list[Action]:
    """Return the final status of a request whose queue was lost: whether it ran is unknown."""
    return never_ran(request, RequestReason.INTERRUPTED, message, now)


def store_answer(
    request: EfritRequest,
    view: RequestView,
    response: Response,
    now: datetime,
    *,
    pod_uid: str | None,
    instance_name: str,
    queue_timeout: str | None,
    limits: StatusLimits = FULL,
    unstored: str | None = None,
) -> list[Action]:
    """Return what stores an answer: a Secret for a result too large for its limits, then the final status.

    `queue_timeout` says how long it waited where nobody has cancelled it: it was withdrawn for that.
    `unstored` says why the Secret is not created: the status then has only the beginning of the result.
    """
    reason = response.reason
    message = _question(response) or response.error or NO_REASON_TEXT.get(reason, reason.value)
    if queue_timeout and reason == RequestReason.CANCELLED and response.started is None:
        reason, message = RequestReason.TIMED_OUT, queue_timeout
    outcome = response.outcome
    if outcome == Outcome.PARTIAL and reason == RequestReason.SUCCEEDED:
        reason = RequestReason.PARTIAL
    attempt = request.attempt(response.attempt)
    reason, message = _reason_of_end(request, reason, message, attempt)
    actions: list[Action] = []
    update: dict[str, Any] = {
        "instance_name": instance_name,
        "pod_uid": pod_uid,
        "attempt": attempt,
        "queued_time": view.queued_time or request.status.queued_time,
        "start_time": response.started,
        "execution_seconds": round(response.execution_time, 6) if response.started else None,
        "output": cut(response.output, limits.printed) or None,
        "messages": cut(response.messages, limits.printed) or None,
        "context": _context(response) if limits.context else None,
        "error": None,
        **progress_status.final_progress(view, response, limits),
    }
    if outcome != Outcome.SUCCESS:
        code = response.error_code or reason.value
        update["error"] = RequestError(code=code[:256], message=cut(message, limits.error))
    note = ""
    if response.result is not None:
        stored, fields = _result(request, response, limits)
        if stored and unstored is not None:
            del fields["result_ref"]
            note = f" {cut(unstored, limits.error)}"
        else:
            actions += stored
        update |= fields
    status = request.status.model_copy(update=update)
    status_message = cut(message, limits.message) + note + ("" if limits.context else REDUCED_NOTE)
    actions.append(_finish(request, status, reason, status_message, outcome, now))  # gate: result-before-status
    return actions


def _question(response: Response) -> str | None:
    """Return what the model asks: that is what a person has to know."""
    if response.reason != RequestReason.INPUT_REQUIRED or response.session is None:
        return None
    return response.session.question


def _context(response: Response) -> EmacsContext | None:
    context = response.context
    if context is None:
        return None
    buffers = context.get("buffers")
    names = [buffer for buffer in buffers if isinstance(buffer, str)] if isinstance(buffers, list) else []
    texts = {
        key: value[:limit]
        for key, limit in {
            "current_buffer": 1024,
            "major_mode": 256,
            "default_directory": 4096,
            "emacs_version": 64,
        }.items()
        if isinstance(value := context.get(key), str)
    }
    numbers = {
        key: value
        for key in ("buffer_count", "cursor_position")
        if isinstance(value := context.get(key), int) and not isinstance(value, bool) and abs(value) < 2**53
    }
    return EmacsContext.model_validate({"buffers": tuple(name[:1024] for name in names[:200]), **texts, **numbers})


def _result(request: EfritRequest, response: Response, limits: StatusLimits) -> tuple[list[Action], dict[str, Any]]:
    text = response.result or ""
    inline = cut(text, limits.result)
    whole = inline == text and response.result_path is None
    fields: dict[str, Any] = {"result": inline, "truncated": response.truncated or not whole}
    if whole:
        return [], fields
    # The digest is that of the whole, which is stored nowhere when Emacs had to cut it.
    reference = {"bytes": response.result_bytes, "sha256": "" if response.truncated else response.sha256 or ""}
    if response.result_path is not None:
        fields["result_ref"] = ResultRef(workspace_path=response.result_path, **reference)
        return [], fields
    secret = result_secret(request, text)
    fields["result_ref"] = ResultRef(secret_name=secret["metadata"]["name"], key=names.RESULT_KEY, **reference)
    return [StoreResult(request.key, request.metadata.uid, secret)], fields
