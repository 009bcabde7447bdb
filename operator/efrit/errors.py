"""The exception tree of the package: every failure the queue, the bridge or its clients can name.

Stands at the bottom: imports nothing of ours. Each class carries the `code` that goes over the wire in
`{"error": {"code", "message"}}`, so that a client can turn an answer back into the same exception
(`error_for_code`). HTTP status numbers do not belong here; `efrit.bridge.routes` owns that table.
"""

# ruff: noqa: N818 - the names say what happened (QueueFull, NoSpace); a suffix on each would only repeat the tree

from typing import ClassVar


class EfritError(Exception):
    """Anything this package reports on purpose. `code` is stable, the message is for people."""

    code: ClassVar[str] = "Internal"

    @property
    def message(self) -> str:
        """The sentence for people: what happened, to which object, what to do."""
        return str(self)


class ConfigurationError(EfritError):
    """The process cannot start as it was set up (missing token, unreadable certificate, bad variable)."""

    code = "Configuration"


class ProtocolError(EfritError):
    """Bytes that are not what the wire format says."""

    code = "Invalid"


class InvalidId(ProtocolError):
    """An id outside `[A-Za-z0-9._-]{1,128}`, or `.` or `..`."""


class InvalidRequest(ProtocolError):
    """A request that can never run: not JSON, a missing or impossible field."""


class InvalidResponse(ProtocolError):
    """An answer file that is not a response."""


class InvalidEvent(ProtocolError):
    """A server-sent event, or its id, of an unknown shape."""


class InvalidTree(ProtocolError):
    """A task tree that is not one: not JSON, an impossible task, two of one id."""


class InvalidPlanRecord(ProtocolError):
    """A request of a plan, or an answer of its repository, cannot be read."""


class RequestTooLarge(InvalidRequest):
    """The content is longer than the instance accepts."""

    code = "TooLarge"


class QueueError(EfritError):
    """The queue refused or failed; nothing is half-done."""


class QueueFull(QueueError):
    """As many requests wait as the instance allows. `retry_after` says when to ask again, in seconds."""

    code = "QueueFull"

    def __init__(self, message: str, retry_after: float = 1.0) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class RequestConflict(QueueError):
    """The id is taken by a request with other content."""

    code = "Conflict"


class RequestNotFound(QueueError):
    """No request with this id waits, runs, is answered or archived."""

    code = "NotFound"


class NotAnswered(QueueError):
    """The request cannot be acknowledged: it has no answer yet."""

    code = "NotAnswered"


class QueueNotReady(QueueError):
    """The queue is not open yet, or is being closed."""

    code = "NotReady"


class QueueNotTrusted(QueueError):
    """A directory of the queue is somebody else's, or others may write there. `advice` says what to do."""

    code = "NotTrusted"

    def __init__(self, message: str, advice: str = "") -> None:
        super().__init__(message)
        self.advice = advice


class StorageError(QueueError):
    """The volume failed (EIO, EROFS, ...). The step was taken back as far as the volume let us."""

    code = "StorageError"


class NoSpace(StorageError):
    """The volume is full (ENOSPC, EDQUOT)."""

    code = "NoSpace"


class QueueBroken(QueueError):
    """A queue directory was removed or replaced under us; only a restart of the bridge helps."""

    code = "QueueBroken"


class BridgeError(EfritError):
    """A call to a bridge failed for a reason of the bridge, not of the request."""


class Unauthorized(BridgeError):
    """The bearer token is missing or wrong."""

    code = "Unauthorized"


class TooManyStreams(BridgeError):
    """As many readers follow the event stream as one bridge allows."""

    code = "TooManyStreams"


class BridgeUnreachable(BridgeError):
    """No answer from the bridge: connection refused, reset or timed out. `sent`: whether it may have got the call."""

    code = "Unreachable"

    def __init__(self, message: str, *, sent: bool = True) -> None:
        super().__init__(message)
        self.sent = sent


class BridgeUnresponsive(BridgeUnreachable):
    """No answer, time and again: no more calls are made but one now and then, to see whether it answers."""

    code = "Unresponsive"


_BY_CODE: dict[str, type[EfritError]] = {
    cls.code: cls
    for cls in (
        InvalidRequest,
        RequestTooLarge,
        QueueFull,
        RequestConflict,
        RequestNotFound,
        NotAnswered,
        QueueNotReady,
        StorageError,
        NoSpace,
        QueueBroken,
        Unauthorized,
        TooManyStreams,
    )
}


def error_for_code(code: str, message: str) -> EfritError:
    """Return the exception for a bridge's `{"error": {"code", "message"}}`; `BridgeError` for an unknown code."""
    return _BY_CODE.get(code, BridgeError)(message)


class NotLeading(EfritError):
    """Another controller may hold the lease by now: whatever was decided is its to do."""

    code = "NotLeading"


class ApiError(EfritError):
    """A call to the Kubernetes API server failed; `sentence` is the API server's own, `status` that of the answer."""

    code = "Api"

    def __init__(self, message: str, sentence: str = "", *, status: int | None = None) -> None:
        super().__init__(message)
        self.sentence = sentence or message
        self.status = status


class ApiNotFound(ApiError):
    """404: the object does not exist."""

    code = "ApiNotFound"


class ApiNotServed(ApiNotFound):
    """404 that is not the API server's word about an object: it knows no such kind, or a proxy has no way to it."""

    code = "ApiNotServed"


class ApiConflict(ApiError):
    """409: the object has changed, exists already, or is another one by now."""

    code = "ApiConflict"


class ApiExists(ApiConflict):
    """409 AlreadyExists: an object of this name is there. Any other conflict says nothing of the kind."""

    code = "ApiExists"


class ApiRefused(ApiError):
    """400, 403, 413, 415, 422: asking again will not help."""

    code = "ApiRefused"


class ApiForbidden(ApiRefused):
    """403: a right is missing, or an admission policy or quota says no."""

    code = "ApiForbidden"


class ApiTooLarge(ApiRefused):
    """413, or etcd's own words: the object would be larger than it may be."""

    code = "ApiTooLarge"


class ApiCommandFailed(ApiError):
    """A command in a container ended with an error; the message is its standard error."""

    code = "ApiCommandFailed"


class ApiUnavailable(ApiError):
    """No answer, 429 or 5xx: ask again later; `retry_after` is how many seconds later, where that is known."""

    code = "ApiUnavailable"

    def __init__(
        self, message: str, sentence: str = "", *, status: int | None = None, retry_after: float | None = None
    ) -> None:
        super().__init__(message, sentence, status=status)
        self.retry_after = retry_after


class ApiUnreachable(ApiUnavailable):
    """No answer from the API server: connection refused, reset or timed out."""

    code = "ApiUnreachable"


class ApiUnauthorized(ApiUnavailable):
    """401: the API server does not accept the credentials; a new token may be on its way."""

    code = "ApiUnauthorized"


class ApiFailed(ApiUnavailable):
    """500: a hiccup, or a webhook that is down and stays down."""

    code = "ApiFailed"


class ApiExpired(ApiUnavailable):
    """410: the version to watch from, or the token of the next page, is too old: list again."""

    code = "ApiExpired"


class ApiNamespaceTerminating(ApiUnavailable):
    """Nothing can be created in a namespace that is being deleted or is gone."""

    code = "ApiNamespaceTerminating"


class WatchEnded(EfritError):
    """A watch of the API server has ended and does not begin again; only a new process can."""

    code = "WatchEnded"


def first_leaf(error: BaseException) -> BaseException:
    """Return the first error inside nested exception groups; an error that is not a group is returned as it is."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
