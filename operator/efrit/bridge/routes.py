"""The HTTP face: routes, status numbers, bodies. What is decided here is only how to say it.

The table of routes and errors for people is docs/bridge.md.
"""

import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import aclosing, contextmanager
from typing import Any, Protocol

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.requests import Request as HttpRequest
from starlette.responses import Response as HttpResponse
from starlette.responses import StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from efrit.bridge import health
from efrit.bridge.auth import Tokens
from efrit.bridge.batch import Batch, read_batch
from efrit.bridge.events import EventLog
from efrit.bridge.metrics import CONTENT_TYPE
from efrit.bridge.work_log_sse import work_log_events
from efrit.errors import (
    EfritError,
    InvalidId,
    InvalidRequest,
    NoSpace,
    NotAnswered,
    QueueFull,
    QueueNotReady,
    RequestConflict,
    RequestNotFound,
    RequestTooLarge,
    StorageError,
    TooManyStreams,
    Unauthorized,
)
from efrit.protocol import Request, RequestId, request_id
from efrit.protocol.handover import MAX_BATCH_BYTES
from efrit.protocol.model import WireModel
from efrit.protocol.view import ErrorBody, RequestList, RequestView, Stats
from efrit.queue.queue import DurableQueue

log = logging.getLogger(__name__)

Endpoint = Callable[[HttpRequest], Awaitable[HttpResponse]]

_STATUS: tuple[tuple[type[EfritError], int], ...] = (
    # The first class that fits counts: special ones before general ones.
    (Unauthorized, 401),
    (RequestNotFound, 404),
    (RequestConflict, 409),
    (NotAnswered, 409),
    (RequestTooLarge, 413),
    (InvalidRequest, 422),
    (InvalidId, 422),
    (QueueFull, 429),
    (TooManyStreams, 429),
    (QueueNotReady, 503),
    (NoSpace, 507),
    (StorageError, 503),
)
# Escaped as \uXXXX, content may take six bytes for one; the rest of a request is small.
_ESCAPED = 6
_ENVELOPE_BYTES = 64 * 1024
MAX_STREAMS = 32
"""Readers of the event stream: a controller is one, two while one follows another. As many may follow work logs."""
LISTED_AT_ONCE = 64
"""Requests in one part of a list as it is sent."""


class BridgeCallbacks(Protocol):
    """What the routes need of the bridge besides queue, events and tokens."""

    def stats(self) -> Stats:
        """Return the figures as of now."""

    def metrics(self) -> bytes:
        """Return the metrics as text for Prometheus."""

    def unhealthy(self) -> list[str]:
        """Return why the bridge should be restarted; empty if it should not."""

    def unready(self) -> list[str]:
        """Return why the instance should get no work; empty if it may."""

    def wake_supervisor(self) -> None:
        """Have the supervisor check at once: a request was cancelled."""


def status_of(error: EfritError) -> int:
    """Return the HTTP status of an error of ours."""
    return next((status for kind, status in _STATUS if isinstance(error, kind)), 500)


def make_app(queue: DurableQueue, events: EventLog, tokens: Tokens, bridge: BridgeCallbacks) -> Starlette:
    """Return the ASGI application."""
    api = _Api(queue, events, bridge)
    probes = _Health(bridge)

    def guarded(endpoint: Endpoint) -> Endpoint:
        async def checked(request: HttpRequest) -> HttpResponse:
            if not tokens.accepts(request.headers.get("authorization")):
                raise Unauthorized("a valid bearer token is required")
            return await endpoint(request)

        return checked

    request_path = "/v1/requests/{id}"
    app = Starlette(
        routes=[
            Route(request_path, guarded(api.put), methods=["PUT"]),
            Route(request_path, guarded(api.get), methods=["GET"]),
            Route(request_path, guarded(api.delete), methods=["DELETE"]),
            Route(request_path + "/progress", guarded(api.progress), methods=["GET"]),
            Route(request_path + "/cancel", guarded(api.cancel), methods=["POST"]),
            Route("/v1/requests", guarded(api.list), methods=["GET"]),
            Route("/v1/batch", guarded(api.batch), methods=["POST"]),
            Route("/v1/events", guarded(api.events), methods=["GET"]),
            Route("/v1/stats", guarded(api.stats), methods=["GET"]),
            Route("/healthz", probes.healthz, methods=["GET"]),
            Route("/readyz", probes.readyz, methods=["GET"]),
            Route("/metrics", probes.metrics, methods=["GET"]),
        ],
        exception_handlers=_HANDLERS,
    )
    # A path is one of these or none: no caller is sent to another by the name it gave for us.
    app.router.redirect_slashes = False
    return app


class _Api:
    def __init__(self, queue: DurableQueue, events: EventLog, bridge: BridgeCallbacks) -> None:
        self._queue = queue
        self._events = events
        self._bridge = bridge
        self._event_readers = _Readers("the events")
        self._log_readers = _Readers("work logs")

    async def put(self, http: HttpRequest) -> HttpResponse:
        rid = request_id(http.path_params["id"])
        request = Request.parse(await self._body(http))
        _require_same(rid, request)
        view, created = await self._queue.submit(request)
        return _json(view, 201 if created else 200)

    async def _body(self, http: HttpRequest) -> bytes:
        limit = _ESCAPED * self._queue.limits.max_request_bytes + _ENVELOPE_BYTES
        return await _bounded_body(http, limit, "request")

    async def batch(self, http: HttpRequest) -> HttpResponse:
        if not self._queue.is_open:
            raise QueueNotReady("the queue is not open yet; try again")
        elements = read_batch(await _bounded_body(http, MAX_BATCH_BYTES, "batch"))
        return _BatchResponse(Batch(self._queue, elements, self._bridge.wake_supervisor))

    async def get(self, http: HttpRequest) -> HttpResponse:
        return _json(await self._queue.view(_known_id(http)))

    async def list(self, http: HttpRequest) -> HttpResponse:
        if not self._queue.is_open:
            raise QueueNotReady("the queue is not open yet; try again")
        return StreamingResponse(self._listed(), media_type="application/json")

    async def _listed(self) -> AsyncIterator[bytes]:
        """Yield a `RequestList`; all views at a time could take more memory than there is."""
        head, tail = RequestList(queue_id=self._queue.queue_id).to_json().split("[]")
        comma, part = "", [head, "["]
        for view in self._queue.views():
            part.append(comma + view.to_json())
            comma = ","
            if len(part) == LISTED_AT_ONCE:
                yield "".join(part).encode()
                part = []
        yield "".join([*part, "]", tail]).encode()

    async def cancel(self, http: HttpRequest) -> HttpResponse:
        rid = _known_id(http)
        running = _also_running(http)
        if body := await self._body(http):
            return await self._decline(rid, Request.parse(body), running)
        before = await self._queue.view(rid, response=False)
        view = await self._queue.cancel(rid, running=running)
        self._bridge.wake_supervisor()
        goes_on = not running and not view.state.final
        return _json(view, 200 if before.state.final or goes_on else 202)

    async def _decline(self, rid: RequestId, request: Request, running: bool) -> HttpResponse:
        _require_same(rid, request)
        view = await self._queue.decline(request, running=running)
        self._bridge.wake_supervisor()
        return _json(view, 200 if view.state.final or not running else 202)

    async def delete(self, http: HttpRequest) -> HttpResponse:
        await self._queue.acknowledge(_known_id(http))
        return HttpResponse(status_code=204)

    async def stats(self, http: HttpRequest) -> HttpResponse:
        return _json(self._bridge.stats())

    async def events(self, http: HttpRequest) -> HttpResponse:
        if not self._queue.is_open:
            raise QueueNotReady("the queue is not open yet; try again")
        parts = self._events.stream(
            http.headers.get("last-event-id"),
            queue_id=self._queue.queue_id,
            snapshot=self._snapshot,
            stats=self._bridge.stats,
        )
        return _StreamResponse(parts, self._event_readers)

    async def progress(self, http: HttpRequest) -> HttpResponse:
        rid = _known_id(http)
        await self._queue.view(rid, response=False)
        last = http.headers.get("last-event-id")
        parts = work_log_events(self._queue, rid, last, closed=lambda: self._events.closed)
        return _StreamResponse(parts, self._log_readers)

    async def _snapshot(self) -> AsyncIterator[RequestView]:
        # One answer at a time: all of them together may be larger than we may be.
        for listed in self._queue.views():
            try:
                yield await self._queue.view(listed.id)
            except RequestNotFound:
                continue
            except StorageError as error:
                # Without its answer, like a long one: the reader fetches it once it can be read.
                log.warning("%s", error)
                yield listed


class _Readers:
    """How many read one kind of stream."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._count = 0

    @contextmanager
    def one_more(self) -> Iterator[None]:
        """Count one more reader meanwhile. Raises `TooManyStreams`."""
        if self._count >= MAX_STREAMS:  # gate: most-streams
            raise TooManyStreams(f"{MAX_STREAMS} readers follow {self._kind} already; close one, or try again later")
        self._count += 1
        try:
            yield
        finally:
            self._count -= 1


class _StreamResponse(StreamingResponse):
    """A stream of events for one of a limited number of readers, who is counted before anything is awaited."""

    def __init__(self, parts: AsyncGenerator[bytes], readers: _Readers) -> None:
        super().__init__(parts, media_type="text/event-stream", headers={"cache-control": "no-store"})
        self._parts, self._readers = parts, readers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # A refusal is an error like any other: nothing was sent yet.
        with self._readers.one_more():
            async with aclosing(self._parts):
                await super().__call__(scope, receive, send)


class _BatchResponse(HttpResponse):
    """The results of a batch, each as soon as it is known. Goes on to the end where the client goes away."""

    def __init__(self, batch: Batch) -> None:
        super().__init__(media_type="application/x-ndjson")
        del self.headers["content-length"]
        self._batch = batch

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        begun = False
        async for lines, last in self._batch.results():
            if not begun:
                if last:
                    self.headers["content-length"] = str(len(lines))
                await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
                begun = True
            await send({"type": "http.response.body", "body": lines, "more_body": not last})


async def _bounded_body(http: HttpRequest, limit: int, kind: str) -> bytes:
    parts, size = [], 0
    async for part in http.stream():
        size += len(part)
        if size > limit:
            raise RequestTooLarge(f"the {kind} is longer than {limit} bytes")
        parts.append(part)
    return b"".join(parts)


class _Health:
    def __init__(self, bridge: BridgeCallbacks) -> None:
        self._bridge = bridge

    async def healthz(self, http: HttpRequest) -> HttpResponse:
        return _verdict(self._bridge.unhealthy())

    async def readyz(self, http: HttpRequest) -> HttpResponse:
        return _verdict(self._bridge.unready())

    async def metrics(self, http: HttpRequest) -> HttpResponse:
        return HttpResponse(self._bridge.metrics(), media_type=CONTENT_TYPE)


def _require_same(rid: RequestId, request: Request) -> None:
    if request.id != rid:
        raise InvalidRequest(f"the body says id {request.id}, the path says {rid}")


def _known_id(http: HttpRequest) -> RequestId:
    try:
        return request_id(http.path_params["id"])
    except InvalidId as error:
        # What cannot be an id cannot be here.
        raise RequestNotFound(str(error)) from None


def _also_running(http: HttpRequest) -> bool:
    """Return whether a cancel is meant for one that runs, too."""
    match http.query_params.get("only"):
        case None:
            return True
        case "waiting":
            return False
        case other:
            raise InvalidRequest(f"only={other[:50]} is unknown: say only=waiting, or leave it out")


def _json(model: WireModel, status: int = 200) -> HttpResponse:
    return HttpResponse(model.to_json(), status, media_type="application/json")


def _verdict(problems: list[str]) -> HttpResponse:
    status, content_type, body = health.verdict(problems)
    return HttpResponse(body, status, {"content-type": content_type})


def _error(code: str, message: str, status: int, headers: dict[str, str] | None = None) -> HttpResponse:
    return HttpResponse(ErrorBody.of(code, message).to_json(), status, headers, media_type="application/json")


async def _on_error(http: HttpRequest, error: Exception) -> HttpResponse:
    assert isinstance(error, EfritError)  # noqa: S101 - registered for nothing else
    headers = {}
    if isinstance(error, QueueFull):
        headers["retry-after"] = str(max(1, round(error.retry_after)))
    elif isinstance(error, Unauthorized):
        headers["www-authenticate"] = "Bearer"
    return _error(error.code, error.message, status_of(error), headers)


async def _on_http_error(http: HttpRequest, error: Exception) -> HttpResponse:
    assert isinstance(error, HTTPException)  # noqa: S101 - registered for nothing else
    headers = dict(error.headers or {})
    if error.status_code == 405:
        message = f"{http.method[:20]} is not for this path: use {headers.get('Allow', 'another method')}"
        return _error("MethodNotAllowed", message, 405, headers)
    if error.status_code == 404:
        return _error("NotFound", "there is nothing at this path: see the table of calls in docs/bridge.md", 404)
    return _error("Invalid", error.detail, error.status_code, headers)


async def _on_disconnect(http: HttpRequest, error: Exception) -> HttpResponse:
    return _error("Invalid", "the client went away before it had sent everything", 400)


async def _on_bug(http: HttpRequest, error: Exception) -> HttpResponse:
    return _error("Internal", "internal error; see the bridge log", 500)


_HANDLERS: Mapping[Any, Callable[[HttpRequest, Exception], Awaitable[HttpResponse]]] = {
    EfritError: _on_error,
    HTTPException: _on_http_error,
    ClientDisconnect: _on_disconnect,
    Exception: _on_bug,
}
