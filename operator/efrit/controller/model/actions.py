"""The vocabulary between decide/ and act/: everything the controller can do, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum, StrEnum
from typing import Any, Literal, NamedTuple

from efrit.api.instance import InstanceHandover
from efrit.controller.model.keys import Key
from efrit.controller.model.pools import PoolRevision
from efrit.controller.model.rollout import UpdateCause
from efrit.protocol import Request


class DecisionOutcome(Enum):
    """What became of the actions of one decision."""

    CARRIED_OUT = "carried out"
    """Each of them, or its call to a bridge goes on."""
    SUPERSEDED = "superseded"
    """One of them raised Superseded: those after it were not begun."""


class Superseded(Exception):  # noqa: N818 - reads as what happened
    """An action found another world than its decision went by: what is left of the decision is void.

    Whatever it found is in the store, which has requeued the keys that it concerns.
    """


class Parked(Superseded):
    """A call to a bridge has to wait for its turn: its key comes back by itself. Timers that were decided on stand.

    problem: why no such call to that bridge is made at all, None where others are under way; no_room: it answers, but
    has no room for a request.
    """

    def __init__(self, message: str, problem: str | None, *, no_room: bool = False) -> None:
        super().__init__(message)
        self.problem = problem
        self.no_room = no_room


ResourceKind = Literal["EfritInstance", "EfritRequest", "EfritPlan", "EfritPool", "EfritClaim"]


@dataclass(frozen=True, slots=True)
class PatchStatus:
    """Write a status, on condition that the object is still the one decided about."""

    kind: ResourceKind
    key: Key
    uid: str
    resource_version: str
    status: Mapping[str, Any]
    """The whole new status as JSON data."""
    old: Mapping[str, Any] = field(default_factory=dict)
    """The status decided about; keys that are gone are removed."""
    created: datetime | None = None
    droppable: bool = False
    """It only reports progress: one that does not succeed is not repeated."""
    closes: bool = False
    """It says of an instance that nothing more is handed over: not sent if something was since the decision."""
    figures_alone: bool = False
    """It says nothing new of an instance but figures."""


class Decision(StrEnum):
    """How the member was chosen that a request of a pool is given to."""

    AWAKE = "Awake"
    WOKEN = "Woken"
    SESSION_HOME = "SessionHome"
    SESSION_LEFT = "SessionLeft"
    MOVED = "Moved"
    PREEMPTING = "Preempting"


class Placed(NamedTuple):
    """That a request is given to a member of its pool."""

    pool: Key
    decision: Decision
    waited: timedelta | None
    """Since its creation; None where another member had it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bind(PatchStatus):
    """Write a status that binds a request to an instance; requests decided about meanwhile count it there already."""

    instance: Key
    placed: Placed | None = None
    """None where it names no EfritPool."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PutBack(PatchStatus):
    """Write a status that binds a request to no instance any more: its run was stopped for another request."""

    pool: Key


@dataclass(frozen=True, slots=True)
class ConfirmLeft:
    """Ask the API server for an object that left the watched selection: deleted, final, or a false alarm."""

    kind: ResourceKind
    key: Key
    uid: str


@dataclass(frozen=True, slots=True)
class ConfirmMissing:
    """Ask the API server for an instance that no watch has reported; where it is there, the decision ends here."""

    instance: Key


@dataclass(frozen=True, slots=True)
class ConfirmHandover:
    """Ask the API server what an instance says of hand-overs; if it is something else, the decision ends here."""

    request_key: Key
    instance: Key
    uid: str
    handover: InstanceHandover | None


@dataclass(frozen=True, slots=True)
class SettleOrphan:
    """Settle work on a bridge whose request is not known: final, deleted, or not seen yet."""

    request_key: Key
    instance: Key
    uid: str


@dataclass(frozen=True, slots=True)
class FindSession:
    """Look for the instance that has the session a request continues."""

    request_key: Key
    uid: str
    session: str


@dataclass(frozen=True, slots=True)
class Submit:
    """Hand a request to the bridge of an instance, if that is still open under this id; safe to repeat."""

    instance: Key
    request_key: Key
    request: Request
    handover_id: str


@dataclass(frozen=True, slots=True)
class CancelWork:
    """Ask the bridge to withdraw a request, or, if `running`, to stop it; safe to repeat.

    With `request`, also where the queue does not have it: a hand-over still on its way then finds it cancelled.
    """

    instance: Key
    request_key: Key
    uid: str
    request: Request | None = None
    running: bool = True


@dataclass(frozen=True, slots=True)
class ReadContent:
    """Read the content of a request from the API server; the request is then decided about at once."""

    request_key: Key
    uid: str


@dataclass(frozen=True, slots=True)
class FetchAnswer:
    """Read an answer that was too large for the event stream."""

    instance: Key
    request_key: Key
    uid: str


@dataclass(frozen=True, slots=True)
class StoreResult:
    """Create the Secret that holds a large result, owned by the request; safe to repeat."""

    request_key: Key
    uid: str
    manifest: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Acknowledge:
    """Tell the bridge that the answer is stored and may go to the archive."""

    instance: Key
    uid: str


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete an object, on condition that it is still the one decided about."""

    kind: ResourceKind
    key: Key
    uid: str
    resource_version: str | None = None
    """If given, also on condition that nobody has changed it since."""


@dataclass(frozen=True, slots=True)
class DeleteLater:
    """Remember to delete a finished object when its time to live is over; safe to repeat."""

    kind: ResourceKind
    key: Key
    uid: str
    due: datetime


@dataclass(frozen=True, slots=True)
class PauseHandover:
    """Hand no more requests to an instance that is about to stop. Takes effect before anything else can happen."""

    instance: Key


@dataclass(frozen=True, slots=True)
class ResumeHandover:
    """Hand requests to an instance again: it is not stopped after all."""

    instance: Key


@dataclass(frozen=True, slots=True)
class RemoveInstance:
    """Delete an instance, if it is still the one decided about and nobody has changed it since.

    Nothing is handed to it meanwhile, whatever is decided about the instance itself.
    """

    instance: Key
    uid: str
    resource_version: str
    only_idle: bool = True
    """Whether the API server is asked for open requests and plans before; where there is one, it stays."""


@dataclass(frozen=True, slots=True)
class ApplyChildren:
    """Apply the child objects of an instance, in this order."""

    instance: Key
    uid: str
    generation: int
    manifests: tuple[Mapping[str, Any], ...]
    digest: str = ""
    """Of all children but the StatefulSet: they are as wanted once this has succeeded."""
    resync: bool = False
    """Whether nothing but a resync calls for it: a child that is known to be as it was applied is left alone."""


@dataclass(frozen=True, slots=True)
class ConfirmClaims:
    """Read the claims of an instance before its pod starts; where one is gone or going, the decision ends here."""

    instance: Key
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ApplySecret:
    """Apply the Secret of an instance alone, in case that it was deleted."""

    instance: Key
    uid: str
    generation: int
    manifest: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class KeepChildren:
    """Apply those children of a refused instance that keep what there is of it safe; the refusal stands.

    A child that is known to be as it was applied is left alone.
    """

    instance: Key
    uid: str
    generation: int
    manifests: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True, slots=True)
class StopPod:
    """Scale the StatefulSet of an instance to zero, and change nothing else of it."""

    instance: Key
    uid: str
    generation: int
    statefulset: str
    statefulset_uid: str


@dataclass(frozen=True, slots=True)
class IsolatePod:
    """Create the NetworkPolicy that a pod of an instance owns."""

    instance: Key
    uid: str
    generation: int
    pod_uid: str
    manifest: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ReserveUpdate:
    """Count an instance as being updated, and hold its new requests back, while its status is being written."""

    instance: Key
    cause: UpdateCause


@dataclass(frozen=True, slots=True)
class TakeFiguresTurn:
    """Have the figures of an instance written in turn with those of others."""

    instance: Key


@dataclass(frozen=True, slots=True)
class ConnectBridge:
    """Keep an event stream open to the bridge of this pod."""

    instance: Key
    instance_uid: str
    pod_uid: str
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class DisconnectBridge:
    """Close the event stream of an instance."""

    instance: Key


@dataclass(frozen=True, slots=True)
class ReadWarningEvents:
    """Look for a sentence of Kubernetes that says why the instance does not start."""

    instance: Key
    pod_uid: str | None = None
    """UID of its pod, None while there is none: then what is looked for is why none is created."""
    statefulset_uid: str | None = None
    claims: tuple[tuple[str, str], ...] = ()
    """Names and UIDs of its PersistentVolumeClaims that are not bound: nothing is wrong with one that is."""
    after: datetime | None = None
    """When its pod, or the last one that it had, was created: what kept that from being created is over."""


@dataclass(frozen=True, slots=True)
class Wake:
    """Decide about an instance again: a request waits for it."""

    instance: Key


@dataclass(frozen=True, slots=True)
class Record:
    """Publish an Event that a person should notice."""

    kind: ResourceKind
    key: Key
    uid: str
    type: Literal["Normal", "Warning"]
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class ListRequests:
    """Learn which requests a plan has; whoever led before may have made some."""

    plan: Key
    uid: str


@dataclass(frozen=True, slots=True)
class ReadResult:
    """Read a result of a plan's request that did not fit into its status."""

    plan: Key
    plan_uid: str
    name: str
    uid: str
    sha256: str
    beginning: str
    """What the status has of it: taken where the whole cannot be had."""


@dataclass(frozen=True, slots=True)
class ConfirmPlan:
    """Ask the API server for a plan, of which a request went; where it is gone, the decision ends here."""

    plan: Key
    uid: str


@dataclass(frozen=True, slots=True)
class CreateRequest:
    """Create the next request of a plan; safe to repeat, its name says which it is."""

    plan: Key
    plan_uid: str
    manifest: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class CancelRequest:
    """Set `spec.cancel` of a plan's request; safe to repeat."""

    key: Key
    uid: str


@dataclass(frozen=True, slots=True)
class CreateMember:
    """Create a member of a pool; the API server completes its name. One too many is deleted again."""

    pool: Key
    pool_uid: str
    manifest: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ApplyDisruptionBudget:
    """Make or change the PodDisruptionBudget of a pool; create: also where there is none."""

    pool: Key
    pool_uid: str
    manifest: Mapping[str, Any]
    create: bool


@dataclass(frozen=True, slots=True)
class ReleaseDisruptionBudget:
    """Have the PodDisruptionBudget that a pool has left select nothing, and be deleted; none is created."""

    pool: Key
    pool_uid: str
    manifest: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ReadHistory:
    """Learn which templates of a pool are kept; whoever led before may have written some."""

    pool: Key
    pool_uid: str


@dataclass(frozen=True, slots=True)
class KeepRevision:
    """Keep the current template of a pool, by a ControllerRevision with the highest number."""

    pool: Key
    pool_uid: str
    digest: str
    manifest: Mapping[str, Any]
    former: PoolRevision | None = None
    """It is kept already, by a lower number."""


@dataclass(frozen=True, slots=True)
class RemoveRevision:
    """Keep a former template of a pool no more, if its ControllerRevision is as it was read."""

    pool: Key
    pool_uid: str
    revision: PoolRevision


@dataclass(frozen=True, slots=True)
class Scale:
    """Remember how many members a pool needs, and is to have from now on."""

    pool: Key
    pool_uid: str
    needed: int
    wanted: int
    before: int | None = None
    """How many it was to have until now; None where that is not known."""
    reason: str = ""
    """What limits the number."""
    cause: str = ""
    """Why it is another one than before, as a sentence."""


@dataclass(frozen=True, slots=True)
class Drain:
    """Place requests of a pool on these members no more. Takes effect before anything else can happen."""

    pool: Key
    pool_uid: str
    members: frozenset[str]


@dataclass(frozen=True, slots=True)
class TakeMember:
    """Make an exclusive claim the owner of a member, if that has not changed. It leaves its pool at once."""

    claim: Key
    claim_uid: str
    instance: Key
    uid: str
    resource_version: str


@dataclass(frozen=True, slots=True)
class ReturnMember:
    """Make a pool the owner of a member again that an exclusive claim has, if that has not changed."""

    instance: Key
    uid: str
    resource_version: str
    pool: str
    pool_uid: str


@dataclass(frozen=True, slots=True)
class RequeueAfter:
    """Decide about the same object again after this time."""

    after: timedelta


Action = (
    PatchStatus
    | Bind
    | PutBack
    | ConfirmLeft
    | ConfirmMissing
    | ConfirmHandover
    | SettleOrphan
    | FindSession
    | Submit
    | CancelWork
    | FetchAnswer
    | ReadContent
    | StoreResult
    | Acknowledge
    | Delete
    | DeleteLater
    | PauseHandover
    | ResumeHandover
    | RemoveInstance
    | ApplyChildren
    | ApplySecret
    | KeepChildren
    | StopPod
    | IsolatePod
    | ConfirmClaims
    | ReserveUpdate
    | TakeFiguresTurn
    | ConnectBridge
    | DisconnectBridge
    | ReadWarningEvents
    | Wake
    | Record
    | ListRequests
    | ReadResult
    | ConfirmPlan
    | CreateRequest
    | CancelRequest
    | CreateMember
    | ApplyDisruptionBudget
    | ReleaseDisruptionBudget
    | ReadHistory
    | KeepRevision
    | RemoveRevision
    | Drain
    | Scale
    | TakeMember
    | ReturnMember
    | RequeueAfter
)
