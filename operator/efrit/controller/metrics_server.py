"""/metrics over TLS, for those who may read it (`metrics_access.py`), on a port of its own: probes send no token.

Whoever reaches the port may open connections, and each takes memory of the controller: they are within limits of
number and time.
"""

from __future__ import annotations

import asyncio
import os
import ssl
import weakref
from datetime import UTC, datetime, timedelta

from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from efrit.connection_limit import ConnectionLimit
from efrit.controller.health import exposition
from efrit.controller.listener import Connection, Site, set_up
from efrit.controller.metrics_access import PATH, MetricsAccess

VALID = timedelta(days=3650)
"""Of a certificate that goes with its process, and that nobody can verify: it is there for the encryption."""
MAX_CONNECTIONS = 32
"""Prometheus opens one."""
HANDSHAKE_SECONDS = 10.0
UNPROVEN_SECONDS = 10.0
"""How long a connection may be open that no reader has used."""
COLLECT_SECONDS = 5.0
TEXTS = {
    401: "send the bearer token of a user whom the API server knows\n",
    403: f"the user of this token may not `get` the non-resource URL {PATH}\n",
    503: "the API server could not be asked; try again\n",
}


class _Connection(Connection):
    """One of which is known whether a reader uses it."""

    proven = False


class _Connections:
    """Makes connections, and ends those that no reader uses."""

    def __init__(self, server: web.Server, seconds: float) -> None:
        self._server = server
        self._seconds = seconds
        self._limit: ConnectionLimit[_Connection] = ConnectionLimit(MAX_CONNECTIONS, COLLECT_SECONDS)

    def __call__(self) -> _Connection:
        self._limit.check()
        connection = _Connection(self._server())
        self._limit.add(connection)
        asyncio.get_running_loop().call_later(self._seconds, self._end, weakref.ref(connection))
        return connection

    def prove(self, transport: asyncio.BaseTransport | None) -> None:
        """Take in that a reader uses a connection."""
        for connection in self._limit:
            connection.proven = connection.proven or connection.transport is transport

    def _end(self, which: weakref.ref[_Connection]) -> None:
        connection = which()
        if connection is None or connection.proven:
            return
        connection.abort()
        if connection.transport is None:
            # Its handshake ends by itself, in one way or the other.
            asyncio.get_running_loop().call_later(self._seconds, self._end, which)


async def serve_metrics(
    access: MetricsAccess,
    host: str,
    port: int,
    unproven_seconds: float = UNPROVEN_SECONDS,
    handshake_seconds: float = HANDSHAKE_SECONDS,
) -> web.AppRunner:
    """Start the server; clean the returned runner up to stop it."""

    async def metrics(request: web.Request) -> web.Response:
        status = await access.status(request.headers.get("Authorization", ""))
        if status != 200:  # gate: metrics-access
            headers = {"WWW-Authenticate": "Bearer"} if status == 401 else {}
            return web.Response(status=status, text=TEXTS[status], headers=headers)
        connections.prove(request.transport)
        return exposition()

    app = web.Application()
    app.add_routes([web.get(PATH, metrics)])
    runner = web.AppRunner(app, access_log=None)
    connections = _Connections(await set_up(runner), unproven_seconds)
    await Site(runner, host, port, connections, _tls(), handshake_seconds).start()
    return runner


def _tls() -> ssl.SSLContext:
    """Return a context with a certificate made for this process. Its key never reaches a disk."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "efrit-operator")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + VALID)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("efrit-operator")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = certificate.public_bytes(Encoding.PEM) + key.private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # The ssl module reads files alone; the root file system of the container is read-only.
    with os.fdopen(os.memfd_create("metrics-tls"), "wb") as file:
        file.write(pem)
        file.flush()
        context.load_cert_chain(f"/proc/self/fd/{file.fileno()}")
    return context
