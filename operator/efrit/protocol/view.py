"""What a bridge tells about its queue: one request, the whole queue, its Emacs, and its errors."""

from enum import StrEnum
from typing import Annotated, Self

from pydantic import Field, model_validator

from efrit.protocol.fields import RequestIdField
from efrit.protocol.model import Attempt, Count, PlainJson, Seconds, WireModel
from efrit.protocol.response import Response
from efrit.protocol.session import Progress
from efrit.protocol.states import EmacsState, RequestState
from efrit.protocol.times import Timestamp

QueueId = Annotated[str, Field(max_length=64)]
"""The queue's own random id; empty while it is not open yet."""

Name = Annotated[str, Field(max_length=64)]
"""A version or the id of a start of Emacs."""

# Linux numbers processes below 2^22; a larger number does not even fit the system call.
Pid = Annotated[int, Field(gt=1, le=2**22)]


class RequestView(WireModel):
    """One request as the bridge sees it.

    `attempt` is 0 until it first runs. `response` is None before the answer, in lists, and in events
    whose answer is too large to inline; then `response_bytes` gives the size of its JSON. `metadata` is the
    request's own, by which its submitter knows it again. `progress` is the last a chat or command told of itself.
    """

    id: RequestIdField
    state: RequestState
    attempt: Attempt = 0
    queued_time: Timestamp | None = None
    started_time: Timestamp | None = None
    response: Response | None = None
    response_bytes: Count | None = None
    metadata: dict[str, PlainJson] | None = None
    progress: Progress | None = None

    @model_validator(mode="after")
    def _has_its_own_answer(self) -> Self:
        if self.response is not None and self.response.id != self.id:
            raise ValueError(f"it carries the answer to {self.response.id}")
        return self


class RequestList(WireModel):
    """Everything not acknowledged yet, without the answers."""

    queue_id: QueueId
    requests: tuple[RequestView, ...] = ()


class EmacsStats(WireModel):
    """The Emacs beside the bridge. Ages in seconds; `busy_seconds` is None when it runs nothing.

    `sessions` are under way with a model; `current` is what occupies Emacs, which one that waits does not.
    """

    alive: bool = False
    responsive: bool = False
    pid: Pid | None = None
    version: Name | None = None
    boot: Name | None = None
    heartbeat_age_seconds: Seconds | None = None
    busy_seconds: Seconds | None = None
    current: RequestIdField | None = None
    sessions: Count = 0


class DiskProblem(StrEnum):
    """Why the volume of a queue takes no work."""

    FULL = "Full"
    FAILING = "Failing"


class DiskStats(WireModel):
    """The volume of a queue: what is left of it, in bytes and inodes, and why it takes no work, since when.

    `total_inodes` is 0 where the file system does not count them.
    """

    free_bytes: Count = 0
    total_bytes: Count = 0
    free_inodes: Count = 0
    total_inodes: Count = 0
    problem: DiskProblem | None = None
    message: Annotated[str, Field(max_length=500)] = ""
    since: Timestamp | None = None


class Stats(WireModel):
    """Figures of one queue.

    `pending`, `processing`, `unacknowledged` count what is there now; `processed` = `succeeded` +
    `failed` counts answers over the life of the volume, `interrupted` those of the failed whose Emacs died. `disk` is
    None where a bridge does not tell.
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


class Heartbeat(WireModel):
    """The file Emacs writes once a second; the only thing it tells about itself.

    `attended` says that a person may be working in this Emacs.
    """

    boot: Name
    pid: Pid
    time: Timestamp
    emacs_version: Name | None = None
    state: EmacsState = EmacsState.IDLE
    current: RequestIdField | None = None
    started: Timestamp | None = None
    timeout: Seconds | None = None
    attempt: Attempt | None = None
    sessions: Count = 0
    attended: bool = False
    problem: str | None = None
    processed: Count = 0
    succeeded: Count = 0
    failed: Count = 0
    interrupted: Count = 0
    total_processing_seconds: Seconds = 0.0


class ErrorDetail(WireModel):
    """`code` is one of those in `efrit.errors`."""

    code: str
    message: str


class ErrorBody(WireModel):
    """The body of every answer that is not 2xx."""

    error: ErrorDetail
