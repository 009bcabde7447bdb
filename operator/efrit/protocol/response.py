"""An answer as it lies in responses/ and travels to the controller."""

from collections.abc import Callable
from typing import Any

from pydantic import Field, JsonValue, model_validator

from efrit.errors import InvalidResponse, ProtocolError
from efrit.protocol.ids import RequestId, RequestIdField
from efrit.protocol.model import PassThroughModel
from efrit.protocol.states import PROTOCOL_VERSION, Outcome, Reason, ResponseStatus
from efrit.protocol.times import Timestamp


class Response(PassThroughModel):
    """The one answer to one request.

    `execution_time` in seconds; `sha256` and `result_bytes` speak of the full printed result, which
    `result` may hold only the beginning of (`truncated`, or `result_path` names the file with all of it).
    """

    id: RequestIdField
    version: str = PROTOCOL_VERSION
    timestamp: Timestamp | None = None
    status: ResponseStatus
    result: str | None = None
    error: str | None = None
    execution_time: float = Field(default=0.0, ge=0)
    context: dict[str, JsonValue] | None = None
    reason: Reason
    outcome: Outcome
    attempt: int = Field(default=0, ge=0)
    sha256: str | None = None
    output: str = ""
    messages: str = ""
    truncated: bool = False
    result_bytes: int = Field(default=0, ge=0)
    result_path: str | None = None
    error_code: str | None = None
    started: Timestamp | None = None

    @model_validator(mode="before")
    @classmethod
    def _fill_in_for_plain_writers(cls, data: Any) -> Any:
        """A 1.0.0 writer that knows no `reason` and `outcome` says enough with `status`."""
        if not isinstance(data, dict):
            return data
        filled = dict(data)
        if filled.get("reason") is None:
            plain = {"success": Reason.SUCCEEDED, "timeout": Reason.TIMED_OUT}
            filled["reason"] = plain.get(str(filled.get("status")), Reason.EVAL_ERROR)
        if filled.get("outcome") is None:
            filled["outcome"] = Outcome.SUCCESS if filled["reason"] == Reason.SUCCEEDED else Outcome.FAILURE
        return {key: value for key, value in filled.items() if value is not None}

    @classmethod
    def _error(cls) -> Callable[[str], ProtocolError]:
        return InvalidResponse


def failure(rid: RequestId, reason: Reason, error: str, *, timestamp: Timestamp, attempt: int = 0) -> Response:
    """The answer to a request that did not end by itself: `reason` says why, `error` says it in words."""
    return Response(
        id=rid,
        timestamp=timestamp,
        status=reason.status,
        error=error,
        reason=reason,
        outcome=Outcome.FAILURE,
        attempt=attempt,
    )
