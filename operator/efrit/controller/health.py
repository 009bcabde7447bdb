"""/healthz, /readyz and, unless it takes a token, /metrics.

Liveness proves that keys are finished, not that a port answers.

A namespace whose calls hang holds its share of the workers and proves nothing: see `WorkQueue.stalled_seconds`.
"""

from __future__ import annotations

from collections.abc import Callable

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

STUCK_AFTER_SECONDS = 60.0


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


async def serve(health: Health, host: str, port: int, *, with_metrics: bool = True) -> web.AppRunner:
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
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, host, port).start()
    return runner
