"""An answer as it lies in responses/ and travels to the controller."""

from collections.abc import Callable
from typing import Annotated, Any, Self

from pydantic import Field, ValidationError, ValidatorFunctionWrapHandler, WrapValidator, model_validator

from efrit.errors import InvalidResponse, ProtocolError
from efrit.protocol.fields import RequestIdField
from efrit.protocol.ids import RequestId
from efrit.protocol.model import Attempt, Count, PassThroughModel, PlainJson
from efrit.protocol.session import Progress, Session, Usage
from efrit.protocol.states import PROTOCOL_VERSION, Outcome, Reason, ResponseStatus
from efrit.protocol.times import Timestamp

RESULTS = ".efrit/results"
"""Where in its workspace Emacs leaves results that are too long for an answer."""


def _or_none(value: Any, read: ValidatorFunctionWrapHandler) -> Any:
    """What `read` makes of it, None where it fails: no answer is lost for its figures."""
    try:
        return read(value)
    except ValidationError:
        return None


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
    execution_time: float = Field(default=0.0, ge=0, le=1e9)
    context: dict[str, PlainJson] | None = None
    reason: Reason
    outcome: Outcome
    attempt: Attempt = 0
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")] | None = None
    output: str = ""
    messages: str = ""
    truncated: bool = False
    result_bytes: Count = 0
    result_path: Annotated[str, Field(max_length=1024)] | None = None
    error_code: str | None = None
    started: Timestamp | None = None
    session: Session | None = None
    progress: Annotated[Progress | None, WrapValidator(_or_none)] = None
    usage: Annotated[Usage | None, WrapValidator(_or_none)] = None

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

    @model_validator(mode="after")
    def _does_not_contradict_itself(self) -> Self:
        succeeded = self.reason is Reason.SUCCEEDED
        # Partial work may end with any reason: it is never called success.
        unlikely = Outcome.FAILURE if succeeded else Outcome.SUCCESS
        if (self.status is ResponseStatus.SUCCESS) is not succeeded or self.outcome is unlikely:
            raise ValueError(f"status {self.status}, reason {self.reason} and outcome {self.outcome} contradict")
        if self.result_path is not None and not _is_result_file(self.result_path, self.id):
            raise ValueError(f"result_path must be /…/{RESULTS}/{self.id}.txt")
        return self

    @classmethod
    def _error(cls) -> Callable[[str], ProtocolError]:
        return InvalidResponse


def _is_result_file(path: str, rid: RequestId) -> bool:
    """Whether `path` can be the file Emacs wrote for `rid`: nobody is to be sent to any other."""
    return (
        path.startswith("/")
        and path.endswith(f"/{RESULTS}/{rid}.txt")
        and path.isprintable()
        and not {"", ".", ".."} & set(path[1:].split("/"))
    )


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
