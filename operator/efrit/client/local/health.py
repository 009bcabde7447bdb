"""An Emacs that runs and does nothing: resumed, or ended so that the next one takes over.

Looked at by whoever waits for an answer, since no other process watches over a daemon of this machine. Blocking.
"""

from __future__ import annotations

import signal
from typing import Any

from efrit.client.local.daemon import Daemon

DEAD_SECONDS = 30.0
"""Silence without a request after which Emacs is ended: code outside any request may keep it busy for ever.

It beats once a second: no load keeps it from that for so long.
"""


class Health:
    """What was seen of the Emacs of one daemon. Times are those of one monotonic clock, in seconds."""

    def __init__(self, daemon: Daemon) -> None:
        self._daemon = daemon
        self._beat: tuple[Any, Any] | None = None
        self._since = 0.0

    def look(self, now: float) -> None:
        """Resume an Emacs that a signal has stopped; end one that is silent for long without a request."""
        emacs = self._daemon.running()
        if emacs is None:
            return
        if emacs.stopped:
            emacs.send(signal.SIGCONT)
        heartbeat = self._daemon.files.heartbeat()
        beat = (heartbeat.get("boot"), heartbeat.get("time"))
        # A request that runs may occupy Emacs: its own time limit ends it.
        if beat != self._beat or emacs.stopped or self._daemon.files.counts()[1]:
            self._beat, self._since = beat, now
        elif now - self._since > DEAD_SECONDS:
            self._daemon.kill()
