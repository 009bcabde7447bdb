"""Readiness probes of a controller, as often as the startup probe and as long as the readiness probe of the chart.

In a process of their own: what else the benchmark does must not make them late.
"""

from __future__ import annotations

import http.client
import multiprocessing
import time
from multiprocessing.connection import Connection
from urllib.parse import urlsplit

SPAWN = multiprocessing.get_context("spawn")
EVERY_SECONDS = 0.5
TIMEOUT_SECONDS = 3.0


class Probes:
    """Probes from the first that succeeds on. Close it: it is a process."""

    def __init__(self, url: str) -> None:
        self._pipe, theirs = SPAWN.Pipe()
        self._process = SPAWN.Process(target=_probe, args=(url, theirs), daemon=True)
        self._process.start()
        theirs.close()

    def close(self) -> tuple[float, int]:
        """End them; return the seconds of the slowest, and how many failed once one had succeeded."""
        self._pipe.send(None)
        slowest, failed = self._pipe.recv()
        self._process.join()
        return slowest, failed


def _probe(url: str, pipe: Connection) -> None:
    parts = urlsplit(url)
    slowest, failed, ready = 0.0, 0, False
    while not pipe.poll(EVERY_SECONDS):
        began = time.monotonic()
        connection = http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=TIMEOUT_SECONDS)
        try:
            connection.request("GET", parts.path)
            is_ready = connection.getresponse().status == http.HTTPStatus.OK
        except (OSError, http.client.HTTPException):
            is_ready = False
        finally:
            connection.close()
        ready = ready or is_ready
        if ready:
            slowest = max(slowest, time.monotonic() - began)
            failed += not is_ready
    pipe.send((slowest, failed))
