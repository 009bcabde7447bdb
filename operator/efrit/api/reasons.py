"""The fixed phases and reasons of conditions and answers. A word is API: add, never rename."""

from enum import StrEnum


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


UNSTORED_RESULT = "Only the beginning of the result is stored:"
"""Begins what the message of a request says where the Secret of its result was refused; clients look for it."""


class RequestReason(StrEnum):
    """Why a request stands where it stands (`Complete` and `Succeeded` conditions)."""

    PENDING = "Pending"
    INSTANCE_NOT_READY = "InstanceNotReady"
    INSTANCE_SUSPENDED = "InstanceSuspended"
    INSTANCE_UPDATING = "InstanceUpdating"
    BACKPRESSURE = "Backpressure"
    QUEUED = "Queued"
    RUNNING = "Running"

    SUCCEEDED = "Succeeded"
    PARTIAL = "Partial"
    INPUT_REQUIRED = "InputRequired"
    EVAL_ERROR = "EvalError"
    MODEL_ERROR = "ModelError"
    MODEL_NOT_CONFIGURED = "ModelNotConfigured"
    BUDGET_EXHAUSTED = "BudgetExhausted"
    CIRCUIT_BROKEN = "CircuitBroken"
    TIMED_OUT = "TimedOut"
    CANCELLED = "Cancelled"
    INTERRUPTED = "Interrupted"
    REJECTED = "Rejected"

    @property
    def final(self) -> bool:
        """Whether a request with this reason will never change again."""
        return self not in _OPEN_REASONS


_OPEN_REASONS = frozenset(
    {
        RequestReason.PENDING,
        RequestReason.INSTANCE_NOT_READY,
        RequestReason.INSTANCE_SUSPENDED,
        RequestReason.INSTANCE_UPDATING,
        RequestReason.BACKPRESSURE,
        RequestReason.QUEUED,
        RequestReason.RUNNING,
    }
)


class InstanceReason(StrEnum):
    """Why an instance is or is not Ready, Suspended, EmacsResponsive."""

    READY = "Ready"
    CREATING = "Creating"
    STARTING = "Starting"
    ROLLING = "Rolling"
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
    DISK_FULL = "DiskFull"
    DISK_FAILING = "DiskFailing"
    RESPONDING = "Responding"
    NOT_RESPONDING = "NotResponding"
    TERMINATING = "Terminating"


class UpdateReason(StrEnum):
    """Whether the pod of an instance has the current template, and what it waits for (`Updated`)."""

    UP_TO_DATE = "UpToDate"
    HELD = "UpdateHeld"
    QUEUED = "UpdateQueued"
    STOPPED = "UpdateStopped"
    REFUSED = "UpdateRefused"
    DRAINING = "UpdateDraining"
    UPDATING = "Updating"
    FAILED = "UpdateFailed"


class QueueReason(StrEnum):
    """What the queue of an instance is doing (`QueueHealthy`)."""

    IDLE = "Idle"
    WORKING = "Working"
    BACKLOGGED = "Backlogged"
    STALLED = "Stalled"
    DISK_FULL = "DiskFull"
    DISK_FAILING = "DiskFailing"
    UNKNOWN = "Unknown"


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


FINAL_PHASES = frozenset(each.value for each in (*RequestPhase, *PlanPhase) if each.final)
"""The phases of a request or a plan that never changes again, as an object has them."""


class PlanReason(StrEnum):
    """Why a plan stands where it stands (`Complete` and `Succeeded` conditions)."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUSPENDED = "Suspended"
    CANCELLING = "Cancelling"
    BLOCKED = "Blocked"

    SUCCEEDED = "Succeeded"
    PARTIAL = "Partial"
    TASK_FAILED = "TaskFailed"
    BUDGET_EXHAUSTED = "BudgetExhausted"
    CANCELLED = "Cancelled"
    WORKSPACE_FAILED = "WorkspaceFailed"
    REJECTED = "Rejected"
