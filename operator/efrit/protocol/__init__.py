"""The wire: immutable models of everything that crosses a file or a connection.

Imports nothing of ours but `efrit.errors`. What requests and answers are made of is exported here; what a bridge
reports (`view`), its events and its batches (`handover`) are not: an eval on a laptop needs none of them.
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
from efrit.protocol.fields import RequestIdField, SessionId
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

__all__ = [
    "MAX_ID_LENGTH",
    "PROTOCOL_VERSION",
    "Budget",
    "Digest",
    "EmacsState",
    "EventName",
    "Outcome",
    "Progress",
    "Request",
    "RequestId",
    "RequestIdField",
    "RequestOptions",
    "RequestReason",
    "RequestState",
    "RequestType",
    "Response",
    "ResponseStatus",
    "RestartReason",
    "RetryPolicy",
    "Session",
    "SessionId",
    "SessionOption",
    "SessionStatus",
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
    "request_file",
    "request_id",
    "response_file",
    "rfc3339",
]
