"""uvicorn, quietened: our own signals, no ten wake-ups a second, sockets opened by us."""

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from typing import Any

import uvicorn

from efrit import tls_buffer
from efrit.bridge.connection import Connection
from efrit.bridge.tls import Certificate

tls_buffer.keep_small()

KEEP_ALIVE_SECONDS = 600
"""Longer than the controller's client keeps an idle connection: the one that uses it closes it."""


class Server(uvicorn.Server):
    """Serves until `stop`; leaves signals to whoever started it."""

    def __init__(self, app: Any, certificate: Certificate) -> None:
        config = uvicorn.Config(
            app,
            http=Connection,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=False,
            proxy_headers=False,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=1,
        )
        config.load()
        config.ssl = certificate.context
        super().__init__(config)
        self._stop = asyncio.Event()

    def stop(self) -> None:
        """End `serve`."""
        self.should_exit = True
        self._stop.set()

    async def main_loop(self) -> None:
        """Wait for `stop`."""
        # uvicorn ticks to renew the Date header and to notice signals; we have neither.
        await self._stop.wait()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the process's signal handlers alone."""
        yield


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket; an empty `host` means every address, IPv6 too where there is IPv6."""
    opened = _open(host, port)
    # asyncio does this only for sockets that name their protocol; without it every answer waits 40 ms.
    opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return opened


def _open(host: str, port: int) -> socket.socket:
    if host:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family, backlog=256)
    with contextlib.suppress(OSError):
        if socket.has_dualstack_ipv6():
            return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=256)
    return socket.create_server(("", port), backlog=256)
