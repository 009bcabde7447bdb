"""The wire: immutable models of everything that crosses a file or a connection.

Imports nothing of ours but `efrit.errors`. What is exported here is the surface the controller, the bridge
and the clients build on; the modules behind it are free to move.
"""

from efrit.protocol.enums import (
    PROTOCOL_VERSION,
    EmacsState,
    EventName,
    Outcome,
    RequestReason,
    RequestState,
    RequestType,
    ResponseStatus,
    RestartReason,
    RetryPolicy,
    SessionStatus,
)
from efrit.protocol.events import Event, EventId, LogEnd, Reset, parse_event
from efrit.protocol.fields import RequestIdField, SessionId
from efrit.protocol.handover import (
    MAX_BATCH_BYTES,
    MAX_BATCH_ELEMENTS,
    BatchElement,
    BatchOperation,
    BatchResult,
)
from efrit.protocol.ids import (
    MAX_ID_LENGTH,
    RequestId,
    id_of_request_file,
    id_of_response_file,
    id_of_session_file,
    is_request_id,
    request_file,
    request_id,
    response_file,
)
from efrit.protocol.model import canonical_json
from efrit.protocol.request import Budget, Digest, Request, RequestOptions, SessionOption, digest
from efrit.protocol.response import Response, failure
from efrit.protocol.session import Progress, Session, Usage, kind_label
from efrit.protocol.times import as_utc, from_epoch, rfc3339
from efrit.protocol.view import (
    DiskProblem,
    DiskStats,
    EmacsRestart,
    EmacsStats,
    ErrorBody,
    ErrorDetail,
    Heartbeat,
    ModelKey,
    ProcessPlace,
    RequestList,
    RequestView,
    Stats,
)

__all__ = [
    "MAX_BATCH_BYTES",
    "MAX_BATCH_ELEMENTS",
    "MAX_ID_LENGTH",
    "PROTOCOL_VERSION",
    "BatchElement",
    "BatchOperation",
    "BatchResult",
    "Budget",
    "Digest",
    "DiskProblem",
    "DiskStats",
    "EmacsRestart",
    "EmacsState",
    "EmacsStats",
    "ErrorBody",
    "ErrorDetail",
    "Event",
    "EventId",
    "EventName",
    "Heartbeat",
    "LogEnd",
    "ModelKey",
    "Outcome",
    "ProcessPlace",
    "Progress",
    "Request",
    "RequestId",
    "RequestIdField",
    "RequestList",
    "RequestOptions",
    "RequestReason",
    "RequestState",
    "RequestType",
    "RequestView",
    "Reset",
    "Response",
    "ResponseStatus",
    "RestartReason",
    "RetryPolicy",
    "Session",
    "SessionId",
    "SessionOption",
    "SessionStatus",
    "Stats",
    "Usage",
    "as_utc",
    "canonical_json",
    "digest",
    "failure",
    "from_epoch",
    "id_of_request_file",
    "id_of_response_file",
    "id_of_session_file",
    "is_request_id",
    "kind_label",
    "parse_event",
    "request_file",
    "request_id",
    "response_file",
    "rfc3339",
]
