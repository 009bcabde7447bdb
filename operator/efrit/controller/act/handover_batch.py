"""Which elements go to a bridge together, and when; and the result of each. No I/O: clocks are parameters.

A group commit: while one call is under way the next elements gather. The first after an idle time goes at once. Where
more keys wait for the controller than it gets done, calls follow each other slowly: it makes nothing later, as a call
costs as much for one element as for ten. An acknowledgement waits for others a while longer, as nobody waits for it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from efrit.errors import BridgeError
from efrit.protocol.handover import MAX_BATCH_BYTES, MAX_BATCH_ELEMENTS, BatchResult

MAX_ELEMENT_BYTES = 32 * 1024
"""A longer line travels alone, by the call of its own."""
MAX_BATCHES = 2
"""Calls with batches that are under way to one bridge at a time: the second passes a first that has stuck."""
STUCK_SECONDS = 0.25
"""A call that takes longer holds the next ones no more: one of its elements may wait for what takes long."""
PACE_SECONDS = 0.1
"""From the begin of one call to that of the next under load."""
LINGER_SECONDS = 0.05
"""How long an acknowledgement waits for what travels with it."""
LONGEST_WAIT_SECONDS = 60.0
"""What waits for longer when a call ends is let go: a bridge may feed us one batch after the other drop by drop."""
MAX_RESULT_BYTES = 256 * 1024
"""Bytes of one line of an answer: an answer within it has at most 64 KiB, as within an event."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Waiting(Generic[T]):
    """An element that waits for a call. `ticket`: what gets its result; `since`: on the caller's clock."""

    line: bytes
    ticket: T
    since: float
    lingers: bool


class Gathering(Generic[T]):
    """The elements that wait for a call to one bridge, and the begins of the calls that are under way."""

    def __init__(self) -> None:
        self.max_elements = MAX_BATCH_ELEMENTS
        """Elements that one batch may have."""
        self._waiting: deque[Waiting[T]] = deque()
        self._urgent = 0
        self._bytes = 0
        self._under_way: list[float] = []
        self._began = float("-inf")

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, line: bytes, ticket: T, now: float, *, lingers: bool = False) -> None:
        """Have an element wait; lingers: it need not go at once."""
        self._waiting.append(Waiting(line, ticket, now, lingers))
        self._urgent += not lingers
        self._bytes += len(line)

    def due(self, now: float, *, loaded: bool = False) -> float | None:
        """Return when the next call is to begin; None while nothing waits, or no more calls may be under way.

        loaded: whether more waits for the controller than it gets done.
        """
        if not self._waiting or len(self._under_way) >= MAX_BATCHES:  # gate: few-batches
            return None
        is_full = len(self._waiting) >= self.max_elements or self._bytes >= MAX_BATCH_BYTES
        at = now if is_full or self._urgent else self._waiting[0].since + LINGER_SECONDS
        free_at = max(self._under_way, default=float("-inf")) + STUCK_SECONDS
        paced_at = self._began + PACE_SECONDS if loaded and not is_full else at
        return max(at, free_at, paced_at)

    def take(self, now: float) -> list[Waiting[T]]:
        """Return the elements of a call that begins now, at most as many as a batch may have, in their order."""
        batch: list[Waiting[T]] = []
        size = 0
        while self._waiting and len(batch) < self.max_elements:
            size += len(self._waiting[0].line)
            if batch and size > MAX_BATCH_BYTES:
                break
            batch.append(self._pop())
        self._under_way.append(now)
        self._began = now
        return batch

    def _pop(self) -> Waiting[T]:
        element = self._waiting.popleft()
        self._urgent -= not element.lingers
        self._bytes -= len(element.line)
        return element

    def ended(self, began: float) -> None:
        """Take in that the call is over that began at this time."""
        self._under_way.remove(began)

    def overdue(self, now: float) -> list[Waiting[T]]:
        """Return what has waited for too long, and forget it."""
        overdue: list[Waiting[T]] = []
        while self._waiting and now - self._waiting[0].since > LONGEST_WAIT_SECONDS:  # gate: overdue
            overdue.append(self._pop())
        return overdue

    def clear(self) -> list[Waiting[T]]:
        """Return what waits, and forget it."""
        waiting = list(self._waiting)
        self._waiting.clear()
        self._urgent = self._bytes = 0
        return waiting


class Results:
    """Reads the answer to a batch of so many elements, as it comes. A bridge may send anything."""

    def __init__(self, count: int) -> None:
        self._missing = set(range(count))
        self._buffer = bytearray()

    @property
    def missing(self) -> Sequence[int]:
        """The elements without a result so far."""
        return sorted(self._missing)

    def feed(self, part: bytes) -> Iterator[BatchResult]:
        """Yield the results that are whole with this part. Raises `BridgeError`, `ProtocolError`."""
        before = len(self._buffer)
        self._buffer += part
        # Only the new bytes are searched: a part may be a single byte.
        if (end := self._buffer.rfind(b"\n", before)) < 0:
            self._require_short(self._buffer)
            return
        lines = bytes(self._buffer[:end]).split(b"\n")
        del self._buffer[: end + 1]
        self._require_short(self._buffer)
        for line in lines:
            self._require_short(line)
            result = BatchResult.parse(line)
            if result.index not in self._missing:  # gate: answered-once
                raise BridgeError(
                    f"the bridge reported element {result.index} of a batch, which the batch does not have"
                )
            self._missing.remove(result.index)
            yield result

    @staticmethod
    def _require_short(line: bytes | bytearray) -> None:
        if len(line) > MAX_RESULT_BYTES:
            raise BridgeError(f"a line of the bridge's answer is longer than {MAX_RESULT_BYTES} bytes")
