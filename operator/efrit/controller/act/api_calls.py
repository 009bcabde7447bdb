"""Calls of the API server by the controller's own HTTP, which takes of a processor half of what aiohttp takes.

TLS context, token and limits are those of the official client; a way through a proxy is left to
that. Nothing is repeated here.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import quote, urlsplit

from efrit.controller.act.http_calls import (
    PLAIN_PATH,
    Connection,
    Connections,
    Place,
    RemoteProtocolError,
    Timeouts,
)
from efrit.kube.client import TIMEOUT_SECONDS
from efrit.kube.connection import Configuration, behind_proxy

REST_SECONDS = 15.0
"""How long a connection is kept on which there are no calls, as aiohttp does."""
NEXT_ADDRESS_SECONDS = 0.25
"""As aiohttp does: an address of another family may lead nowhere."""
MAX_BODY_BYTES = 16 * 1024 * 1024
"""An object has 1.5 MiB in etcd, and at most six times that as JSON."""
WITHIN_CALL = Timeouts(connect=TIMEOUT_SECONDS, read=TIMEOUT_SECONDS, pool=TIMEOUT_SECONDS)
PORTS = {"https": 443, "http": 80}


class Answer(NamedTuple):
    """What the API server said; of its headers those that say when to retry."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class ApiCalls:
    """Connections to the API server. Close them when done."""

    def __init__(self, place: Place, root: str, limit: int) -> None:
        """Keep at most `limit` connections; root: what the paths of the API begin with."""
        self._connections = Connections(place, limit, REST_SECONDS)
        self._root = root

    @classmethod
    def over(cls, configuration: Configuration, tls: ssl.SSLContext) -> ApiCalls | None:
        """Return calls by a configuration, None where they take a way that only the library knows which it is of."""
        url = urlsplit(configuration.host)
        root = url.path.rstrip("/")
        if configuration.proxy or behind_proxy(configuration.host):  # gate: api-proxy
            return None
        if url.scheme not in PORTS or url.hostname is None or quote(root, safe=PLAIN_PATH) != root:
            return None
        name = configuration.tls_server_name or url.hostname
        port = url.port or PORTS[url.scheme]
        place = Place(url.hostname, port, tls if url.scheme == "https" else None, name, NEXT_ADDRESS_SECONDS)
        return cls(place, root, configuration.connection_pool_maxsize)

    async def call(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """Make one call. Raises `TransportError`, `TimeoutError`."""
        async with asyncio.timeout(TIMEOUT_SECONDS):
            connection, head = await self._connections.send(method, self._root + path, headers, body, WITHIN_CALL)
            try:
                return Answer(head.status, head.retry, await _read(connection))
            finally:
                self._connections.release(connection)

    def close(self) -> None:
        """End all connections, and the calls on them."""
        self._connections.close()


async def _read(connection: Connection) -> bytes:
    """Return the whole body."""
    body = bytearray()
    while part := await connection.read(TIMEOUT_SECONDS):
        body += part
        if len(body) > MAX_BODY_BYTES:
            raise RemoteProtocolError(f"the answer is longer than {MAX_BODY_BYTES} bytes")
    return bytes(body)
