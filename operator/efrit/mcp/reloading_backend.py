"""A backend that follows its configuration file: other programs write that file too, and a server runs for days."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio

from efrit.backend.interface import Backend
from efrit.errors import EfritError

log = logging.getLogger(__name__)

MAX_FORMER = 8
"""Backends of former files that calls may keep open: each has descriptors for each of its instances."""

Stamp = tuple[int, int, int]


@dataclass
class _Opened:
    backend: Backend
    uses: int = 0


class ReloadingBackend:
    """Opens the backend again when its file has changed; running calls keep the backend they started with.

    That of a former file is closed with the last call that uses it, or when there are more than `MAX_FORMER`.
    """

    def __init__(self, open_backend: Callable[[], Awaitable[Backend]]) -> None:
        self._open = open_backend
        self._lock = anyio.Lock()
        self._current: _Opened | None = None
        self._former: list[_Opened] = []
        self._stamp: Stamp | None = None

    @asynccontextmanager
    async def use(self) -> AsyncIterator[Backend]:
        """Give the backend for a call that starts now, for as long as it runs. Raises what opening it raises."""
        async with self._lock:
            opened = await self._latest()
            opened.uses += 1
        try:
            yield opened.backend
        finally:
            opened.uses -= 1
            if opened is not self._current and not opened.uses:  # gate: former-backend
                self._former = [former for former in self._former if former is not opened]
                await _close(opened.backend)

    async def close(self) -> None:
        """Close every backend that is open."""
        rest = [*self._former, *([self._current] if self._current is not None else [])]
        self._former, self._current = [], None
        for opened in reversed(rest):
            await _close(opened.backend)

    async def _latest(self) -> _Opened:
        before = self._current
        if before is None:
            self._current = _Opened(await self._open())
            self._stamp = _stamp(self._current.backend)
            return self._current
        # Stamped before the file is read: the next call sees what is written meanwhile.
        if (now := _stamp(before.backend)) == self._stamp:
            return before
        self._current, self._stamp = _Opened(await self._open()), now
        if before.uses:
            self._former.append(before)
        else:
            await _close(before.backend)
        if len(self._former) > MAX_FORMER:  # gate: former-backends
            # Its calls go on: each keeps what it has in hand. What they hand over is archived with the last of them.
            await _close(self._former.pop(0).backend)
        return self._current


async def _close(backend: Backend) -> None:
    """Close it; a failure must not cost a call its result."""
    with anyio.CancelScope(shield=True):
        try:
            await backend.close()
        except (EfritError, OSError) as error:
            log.warning("closing %s: %s", backend.place, error)


def _stamp(backend: Backend) -> Stamp | None:
    """Return a value that changes with the file; None without a file, or if the backend is a cluster."""
    if backend.kind != "local":
        return None
    try:
        status = Path(backend.place).stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size
