"""Whether the self-check of an Emacs, as its heartbeats report it, is a reason to end that Emacs. Pure.

Times are monotonic seconds of whoever reads the heartbeats; those inside them are only compared with each other.
"""

from __future__ import annotations

from dataclasses import dataclass

from efrit.protocol.enums import RestartReason

OVERDUE_SECONDS = 60.0
"""How long the heartbeats of an idle Emacs may go on without another check; Emacs makes one every ten seconds."""

FREE_RESTARTS = 3
"""So many in a row of an Emacs that has answered nothing come at once, each of the others later than before."""

FIRST_DELAY_SECONDS = 10.0
LONGEST_DELAY_SECONDS = 300.0

RECOVERED_SECONDS = 600.0
"""An Emacs that was not ended for so long, beyond the delay, begins the row anew."""


@dataclass(frozen=True)
class SelfCheck:
    """What one heartbeat says: which start of Emacs wrote it, whether that does nothing, and the last check.

    time: of the last check, None where none is made. problem: what it has found where it has not passed.
    worked: whether that start has answered a request, which then may be what has broken it.
    """

    boot: str
    idle: bool
    time: object = None
    passed: bool = True
    problem: str = ""
    worked: bool = False


@dataclass(frozen=True)
class RestartCause:
    """Why an Emacs is to be ended."""

    reason: RestartReason
    message: str


class SelfCheckMonitor:
    """Watches the self-check over the starts of one Emacs.

    stall: seconds for which a failed check spares an Emacs with sessions under way.
    """

    def __init__(self, stall: float) -> None:
        self._stall = stall
        self._report: SelfCheck | None = None
        self._report_time = 0.0
        self._unchanged_since = 0.0
        self._failed_since: float | None = None
        self._ended_time: float | None = None
        #: How many Emacsen were ended in a row.
        self.restarts = 0
        #: How many of them that had answered nothing.
        self._idle_restarts = 0

    def observe(self, report: SelfCheck, now: float) -> None:
        """Take note of a new heartbeat."""
        before = self._report
        self._report, self._report_time = report, now
        same_start = before is not None and before.boot == report.boot
        # gate: check-while-idle
        if before is None or not same_start or not report.idle or report.time != before.time:
            self._unchanged_since = now
        if report.time is None or report.passed:
            self._failed_since = None
        elif self._failed_since is None or not same_start:
            self._failed_since = now

    @property
    def problem(self) -> str | None:
        """What the last check has found; None if it has passed or was not made."""
        return None if self._report is None or self._failed_since is None else self._report.problem

    def cause(self, now: float) -> RestartCause | None:
        """Return why Emacs is to be ended now. Silence after the last heartbeat adds nothing."""
        report = self._report
        if report is None or report.time is None:
            return None
        if self._failed_since is not None:
            # gate: self-check-grace
            delay = self._delay(now) if report.idle else max(self._stall, self._delay(now))
            if self._report_time - self._failed_since < delay:
                return None
            return RestartCause(RestartReason.SELF_CHECK_FAILED, report.problem)
        unchecked = self._report_time - self._unchanged_since
        if unchecked < OVERDUE_SECONDS:  # gate: check-overdue
            return None
        return RestartCause(
            RestartReason.SELF_CHECK_OVERDUE, f"no self-check for {unchecked:.0f} s while it was idle"
        )

    def ended(self, now: float) -> None:
        """Take note that Emacs was ended for its self-check."""
        worked = self._report is not None and self._report.worked
        self._idle_restarts = 0 if worked else self._in_a_row(self._idle_restarts, now) + 1
        self.restarts = self._in_a_row(self.restarts, now) + 1
        self._ended_time = now
        self._report = self._failed_since = None

    def _in_a_row(self, restarts: int, now: float) -> int:
        recovered = self._ended_time is None or now - self._ended_time > RECOVERED_SECONDS + LONGEST_DELAY_SECONDS
        return 0 if recovered else restarts

    def _delay(self, now: float) -> float:
        if self._report is not None and self._report.worked:
            return 0.0
        late = self._in_a_row(self._idle_restarts, now) - FREE_RESTARTS
        # gate: restart-delay
        return 0.0 if late < 0 else min(LONGEST_DELAY_SECONDS, FIRST_DELAY_SECONDS * 2.0 ** min(late, 10))
