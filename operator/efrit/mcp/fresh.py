"""The backend as its configuration file says now: other programs write that file too, and a server runs for days."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

from efrit.client.interface import Backend

Stamp = tuple[int, int, int]


class FreshBackend:
    """Opens the backend again when its file has changed; calls that are under way keep the one they began with."""

    def __init__(self, opened: Callable[[], Awaitable[Backend]]) -> None:
        self._open = opened
        self._backends: list[Backend] = []
        self._stamp: Stamp | None = None

    async def current(self) -> Backend:
        """The backend for a call that begins now. Raises what opening it raises."""
        if not self._backends:
            self._backends.append(await self._open())
            self._stamp = _stamp(self._backends[-1])
        # Looked at before the file is read: what is written meanwhile is seen by the next call.
        elif (now := _stamp(self._backends[-1])) != self._stamp:
            self._backends.append(await self._open())
            self._stamp = now
        return self._backends[-1]

    async def close(self) -> None:
        """Closes all of them."""
        while self._backends:
            await self._backends.pop().close()


def _stamp(backend: Backend) -> Stamp | None:
    """What changes when the file does; None where there is no file, or the backend is a cluster."""
    if backend.kind != "local":
        return None
    try:
        known = Path(backend.place).stat()
    except OSError:
        return None
    return known.st_ino, known.st_mtime_ns, known.st_size
