"""One watch on its way through the proxy: lines in, lines out, and the faults in between.

Knows lines and faults; HTTP is proxy.py's.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from tests.support.faults.api_proxy.calls import Json
from tests.support.faults.api_proxy.rules import ArmedFault, Effect, Fault, FaultRules

EXPIRED: Json = {
    "kind": "Status",
    "apiVersion": "v1",
    "metadata": {},
    "status": "Failure",
    "message": "too old resource version",
    "reason": "Expired",
    "code": 410,
}


class Holds:
    """Holds calls and events for a while, all of them until `release` at the latest. Event loop only."""

    def __init__(self) -> None:
        self._released = asyncio.Event()

    @property
    def next_release(self) -> asyncio.Event:
        """What the next `release` sets. To be taken in the step in which a fault is matched: none is missed then."""
        return self._released

    async def hold(self, seconds: float, released: asyncio.Event) -> None:
        """Return after `seconds`, or once `released` is set."""
        try:
            async with asyncio.timeout(seconds):
                await released.wait()
        except TimeoutError:
            return

    def release(self) -> None:
        """Let go everything that is held now."""
        self._released.set()
        self._released = asyncio.Event()


class Cut(Exception):  # noqa: N818 - not an error
    """Raised where the connection is to be reset."""


class _Ended(Exception):  # noqa: N818 - not an error
    """Raised where the stream is to end cleanly."""


@dataclass(eq=False)
class Stream:
    """One open watch. `feed` takes the API server's lines, None at their end; `run` writes what passes."""

    resource: str
    rules: FaultRules
    holds: Holds
    write: Callable[[bytes], Awaitable[None]]
    _lines: asyncio.Queue[bytes | ArmedFault | None] = field(default_factory=asyncio.Queue)
    _kept: tuple[bytes, str, float] | None = None
    """A line that is sent after the next one of another object: line, name, until when."""

    def feed(self, line: bytes | None) -> None:
        """Take a line, or None at the end."""
        self._lines.put_nowait(line)

    def inject(self, armed: ArmedFault) -> None:
        """Inject a fault without an event, behind the lines that were fed already."""
        self._lines.put_nowait(armed)

    async def run(self) -> None:
        """Write until the end. Raises Cut where the connection is to be reset."""
        try:
            while True:
                item = await self._next()
                if item is None:
                    break
                if isinstance(item, ArmedFault):
                    item.hit(time.time())
                    await self._apply(item.fault, b"", "", self.holds.next_release)
                else:
                    await self._line(item)
        except _Ended:
            return
        await self._write_kept()

    async def _next(self) -> bytes | ArmedFault | None:
        while True:
            wait = None if self._kept is None else max(0.0, self._kept[2] - time.monotonic())
            try:
                async with asyncio.timeout(wait):
                    return await self._lines.get()
            except TimeoutError:
                await self._write_kept()

    async def _line(self, line: bytes) -> None:
        event = json.loads(line)
        name = str(event.get("object", {}).get("metadata", {}).get("name", ""))
        fault = self.rules.for_event(self.resource, event, time.time())
        if fault is not None:
            await self._apply(fault, line, name, self.holds.next_release)
            return
        # The events of one object keep their order.
        if self._kept is not None and self._kept[1] == name:
            await self._write_kept()
        await self.write(line)
        if self._kept is not None and event.get("type") != "BOOKMARK":
            await self._write_kept()

    async def _write_kept(self) -> None:
        if self._kept is not None:
            line, self._kept = self._kept[0], None
            await self.write(line)

    async def _apply(self, fault: Fault, line: bytes, name: str, released: asyncio.Event) -> None:
        if fault.effect != Effect.EVENT_REORDERED:
            await self._write_kept()
        match fault.effect:
            case Effect.EVENT_DROPPED:
                return
            case Effect.EVENT_DELAYED | Effect.STREAM_SILENT:
                await self.holds.hold(fault.seconds, released)
            case Effect.EVENT_DUPLICATED:
                await self.write(line)
            case Effect.EVENT_REORDERED:
                await self._write_kept()
                self._kept = line, name, time.monotonic() + fault.seconds
                return
            case Effect.STREAM_EXPIRED:
                await self.write(json.dumps({"type": "ERROR", "object": EXPIRED}).encode() + b"\n")
                raise _Ended
            case Effect.STREAM_ENDED:
                raise _Ended
            case Effect.STREAM_CUT:
                await self.write(line[: len(line) // 2])
                raise Cut
        if line:
            await self.write(line)
