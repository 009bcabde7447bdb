"""/healthz, /readyz and, unless it takes a token, /metrics.

Liveness proves that keys are finished, not that a port answers.

Whoever reaches the port may open connections. Where there are many, the oldest of the address that has most makes
place for a new one, so that those that send nothing keep no probe out.

A namespace whose calls hang holds its share of the workers and proves nothing: see `WorkQueue.stalled_seconds`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from aiohttp import web
from aiohttp.web_protocol import RequestHandler
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from efrit.connection_limit import OpenConnections
from efrit.controller.listener import Connection, Site, set_up

STUCK_AFTER_SECONDS = 60.0
MAX_CONNECTIONS = 32
"""A probe opens one and ends it, Prometheus keeps one."""
IDLE_SECONDS = 60.0
"""How long a connection may wait for the head of its next request; longer than between two probes or scrapes."""


class Health:
    """What the probes read. `stalled_seconds` is None while this process is a standby."""

    def __init__(self) -> None:
        self.stalled_seconds: Callable[[], float] | None = None
        self.ready = False

    def stuck_for(self) -> float | None:
        """Return for how many seconds too long the work queue has stood still, or None."""
        stalled = self.stalled_seconds() if self.stalled_seconds is not None else 0.0
        return stalled if stalled > STUCK_AFTER_SECONDS else None


def exposition() -> web.Response:
    """Return all metrics in the format of Prometheus."""
    return web.Response(body=generate_latest(), headers={"Content-Type": CONTENT_TYPE_LATEST})


class _Connection(Connection):
    """One of those that are open."""

    def __init__(self, http: RequestHandler, opened: OpenConnections[_Connection]) -> None:
        super().__init__(http)
        self._opened = opened

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to serve it, at the cost of another if need be."""
        super().connection_made(transport)
        other = self._opened.add(self, transport.get_extra_info("peername"))
        if other is not None:
            other.abort()

    def connection_lost(self, exc: BaseException | None) -> None:
        """Make place for others."""
        self._opened.remove(self)
        super().connection_lost(exc)


async def serve(
    health: Health, host: str, port: int, *, with_metrics: bool = True, idle_seconds: float = IDLE_SECONDS
) -> web.AppRunner:
    """Start the server; clean the returned runner up to stop it."""

    async def healthz(_: web.Request) -> web.Response:
        stuck = health.stuck_for()
        if stuck is not None:
            return web.Response(status=503, text=f"the work queue has finished no key for {stuck:.0f} s\n")
        return web.Response(text="ok\n")

    async def readyz(_: web.Request) -> web.Response:
        if not health.ready:
            return web.Response(status=503, text="starting\n")
        return web.Response(text="leading\n" if health.stalled_seconds else "standby\n")

    async def metrics(_: web.Request) -> web.Response:
        return exposition()

    app = web.Application()
    app.add_routes([web.get("/healthz", healthz), web.get("/readyz", readyz)])
    if with_metrics:
        app.add_routes([web.get("/metrics", metrics)])
    runner = web.AppRunner(app, access_log=None, keepalive_timeout=idle_seconds)
    server, opened = await set_up(runner), OpenConnections[_Connection](MAX_CONNECTIONS)
    await Site(runner, host, port, lambda: _Connection(server(), opened)).start()
    return runner
