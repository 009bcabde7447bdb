"""When a controller led, as the API server saw it: by the renewals of its Lease.

Kills and stops are known to the rig; that a controller starts late, or that an API server comes back late, on a busy
machine is seen only here.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from tests.chaos.recorder import Watcher

LONGEST_SECONDS = 10.0
"""Between two renewals of a leader that is not kept from its work; it renews every few seconds."""

Span = tuple[float, float]


class LeaseRecorder(Watcher):
    """The renewals of the Lease in a namespace."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._renewals: list[float] = []

    @property
    def renewals(self) -> Sequence[float]:
        """Return when the Lease was taken or renewed, in seconds since the start of the run."""
        with self._lock:
            return tuple(self._renewals)

    def _note_missing(self, listed: set[str]) -> None:
        """A Lease that is gone is not renewed."""

    def _note(self, event: str, obj: dict[str, Any]) -> None:
        if event != "DELETED" and obj["spec"].get("holderIdentity"):
            with self._lock:
                self._renewals.append(self._clock())


def leaderless(renewals: Sequence[float], until: float) -> tuple[Span, ...]:
    """Return the spans between 0 and `until` in which no leader renewed its Lease for longer than it should take."""
    moments = [0.0, *sorted(each for each in renewals if 0 <= each <= until), until]
    return tuple(each for each in itertools.pairwise(moments) if each[1] - each[0] > LONGEST_SECONDS)


def seconds_of(spans: Sequence[Span]) -> float:
    """Return how long spans are together; they do not overlap."""
    return sum(end - begin for begin, end in spans)
