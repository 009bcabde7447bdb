"""The fixed words of the wire and of the resources. Pure; docs/dev/contracts.toml has those that Lisp spells too.

A word is API: add, never rename.
"""

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


class RequestPhase(StrEnum):
    """Where a request stands, for selectors and the printer column."""

    PENDING = "Pending"
    QUEUED = "Queued"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"

    @property
    def final(self) -> bool:
        """Whether a request in this phase never changes again."""
        return self in (RequestPhase.SUCCEEDED, RequestPhase.FAILED)


class ClaimPhase(StrEnum):
    """Where an exclusive claim stands."""

    PENDING = "Pending"
    BOUND = "Bound"
    EXPIRED = "Expired"
    RELEASED = "Released"
    FAILED = "Failed"

    @property
    def final(self) -> bool:
        """Whether the claim has ended."""
        return self in (ClaimPhase.EXPIRED, ClaimPhase.RELEASED, ClaimPhase.FAILED)


class RequestReason(StrEnum):
    """Why a request stands where it stands: first the open reasons, then those that end it, which answers have."""

    PENDING = "Pending"
    INSTANCE_NOT_READY = "InstanceNotReady"
    INSTANCE_SUSPENDED = "InstanceSuspended"
    INSTANCE_UPDATING = "InstanceUpdating"
    BACKPRESSURE = "Backpressure"
    PREEMPTING = "Preempting"
    PREEMPTED = "Preempted"
    QUEUED = "Queued"
    RUNNING = "Running"

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
    def final(self) -> bool:
        """Whether a request with this reason will never change again."""
        return self not in _OPEN_REASONS

    @property
    def status(self) -> ResponseStatus:
        """The status word of an answer that goes with this reason."""
        if self is RequestReason.SUCCEEDED:
            return ResponseStatus.SUCCESS
        return ResponseStatus.TIMEOUT if self is RequestReason.TIMED_OUT else ResponseStatus.ERROR


_OPEN_REASONS = frozenset(
    {
        RequestReason.PENDING,
        RequestReason.INSTANCE_NOT_READY,
        RequestReason.INSTANCE_SUSPENDED,
        RequestReason.INSTANCE_UPDATING,
        RequestReason.BACKPRESSURE,
        RequestReason.PREEMPTING,
        RequestReason.PREEMPTED,
        RequestReason.QUEUED,
        RequestReason.RUNNING,
    }
)
FINAL_REASONS = tuple(reason for reason in RequestReason if reason.final)
"""The reasons an answer can have."""


UNSTORED_RESULT = "Only the beginning of the result is stored:"
"""Begins what the message of a request says where the Secret of its result was refused; clients look for it."""


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


FEWEST_KEY_CHARACTERS = 8
"""Emacs refuses a shorter key of a model (docs/dev/contracts.toml)."""


class RestartReason(StrEnum):
    """Why an idle Emacs was ended so that another one serves."""

    SELF_CHECK_FAILED = "SelfCheckFailed"
    SELF_CHECK_OVERDUE = "SelfCheckOverdue"


class EmacsState(StrEnum):
    """What Emacs says it is doing, in its heartbeat."""

    IDLE = "idle"
    BUSY = "busy"
    DEGRADED = "degraded"


class InstanceReason(StrEnum):
    """Why an instance is or is not Ready, Suspended, EmacsResponsive."""

    READY = "Ready"
    CREATING = "Creating"
    STARTING = "Starting"
    ROLLING = "Rolling"
    DELETING = "Deleting"
    SUSPENDING = "Suspending"
    SUSPENDED = "Suspended"
    SUSPENDED_IDLE = "SuspendedIdle"
    RUNNING = "Running"
    UNSCHEDULABLE = "Unschedulable"
    CLAIM_TERMINATING = "ClaimTerminating"
    VOLUME_PENDING = "VolumePending"
    IMAGE_PULL_FAILED = "ImagePullFailed"
    CONFIG_MISSING = "ConfigMissing"
    NODE_LOST = "NodeLost"
    CRASH_LOOPING = "CrashLooping"
    CHILD_REFUSED = "ChildRefused"
    BRIDGE_UNREACHABLE = "BridgeUnreachable"
    BRIDGE_UNRESPONSIVE = "BridgeUnresponsive"
    DISK_FULL = "DiskFull"
    DISK_FAILING = "DiskFailing"
    RESPONDING = "Responding"
    NOT_RESPONDING = "NotResponding"
    SELF_CHECK_FAILED = "SelfCheckFailed"


BROKEN_REASONS = frozenset(
    {
        InstanceReason.UNSCHEDULABLE,
        InstanceReason.VOLUME_PENDING,
        InstanceReason.IMAGE_PULL_FAILED,
        InstanceReason.CONFIG_MISSING,
        InstanceReason.NODE_LOST,
        InstanceReason.CRASH_LOOPING,
        InstanceReason.CHILD_REFUSED,
        InstanceReason.BRIDGE_UNREACHABLE,
        InstanceReason.BRIDGE_UNRESPONSIVE,
        InstanceReason.DISK_FULL,
        InstanceReason.DISK_FAILING,
        InstanceReason.NOT_RESPONDING,
        InstanceReason.SELF_CHECK_FAILED,
    }
)
"""Why an instance is broken: it does not start or serve before somebody mends something, or Kubernetes does."""


class PlanPhase(StrEnum):
    """Where a plan stands, for selectors and the printer column."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUSPENDED = "Suspended"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"

    @property
    def final(self) -> bool:
        """Whether a plan in this phase never changes again."""
        return self in (PlanPhase.SUCCEEDED, PlanPhase.FAILED)


class PlanReason(StrEnum):
    """Why a plan stands where it stands (`Complete` and `Succeeded` conditions)."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUSPENDED = "Suspended"
    CANCELLING = "Cancelling"
    BLOCKED = "Blocked"

    SUCCEEDED = "Succeeded"
    TASK_FAILED = "TaskFailed"
    BUDGET_EXHAUSTED = "BudgetExhausted"
    CANCELLED = "Cancelled"
    WORKSPACE_FAILED = "WorkspaceFailed"
    REJECTED = "Rejected"
