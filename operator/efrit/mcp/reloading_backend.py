"""A backend that follows its configuration file: other programs write that file too, and a server runs for days."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

from efrit.client.interface import Backend

Stamp = tuple[int, int, int]


class ReloadingBackend:
    """Opens the backend again when its file has changed; running calls keep the backend they started with."""

    def __init__(self, open_backend: Callable[[], Awaitable[Backend]]) -> None:
        self._open = open_backend
        self._backends: list[Backend] = []
        self._stamp: Stamp | None = None

    async def current(self) -> Backend:
        """Return the backend for a call that starts now. Raises what opening it raises."""
        if not self._backends:
            self._backends.append(await self._open())
            self._stamp = _stamp(self._backends[-1])
        # Stamped before the file is read: the next call sees what is written meanwhile.
        elif (now := _stamp(self._backends[-1])) != self._stamp:
            self._backends.append(await self._open())
            self._stamp = now
        return self._backends[-1]

    async def close(self) -> None:
        """Close every backend that was opened."""
        while self._backends:
            await self._backends.pop().close()


def _stamp(backend: Backend) -> Stamp | None:
    """Return a value that changes with the file; None without a file, or if the backend is a cluster."""
    if backend.kind != "local":
        return None
    try:
        status = Path(backend.place).stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size
