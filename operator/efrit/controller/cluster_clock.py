"""The time of day as the API server has it: what the controller decides by, and writes.

A clock of the controller's node that is set, or wrong, would end what waits at once or keep it for as long: the times
of all objects are the API server's. Its answers say what time it is, to the second. The node's clock counts where
it agrees with them, otherwise time goes on from the last answer by a clock that nobody sets.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from efrit.kube.retry_after import http_date

TOLERANCE = timedelta(seconds=2)
"""How far a clock may be from what an answer says: a smaller difference is nobody's concern."""
LONGEST_CALL_SECONDS = 5.0
"""The answer to a call that took longer says too little."""
ONE_SECOND = timedelta(seconds=1)


class ClusterClock:
    """Returns the time when it is called; begins with that of the node."""

    def __init__(
        self,
        node: Callable[[], datetime] = lambda: datetime.now(UTC),
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._node = node
        self._monotonic = monotonic
        self._read: datetime | None = None
        """What time it was when an answer said it; None before the first one that did."""
        self._read_at = 0.0

    def __call__(self) -> datetime:
        """Return the time of day, in UTC."""
        if self._read is None:
            return self._node()
        return self._read + timedelta(seconds=self._monotonic() - self._read_at)  # gate: cluster-time

    def observe(self, date: str | None, seconds: float) -> None:
        """Take in the Date header of an answer of the API server, to a call that took so many seconds.

        One that does not say it changes nothing: a proxy whose way to the API server is broken answers so.
        """
        said, now, node = http_date(date or ""), self(), self._node()
        if said is None or seconds > LONGEST_CALL_SECONDS:  # gate: answer-without-time
            return
        # It was that second at some time of the call.
        earliest, latest = said - TOLERANCE, said + ONE_SECOND + timedelta(seconds=seconds) + TOLERANCE
        if not earliest <= node <= latest:
            node = now if earliest <= now <= latest else said + ONE_SECOND / 2
        self._read, self._read_at = node, self._monotonic()
