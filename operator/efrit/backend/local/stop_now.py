"""Stopping an instance of this machine without waiting for what runs: that is cancelled."""

from __future__ import annotations

import asyncio

from efrit.backend.interface import RequestReason
from efrit.backend.local.daemon import Daemon
from efrit.backend.local.emacs_process import stop

NOW_SECONDS = 5.0
"""How long what runs may take to notice that it is cancelled."""

_AGAIN_SECONDS = 0.2


async def stop_now(daemon: Daemon) -> bool:
    """Cancel what runs and end Emacs; False if none ran.

    Emacs claims nothing more from the moment its stop begins, so what waits waits on.
    """
    stopping = asyncio.ensure_future(asyncio.to_thread(stop, daemon, NOW_SECONDS))
    ordered: set[str] = set()
    while not stopping.done():
        running = daemon.files.running()
        for rid in running:
            if rid not in ordered:
                daemon.files.order_stop(rid, RequestReason.CANCELLED)
                ordered.add(rid)
        if running:
            daemon.signal_cancel_check()
        await asyncio.wait({stopping}, timeout=_AGAIN_SECONDS)
    return stopping.result()
