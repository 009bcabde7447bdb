"""An Emacs that runs and does nothing: resumed, interrupted, or ended so that the next one takes over.

Looked at by whoever waits for an answer, since no other process watches over a daemon of this machine. Blocking.
"""

from __future__ import annotations

import signal
from typing import Any

from efrit.client.local.daemon import Daemon
from efrit.queue.process_sample import Sample, could_run, sample

SILENT_SECONDS = 3.0
"""Silence without a request after which Emacs is interrupted: it gives a sign of life every second."""

GRACE_SECONDS = 5.0
"""From the first interrupt until Emacs is ended, as far as it could run meanwhile."""

STALL_SECONDS = 120.0
"""Silence after which Emacs is ended whatever keeps it: it gets no CPU, or a person works in it."""


class Health:
    """What was seen of the Emacs of one daemon. Times are those of one monotonic clock, in seconds."""

    def __init__(self, daemon: Daemon) -> None:
        self._daemon = daemon
        self._beat: tuple[Any, Any] | None = None
        self._since = 0.0
        self._sample: tuple[Sample, float] | None = None
        self._unresponsive = 0.0

    def look(self, now: float) -> None:
        """Resume an Emacs that a signal has stopped; interrupt, then end, one that is silent without a request."""
        emacs = self._daemon.running()
        if emacs is None:
            return
        if emacs.stopped:
            emacs.send(signal.SIGCONT)
        heartbeat = self._daemon.files.heartbeat()
        beat = (heartbeat.get("boot"), heartbeat.get("time"))
        # A request that runs may occupy Emacs: its own time limit ends it.
        if beat != self._beat or emacs.stopped or self._daemon.files.counts()[1]:
            self._beat, self._since, self._sample, self._unresponsive = beat, now, None, 0.0
            return
        self._note(sample(emacs.pid), now)
        hung = heartbeat.get("attended") is not True and self._unresponsive >= SILENT_SECONDS + GRACE_SECONDS
        if hung or now - self._since >= STALL_SECONDS:
            self._daemon.kill()
        elif now - self._since >= SILENT_SECONDS:
            emacs.send(signal.SIGUSR2)

    def _note(self, seen: Sample | None, now: float) -> None:
        if self._sample is not None and seen is not None:
            before, moment = self._sample
            self._unresponsive += could_run(before, seen, now - moment)
        self._sample = None if seen is None else (seen, now)
