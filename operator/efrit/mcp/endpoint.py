"""What stands in front of the protocol over HTTP: who may call, how much is taken in, and where to get a token.

In this order: the name of the namespace, Host and Origin, the bearer token, the caller's share of the calls, the
method, the message. Nothing of a message is read before its caller is known.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecurityMiddleware, TransportSecuritySettings
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.types import Message, Receive, Scope, Send

from efrit.errors import EfritError
from efrit.mcp.access_review import Caller, Reviewer
from efrit.mcp.admission import Admission, DisconnectedError, RejectedError, read_message, replayed
from efrit.mcp.error_text import error_text
from efrit.mcp.listener import busy

METADATA = "/.well-known/oauth-protected-resource"
"""RFC 9728; in front of the path of the endpoint that it is about."""
MAX_REVIEWS = 16
"""Tokens that the API server is asked about at once. Others wait, in order; there are no more than connections."""
SEND_SECONDS = 60.0
"""How long a caller may take to accept a piece of an answer."""
READY_SECONDS, UNREADY_SECONDS = 5.0, 1.0
CALLER = "efrit.caller"
ANYBODY = "anybody"

_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


class Endpoint:
    """Passes allowed requests to the protocol and rejects others. Without a `reviewer`, every caller is allowed."""

    def __init__(
        self,
        inner: StreamableHTTPSessionManager,
        security: TransportSecuritySettings,
        reviewer: Reviewer | None,
        admission: Admission,
    ) -> None:
        self._inner = inner
        self._security = TransportSecurityMiddleware(security)
        self._reviewer = reviewer
        self._admission = admission
        self._reviews = asyncio.Semaphore(MAX_REVIEWS)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check the head of the request, then its body, then pass it on."""
        request = Request(scope, receive)
        rejection = await self._check_head(request)
        if rejection is not None:
            # What was not read of the body is not waited for.
            rejection.headers["Connection"] = "close"
            await rejection(scope, receive, send)
            return
        caller: Caller | None = scope.get(CALLER)
        try:
            with self._admission.call(caller.name if caller else ANYBODY) as message_bytes, busy(scope):
                message = await read_message(receive, message_bytes)
                await self._inner.handle_request(scope, replayed(message, receive), _send_within_limit(send))
        except RejectedError as error:
            headers = {"Connection": "close"} | ({} if error.status == 413 else {"Retry-After": "1"})
            await PlainTextResponse(f"{error}.\n", error.status, headers=headers)(scope, receive, send)
        except (DisconnectedError, TimeoutError):
            return

    async def _check_head(self, request: Request) -> Response | None:
        """Return why a request is rejected by what comes before its body, None if it is not."""
        if not _NAME.fullmatch(request.path_params.get("namespace", "default")):
            return PlainTextResponse("Not a valid name of a namespace.\n", 404)
        rejection = await self._security.validate_request(request) or await self._authenticate(request)
        if rejection is None and request.method != "POST":
            # Without sessions, the stream that a GET opens would stay empty.
            rejection = PlainTextResponse("Send each message by POST.\n", 405, headers={"Allow": "POST"})
        return rejection

    async def _authenticate(self, request: Request) -> Response | None:
        if self._reviewer is None:
            return None
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        token = token.strip() if scheme.lower() == "bearer" else ""
        try:
            async with self._reviews:
                caller = await self._reviewer.authenticate(token) if token else None
        except EfritError as error:
            return PlainTextResponse(error_text(error), 503, headers={"Retry-After": "1"})
        if caller is None:
            text = "A bearer token of this cluster is required; kubectl create token makes one.\n"
            if token and (audiences := " or ".join(self._reviewer.audiences)):
                text = f"The bearer token is not valid here; kubectl create token --audience {audiences} makes one.\n"
            return _challenge(request, 401, text, "invalid_token" if token else "")
        if reason := caller.refusal():  # gate: caller-refused
            return _challenge(request, 403, f"{reason}\n", "insufficient_scope")
        request.scope[CALLER] = caller
        return None


def _challenge(request: Request, status: int, text: str, error: str) -> Response:
    """Return a rejection that says where the metadata of the endpoint are (RFC 9728, RFC 6750)."""
    url = request.url
    parts = ['realm="efrit"', f'resource_metadata="{url.scheme}://{url.netloc}{METADATA}{url.path}"']
    parts += [f'error="{error}"'] if error else []
    return PlainTextResponse(text, status, headers={"WWW-Authenticate": f"Bearer {', '.join(parts)}"})


def _send_within_limit(send: Send) -> Send:
    """Return a `send` that gives up on a caller who accepts nothing. Raises TimeoutError."""

    async def send_in_time(message: Message) -> None:
        async with asyncio.timeout(SEND_SECONDS):
            await send(message)

    return send_in_time


@dataclass
class Metadata:
    """Answers what a client has to know to get a token for an endpoint (RFC 9728). It takes no token to ask."""

    security: TransportSecuritySettings
    authorization_servers: Sequence[str] = ()

    async def answer(self, request: Request) -> Response:
        """Return the metadata of the endpoint whose path follows; of `/mcp` where none does."""
        if not _NAME.fullmatch(request.path_params.get("namespace", "default")):
            return PlainTextResponse("Not a valid name of a namespace.\n", 404)
        if rejection := await TransportSecurityMiddleware(self.security).validate_request(request):
            return rejection
        url = request.url
        path = url.path.removeprefix(METADATA) or "/mcp"
        metadata: dict[str, object] = {
            "resource": f"{url.scheme}://{url.netloc}{path}",
            "resource_name": "Efrit",
            "bearer_methods_supported": ["header"],
        }
        if self.authorization_servers:
            metadata["authorization_servers"] = list(self.authorization_servers)
        return JSONResponse(metadata, headers={"Cache-Control": "max-age=3600"})


@dataclass
class Readiness:
    """Whether callers can be authenticated. An answer is kept, so that who asks often asks the API server seldom."""

    reviewer: Reviewer | None
    clock: Callable[[], float] = time.monotonic
    _until: float = float("-inf")
    _problem: str | None = None
    _reviewing: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def problem(self) -> str | None:
        """Return why the server is not ready, None if it is."""
        async with self._reviewing:
            if self.reviewer is not None and self.clock() >= self._until:
                self._problem = await self._review(self.reviewer.authenticate)
                self._until = self.clock() + (UNREADY_SECONDS if self._problem else READY_SECONDS)
        return self._problem

    async def _review(self, authenticate: Callable[[str], Awaitable[Caller | None]]) -> str | None:
        try:
            await authenticate("readiness probe")
        except EfritError as error:
            return error_text(error)
        return None
