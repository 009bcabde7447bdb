"""What the self-check of an instance's Emacs found, and that Emacs was restarted for it: a condition and an event.

The condition is there once it has something to say. Its message names the last restart by its time, which is how
an event is made only once for each.
"""

from __future__ import annotations

from efrit.api import ConditionStatus, InstanceStatus, SelfCheckReason, condition_of
from efrit.api.instance import SELF_CHECK_PASSED
from efrit.controller.decide.condition_state import ConditionState
from efrit.protocol import RestartReason, rfc3339
from efrit.protocol.view import EmacsRestart, EmacsStats, Stats

MANY_RESTARTS = 3
"""So many in a row, and requests are hardly what breaks Emacs."""

_REASONS = {
    RestartReason.SELF_CHECK_FAILED: SelfCheckReason.SELF_CHECK_FAILED,
    RestartReason.SELF_CHECK_OVERDUE: SelfCheckReason.SELF_CHECK_OVERDUE,
}


def self_check_health(stats: Stats | None, old: InstanceStatus) -> ConditionState | None:
    """Return what is known of the self-check; None while there was never anything to report."""
    reported = condition_of(old.conditions, SELF_CHECK_PASSED)
    if stats is None:
        # The message stays: it says which restarts are known already.
        return (
            None
            if reported is None
            else ConditionState(ConditionStatus.UNKNOWN, SelfCheckReason.UNKNOWN, reported.message)
        )
    emacs = stats.emacs
    before = f" {restart_sentence(emacs.restarted)}" if emacs.restarted is not None else ""
    if emacs.self_check_problem is not None:
        return ConditionState(
            ConditionStatus.FALSE, SelfCheckReason.SELF_CHECK_FAILED, f"{failing_sentence(emacs)}{before}"
        )
    if emacs.restarted is None and reported is None:
        return None
    if emacs.restarted is not None and not emacs.alive:
        return ConditionState(ConditionStatus.FALSE, _REASONS[emacs.restarted.reason], before.strip())
    return ConditionState(ConditionStatus.TRUE, SelfCheckReason.PASSED, f"Emacs passes its self-check.{before}")


def failing_sentence(emacs: EmacsStats) -> str:
    """Return what the self-check of the present Emacs finds, and what to look at where restarts do not help."""
    text = f"Emacs fails its self-check and starts no request until it is restarted: {emacs.self_check_problem}."
    if emacs.restarted is not None and emacs.restarted.count >= MANY_RESTARTS:
        text += (
            f" {emacs.restarted.count} restarts in a row did not help: check what each Emacs loads when it starts "
            "(spec.emacs.initConfigMapRef, spec.emacs.image)."
        )
    return text


def restart_sentence(restart: EmacsRestart) -> str:
    """Return when and why Emacs was restarted."""
    return f"Emacs was restarted at {rfc3339(restart.time)} because of its self-check: {restart.message}."


def new_restart(stats: Stats | None, old: InstanceStatus) -> EmacsRestart | None:
    """Return the restart that the status does not report yet."""
    restart = stats.emacs.restarted if stats is not None else None
    reported = condition_of(old.conditions, SELF_CHECK_PASSED)
    if restart is None or (
        reported is not None and rfc3339(restart.time) in reported.message
    ):  # gate: restart-reported
        return None
    return restart
