"""An Emacs that runs and does nothing, or nothing right: resumed, interrupted, or ended so that the next takes over.

Looked at by whoever waits for an answer, since no other process watches over a daemon of this machine. Blocking.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Any

from efrit.backend.local.daemon import Daemon
from efrit.queue.process_sample import HUNG_SECONDS, WAKE_SECONDS, ResponseMeter, Sample, sample
from efrit.queue.self_check import SelfCheck, SelfCheckMonitor

STALL_SECONDS = 120.0
"""Silence after which Emacs is ended whatever keeps it: it gets no CPU, or a person works in it."""


class Health:
    """What was seen of the Emacs of one daemon. Times are those of one monotonic clock, in seconds."""

    def __init__(self, daemon: Daemon, sample: Callable[[int], Sample | None] = sample) -> None:
        self._daemon = daemon
        self._read_sample = sample
        self._beat: tuple[Any, Any] | None = None
        self._since = 0.0
        self._unresponsive = ResponseMeter()
        self._self_check = SelfCheckMonitor(STALL_SECONDS)
        #: Why Emacs was last ended for its self-check.
        self.problem: str | None = None
        #: Why Emacs takes no request at present, as it says itself.
        self.trouble: str | None = None

    def check(self, now: float) -> None:
        """Resume an Emacs that a signal has stopped; interrupt, then end, one that is silent without a request.

        End one whose self-check fails or is not made.
        """
        emacs = self._daemon.running()
        if emacs is None:
            return
        if emacs.stopped:
            emacs.send(signal.SIGCONT)
        heartbeat = self._daemon.files.heartbeat()
        trouble = heartbeat.get("problem")
        self.trouble = trouble if isinstance(trouble, str) and trouble else None
        beat = (heartbeat.get("boot"), heartbeat.get("time"))
        if beat != self._beat:
            self._self_check.observe(_self_check(heartbeat), now)
        cause = self._self_check.cause(now)
        # What a request that runs finds wrong with Emacs, its own answer says.
        if cause is not None and heartbeat.get("current") is None:  # gate: local-self-check
            self.problem = cause.message
            self._self_check.ended(now)
            self._daemon.kill()
            return
        # A request that runs may occupy Emacs: its own time limit ends it.
        if beat != self._beat or emacs.stopped or self._daemon.files.counts()[1]:
            self._beat, self._since = beat, now
            self._unresponsive.restart()
            return
        self._unresponsive.note(self._read_sample(emacs.pid), now)
        hung = heartbeat.get("attended") is not True and self._unresponsive.seconds >= HUNG_SECONDS
        if hung or now - self._since >= STALL_SECONDS:
            self._daemon.kill()
        elif now - self._since >= WAKE_SECONDS:
            emacs.send(signal.SIGUSR2)
            if heartbeat.get("attended") is not True and now - self._since >= WAKE_SECONDS + 1.0:
                # Code may have set `debug-on-event` to the other signal that it can be.
                emacs.send(signal.SIGUSR1)


def _self_check(heartbeat: dict[str, Any]) -> SelfCheck:
    boot, idle, report = str(heartbeat.get("boot")), heartbeat.get("state") == "idle", heartbeat.get("self_check")
    if not isinstance(report, dict):
        return SelfCheck(boot, idle)
    passed, problem = report.get("passed") is not False, str(report.get("problem"))[:300]
    return SelfCheck(boot, idle, report.get("time"), passed, problem, worked=heartbeat.get("processed", 0) != 0)
