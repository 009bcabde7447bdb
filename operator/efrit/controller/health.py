"""/healthz, /readyz and /metrics. Liveness proves that keys go through the work queue, not that a port answers."""

from __future__ import annotations

import time
from collections.abc import Callable

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

STUCK_AFTER_SECONDS = 60.0


class Health:
    """What the probes read. `pulse` returns when the queue last moved, or None while this process is a standby."""

    def __init__(self) -> None:
        self.pulse: Callable[[], float] | None = None
        self.ready = False

    def stuck_for(self) -> float | None:
        """Return for how many seconds too long the work queue has stood still, or None."""
        if self.pulse is None:
            return None
        age = time.monotonic() - self.pulse()
        return age if age > STUCK_AFTER_SECONDS else None


async def serve(health: Health, host: str, port: int) -> web.AppRunner:
    """Start the server; clean the returned runner up to stop it."""

    async def healthz(_: web.Request) -> web.Response:
        stuck = health.stuck_for()
        if stuck is not None:
            return web.Response(status=503, text=f"the work queue has stood still for {stuck:.0f} s\n")
        return web.Response(text="ok\n")

    async def readyz(_: web.Request) -> web.Response:
        if not health.ready:
            return web.Response(status=503, text="starting\n")
        return web.Response(text="leading\n" if health.pulse else "standby\n")

    async def metrics(_: web.Request) -> web.Response:
        return web.Response(body=generate_latest(), headers={"Content-Type": CONTENT_TYPE_LATEST})

    app = web.Application()
    app.add_routes([web.get("/healthz", healthz), web.get("/readyz", readyz), web.get("/metrics", metrics)])
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, host, port).start()
    return runner
