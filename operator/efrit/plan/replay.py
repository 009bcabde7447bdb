"""Durable execution by replay: a procedure asks, the recorded requests answer, the first open question is what to do.

A procedure is a generator: `request = yield from ask(…)` reads like a call that returns once the request is final.
Nothing is kept between two decisions. `replay` runs the procedure from its start, sends it each request that is final
and stops at the first that is not. So a procedure is deterministic: it reads the snapshot, and neither a clock nor
anything else. Where a recorded request is not an answer to the question, the plan ends with an error instead of going
astray. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeVar

from efrit.api import EfritRequest, Outcome, RequestReason
from efrit.api.reasons import PlanReason
from efrit.errors import InvalidPlanRecord
from efrit.plan import lisp_calls
from efrit.plan.snapshot import Part, Snapshot, attempts_at, problem
from efrit.protocol import RequestType

_RETRY_PAUSE = timedelta(seconds=20)
_EVAL_SECONDS = 300
_MAX_QUESTIONS = 1_000
# What may be different the next time. All of these calls may be repeated.
_RETRYABLE_CODES = {"efrit-plan-disk", "efrit-plan-git-failed", "efrit-plan-no-credentials"}
_UNKNOWN_ENDS = {RequestReason.INTERRUPTED, RequestReason.TIMED_OUT, RequestReason.CANCELLED}
_OUT_OF_ORDER = "efrit-plan-out-of-order"

Spec = Mapping[str, Any]
"""Of an EfritRequest, without its target."""


# What is to be done.


@dataclass(frozen=True, slots=True)
class Create:
    """Create this request, unless it is there."""

    name: str
    attempt: str
    """The part of the step, with the number of the attempt from the second on."""
    step: int
    spec: Spec


@dataclass(frozen=True, slots=True)
class Wait:
    """Wait for what is under way, and decide again at this time at the latest."""

    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class Finish:
    """End the plan."""

    outcome: Outcome
    reason: PlanReason
    message: str


Action = Create | Wait | Finish


@dataclass(frozen=True, slots=True)
class Stop:
    """Where a replay stopped."""

    action: Action
    message: str
    part: Part | None = None
    """What the open question is about."""
    request: EfritRequest | None = None
    """The request under way that has to end first."""


# What a procedure asks.


@dataclass(frozen=True, slots=True)
class Ask:
    """A question that one request answers."""

    step: int
    part: Part
    attempt: str
    spec: Callable[[], Spec]
    """Called only when the request has to be created."""


@dataclass(frozen=True, slots=True)
class Sleep:
    """A pause after a request has failed, before this part goes on."""

    request: EfritRequest
    duration: timedelta
    part: Part


_Result = TypeVar("_Result")
Procedure = Generator[Ask | Sleep, Any, _Result]


class PlanError(Exception):
    """The plan cannot go on."""

    def __init__(self, reason: PlanReason, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class ReplayError(PlanError):
    """A recorded request is not an answer to the question that the procedure asks."""


class CallError(PlanError):
    """A call of efrit-plan.el ended with an error that a repetition does not help."""

    def __init__(self, request: EfritRequest) -> None:
        rejected = request.status.reason == RequestReason.REJECTED
        reason = PlanReason.REJECTED if rejected else PlanReason.WORKSPACE_FAILED
        super().__init__(reason, f"{request.metadata.name} {problem(request)}")
        error = request.status.error
        self.out_of_order = error is not None and error.code == _OUT_OF_ORDER
        """Whether the repository has other steps than the requests record."""


def ask(step: int, part: Part, spec: Callable[[], Spec], attempt: str | None = None) -> Procedure[EfritRequest]:
    """Return the request of this part once it is final."""
    request: EfritRequest = yield Ask(step, part, attempt or part.value, spec)
    if request.status.reason == RequestReason.MODEL_NOT_CONFIGURED:
        raise PlanError(
            PlanReason.REJECTED,
            "The instance has no model: set its spec.model, or EFRIT_MODEL_NAME on a laptop, and create a new plan.",
        )
    return request


def call_lisp(
    snapshot: Snapshot,
    step: int,
    part: Part,
    arguments: Callable[[], Mapping[str, Any]],
    timeout_seconds: int = _EVAL_SECONDS,
) -> Procedure[dict[str, Any]]:
    """Return what `efrit-plan-PART` answers, after up to three attempts. Raises `CallError`."""
    first = snapshot.request(step, part)

    def spec() -> Spec:
        # An attempt repeats the content of the first one byte for byte, but for where the credentials are.
        if first is None:
            return _call_spec(snapshot, part, arguments(), timeout_seconds)
        return _spec_of(snapshot, part, first)

    for attempt in attempts_at(part):
        request = yield from ask(step, part, spec, attempt)
        if request.status.reason == RequestReason.SUCCEEDED:
            try:
                return lisp_calls.value_of(snapshot.text(request))
            except InvalidPlanRecord as error:
                raise PlanError(PlanReason.WORKSPACE_FAILED, f"{request.metadata.name}: {error}") from None
        if not _is_retryable(request):
            break
        yield Sleep(request, _RETRY_PAUSE, part)
    raise CallError(request)


def replay(procedure: Procedure[Finish], snapshot: Snapshot, now: datetime) -> Stop:
    """Return where the procedure stops: at its end, at an error, or at the first question that is still open."""
    answer: EfritRequest | None = None
    with closing(procedure):
        try:
            for _ in range(_MAX_QUESTIONS):
                question = procedure.send(answer)
                if isinstance(question, Ask):
                    answer = snapshot.request(question.step, question.attempt)
                    stop = _open_question(question, answer, snapshot)
                else:
                    answer, stop = None, _open_pause(question, now)
                if stop is not None:
                    return stop
        except StopIteration as end:
            return stop_at_end(end.value)
        except PlanError as error:
            return stop_at_end(Finish(Outcome.FAILURE, error.reason, str(error)))
    raise AssertionError("the procedure of a plan asks without end")


def stop_at_end(finish: Finish) -> Stop:
    """Return the stop at the end of a plan."""
    return Stop(finish, finish.message)


def budget_exhausted(budget: str) -> Finish:
    """Return the end of a plan that has used up a budget."""
    message = f"The budget of {budget} is used up. Completed tasks stay done."
    return Finish(Outcome.PARTIAL, PlanReason.BUDGET_EXHAUSTED, message)


def check_answer(request: EfritRequest, part: Part) -> None:
    """Raise `ReplayError` for a request that this part of a plan cannot have made."""
    spec = request.spec
    is_call = spec.type == RequestType.EVAL
    if spec.type != part.request_type or (is_call and not lisp_calls.is_call_of(part, spec.content)):
        same_type = spec.type == part.request_type
        difference = "calls another function" if same_type else f"has the type {spec.type.value}"
        call = f"a call of efrit-plan-{part}"
        expected = call if part.request_type == RequestType.EVAL else part.request_type.value
        raise ReplayError(
            PlanReason.REJECTED,
            f"Request {request.metadata.name} {difference}, but the plan needs {expected} here: it was created "
            "by somebody else, or by an incompatible version of the operator. Create a new plan.",
        )


def _open_question(question: Ask, request: EfritRequest | None, snapshot: Snapshot) -> Stop | None:
    name = snapshot.name(question.step, question.attempt)
    if request is None:
        spec = {"retryPolicy": "IfInterrupted", **question.spec()}
        return Stop(Create(name, question.attempt, question.step, spec), f"Creating request {name}.", question.part)
    check_answer(request, question.part)  # gate: check-answer
    if request.final:
        return None
    return Stop(Wait(), f"Waiting for request {name} ({request.status.reason or 'Pending'}).", question.part, request)


def _open_pause(pause: Sleep, now: datetime) -> Stop | None:
    until = (pause.request.status.completion_time or now) + pause.duration
    if now >= until:
        return None
    name = pause.request.metadata.name
    return Stop(
        Wait(until), f"{name} {problem(pause.request)} The next attempt is at {until:%H:%M:%S} UTC.", pause.part
    )


def _call_spec(snapshot: Snapshot, part: Part, arguments: Mapping[str, Any], timeout_seconds: int) -> Spec:
    meta = snapshot.plan.metadata
    content = lisp_calls.form(part, {"plan": meta.name, "uid": meta.uid, **arguments})
    size = len(content.encode())
    if size > snapshot.max_content_bytes:
        raise PlanError(
            PlanReason.REJECTED,
            f"The task tree is too large for a request ({size} bytes, at most {snapshot.max_content_bytes}): divide "
            "the work into several plans, or raise spec.limits.maxRequestBytes of the instance in a cluster and "
            "create a new plan.",
        )
    return {"type": "eval", "content": content, "timeoutSeconds": snapshot.allowed_seconds(timeout_seconds)}


def _spec_of(snapshot: Snapshot, part: Part, request: EfritRequest) -> Spec:
    spec = request.spec
    seconds = snapshot.allowed_seconds(spec.timeout_seconds or _EVAL_SECONDS)
    content = _with_credentials(snapshot, spec.content) if part is Part.BEGIN else spec.content
    return {"type": spec.type.value, "content": content, "timeoutSeconds": seconds}


def _with_credentials(snapshot: Snapshot, content: str) -> str:
    """Return the content of a first request that reads the credentials where the instance has them now."""
    arguments = lisp_calls.arguments_of(content)
    environment = arguments.get("environment") or {}
    if snapshot.credentials is None or environment.get("credentialsFile") in (None, snapshot.credentials):
        return content
    environment = {**environment, "credentialsFile": snapshot.credentials}
    return lisp_calls.form(Part.BEGIN, {**arguments, "environment": environment})


def _is_retryable(request: EfritRequest) -> bool:
    error = request.status.error
    return request.status.reason in _UNKNOWN_ENDS or (error is not None and error.code in _RETRYABLE_CODES)
