"""When the figures of instances are written: so many a second over all of them, each in its turn. Pure: no clock.

A status that says more than figures does not wait for a turn, and takes none. The generic cell rate algorithm (ITU-T
I.371): one moment says how far the turns have been given away.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from efrit.controller.decide.figures import LONGEST_TURN

WRITES_A_SECOND = 10
BETWEEN = timedelta(seconds=1) / WRITES_A_SECOND
AT_ONCE = 20
"""Writes that may come together after a rest."""


class FiguresPace:
    """The turns that are given away."""

    def __init__(self) -> None:
        self._taken: datetime | None = None
        """Until when turns are given away, at WRITES_A_SECOND."""

    def next_turn(self, now: datetime) -> datetime:
        """Return when the next write may begin, `now` at the earliest."""
        return max(now, self._taken_until(now) - (AT_ONCE - 1) * BETWEEN)

    def take(self, now: datetime) -> datetime:
        """Give the next turn away, and return when it is."""
        turn = self.next_turn(now)
        self._taken = self._taken_until(now) + BETWEEN
        return turn

    def _taken_until(self, now: datetime) -> datetime:
        if self._taken is None or self._taken - now > LONGEST_TURN:
            return now
        return max(now, self._taken)
