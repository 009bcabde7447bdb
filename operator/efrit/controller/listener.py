"""A port of aiohttp's whose connections are made here: whoever reaches it may open any, and each takes memory.

Knows nothing of what is asked for, nor how many connections there may be.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable

from aiohttp import web
from aiohttp.web_protocol import RequestHandler


class Connection(asyncio.Protocol):
    """One of aiohttp's, which counts from before its handshake."""

    def __init__(self, http: RequestHandler) -> None:
        self._http = http
        self.transport: asyncio.BaseTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to serve it."""
        self.transport = transport
        self._http.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        """Pass it on."""
        self._http.data_received(data)

    def eof_received(self) -> None:
        """Pass it on."""
        self._http.eof_received()

    def pause_writing(self) -> None:
        """Pass it on."""
        self._http.pause_writing()

    def resume_writing(self) -> None:
        """Pass it on."""
        self._http.resume_writing()

    def connection_lost(self, exc: BaseException | None) -> None:
        """Pass it on."""
        self._http.connection_lost(exc)

    def abort(self) -> None:
        """End it at once, once it was begun."""
        if isinstance(self.transport, asyncio.WriteTransport):
            self.transport.abort()


class Site(web.BaseSite):
    """aiohttp's site of a port."""

    def __init__(
        self,
        runner: web.AppRunner,
        host: str,
        port: int,
        connect: Callable[[], Connection],
        tls: ssl.SSLContext | None = None,
        handshake_seconds: float | None = None,
    ) -> None:
        """Listen on `port`, with a connection that `connect` makes for each that is opened."""
        super().__init__(runner, ssl_context=tls)
        self._where = host, port
        self._connect = connect
        self._handshake_seconds = handshake_seconds

    @property
    def name(self) -> str:
        """How it is called."""
        scheme = "https" if self._ssl_context is not None else "http"
        return "{}://{}:{}".format(scheme, *self._where)

    async def start(self) -> None:
        """Begin to listen."""
        await super().start()
        self._server = await asyncio.get_running_loop().create_server(
            self._connect,
            *self._where,
            ssl=self._ssl_context,
            backlog=self._backlog,
            ssl_handshake_timeout=self._handshake_seconds,
        )


async def set_up(runner: web.AppRunner) -> web.Server:
    """Set a runner up and return its server, which makes the HTTP side of connections."""
    await runner.setup()
    if runner.server is None:
        raise RuntimeError("set up, a runner has a server")
    return runner.server
