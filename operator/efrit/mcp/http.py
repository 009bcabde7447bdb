"""The HTTP transport: TLS, authentication, and one endpoint for each namespace.

`/mcp` is the server's own namespace, `/namespaces/NAME/mcp` any other. There are no sessions, so any replica can
answer any request. Who may call is decided in `endpoint`, how many connections there may be in `listener`.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import uvicorn
from mcp.server import Server as McpServer
from mcp.server import ServerRequestContext
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from efrit.backend.cluster.api import Api, load_connection
from efrit.backend.cluster.backend import ClusterBackend
from efrit.backend.errors import NotReady
from efrit.backend.interface import Backend
from efrit.backend.open import open_backend
from efrit.backend.place import Place
from efrit.backend.place import backend_of as kind_of_backend
from efrit.errors import ConfigurationError, Unauthorized
from efrit.kube.output_budget import OutputBudget
from efrit.mcp.access import Access
from efrit.mcp.access_review import ApiServerReviewer, Caller, Reviewer
from efrit.mcp.admission import Admission
from efrit.mcp.authorized_backend import AuthorizedBackend
from efrit.mcp.endpoint import CALLER, METADATA, Endpoint, Metadata, Readiness
from efrit.mcp.impersonation import backend_as
from efrit.mcp.listener import SHUTDOWN_SECONDS, Connection, Server
from efrit.mcp.reloading_backend import ReloadingBackend
from efrit.mcp.server import make_server
from efrit.mcp.settings import LOOPBACK, ActAs, Http, Limits, Settings
from efrit.mcp.state_key import own_key
from efrit.mcp.tools.call import GRACE_SECONDS
from efrit.served_certificate import ServedCertificate

log = logging.getLogger(__name__)

MAX_OUTPUT_BYTES = 8 << 20
"""Of a file that is read in a pod, and of all that one caller has read at once: `kubectl efrit` reads more."""
MAX_OUTPUT_BYTES_AT_ONCE = 16 << 20
"""Of all files that are read in pods at once, for all callers share the memory."""
MAX_NAMESPACES = 64
"""Backends that stay open though nobody uses them: each has connections of its own to the API server."""
CERTIFICATE_CHECK_SECONDS = 10.0
NAMESPACE = r"/namespaces/{namespace:str}/mcp"

OpenBackend = Callable[[str | None], Awaitable[Backend]]
BackendFor = Callable[[Caller, str], Backend]
"""The backend of one caller in one namespace."""


@dataclass
class _Namespace:
    backend: ReloadingBackend
    uses: int = 0


@dataclass
class Backends:
    """One backend for each namespace, opened when it is first needed.

    Beyond `MAX_NAMESPACES`, the one that has not been used for longest is closed; one that is in use stays.
    """

    open: OpenBackend
    _by_namespace: dict[str | None, _Namespace] = field(default_factory=dict)
    """The one that was used last comes last."""

    @asynccontextmanager
    async def use(self, namespace: str | None) -> AsyncIterator[Backend]:
        """Give the backend of a namespace to a call; None is the server's own."""
        entry = self._by_namespace.pop(namespace, None) or _Namespace(ReloadingBackend(lambda: self.open(namespace)))
        self._by_namespace[namespace] = entry
        entry.uses += 1
        try:
            async with entry.backend.use() as backend:
                yield backend
        finally:
            entry.uses -= 1
            for surplus in self._take_surplus():
                await surplus.close()

    async def close(self) -> None:
        """Close every backend."""
        while self._by_namespace:
            _, entry = self._by_namespace.popitem()
            await entry.backend.close()

    def _take_surplus(self) -> list[ReloadingBackend]:
        """Return the backends that are to be closed; whoever comes now opens others."""
        surplus = max(0, len(self._by_namespace) - MAX_NAMESPACES)
        unused = [namespace for namespace, entry in self._by_namespace.items() if not entry.uses]
        return [self._by_namespace.pop(namespace).backend for namespace in unused[:surplus]]  # gate: namespaces-bound


def make_app(
    backends: Backends,
    reviewer: Reviewer | None,
    security: TransportSecuritySettings,
    access: Access = Access.FULL,
    *,
    namespace: str | None = None,
    plans: bool = False,
    state_keys: list[bytes] | None = None,
    grace_seconds: float = GRACE_SECONDS,
    backend_for: BackendFor | None = None,
    limits: Limits = Limits(),  # noqa: B008 - a frozen value
    authorization_servers: Sequence[str] = (),
) -> Starlette:
    """Return the application. `namespace` is the server's own, at `/mcp`; `plans`: the backends have plans.

    `backend_for` has what a caller may do decided by the API server; without it, the `reviewer` is asked.
    """
    own = namespace or "default"

    @asynccontextmanager
    async def backend_of(context: ServerRequestContext[Any, Any]) -> AsyncIterator[Backend]:
        request = _http_request(context)
        named = request.path_params.get("namespace") or own
        async with AsyncExitStack() as uses:
            if reviewer is None:
                yield await uses.enter_async_context(backends.use(None))
                return
            caller: Caller = request.scope[CALLER]
            if backend_for is not None:
                yield backend_for(caller, named)
                return
            yield AuthorizedBackend(reviewer, caller, named, lambda: uses.enter_async_context(backends.use(named)))

    def principal(context: ServerRequestContext[Any, Any]) -> str | None:
        caller: Caller | None = _http_request(context).scope.get(CALLER)
        namespace = _http_request(context).path_params.get("namespace") or own
        return f"{caller.name} {caller.uid} {namespace}" if caller is not None else None

    server = make_server(
        backend_of, access, plans=plans, grace_seconds=grace_seconds, state_keys=state_keys, principal=principal
    )
    return app_for(server, reviewer, security, backends.close, limits, authorization_servers)


def app_for(
    server: McpServer[Any],
    reviewer: Reviewer | None,
    security: TransportSecuritySettings,
    on_shutdown: Callable[[], Awaitable[None]],
    limits: Limits = Limits(),  # noqa: B008 - a frozen value
    authorization_servers: Sequence[str] = (),
) -> Starlette:
    """Return the application that serves any MCP server, with the same checks in front of it."""
    manager = StreamableHTTPSessionManager(server, stateless=True, security_settings=security)
    endpoint = Endpoint(manager, security, reviewer, Admission(limits))
    readiness = Readiness(reviewer)

    async def alive(_: Request) -> JSONResponse:
        return JSONResponse({"status": "ok"})

    async def ready(_: Request) -> JSONResponse:
        problem = await readiness.problem()
        return JSONResponse({"status": problem or "ok"}, 503 if problem else 200)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with manager.run():
            yield
        await on_shutdown()

    routes = [Route("/healthz", alive), Route("/readyz", ready), Route("/mcp", endpoint)]
    if reviewer is not None:
        routes.append(Route(NAMESPACE, endpoint))
        metadata = Metadata(security, authorization_servers)
        routes += [Route(METADATA + path, metadata.answer) for path in ("", "/mcp", NAMESPACE)]
    return Starlette(routes=routes, lifespan=lifespan)


def _http_request(context: ServerRequestContext[Any, Any]) -> Request:
    if not isinstance(context.request, Request):
        raise Unauthorized("a call without an HTTP request has no caller")
    return context.request


def transport_security(http: Http) -> TransportSecuritySettings:
    """Return the accepted Host and Origin headers: the configured ones, and on loopback also its own names."""
    hosts, origins = list(http.allowed_hosts), list(http.allowed_origins)
    if http.host in LOOPBACK:
        names = ["127.0.0.1", "localhost", "[::1]"]
        hosts += [f"{name}:{http.port}" for name in names]
        origins += [f"{scheme}://{name}:{http.port}" for name in names for scheme in ("http", "https")]
    return TransportSecuritySettings(allowed_hosts=hosts, allowed_origins=origins)


async def open_bounded(place: Place, namespace: str | None, output_budget: OutputBudget | None) -> Backend:
    """Return the backend of a namespace; with a budget it is one that many callers share."""
    backend = await open_backend(
        Place(place.backend, place.config, place.kubeconfig, place.context, namespace or place.namespace)
    )
    if output_budget is not None and isinstance(backend, ClusterBackend):
        _bound_output(backend.api, output_budget)  # gate: output-bound-as-server
    return backend


def _bound_output(api: Api, output_budget: OutputBudget) -> None:
    api.max_output_bytes, api.output_budget = MAX_OUTPUT_BYTES, output_budget


async def serve_http(settings: Settings, http: Http) -> None:
    """Serve until the process gets a signal to stop; running work continues."""
    place = settings.place

    output_budget = OutputBudget(MAX_OUTPUT_BYTES_AT_ONCE, MAX_OUTPUT_BYTES)

    async def open_namespace(namespace: str | None) -> Backend:
        return await open_bounded(place, namespace, output_budget if http.authenticated else None)

    reviewer: Reviewer | None = None
    api: Api | None = None
    own = place.namespace
    if http.authenticated:
        kube_config, own, _ = await load_connection(place.kubeconfig, place.context, place.namespace)
        api = Api(kube_config)
        _bound_output(api, output_budget)
        reviewer = ApiServerReviewer(api, http.audiences)
    backend_for = backend_as(api) if api is not None and http.act_as is ActAs.CALLER else None
    # Without authentication all calls are the user's own.
    key = own_key() if not http.authenticated else None
    if http.state_key is not None:
        key = _read_key(http.state_key)
    app = make_app(
        Backends(open_namespace),
        reviewer,
        transport_security(http),
        settings.access,
        namespace=own,
        plans=kind_of_backend(place, os.environ) == "cluster",
        state_keys=[key] if key is not None else None,
        backend_for=backend_for,
        limits=http.limits,
        authorization_servers=http.authorization_servers,
    )
    try:
        await listen(app, http)
    finally:
        if api is not None:
            await api.close()


def listening_sockets(host: str, port: int) -> list[socket.socket]:
    """Return a listening socket for each address of `host`. Raises `NotReady`."""
    sockets: list[socket.socket] = []
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, _, _, _, address in addresses:
            try:
                sockets.append(socket.create_server(address[:2], family=family, backlog=2048))
            except OSError as error:
                # A name may resolve to an address family this machine does not have.
                if error.errno not in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT) or len(addresses) == 1:
                    raise
        if sockets:
            return sockets
        raise OSError(errno.EADDRNOTAVAIL, os.strerror(errno.EADDRNOTAVAIL))
    except OSError as error:
        for opened in sockets:
            opened.close()
        reason = error.strerror or str(error)
        raise NotReady(f"cannot listen on {host}:{port}: {reason}", "choose another --port or --host") from error


async def listen(app: Starlette, http: Http) -> None:
    """Serve on the address in `http` until cancelled or the process gets a signal.

    Raises `NotReady`, `ConfigurationError`.
    """
    config = uvicorn.Config(
        app,
        http=Connection,
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        ssl_certfile=http.certificate,
        ssl_keyfile=http.key,
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
    )
    try:
        config.load()
    except OSError as error:
        problem = f"--tls-cert {http.certificate} with --tls-key {http.key} cannot be used"
        raise ConfigurationError(f"{problem}: {error.strerror or error}") from error
    # If uvicorn opens the socket and fails, it ends the process from a task, with a traceback.
    server = Server(config, listening_sockets(http.host, http.port), http.limits)
    async with anyio.create_task_group() as group:
        if config.ssl is not None and http.certificate is not None and http.key is not None:
            config.ssl.minimum_version = ssl.TLSVersion.TLSv1_2
            certificate = ServedCertificate(config.ssl, http.certificate, http.key)
            group.start_soon(_refresh_repeatedly, certificate)
        serving = asyncio.create_task(server.serve())
        try:
            await asyncio.shield(serving)
        except asyncio.CancelledError:
            # uvicorn closes its sockets only when it shuts down by itself.
            server.should_exit = True
            await serving
            raise
        group.cancel_scope.cancel()


async def _refresh_repeatedly(certificate: ServedCertificate) -> None:
    while True:
        await anyio.sleep(CERTIFICATE_CHECK_SECONDS)
        certificate.refresh()


def _read_key(file: Path) -> bytes:
    try:
        key = file.read_bytes()
    except OSError as error:
        raise ConfigurationError(f"--state-key {file} cannot be read: {error}") from error
    if len(key) < 32:
        raise ConfigurationError(f"--state-key {file} has {len(key)} bytes: 32 or more are needed")
    return key
