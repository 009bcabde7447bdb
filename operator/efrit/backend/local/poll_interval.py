"""How long to pause between two polls for an answer. Pure.

A poll costs two system calls, so it begins with one every other millisecond and goes on with pauses in proportion to
the time that has passed: an answer is late by a twentieth at most, and nothing needs to be watched.
"""

from __future__ import annotations

from msgspec import Struct

_FIRST = 0.002
_PROPORTION = 0.05


class PollInterval(Struct, frozen=True):
    """How the pauses grow, in seconds."""

    longest: float

    def pause(self, waited: float) -> float:
        """Return the next interval, after a wait of `waited` seconds in all."""
        return min(self.longest, max(_FIRST, waited * _PROPORTION))
