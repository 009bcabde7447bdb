"""How the engine asks: each request by its name, the same one however often it is asked for.

What a plan does reads as a straight line because of it: `Asking.answered` returns the request that was asked for once
it is final; until then it raises `Settled` with what is to be done now. Pure, like all of the engine.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from efrit.api import EfritPlan, EfritRequest, Outcome, RequestReason
from efrit.api.plan import PlanStep
from efrit.api.reasons import PlanReason
from efrit.errors import InvalidPosition
from efrit.plan import calls

BEGIN, LOOK, AMEND = "begin", "look", "amend"
ACT, COMMIT_ACT = "act", "commit-act"
FACTS, ASSESS, ASSESS_AGAIN = "facts", "assess", "assess-repair"
ADAPT, ADAPT_AGAIN, ADAPT_REFUSED, COMMIT_ADAPT = "adapt", "adapt-repair", "adapt-refused", "commit-adapt"
COMMITS = (COMMIT_ACT, COMMIT_ADAPT, AMEND)
SESSIONS = (ACT, ASSESS, ASSESS_AGAIN, ADAPT, ADAPT_AGAIN, ADAPT_REFUSED)

_PHASES = {
    **dict.fromkeys((BEGIN, LOOK), PlanStep.BEGIN),
    **dict.fromkeys((ACT, COMMIT_ACT), PlanStep.ACT),
    **dict.fromkeys((FACTS, ASSESS, ASSESS_AGAIN), PlanStep.ASSESS),
    **dict.fromkeys((ADAPT, ADAPT_AGAIN, ADAPT_REFUSED, COMMIT_ADAPT), PlanStep.ADAPT),
    AMEND: PlanStep.AMEND,
}

_TRIES = 3
_BETWEEN_TRIES = timedelta(seconds=20)
_EVAL_SECONDS = 300
# What may be otherwise the next time. All of these calls may be repeated.
_WORTH_ANOTHER_TRY = {"efrit-plan-disk", "efrit-plan-git-failed"}
_UNKNOWN_ENDS = {RequestReason.INTERRUPTED, RequestReason.TIMED_OUT, RequestReason.CANCELLED}
OUT_OF_ORDER = "efrit-plan-out-of-order"


@dataclass(frozen=True, slots=True)
class Known:
    """All that a decision rests on."""

    plan: EfritPlan
    requests: Mapping[str, EfritRequest]
    """The plan's own requests by name."""
    results: Mapping[str, str]
    """Their results by name, whole."""
    credentials: str | None = None
    """Where the instance has mounted the Secret of the repository."""
    max_content_bytes: int = 65_536
    """The longest content the instance takes."""


@dataclass(frozen=True, slots=True)
class Create:
    """Create this request, unless it is there."""

    name: str
    what: str
    step: int
    spec: Mapping[str, Any]
    """Of an EfritRequest, without its target."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Wait for what is under way, but look again at this time."""

    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class Finish:
    """The plan is over."""

    outcome: Outcome
    reason: PlanReason
    message: str


Action = Create | Wait | Finish


class Settled(Exception):  # noqa: N818 - no error: the line of what a plan does ends here for now
    """What is to be done now is known: nothing after it can be."""

    def __init__(self, action: Action, message: str, what: str | None = None, waits_for: str | None = None) -> None:
        super().__init__(message)
        self.action = action
        self.what = what
        self.waits_for = waits_for
        self.phase = _PHASES.get(base_of(what)) if what else None


class StepFailed(Exception):  # noqa: N818 - the same: it is what was observed of the visit
    """A step has no answer that could be used; the sentence is what the visit then rests on."""

    def __init__(self, sentence: str) -> None:
        super().__init__(sentence)
        self.sentence = sentence


def failed(reason: PlanReason, message: str) -> Settled:
    """What ends the plan as a failure."""
    return finished(Outcome.FAILURE, reason, message)


def finished(outcome: Outcome, reason: PlanReason, message: str) -> Settled:
    """What ends the plan."""
    return Settled(Finish(outcome, reason, message), message)


@dataclass(slots=True)
class Asking:
    """Finds and asks for the requests of one plan."""

    known: Known
    now: datetime
    _prefix: str = field(init=False)

    def __post_init__(self) -> None:
        meta = self.known.plan.metadata
        mark = hashlib.sha256(meta.uid.encode()).hexdigest()[:8]
        self._prefix = f"{meta.name[:30].rstrip('-.')}-{mark}-"

    @property
    def plan(self) -> EfritPlan:
        """The plan that is decided about."""
        return self.known.plan

    def name(self, step: int, what: str) -> str:
        """Name of a request: short enough for a label, and of no other plan, also none of this name before."""
        return f"{self._prefix}{step}-{what}"

    def request(self, step: int, what: str) -> EfritRequest | None:
        """The request for this, if it was created."""
        return self.known.requests.get(self.name(step, what))

    def parts(self) -> Iterator[tuple[str, int, str]]:
        """Name and step of every request there is, and what it is, a second try like the first."""
        for name in self.known.requests:
            step, _, what = name.removeprefix(self._prefix).partition("-")
            if name.startswith(self._prefix) and what and step.isascii() and step.isdigit():
                yield name, int(step), base_of(what)

    def answered(self, step: int, what: str, spec: Callable[[], Mapping[str, Any]]) -> EfritRequest:
        """The request for this once it is final. Raises `Settled` before."""
        name = self.name(step, what)
        request = self.known.requests.get(name)
        if request is None:
            create = Create(name, what, step, {"retryPolicy": "IfInterrupted", **spec()})
            raise Settled(create, f"{name} is asked for.", what)
        if not request.final:
            state = request.status.reason or "Pending"
            raise Settled(Wait(), f"Waits for {name} ({state}).", what, name)
        if request.status.reason == RequestReason.MODEL_NOT_CONFIGURED:
            raise failed(PlanReason.REJECTED, "The instance has no model: set spec.model of the EfritInstance.")
        return request

    def text(self, request: EfritRequest) -> str:
        """The whole result of a final request."""
        return self.known.results.get(request.metadata.name, request.status.result or "")

    def value(
        self, step: int, function: str, arguments: Callable[[], Mapping[str, Any]], seconds: int = _EVAL_SECONDS
    ) -> dict[str, Any]:
        """What `efrit-plan-FUNCTION` answers. Raises `Settled`, also to try again, and `CallFailed`."""

        def spec() -> Mapping[str, Any]:
            plan = {"plan": self.plan.metadata.name, "uid": self.plan.metadata.uid}
            content = calls.form(function, {**plan, **arguments()})
            if len(content.encode()) > self.known.max_content_bytes:
                raise failed(
                    PlanReason.REJECTED,
                    f"The task tree has become too large for a request ({len(content.encode())} bytes): raise "
                    "spec.limits.maxRequestBytes of the EfritInstance, and begin a new plan.",
                )
            return {"type": "eval", "content": content, "timeoutSeconds": seconds}

        first = self.request(step, function)
        for name in tries(function):
            # What is repeated is repeated word for word.
            request = self.answered(step, name, spec if first is None else lambda: _same(first))
            if request.status.reason == RequestReason.SUCCEEDED:
                try:
                    return calls.value_of(self.text(request))
                except InvalidPosition as error:
                    raise failed(PlanReason.WORKSPACE_FAILED, f"{request.metadata.name}: {error}") from None
            if not _may_be_tried_again(request):
                break
            self.pause(request, _BETWEEN_TRIES, function)
        raise CallFailed(request)

    def pause(self, after: EfritRequest, pause: timedelta, what: str) -> None:
        """Return once this much time has passed since the request ended. Raises `Settled` before."""
        until = (after.status.completion_time or self.now) + pause
        if self.now < until:
            again = f"{after.metadata.name} {problem(after)} It is tried again at {until:%H:%M:%S}."
            raise Settled(Wait(until), again, what)


class CallFailed(Exception):  # noqa: N818 - as above
    """A call of efrit-plan.el was answered with an error that a repetition does not help."""

    def __init__(self, request: EfritRequest) -> None:
        super().__init__(f"{request.metadata.name} {problem(request)}")
        self.request = request

    @property
    def out_of_order(self) -> bool:
        """Whether the repository has other steps than the requests tell."""
        error = self.request.status.error
        return error is not None and error.code == OUT_OF_ORDER

    def as_end(self) -> Settled:
        """The end of the plan that this is."""
        rejected = self.request.status.reason == RequestReason.REJECTED
        return failed(PlanReason.REJECTED if rejected else PlanReason.WORKSPACE_FAILED, str(self))


def tries(what: str) -> Iterator[str]:
    """The names under which one call is made, in order."""
    yield what
    for count in range(2, _TRIES + 1):
        yield f"{what}-{count}"


def base_of(part: str) -> str:
    """The call that `part` is a try of."""
    return re.sub(r"-[0-9]+\Z", "", part)


def problem(request: EfritRequest) -> str:
    """How a request ended, in a sentence without its subject."""
    error = request.status.error
    return f"ended {request.status.reason}: {error.message if error else 'without a message'}"


def tokens(request: EfritRequest) -> tuple[int, int]:
    """Tokens sent, those from the model's cache included, and received."""
    usage = request.status.usage
    if usage is None:
        return 0, 0
    return usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens, usage.output_tokens


def _same(request: EfritRequest) -> Mapping[str, Any]:
    spec = request.spec
    return {"type": spec.type.value, "content": spec.content, "timeoutSeconds": spec.timeout_seconds or _EVAL_SECONDS}


def _may_be_tried_again(request: EfritRequest) -> bool:
    error = request.status.error
    return request.status.reason in _UNKNOWN_ENDS or (error is not None and error.code in _WORTH_ANOTHER_TRY)
