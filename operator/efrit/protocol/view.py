"""What a bridge tells about its queue: one request, the whole queue, its Emacs, and its errors."""

from pydantic import Field, JsonValue

from efrit.protocol.ids import RequestIdField
from efrit.protocol.model import WireModel
from efrit.protocol.response import Response
from efrit.protocol.states import EmacsState, RequestState
from efrit.protocol.times import Timestamp


class RequestView(WireModel):
    """One request as the bridge sees it.

    `attempt` is 0 until it first runs. `response` is None before the answer, in lists, and in events
    whose answer is too large to inline; then `response_bytes` gives the size of its JSON. `metadata` is the
    request's own, by which its submitter knows it again.
    """

    id: RequestIdField
    state: RequestState
    attempt: int = Field(default=0, ge=0)
    queued_time: Timestamp | None = None
    started_time: Timestamp | None = None
    response: Response | None = None
    response_bytes: int | None = None
    metadata: dict[str, JsonValue] | None = None


class RequestList(WireModel):
    """Everything not acknowledged yet, without the answers."""

    queue_id: str
    requests: tuple[RequestView, ...] = ()


class EmacsStats(WireModel):
    """The Emacs beside the bridge. Ages in seconds; `busy_seconds` is None when it runs nothing."""

    alive: bool = False
    responsive: bool = False
    pid: int | None = None
    version: str | None = None
    boot: str | None = None
    heartbeat_age_seconds: float | None = None
    busy_seconds: float | None = None
    current: str | None = None


class Stats(WireModel):
    """Figures of one queue.

    `pending`, `processing`, `unacknowledged` count what is there now; `processed` = `succeeded` +
    `failed` counts answers over the life of the volume, `interrupted` those of the failed whose Emacs died.
    """

    queue_id: str
    pending: int = 0
    processing: int = 0
    unacknowledged: int = 0
    processed: int = 0
    succeeded: int = 0
    failed: int = 0
    interrupted: int = 0
    average_processing_seconds: float = 0.0
    oldest_pending_seconds: float = 0.0
    uptime_seconds: float = 0.0
    emacs: EmacsStats = EmacsStats()


class Heartbeat(WireModel):
    """The file Emacs writes once a second; the only thing it tells about itself."""

    boot: str
    pid: int = Field(gt=1)
    time: Timestamp
    emacs_version: str | None = None
    state: EmacsState = EmacsState.IDLE
    current: str | None = None
    started: Timestamp | None = None
    timeout: float | None = None
    attempt: int | None = None
    processed: int = 0
    succeeded: int = 0
    failed: int = 0
    interrupted: int = 0
    total_processing_seconds: float = 0.0


class ErrorDetail(WireModel):
    """`code` is one of those in `efrit.errors`."""

    code: str
    message: str


class ErrorBody(WireModel):
    """The body of every answer that is not 2xx."""

    error: ErrorDetail
