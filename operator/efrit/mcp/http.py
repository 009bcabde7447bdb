"""The HTTP transport: TLS, who may come in at all, and which namespace they come to.

`/mcp` is the server's own namespace, `/namespaces/NAME/mcp` any other. Every request stands for itself, so any
replica may answer it: there are no sessions. A request passes Host and Origin, then its token, before the protocol
sees it.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import re
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import uvicorn
from mcp.server import Server, ServerRequestContext
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecurityMiddleware, TransportSecuritySettings
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from efrit.client.backends import Place, open_backend
from efrit.client.backends import backend_of as kind_of_backend
from efrit.client.cluster.api import Api, configuration
from efrit.client.errors import NotReady
from efrit.client.interface import Backend
from efrit.errors import ConfigurationError, EfritError, Unauthorized
from efrit.mcp.catalogue import Access
from efrit.mcp.failures import in_words
from efrit.mcp.fresh import FreshBackend
from efrit.mcp.guard import GuardedBackend
from efrit.mcp.review import ApiServerReviewer, Caller, Reviewer
from efrit.mcp.server import make_server
from efrit.mcp.settings import LOOPBACK, Http, Settings

log = logging.getLogger(__name__)

SECONDS_TO_FINISH = 5
CERTIFICATE_SECONDS = 10.0
NAMESPACE = r"/namespaces/{namespace:str}/mcp"
_CALLER = "efrit.caller"
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")

OpenBackend = Callable[[str | None], Awaitable[Backend]]


@dataclass
class Backends:
    """One backend for each namespace somebody may use, opened when it is first needed."""

    open: OpenBackend
    _by_namespace: dict[str | None, FreshBackend] = field(default_factory=dict)
    _lock: anyio.Lock = field(default_factory=anyio.Lock)

    async def of(self, namespace: str | None) -> Backend:
        """The backend of a namespace; None is the server's own."""
        async with self._lock:
            if namespace not in self._by_namespace:
                self._by_namespace[namespace] = FreshBackend(lambda: self.open(namespace))
            return await self._by_namespace[namespace].current()

    async def close(self) -> None:
        """Closes them all."""
        for backend in self._by_namespace.values():
            await backend.close()


class Door:
    """Lets a request through to the protocol, or turns it away. `reviewer` None: everybody is let through."""

    def __init__(
        self, inner: StreamableHTTPSessionManager, security: TransportSecuritySettings, reviewer: Reviewer | None
    ) -> None:
        self._inner = inner
        self._security = TransportSecurityMiddleware(security)
        self._reviewer = reviewer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Host, Origin, token, then the protocol."""
        request = Request(scope, receive)
        if not _NAME.fullmatch(request.path_params.get("namespace", "default")):
            await PlainTextResponse("There is no such namespace.\n", 404)(scope, receive, send)
            return
        refusal = await self._security.validate_request(request) or await self._identify(request)
        if refusal is None and request.method != "POST":
            # Without sessions a GET would open a stream on which nothing is ever sent.
            refusal = PlainTextResponse("Send each message by POST.\n", 405, headers={"Allow": "POST"})
        if refusal is not None:
            await refusal(scope, receive, send)
        else:
            await self._inner.handle_request(scope, receive, send)

    async def _identify(self, request: Request) -> PlainTextResponse | None:
        if self._reviewer is None:
            return None
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        try:
            caller = await self._reviewer.who(token.strip()) if scheme.lower() == "bearer" else None
        except EfritError as error:
            return PlainTextResponse(in_words(error), 503, headers={"Retry-After": "1"})
        if caller is None:
            return PlainTextResponse(
                "A bearer token of this cluster is needed, for example from kubectl create token.\n",
                401,
                headers={"WWW-Authenticate": 'Bearer realm="efrit"'},
            )
        request.scope[_CALLER] = caller
        return None


def make_app(
    backends: Backends,
    reviewer: Reviewer | None,
    security: TransportSecuritySettings,
    access: Access = Access.FULL,
    *,
    namespace: str | None = None,
    plans: bool = False,
    state_keys: list[bytes] | None = None,
    patience: float = 60.0,
) -> Starlette:
    """The application. `namespace` is the server's own: the one of `/mcp`; `plans`: it is a cluster's."""
    own = namespace or "default"

    async def backend_of(ctx: ServerRequestContext[Any, Any]) -> Backend:
        request = _http(ctx)
        named = request.path_params.get("namespace")
        if reviewer is None:
            return await backends.of(None)
        caller: Caller = request.scope[_CALLER]
        return GuardedBackend(reviewer, caller, named or own, lambda: backends.of(named or own))

    def principal(ctx: ServerRequestContext[Any, Any]) -> str | None:
        caller: Caller | None = _http(ctx).scope.get(_CALLER)
        where = _http(ctx).path_params.get("namespace") or own
        return f"{caller.name} {caller.uid} {where}" if caller is not None else None

    server = make_server(
        backend_of, access, plans=plans, patience=patience, state_keys=state_keys, principal=principal
    )
    return app_around(server, reviewer, security, backends.close)


def app_around(
    server: Server[Any],
    reviewer: Reviewer | None,
    security: TransportSecuritySettings,
    at_the_end: Callable[[], Awaitable[None]],
) -> Starlette:
    """The application around any server of the protocol: what is in front of it, and who it is told calls."""
    manager = StreamableHTTPSessionManager(server, stateless=True, security_settings=security)
    door = Door(manager, security, reviewer)

    async def alive(_: Request) -> JSONResponse:
        return JSONResponse({"status": "ok"})

    async def ready(_: Request) -> JSONResponse:
        try:
            if reviewer is not None:
                await reviewer.who("is anybody there")
        except EfritError as error:
            return JSONResponse({"status": in_words(error)}, 503)
        return JSONResponse({"status": "ok"})

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with manager.run():
            yield
        await at_the_end()

    routes = [Route("/healthz", alive), Route("/readyz", ready), Route("/mcp", door)]
    if reviewer is not None:
        routes.append(Route(NAMESPACE, door))
    return Starlette(routes=routes, lifespan=lifespan)


def _http(ctx: ServerRequestContext[Any, Any]) -> Request:
    if not isinstance(ctx.request, Request):
        raise Unauthorized("a call that came without an HTTP request has no caller")
    return ctx.request


def security_of(http: Http) -> TransportSecuritySettings:
    """Which Host and Origin headers are accepted: on loopback its own names, elsewhere those that were named."""
    hosts, origins = list(http.allowed_hosts), list(http.allowed_origins)
    if http.host in LOOPBACK:
        names = ["127.0.0.1", "localhost", "[::1]"]
        hosts += [f"{name}:{http.port}" for name in names]
        origins += [f"{scheme}://{name}:{http.port}" for name in names for scheme in ("http", "https")]
    return TransportSecuritySettings(allowed_hosts=hosts, allowed_origins=origins)


async def serve_http(settings: Settings, http: Http) -> None:
    """Serves until the process is told to stop; work goes on without it."""
    place = settings.place

    async def opened(namespace: str | None) -> Backend:
        return await open_backend(
            Place(place.backend, place.config, place.kubeconfig, place.context, namespace or place.namespace)
        )

    reviewer: Reviewer | None = None
    api: Api | None = None
    own = place.namespace
    if http.authenticated:
        found, own, _ = await configuration(place.kubeconfig, place.context, place.namespace)
        api = Api(found)
        reviewer = ApiServerReviewer(api, http.audiences)
    keys = [_read_key(http.state_key)] if http.state_key is not None else None
    app = make_app(
        Backends(opened),
        reviewer,
        security_of(http),
        settings.access,
        namespace=own,
        plans=kind_of_backend(place, os.environ) == "cluster",
        state_keys=keys,
    )
    try:
        await listen(app, http)
    finally:
        if api is not None:
            await api.close()


def bound(host: str, port: int) -> list[socket.socket]:
    """Return a listening socket for each address of `host`. Raises `NotReady`."""
    made: list[socket.socket] = []
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, _, _, _, address in addresses:
            try:
                made.append(socket.create_server(address[:2], family=family, backlog=2048))
            except OSError as error:
                # A name may stand for an address of a family this machine has not.
                if error.errno not in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT) or len(addresses) == 1:
                    raise
        if made:
            return made
        raise OSError(errno.EADDRNOTAVAIL, os.strerror(errno.EADDRNOTAVAIL))
    except OSError as error:
        for each in made:
            each.close()
        why = error.strerror or str(error)
        raise NotReady(f"cannot listen on {host}:{port}: {why}", "choose another --port or --host") from error


async def listen(app: Starlette, http: Http) -> None:
    """Listens where `http` says, until it is cancelled or the process is told to stop. Raises `NotReady`."""
    config = uvicorn.Config(
        app,
        host=http.host,
        port=http.port,
        log_config=None,
        access_log=False,
        server_header=False,
        ssl_certfile=http.certificate,
        ssl_keyfile=http.key,
        timeout_graceful_shutdown=SECONDS_TO_FINISH,
    )
    config.load()
    server = uvicorn.Server(config)
    # uvicorn's own attempt ends the process from within a task, with a traceback.
    sockets = bound(http.host, http.port)
    async with anyio.create_task_group() as group:
        if config.ssl is not None and http.certificate is not None and http.key is not None:
            config.ssl.minimum_version = ssl.TLSVersion.TLSv1_2
            group.start_soon(_keep_certificate, config.ssl, http.certificate, http.key)
        serving = asyncio.create_task(server.serve(sockets))
        try:
            await asyncio.shield(serving)
        except asyncio.CancelledError:
            # uvicorn closes its sockets only when it ends by itself.
            server.should_exit = True
            await serving
            raise
        group.cancel_scope.cancel()


async def _keep_certificate(context: ssl.SSLContext, certificate: Path, key: Path) -> None:
    """Loads a changed certificate for the connections that come after; keeps the old one if it does not fit."""
    seen = _stamps(certificate, key)
    while True:
        await anyio.sleep(CERTIFICATE_SECONDS)
        if (now := _stamps(certificate, key)) == seen:
            continue
        seen = now
        try:
            # A pair that does not fit would leave the live context without a usable key.
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key)
            context.load_cert_chain(certificate, key)
        except (OSError, ssl.SSLError) as error:
            log.error("the new certificate is unusable (%s): the old one stays", error)


def _stamps(*files: Path) -> list[tuple[int, int] | None]:
    def stamp(file: Path) -> tuple[int, int] | None:
        try:
            known = file.stat()
        except OSError:
            return None
        return known.st_mtime_ns, known.st_ino

    return [stamp(file) for file in files]


def _read_key(file: Path) -> bytes:
    try:
        key = file.read_bytes()
    except OSError as error:
        raise ConfigurationError(f"--state-key {file} cannot be read: {error}") from error
    if len(key) < 32:
        raise ConfigurationError(f"--state-key {file} has {len(key)} bytes: 32 or more are needed")
    return key
