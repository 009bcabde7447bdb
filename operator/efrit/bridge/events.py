"""The event stream: a ring of what happened, which each reader follows at its own pace.

Nothing is queued per reader: a reader holds a sequence number. One that has fallen behind the ring, or
knows another epoch, gets a `reset` and the state as it is now. No HTTP here.
"""

import contextlib
import secrets
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from dataclasses import dataclass

from msgspec.structs import replace

from efrit.auto_reset_event import AutoResetEvent
from efrit.errors import InvalidEvent
from efrit.protocol import EventName
from efrit.protocol.events import EventId, Reset
from efrit.protocol.view import RequestView, Stats
from efrit.queue.observe import LONG_ANSWER_BYTES

INLINE_BYTES = LONG_ANSWER_BYTES
"""An answer whose JSON is longer is left out of the event; the reader fetches it."""
KEEPALIVE_SECONDS = 10.0
LINGER_SECONDS = 0.02
"""How long an event may wait for others that is not an answer."""

Snapshot = Callable[[], AsyncIterator[RequestView]]
"""Yields everything unacknowledged, answers included."""


@dataclass(frozen=True, slots=True)
class _Record:
    seq: int
    text: bytes


def inlined(view: RequestView) -> RequestView:
    """Return `view` as an event carries it: without a response that is too long."""
    if view.response is not None and (view.response_bytes or 0) > INLINE_BYTES:
        return replace(view, response=None)
    return view


def encode(name: EventName, data: str, event_id: EventId | None = None) -> bytes:
    """Return one server-sent event. `data` is JSON on one line."""
    head = f"id: {event_id}\n" if event_id is not None else ""
    return f"{head}event: {name}\ndata: {data}\n\n".encode()


class EventLog:
    """The last events of one run of the bridge, at most `max_events` and about `max_bytes`."""

    def __init__(self, *, max_events: int = 1024, max_bytes: int = 1024 * 1024) -> None:
        self.epoch = secrets.token_hex(6)
        self._max_events, self._max_bytes = max_events, max_bytes
        self._ring: deque[_Record] = deque()
        self._bytes = 0
        self._seq = 0
        self._followers: set[AutoResetEvent] = set()
        self.closed = False
        self.readers = 0
        """How many follow the stream."""

    def append(self, event: RequestView | Stats) -> None:
        """Tell every reader."""
        name: EventName = "stats" if isinstance(event, Stats) else "request"
        payload = inlined(event) if isinstance(event, RequestView) else event
        self._seq += 1
        text = encode(name, payload.to_json(), EventId(self.epoch, self._seq))
        self._ring.append(_Record(self._seq, text))
        self._bytes += len(text)
        while len(self._ring) > self._max_events or (self._bytes > self._max_bytes and len(self._ring) > 1):
            self._bytes -= len(self._ring.popleft().text)
        # What waits or runs is often answered the next moment, and reported together with that.
        urgent = not isinstance(event, RequestView) or event.state.final
        self._wake(0.0 if urgent else LINGER_SECONDS)

    def close(self) -> None:
        """End every stream."""
        self.closed = True
        self._wake()

    def _wake(self, within: float = 0.0) -> None:
        for follower in self._followers:
            if within:
                follower.set_within(within)
            else:
                follower.set()

    def position(self, last_event_id: str | None) -> int | None:
        """Return the sequence number that a reader has reached; None: it must start anew."""
        try:
            resume = EventId.parse(last_event_id or "")
        except InvalidEvent:
            return None
        if resume.epoch != self.epoch or resume.seq > self._seq:
            return None
        return resume.seq if self._holds_after(resume.seq) else None

    def _holds_after(self, seq: int) -> bool:
        return seq == self._seq or (bool(self._ring) and self._ring[0].seq <= seq + 1)

    async def stream(
        self,
        last_event_id: str | None,
        *,
        queue_id: str,
        snapshot: Snapshot,
        stats: Callable[[], Stats],
        keepalive: float = KEEPALIVE_SECONDS,
    ) -> AsyncGenerator[bytes]:
        """Yield the bytes of one reader's stream, until `close`."""
        self.readers += 1
        changed = AutoResetEvent()
        self._followers.add(changed)
        try:
            parts = self._stream(changed, last_event_id, queue_id, snapshot, stats, keepalive)
            async with contextlib.aclosing(parts):
                async for part in parts:
                    yield part
        finally:
            self._followers.discard(changed)
            self.readers -= 1

    async def _stream(
        self,
        changed: AutoResetEvent,
        last_event_id: str | None,
        queue_id: str,
        snapshot: Snapshot,
        stats: Callable[[], Stats],
        keepalive: float,
    ) -> AsyncGenerator[bytes]:
        position = self.position(last_event_id)
        if position is not None:
            # No id: it says nothing about how far the reader has come.
            yield encode("stats", stats().to_json())
        while not self.closed:
            if position is None:
                position = self._seq
                yield encode("reset", Reset(queue_id=queue_id, epoch=self.epoch).to_json())
                async for view in snapshot():
                    yield encode("request", inlined(view).to_json())
                # Only the last event of a snapshot has an id: see efrit.protocol.events.
                yield encode("stats", stats().to_json(), EventId(self.epoch, position))
            if not self._holds_after(position):
                position = None
            elif position < self._seq:
                text = self._after(position)
                position = self._seq
                yield text
            elif not self.closed and not await changed.wait(keepalive):
                yield b": keepalive\n\n"

    def _after(self, seq: int) -> bytes:
        first = self._ring[0].seq
        start = max(0, seq + 1 - first)
        return b"".join(self._ring[i].text for i in range(start, len(self._ring)))
