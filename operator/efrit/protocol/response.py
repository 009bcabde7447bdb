"""An answer as it lies in responses/ and travels to the controller."""

from collections.abc import Callable
from datetime import datetime
from typing import Annotated, Any

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from efrit.errors import InvalidResponse, ProtocolError
from efrit.protocol.enums import PROTOCOL_VERSION, Outcome, RequestReason, ResponseStatus
from efrit.protocol.fields import RequestIdField
from efrit.protocol.ids import RequestId
from efrit.protocol.json_limits import exceeds_part_limit
from efrit.protocol.model import Attempt, Count, PassThroughModel, WireModel, check_round_trip, read
from efrit.protocol.session import Progress, Session, Usage

NOT_BEGUN = "NotBegun"
"""The error code of an answer which says that the request was given back by a queue that ends with its pod."""

RESULTS = ".efrit/results"
"""Where in its workspace Emacs leaves results that are too long for an answer."""


_RunSeconds = Annotated[float, Meta(ge=0, le=1e9)]


class Response(PassThroughModel, frozen=True, kw_only=True):
    """The one answer to one request.

    `execution_time` in seconds. `result_path` names the file that has the result where `result` holds only its
    beginning; `result_bytes` is the size of what is kept: of a result that was cut (`truncated`), of what is left of
    it. `sha256` is that of the whole.
    """

    id: RequestIdField
    version: str = PROTOCOL_VERSION
    timestamp: datetime | None = None
    status: ResponseStatus
    result: str | None = None
    error: str | None = None
    execution_time: _RunSeconds = 0.0
    context: dict[str, Any] | None = None
    reason: RequestReason
    outcome: Outcome
    attempt: Attempt = 0
    sha256: Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")] | None = None
    output: str = ""
    messages: str = ""
    truncated: bool = False
    result_bytes: Count = 0
    result_path: Annotated[str, Meta(max_length=1024)] | None = None
    error_code: str | None = None
    started: datetime | None = None
    session: Session | None = None
    progress: Progress | None = None
    usage: Usage | None = None

    def __post_init__(self) -> None:
        """Raise `ValueError` for an answer that contradicts itself."""
        super().__post_init__()
        if not self.reason.final:
            raise ValueError(f"reason {self.reason} ends no request")
        if _contradicts_itself(self.status, self.reason, self.outcome):
            raise ValueError(f"status {self.status}, reason {self.reason} and outcome {self.outcome} contradict")
        if self.result_path is not None and not _is_result_file(self.result_path, self.id):
            raise ValueError(f"result_path must be /…/{RESULTS}/{self.id}.txt")

    @property
    def is_given_back(self) -> bool:
        """Whether it is none: the queue ended before the request began, and another may run it."""
        is_unbegun = self.error_code == NOT_BEGUN and self.reason is RequestReason.INTERRUPTED
        return is_unbegun and self.started is None and self.attempt == 0

    @classmethod
    def complete(cls, value: dict[str, Any]) -> dict[str, Any]:
        """Return `value` with the reason and outcome that a 1.0.0 writer says with `status`; null stands for absent.

        A reason of a later version is concluded, too. What only accompanies an answer is left out where it cannot be
        read: no answer is lost for it.
        """
        filled = {key: member for key, member in value.items() if member is not None}
        if isinstance(word := filled.get("reason"), str) and word not in _REASONS:
            del filled["reason"]
        reason = filled.setdefault("reason", _PLAIN.get(str(filled.get("status")), RequestReason.EVAL_ERROR))
        filled.setdefault("outcome", Outcome.SUCCESS if reason == RequestReason.SUCCEEDED else Outcome.FAILURE)
        if isinstance(text := filled.get("context"), str):
            filled["context"] = _object_in(text)
        for key, kind in _ACCOMPANYING.items():
            if key in filled and not _is_readable(kind, filled[key]):
                del filled[key]
        return filled

    @classmethod
    def _error(cls) -> Callable[[str], ProtocolError]:
        return InvalidResponse


_PLAIN: dict[str, RequestReason] = {
    ResponseStatus.SUCCESS: RequestReason.SUCCEEDED,
    ResponseStatus.TIMEOUT: RequestReason.TIMED_OUT,
}
_REASONS: frozenset[str] = frozenset(RequestReason)

_ACCOMPANYING: dict[str, Any] = {
    "timestamp": datetime,
    "started": datetime,
    "execution_time": _RunSeconds,
    "attempt": Attempt,
    "context": dict[str, Any],
    "output": str,
    "messages": str,
    "result_bytes": Count,
    "progress": Progress,
    "usage": Usage,
}
"""What an answer says beside its end and its result, and what it must be."""


def _object_in(text: str) -> dict[str, Any] | None:
    """Return the JSON object that `text` is: as one the original's Emacs returns the context. None if it is not."""
    data = text.encode("utf-8", "surrogatepass")
    if exceeds_part_limit(data):
        return None
    try:
        value = msgspec.json.decode(data, type=dict[str, Any])
        check_round_trip(value.values())
    except (ValueError, RecursionError):
        return None
    return value


def _is_readable(kind: Any, value: Any) -> bool:
    try:
        if isinstance(kind, type) and issubclass(kind, WireModel):
            kind.from_dict(value)
        else:
            read(kind, value)
    except ValueError:
        return False
    return True


def _contradicts_itself(status: str, reason: RequestReason, outcome: Outcome) -> bool:
    """Return whether the three cannot belong to one answer. Partial work may end with any reason but success."""
    succeeded = reason is RequestReason.SUCCEEDED
    unlikely = Outcome.FAILURE if succeeded else Outcome.SUCCESS
    return (status == ResponseStatus.SUCCESS) is not succeeded or outcome is unlikely


def _is_result_file(path: str, rid: RequestId) -> bool:
    """Return whether `path` can be the file Emacs wrote for `rid`: nobody is to be sent to any other."""
    return (
        path.startswith("/")
        and path.endswith(f"/{RESULTS}/{rid}.txt")
        and path.isprintable()
        and not {"", ".", ".."} & set(path[1:].split("/"))
    )


def given_back(rid: RequestId, timestamp: datetime) -> Response:
    """Return what a queue that ends says of a request that it has not begun."""
    message = "The queue ended with its pod before the request began."
    return replace(failure(rid, RequestReason.INTERRUPTED, message, timestamp=timestamp), error_code=NOT_BEGUN)


def failure(rid: RequestId, reason: RequestReason, error: str, *, timestamp: datetime, attempt: int = 0) -> Response:
    """Return the response to a request that did not end by itself; `error` explains `reason` in words."""
    return Response(
        id=rid,
        timestamp=timestamp,
        status=reason.status,
        error=error,
        reason=reason,
        outcome=Outcome.FAILURE,
        attempt=attempt,
    )
