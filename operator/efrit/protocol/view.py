"""What a bridge reports about its queue: one request, the whole queue, its Emacs, and its errors."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Self

from msgspec import Meta

from efrit.protocol.enums import EmacsState, RequestState, RestartReason
from efrit.protocol.fields import RequestIdField
from efrit.protocol.model import Attempt, Count, Seconds, WireModel
from efrit.protocol.process_place import ProcessPlace
from efrit.protocol.response import Response
from efrit.protocol.session import Progress

QueueId = Annotated[str, Meta(max_length=64)]
"""The queue's own random id; empty while it is not open yet."""

Name = Annotated[str, Meta(max_length=64)]
"""A version or the id of a start of Emacs."""

# Linux numbers processes below 2^22; a larger number does not even fit the system call.
Pid = Annotated[int, Meta(gt=1, le=2**22)]


class RequestView(WireModel, frozen=True, kw_only=True):
    """One request as the bridge sees it.

    `attempt` is 0 until it first runs. `response` is None before the answer, in lists, and in events
    whose answer is too large to inline; then `response_bytes` gives the size of its JSON. `metadata` is the
    request's own, by which its submitter knows it again. `progress` is the last that a chat or command reported.
    """

    id: RequestIdField
    state: RequestState
    attempt: Attempt = 0
    queued_time: datetime | None = None
    started_time: datetime | None = None
    response: Response | None = None
    response_bytes: Count | None = None
    metadata: dict[str, Any] | None = None
    progress: Progress | None = None

    def __post_init__(self) -> None:
        """Raise `ValueError` for the answer to another request."""
        super().__post_init__()
        if self.response is not None and self.response.id != self.id:
            raise ValueError(f"it carries the answer to {self.response.id}")


class RequestList(WireModel, frozen=True, kw_only=True):
    """Everything not acknowledged yet, without the answers."""

    queue_id: QueueId
    requests: tuple[RequestView, ...] = ()


class ModelKey(StrEnum):
    """What Emacs finds in the file of the model's key; nothing else of the key is reported (`efrit-secret-state`)."""

    USABLE = "Usable"
    UNREADABLE = "Unreadable"
    EMPTY = "Empty"
    INVALID = "Invalid"
    TOO_SHORT = "TooShort"


ProblemText = Annotated[str, Meta(max_length=300)]
"""What a self-check has found."""


class EmacsRestart(WireModel, frozen=True, kw_only=True):
    """The last time an Emacs was ended for its self-check; `count` says how often that was in a row."""

    reason: RestartReason
    message: ProblemText
    time: datetime
    count: Count = 1


class EmacsStats(WireModel, frozen=True, kw_only=True):
    """The Emacs beside the bridge. Ages in seconds.

    `sessions` are under way with a model; `current` is what occupies Emacs, which one that waits does not.
    `model_key` is None where no model takes a key, or Emacs has not reported it.
    `self_check_problem` is why the self-check of the present Emacs fails; `restarted` is the last restart for that
    reason that this bridge knows of.
    """

    alive: bool = False
    responsive: bool = False
    pid: Pid | None = None
    version: Name | None = None
    boot: Name | None = None
    heartbeat_age_seconds: Seconds | None = None
    current: RequestIdField | None = None
    sessions: Count = 0
    model_key: ModelKey | None = None
    self_check_problem: ProblemText | None = None
    restarted: EmacsRestart | None = None


class DiskProblem(StrEnum):
    """Why the volume of a queue takes no work."""

    FULL = "Full"
    FAILING = "Failing"


class DiskStats(WireModel, frozen=True, kw_only=True):
    """The volume of a queue: what is left of it, in bytes and inodes, and why it takes no work, since when.

    `total_inodes` is 0 where the file system does not count them.
    """

    free_bytes: Count = 0
    total_bytes: Count = 0
    free_inodes: Count = 0
    total_inodes: Count = 0
    problem: DiskProblem | None = None
    message: Annotated[str, Meta(max_length=500)] = ""
    since: datetime | None = None


class Stats(WireModel, frozen=True, kw_only=True):
    """Figures of one queue.

    `pending`, `processing`, `unacknowledged` count what is there now; `processed` = `succeeded` +
    `failed` counts answers over the life of the volume, `interrupted` those of the failed whose Emacs died. `disk` is
    None where a bridge has no figure. `batch_elements` is how many elements a batch may have, 0 where none is taken.
    """

    queue_id: QueueId
    pending: Count = 0
    processing: Count = 0
    unacknowledged: Count = 0
    processed: Count = 0
    succeeded: Count = 0
    failed: Count = 0
    interrupted: Count = 0
    average_processing_seconds: Seconds = 0.0
    oldest_pending_seconds: Seconds = 0.0
    uptime_seconds: Seconds = 0.0
    emacs: EmacsStats = EmacsStats()
    disk: DiskStats | None = None
    batch_elements: Count = 0


class SelfCheckReport(WireModel, frozen=True, kw_only=True):
    """The last self-check of an Emacs: a known form was answered rightly, or `problem` says how not."""

    passed: bool
    time: datetime
    problem: str | None = None


class Heartbeat(WireModel, frozen=True, kw_only=True):
    """The file Emacs writes once a second, or as it says in `rest`; the only thing it reports about itself.

    `server` says where `pid` was given; an earlier Emacs does not. `attended` says that a person may be working in
    this Emacs; then `self_check` is None. `rest`: seconds until the next one, from an Emacs with nothing to do.
    """

    boot: Name
    pid: Pid
    server: ProcessPlace | None = None
    time: datetime
    emacs_version: Name | None = None
    state: EmacsState = EmacsState.IDLE
    current: RequestIdField | None = None
    started: datetime | None = None
    timeout: Seconds | None = None
    attempt: Attempt | None = None
    sessions: Count = 0
    attended: bool = False
    rest: Seconds | None = None
    model_key: ModelKey | None = None
    self_check: SelfCheckReport | None = None
    problem: str | None = None
    processed: Count = 0
    succeeded: Count = 0
    failed: Count = 0
    interrupted: Count = 0
    total_processing_seconds: Seconds = 0.0


class ErrorDetail(WireModel, frozen=True, kw_only=True):
    """`code` is one of those in `efrit.errors`."""

    code: str
    message: str


class ErrorBody(WireModel, frozen=True, kw_only=True):
    """The body of every answer that is not 2xx."""

    error: ErrorDetail

    @classmethod
    def of(cls, code: str, message: str) -> Self:
        """Return the body of an answer that fails so."""
        return cls(error=ErrorDetail(code=code, message=message))
