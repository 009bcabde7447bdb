"""How many keys of one namespace are worked on at a time while the event loop is late. Pure: the caller measures.

Additive increase, multiplicative decrease (Chiu and Jain, 1989). Where the loop is late, more work at a time makes
nothing sooner, as all of it takes turns on that loop; what it does is to keep others waiting for theirs. Where the
loop is on time, it is the API server or a disk that is waited for, and more at a time is done sooner.
"""

from __future__ import annotations

LATE_SECONDS = 0.01
"""A loop whose turn takes longer is late."""
MIN_LIMIT = 2.0
MAX_LIMIT = 32.0
INCREASE = 0.2
DECREASE = 0.7
EVERY_SECONDS = 0.1
"""Between two measurements: a decision must have an effect before the next."""
FORGET_SECONDS = 5.0
"""What was learned so long ago says nothing of the load now."""


class Pace:
    """The limit; it begins high, and falls within half a second."""

    def __init__(self, max_limit: float = MAX_LIMIT) -> None:
        self._max_limit = max(MIN_LIMIT, max_limit)
        self._limit = self._max_limit
        self._measured = float("-inf")

    @property
    def limit(self) -> float:
        """How many keys of a namespace may be worked on at a time."""
        return self._limit

    @property
    def lowered(self) -> bool:
        """Whether it is lower than it may be."""
        return self._limit < self._max_limit

    def is_due(self, now: float) -> bool:
        """Return whether to measure, and count it as done."""
        if now - self._measured < EVERY_SECONDS:
            return False
        if now - self._measured >= FORGET_SECONDS:
            self._limit = self._max_limit
        self._measured = now
        return True

    def observe(self, seconds: float) -> None:
        """Take in how long a turn of the loop took."""
        if seconds > LATE_SECONDS:
            self._limit = max(MIN_LIMIT, self._limit * DECREASE)
        else:
            self._limit = min(self._max_limit, self._limit + INCREASE)
