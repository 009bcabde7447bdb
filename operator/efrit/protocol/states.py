"""The fixed vocabularies of the wire. Pure; Lisp and the CRDs use the same words (tests compare them)."""

from enum import StrEnum
from typing import Literal

PROTOCOL_VERSION = "1.0.0"
"""Version of the file format; a reader accepts any `1.x.y`."""

EventName = Literal["reset", "request", "stats"]
"""Names of the events a bridge streams."""


class RequestType(StrEnum):
    """What is asked for. Only `eval` and `status` need no model."""

    EVAL = "eval"
    COMMAND = "command"
    CHAT = "chat"
    STATUS = "status"

    @property
    def is_session(self) -> bool:
        """Whether it talks with a model: it is under way without keeping Emacs busy all the time."""
        return self in (RequestType.COMMAND, RequestType.CHAT)


class RetryPolicy(StrEnum):
    """Whether a request whose Emacs died while running it may run once more."""

    NEVER = "never"
    IF_INTERRUPTED = "if-interrupted"


class RequestState(StrEnum):
    """Where a request is. It moves down this list; only a retry goes back to `queued`."""

    QUEUED = "queued"
    RUNNING = "running"
    ANSWERED = "answered"
    ACKNOWLEDGED = "acknowledged"

    @property
    def final(self) -> bool:
        """Whether the answer is known."""
        return self in (RequestState.ANSWERED, RequestState.ACKNOWLEDGED)


class ResponseStatus(StrEnum):
    """The answer in one word, as every 1.0.0 client reads it."""

    SUCCESS = "success"
    ERROR = "error"
    TIMEOUT = "timeout"


class Reason(StrEnum):
    """Why the request ended as it did."""

    SUCCEEDED = "Succeeded"
    EVAL_ERROR = "EvalError"
    TIMED_OUT = "TimedOut"
    CANCELLED = "Cancelled"
    INTERRUPTED = "Interrupted"
    REJECTED = "Rejected"
    MODEL_NOT_CONFIGURED = "ModelNotConfigured"
    MODEL_ERROR = "ModelError"
    INPUT_REQUIRED = "InputRequired"
    BUDGET_EXHAUSTED = "BudgetExhausted"
    CIRCUIT_BROKEN = "CircuitBroken"
    PARTIAL = "Partial"

    @property
    def status(self) -> ResponseStatus:
        """The status word that goes with this reason."""
        if self is Reason.SUCCEEDED:
            return ResponseStatus.SUCCESS
        return ResponseStatus.TIMEOUT if self is Reason.TIMED_OUT else ResponseStatus.ERROR


class Outcome(StrEnum):
    """How much of the work was done. Partial is never called success."""

    SUCCESS = "Success"
    PARTIAL = "Partial"
    FAILURE = "Failure"


class SessionStatus(StrEnum):
    """Whether the model wants to go on."""

    CONTINUE = "continue"
    COMPLETE = "complete"
    NEED_INPUT = "need-input"


class EmacsState(StrEnum):
    """What Emacs says it is doing, in its heartbeat."""

    IDLE = "idle"
    BUSY = "busy"
    DEGRADED = "degraded"
