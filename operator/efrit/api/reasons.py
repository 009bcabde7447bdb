"""The fixed phases and reasons of conditions and answers. A word is API: add, never rename."""

from enum import StrEnum

from efrit.protocol.enums import (
    UNSTORED_RESULT,
    ClaimPhase,
    InstanceReason,
    PlanPhase,
    PlanReason,
    RequestPhase,
    RequestReason,
)

__all__ = [
    "FINAL_PHASES",
    "UNSTORED_RESULT",
    "ClaimPhase",
    "ClaimReason",
    "InstanceReason",
    "ModelReason",
    "PlanPhase",
    "PlanReason",
    "PoolReason",
    "QueueReason",
    "RequestPhase",
    "RequestReason",
    "SelfCheckReason",
    "UpdateReason",
]


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


class PoolReason(StrEnum):
    """Why a pool is or is not Available, Progressing, Backlogged."""

    MEMBER_READY = "MemberReady"
    NO_MEMBER_READY = "NoMemberReady"
    SCALED_TO_ZERO = "ScaledToZero"
    MEMBERS_UNCHANGED = "MembersUnchanged"
    CREATING = "CreatingMembers"
    UPDATING = "UpdatingMembers"
    REMOVING = "RemovingMembers"
    MEMBER_REFUSED = "MemberRefused"
    TOO_MANY_MEMBERS = "TooManyMembers"
    REVISION_FAILED = "RevisionFailed"
    REQUESTS_PLACED = "RequestsPlaced"
    REQUESTS_WAITING = "RequestsWaiting"
    AUTOSCALING = "Autoscaling"
    REPLICAS_GIVEN = "ReplicasGiven"
    WITHIN_BOUNDS = "WithinBounds"
    AT_MAXIMUM = "AtMaximum"
    AT_MINIMUM = "AtMinimum"
    SCALE_UP_RATE = "ScaleUpRate"


class ClaimReason(StrEnum):
    """Why the member of an exclusive claim can or cannot be used."""

    BOUND = "Bound"
    WAITING = "Waiting"
    STARTING = "Starting"
    POOL_MISSING = "PoolMissing"
    REFUSED = "Refused"
    MEMBER_NOT_READY = "MemberNotReady"
    MEMBER_LOST = "MemberLost"
    EXPIRED = "Expired"
    RELEASED = "Released"


class SelfCheckReason(StrEnum):
    """Whether the Emacs of an instance passes its self-check (`SelfCheckPassed`)."""

    PASSED = "Passed"
    SELF_CHECK_FAILED = "SelfCheckFailed"
    SELF_CHECK_OVERDUE = "SelfCheckOverdue"
    UNKNOWN = "Unknown"


class ModelReason(StrEnum):
    """Whether the key of an instance's model can be used (`ModelReady`)."""

    KEY_READ = "KeyRead"
    KEY_UNREADABLE = "KeyUnreadable"
    KEY_EMPTY = "KeyEmpty"
    KEY_INVALID = "KeyInvalid"
    KEY_TOO_SHORT = "KeyTooShort"
    UNKNOWN = "Unknown"


FINAL_PHASES = frozenset(phase.value for phase in (*RequestPhase, *PlanPhase, *ClaimPhase) if phase.final)
"""The phases of a request, a plan or a claim that never changes again, as an object has them."""
