"""The requests of a plan on this machine: as the engine knows them, as work for the queue, and what became of them.

Pure. The key of the work follows from the plan and the name of the request, so that sending it again is the same one.
"""

from __future__ import annotations

from datetime import datetime

from efrit.api import EfritPlan, EfritRequest, Outcome, RequestPhase, RequestReason, RequestStatus
from efrit.api.meta import rfc3339_micro
from efrit.api.request import MAX_INLINE_RESULT_CHARS, RequestError, SessionState
from efrit.backend.interface import RequestState, Work
from efrit.backend.plans import DIRECTORY
from efrit.plan.engine import Create
from efrit.protocol import RequestType, RetryPolicy

_LONGEST_MESSAGE = 8_000
_LONGEST_CODE = 256


def request_of(plan: EfritPlan, instance: str, create: Create, now: datetime) -> EfritRequest:
    """Return the request that the engine wants created."""
    return EfritRequest.model_validate(
        {
            "metadata": {
                "name": create.name,
                "uid": f"{plan.metadata.uid}/{create.name}",
                "creationTimestamp": rfc3339_micro(now),
            },
            "spec": {**create.spec, "instanceRef": {"name": instance}},
        }
    )


def work_of(plan: EfritPlan, instance: str, request: EfritRequest) -> Work:
    """Return the request as work for the queue."""
    spec = request.spec
    return Work(
        RequestType(spec.type.value),
        spec.content,
        instance=instance,
        timeout=float(spec.timeout_seconds) if spec.timeout_seconds is not None else None,
        budget=spec.budget,
        session=spec.session.id if spec.session is not None else None,
        retry=spec.retry_policy is RetryPolicy.IF_INTERRUPTED,
        max_attempts=spec.max_attempts,
        key=f"plan/{plan.metadata.uid}/{request.metadata.name}",
        directory=plan.metadata.annotations.get(DIRECTORY),
    )


def status_of(state: RequestState, result: str | None, now: datetime) -> RequestStatus:
    """Return the final status of a request, from its final state."""
    reason = RequestReason(state.reason)
    outcome = Outcome(state.outcome.value) if state.outcome is not None else Outcome.FAILURE
    if outcome is Outcome.PARTIAL and reason is RequestReason.SUCCEEDED:
        reason = RequestReason.PARTIAL
    session, error = state.session, state.error
    question = session.question if reason is RequestReason.INPUT_REQUIRED and session is not None else None
    message = question or (error.message if error is not None else state.message)
    problem = RequestError(
        code=(error.code if error is not None else reason.value)[:_LONGEST_CODE], message=message[:_LONGEST_MESSAGE]
    )
    return RequestStatus(
        phase=RequestPhase.SUCCEEDED if outcome is Outcome.SUCCESS else RequestPhase.FAILED,
        reason=reason.value,
        outcome=outcome,
        result=None if result is None else result[:MAX_INLINE_RESULT_CHARS],
        error=None if outcome is Outcome.SUCCESS else problem,
        session=None if session is None else SessionState(id=session.id),
        usage=state.usage,
        attempt=state.attempt,
        completion_time=now,
        execution_seconds=state.execution_seconds,
    )


def final_status(reason: RequestReason, message: str, now: datetime) -> RequestStatus:
    """Return the final status of a request that has no answer."""
    return RequestStatus(
        phase=RequestPhase.FAILED,
        reason=reason.value,
        outcome=Outcome.FAILURE,
        error=RequestError(code=reason.value, message=message),
        completion_time=now,
    )
