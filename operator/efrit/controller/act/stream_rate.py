"""How much time the event streams may take: a bridge runs beside its users' code, which may flood the controller.

A token bucket for each stream. What is read costs its bytes, and each line as many as the parser takes the time of;
what its events make the store do costs their time. A stream in debt is not read for a while, and TCP holds its bridge
back. Streams in debt share one rate: a hundred that flood are no more to bear than one. Others never wait.
"""

from __future__ import annotations

from collections.abc import Callable

LINE_COST = 512
"""Bytes that a line counts for, beside its own: a stream of empty lines is as dear as one of long ones."""
RATE = 1024 * 1024
"""Bytes a second: some 400 events of a usual size, four times what the answers of a busy instance take."""
BURST = 8 * 1024 * 1024
"""What a stream may take at once: some 3,000 events, as a bridge reports after a connection."""
BUSY_SHARE = 0.1
"""Share of the time that the store may spend on one stream for long."""


class Shared:
    """What the streams in debt share."""

    def __init__(self) -> None:
        self.in_debt = 0


class StreamRate:
    """The bucket of one stream; `clock` is monotonic."""

    def __init__(self, shared: Shared, clock: Callable[[], float]) -> None:
        self._shared = shared
        self._clock = clock
        self._tokens = float(BURST)
        self._filled = clock()
        self._in_debt = False

    def read(self, part: bytes) -> None:
        """Charge what was read."""
        self._charge(len(part) + LINE_COST * part.count(b"\n"))

    def worked(self, seconds: float) -> None:
        """Charge the time that its events took."""
        self._charge(seconds * RATE / BUSY_SHARE)

    def pause(self) -> float:
        """Return the seconds for which it is not to be read."""
        self._fill()
        self._set_in_debt(self._tokens < 0)
        return max(0.0, -self._tokens / self._rate)

    def close(self) -> None:
        """Let go of its part of the rate."""
        self._set_in_debt(False)

    @property
    def _rate(self) -> float:
        return RATE / max(1, self._shared.in_debt)

    def _charge(self, cost: float) -> None:
        self._fill()
        self._tokens -= cost

    def _fill(self) -> None:
        now = self._clock()
        self._tokens = min(float(BURST), self._tokens + (now - self._filled) * self._rate)
        self._filled = now

    def _set_in_debt(self, in_debt: bool) -> None:
        self._shared.in_debt += in_debt - self._in_debt
        self._in_debt = in_debt
