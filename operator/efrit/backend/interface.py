"""What a client can do, whatever is behind it: the vocabulary and the `Backend` both backends speak.

Plain immutable values, no I/O, nothing heavy: a command line that only evals must not load pydantic for it. What the
wire defines too (budget, progress, session, usage) is taken from there; the rest are structures of the same library,
because a frozen dataclass takes five times as long to define.
Words (phase, reason, outcome) are those of the custom resources, in both backends.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct
from msgspec.structs import force_setattr

from efrit.backend.errors import Refused
from efrit.backend.printed import unquoted
from efrit.protocol.enums import BROKEN_REASONS, Outcome, PlanReason, RequestReason, RequestType, SessionStatus
from efrit.protocol.enums import RequestPhase as Phase
from efrit.protocol.request import Budget
from efrit.protocol.session import Progress, Session, Usage

if TYPE_CHECKING:
    from efrit.backend.claims import Claim, NewClaim
    from efrit.backend.plans import Plans
    from efrit.backend.pools import Pool, PoolRevision, Scaled, Undone

__all__ = [
    "ANY_INSTANCE",
    "BROKEN_REASONS",
    "Backend",
    "Budget",
    "Error",
    "Finding",
    "Handle",
    "Instance",
    "InstanceStats",
    "InstanceStatus",
    "Outcome",
    "Phase",
    "PlanReason",
    "Progress",
    "Removed",
    "RequestReason",
    "RequestState",
    "RequestType",
    "Session",
    "SessionStatus",
    "Setup",
    "StartStatus",
    "Started",
    "StopStatus",
    "Stopped",
    "Update",
    "Usage",
    "Work",
]


ANY_INSTANCE = "*"
"""In place of an instance's name: the least loaded one. No instance can be called so."""

MAX_LISTED = 10_000
"""Requests that a list of all of them has at most: whoever wants more says how many."""


class InstanceStatus(StrEnum):
    """Whether an instance takes work: running, not running (stopped, suspended, starting), broken."""

    ACTIVE = "active"
    INACTIVE = "inactive"
    ERROR = "error"


class Instance(Struct, frozen=True):
    """One instance. `reason` is a word for programs, `message` a sentence for people.

    `queue_dir`, `daemon_name` and `workspace_dir` are paths and names where the Emacs runs; `namespace` and
    `labels` only a cluster has, and `pool`, whose member it is. `can_start`: it is not active, and work sent to it
    makes it so.
    """

    id: str
    status: InstanceStatus
    reason: str
    message: str = ""
    can_start: bool = False
    queue_dir: str | None = None
    daemon_name: str | None = None
    workspace_dir: str | None = None
    namespace: str | None = None
    labels: Mapping[str, str] = {}
    pool: str | None = None
    emacs_version: str | None = None
    pending: int = 0
    processing: int = 0
    processed: int = 0
    started: datetime | None = None
    uptime_seconds: float | None = None
    last_activity: datetime | None = None

    @property
    def load(self) -> int:
        """Requests that wait or run."""
        return self.pending + self.processing


class InstanceStats(Struct, frozen=True):
    """Figures of one queue: what is there now, and what was answered over its life. Times in seconds."""

    instance: str
    pending: int = 0
    processing: int = 0
    processed: int = 0
    succeeded: int = 0
    failed: int = 0
    interrupted: int = 0
    average_processing_seconds: float = 0.0
    oldest_pending_seconds: float = 0.0
    uptime_seconds: float = 0.0


class Setup(Struct, frozen=True):
    """How to start an instance; None leaves what is configured, or the default.

    The directories and `init` (load the user's init file) are the laptop's, `image` is a cluster's.
    """

    queue_dir: str | None = None
    daemon_name: str | None = None
    workspace_dir: str | None = None
    image: str | None = None
    init: bool | None = None


class StartStatus(StrEnum):
    """What `start` did."""

    STARTED = "started"
    ALREADY_RUNNING = "already_running"


class Started(Struct, frozen=True):
    """The answer to `start`: it runs, or (in a cluster) is to be started; a failure is an exception."""

    status: StartStatus
    message: str
    queue_dir: str
    daemon_name: str


class StopStatus(StrEnum):
    """What `stop` did."""

    STOPPED = "stopped"
    NOT_RUNNING = "not_running"


class Stopped(Struct, frozen=True):
    """The answer to `stop`; what waits in the queue waits on."""

    status: StopStatus
    message: str


class Removed(Struct, frozen=True):
    """The answer to `remove`; `kept` are the directories that were left in place."""

    message: str
    kept: Sequence[str] = ()


class Work(Struct, frozen=True):
    """One request to be. Times in seconds, None: the instance's default.

    Where: `instance` (`*`: the least loaded one), or else `pool` or `selector` (a cluster's), or else `default`.
    `key` makes it idempotent: the same key is the same request, however often it is submitted. `directory`: an
    absolute path on this machine in which it begins; None: the instance's workspace.
    `retry`: run it again if its Emacs dies in the middle of it. `keep`: how long a cluster keeps it once it is over.
    `type` may be given as a string. Raises `Refused` for one that is none.
    """

    type: RequestType
    content: str
    instance: str | None = None
    pool: str | None = None
    selector: Mapping[str, str] | None = None
    timeout: float | None = None
    queue_timeout: float | None = None
    return_context: bool = False
    budget: Budget | None = None
    session: str | None = None
    priority: int = 0
    retry: bool = False
    max_attempts: int | None = None
    key: str | None = None
    keep: float | None = None
    directory: str | None = None

    def __post_init__(self) -> None:
        try:
            force_setattr(self, "type", RequestType(self.type))
        except ValueError:
            raise Refused(f"there is no type of request {self.type!r}", "use eval, command or chat") from None

    def require_content(self) -> None:
        """Raise `Refused` where there is nothing to do, or what cannot be written down."""
        if not self.content.strip():
            raise Refused(
                "there is nothing to do: the content is empty", "give Lisp to an eval, text to a chat or command"
            )
        try:
            self.content.encode()
        except UnicodeEncodeError:
            raise Refused(
                "the content holds half of a surrogate pair, which UTF-8 does not have", "send characters alone"
            ) from None


class Handle(Struct, frozen=True):
    """A request, for as long as it exists: `id` is enough to find it again, from any process.

    `instance` is where it was sent, if that is known; it saves a search, and takes no part in comparisons.
    """

    id: str
    instance: str | None = None

    def __eq__(self, other: object) -> bool:
        return self.id == other.id if isinstance(other, Handle) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.id)


class Error(Struct, frozen=True):
    """What went wrong: `code` for programs, `message` for people."""

    code: str
    message: str


class RequestState(Struct, frozen=True):
    """A request as it is now. Once `final` it never changes again.

    `result` is the beginning of a long one (`truncated`; `Backend.result` gives the `result_bytes` that are kept: all
    of it, unless Emacs has cut it). `output` is what
    was printed, `messages` what Emacs said. `message` says in a sentence where it stands. `reason`
    is a string where a later operator has one that is not known here. `preemptions` is how often
    a pool interrupted it for another request, to run it again.
    """

    handle: Handle
    phase: Phase
    reason: RequestReason | str
    message: str = ""
    type: RequestType | None = None
    content: str | None = None
    outcome: Outcome | None = None
    result: str | None = None
    truncated: bool = False
    result_bytes: int = 0
    output: str = ""
    messages: str = ""
    error: Error | None = None
    context: Mapping[str, Any] | None = None
    session: Session | None = None
    progress: Progress | None = None
    usage: Usage | None = None
    attempt: int = 0
    created: datetime | None = None
    queued: datetime | None = None
    started: datetime | None = None
    completed: datetime | None = None
    execution_seconds: float | None = None
    preemptions: int = 0

    @property
    def final(self) -> bool:
        """Whether it is over."""
        return self.phase.final

    @property
    def text(self) -> str:
        """The result as text: a printed Lisp string without its quotes; empty where there is none."""
        return unquoted(self.result or "")


class Update(Struct, frozen=True):
    """A change of a request: its state has changed, or the model has said more (`text`, to be appended)."""

    state: RequestState | None = None
    text: str = ""


class Finding(Struct, frozen=True):
    """One thing `doctor` has looked at: `remedy` says how to mend what is not `ok`."""

    subject: str
    ok: bool
    detail: str
    remedy: str = ""


class Backend(Protocol):
    """Work for Emacs, and the instances that do it. Failures are `efrit.backend.errors.ClientError`s.

    Several clients, and several calls of one, may be at work at once.
    """

    @property
    def kind(self) -> str:
        """`local` or `cluster`."""

    @property
    def place(self) -> str:
        """Where this is, for people: the configuration file, or the context and namespace."""

    async def close(self, *, handed_over: bool = True) -> None:
        """Close the connections; requests go on. Without `handed_over`, the last responses stay unacknowledged."""

    # Instances

    async def instances(self) -> Sequence[Instance]:
        """Return all instances, by id."""

    async def instance(self, name: str) -> Instance:
        """Return one instance. Raises `InstanceNotFound`."""

    async def start(self, name: str, setup: Setup | None = None) -> Started:
        """Start the instance, create it if it does not exist, and wait until it takes work.

        Raises `NotReady`, `NoEmacs`, `Refused`.
        """

    async def stop(self, name: str, *, now: bool = False) -> Stopped:
        """Stop the instance once its running requests have ended; with `now`, cancel them. Its files stay.

        Raises `InstanceNotFound`.
        """

    async def remove(self, name: str, *, files: bool = False) -> Removed:
        """Forget a stopped instance and delete its queue; with `files`, its workspace as well.

        Raises `InstanceNotFound`, `Refused` while it runs or work waits for it.
        """

    async def stats(self, name: str) -> InstanceStats:
        """Return the figures of the instance's queue. Raises `InstanceNotFound`."""

    def attach_command(self, name: str) -> Sequence[str]:
        """Return the command that shows the instance's Emacs in this terminal. Raises `InstanceNotFound`."""

    async def examine(self) -> Sequence[Finding]:
        """Return what works and what does not, causes before their effects."""

    def planning(self) -> Plans:
        """Return the plans of this backend."""

    # Pools

    async def pools(self) -> Sequence[Pool]:
        """Return all pools, by name. Raises `Refused` on a laptop, which has none."""

    async def pool(self, name: str) -> Pool:
        """Return one pool. Raises `PoolNotFound`, `Refused`."""

    async def scale_pool(self, name: str, replicas: int) -> Scaled:
        """Set how many members the pool is to have. Raises `PoolNotFound`, `Refused` for one that scales itself."""

    async def pool_history(self, name: str) -> Sequence[PoolRevision]:
        """Return the templates of the pool that are kept, the oldest first. Raises `PoolNotFound`, `Refused`."""

    async def undo_pool(self, name: str, to_revision: int | None = None) -> Undone:
        """Give the pool a former template again: that of `to_revision`, or the one before the current.

        Raises `PoolNotFound`, `NotFound` where it is not kept, `NotReady`, `Conflict`, `Refused`.
        """

    # Exclusive claims

    async def claims(self) -> Sequence[Claim]:
        """Return all claims, by name. Raises `Refused` on a laptop, which has no pools."""

    async def claim(self, name: str) -> Claim:
        """Return one claim. Raises `ClaimNotFound`, `Refused`."""

    async def claim_member(self, new: NewClaim) -> Claim:
        """Claim a member of a pool; once this returns, it waits for one.

        Raises `PoolNotFound`, `Refused`, `Conflict`.
        """

    def watch_claim(self, name: str) -> AsyncIterator[Claim]:
        """Yield the states of the claim as they change, the final one last. Raises `ClaimNotFound`, `Refused`."""

    async def release_claim(self, name: str) -> Claim:
        """End the claim. Raises `ClaimNotFound`, `Refused`."""

    # Work

    async def submit(self, work: Work) -> Handle:
        """Submit the work; once this returns, it will get a response.

        Raises `NoInstance`, `InstanceNotFound`, `PoolNotFound`, `NotReady`, `Refused`, `Conflict`.
        """

    def handle_of(self, key: str, instance: str | None = None) -> Handle:
        """Return the handle of the request that was submitted with `key`, if one was."""

    async def get(self, handle: Handle) -> RequestState:
        """Return the present state. Raises `RequestNotFound`."""

    def watch(self, handle: Handle, *, words: bool = False) -> AsyncIterator[Update]:
        """Yield the state, then each change of it, with streamed text in between; end after the final state.

        `words`: yield the model's text even where that costs more (in a cluster, a command in the pod).
        Raises `RequestNotFound`. Ending the iteration does not affect the request.
        """

    async def cancel(self, handle: Handle) -> RequestState:
        """Cancel the request; what it has done stays done. Return its state, which need not be final yet."""

    async def result(self, handle: Handle, *, before_rest: Callable[[], Awaitable[None]] | None = None) -> str:
        """Return the whole result, even a large one. Raises `RequestNotFound`, `NotFinished`, `ResultGone`.

        Raises `ResultTruncated`, which holds the beginning, where Emacs has kept no more. `before_rest` is awaited
        before anything is read but the request itself; what it raises ends the call.
        """

    def log(self, handle: Handle, *, follow: bool = False) -> AsyncIterator[str]:
        """Yield the lines of the request's work log (JSON objects); with `follow`, until the request is finished."""

    async def requests(
        self, instance: str | None = None, *, limit: int | None = None, brief: bool = False
    ) -> Sequence[RequestState]:
        """Return the known requests, oldest first: the open ones and those still kept.

        With `limit`, the newest so many; without, a laptop returns the newest 200 of each instance. `brief`: without
        what may be long (`without_texts`).
        """
