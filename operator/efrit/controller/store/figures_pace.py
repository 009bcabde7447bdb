"""When the figures of instances are written: so many a second over all of them, each in its turn. Pure: no clock.

A status that says more than figures does not wait for a turn, and takes none. The generic cell rate algorithm (ITU-T
I.371): one moment says how far the turns have been given away. A namespace that has had less than its share of the
turns does not wait for those of others: its next one comes as soon as if all namespaces took turns.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from efrit.controller.decide.figures import LONGEST_TURN

WRITES_A_SECOND = 10
BETWEEN = timedelta(seconds=1) / WRITES_A_SECOND
AT_ONCE = 20
"""Writes that may come together after a rest."""
REMEMBERED = timedelta(minutes=1)
"""How long after its last turn a namespace counts among those that share the turns."""


class FiguresPace:
    """The turns that are given away."""

    def __init__(self) -> None:
        self._taken: datetime | None = None
        """Until when turns are given away, at WRITES_A_SECOND."""
        self._newcomers: datetime | None = None
        """The same of those that namespaces got which had none for a while."""
        self._last: dict[str, datetime] = {}
        """The last turn of each namespace."""
        self._next_check: datetime | None = None
        """When to forget the namespaces that had no turn for a while."""

    def next_turn(self, now: datetime) -> datetime:
        """Return when the next write may begin, `now` at the earliest."""
        return max(now, _from_now(self._taken, now) - (AT_ONCE - 1) * BETWEEN)

    def take(self, now: datetime, namespace: str) -> datetime:
        """Give the next turn away to an instance of a namespace, and return when it is."""
        self._forget(now)
        turn = self.next_turn(now)
        self._taken = _from_now(self._taken, now) + BETWEEN
        if turn > now:
            turn = min(turn, self._turn_of_share(now, namespace))  # gate: figures-share
        self._last[namespace] = turn
        return turn

    def _turn_of_share(self, now: datetime, namespace: str) -> datetime:
        """Return when the next turn of a namespace is where all that have turns get as many."""
        last = self._last.get(namespace)
        if last is not None:
            return max(now, last + len(self._last) * BETWEEN)
        turn = _from_now(self._newcomers, now)
        self._newcomers = turn + BETWEEN
        return turn

    def _forget(self, now: datetime) -> None:
        if self._next_check is not None and now < self._next_check <= now + REMEMBERED:
            return
        self._next_check = now + REMEMBERED
        self._last = {
            namespace: last for namespace, last in self._last.items() if -REMEMBERED <= last - now <= LONGEST_TURN
        }


def _from_now(moment: datetime | None, now: datetime) -> datetime:
    """Return a moment, `now` where it has passed, or comes from a clock that was set back since."""
    return now if moment is None or moment - now > LONGEST_TURN else max(now, moment)
