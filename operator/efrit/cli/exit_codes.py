"""What the process ends with: one number for each way work can end, and for each way it cannot even begin. Pure."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

from efrit.backend.errors import ClientError, NoCluster, NoEmacs, NotFound, NotReady, Refused
from efrit.backend.interface import Outcome, PlanReason, RequestReason, RequestState

if TYPE_CHECKING:
    from efrit.backend.plans import PlanState


class Terminated(KeyboardInterrupt):
    """SIGTERM: as Ctrl-C, but nobody is asked anything."""


class Exit(IntEnum):
    """The exit codes."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    PARTIAL = 3
    INPUT_REQUIRED = 4
    TIMED_OUT = 5
    CANCELLED = 6
    UNKNOWN = 7
    NOT_FOUND = 8
    NOT_READY = 9
    REJECTED = 10
    TRUNCATED = 11
    INTERNAL = 70
    DETACHED = 130
    TERMINATED = 143


MEANINGS = {
    Exit.DONE: "done: the outcome is Success",
    Exit.FAILED: "the work failed: an error in Lisp, of the model, no model is configured, or a plan gave up",
    Exit.USAGE: "the command line is wrong, or the request was refused",
    Exit.PARTIAL: "a part was done: the outcome is Partial (a budget or a limit was reached, todos are left)",
    Exit.INPUT_REQUIRED: "the model asked a question, and nobody was there to answer",
    Exit.TIMED_OUT: "the time limit was reached",
    Exit.CANCELLED: "it was cancelled",
    Exit.UNKNOWN: "Interrupted: Emacs died during the work; what it did is unknown",
    Exit.NOT_FOUND: "no such request, plan, instance, pool, claim or revision, or the result is no longer kept",
    Exit.NOT_READY: "temporarily unavailable: no Emacs, cluster or ready instance, a full queue, or --for elapsed",
    Exit.REJECTED: "the request or plan was rejected: it never ran",
    Exit.TRUNCATED: "done, but not all of the result could be printed; standard error says why",
    Exit.INTERNAL: "an error in efrit itself; `EFRIT_DEBUG=1` shows where",
    Exit.DETACHED: "you left with Ctrl-C; work that was submitted continues",
    Exit.TERMINATED: "SIGTERM ended efrit; work that was submitted continues",
}

_BY_REASON: dict[str, Exit] = {
    RequestReason.INPUT_REQUIRED: Exit.INPUT_REQUIRED,
    RequestReason.TIMED_OUT: Exit.TIMED_OUT,
    RequestReason.CANCELLED: Exit.CANCELLED,
    RequestReason.INTERRUPTED: Exit.UNKNOWN,
    RequestReason.REJECTED: Exit.REJECTED,
}


def exit_of(state: RequestState) -> Exit:
    """Return the exit code for a finished request."""
    if state.outcome is Outcome.SUCCESS:
        return Exit.DONE
    by_outcome = Exit.PARTIAL if state.outcome is Outcome.PARTIAL else Exit.FAILED
    return _BY_REASON.get(state.reason, by_outcome)


def exit_of_plan(state: PlanState) -> Exit:
    """Return the exit code for a finished plan."""
    if state.outcome is Outcome.SUCCESS:
        return Exit.DONE
    by_outcome = Exit.PARTIAL if state.outcome is Outcome.PARTIAL else Exit.FAILED
    by_reason: dict[str, Exit] = {PlanReason.CANCELLED: Exit.CANCELLED, PlanReason.REJECTED: Exit.REJECTED}
    return by_reason.get(state.reason, by_outcome)


def exit_of_error(error: ClientError) -> Exit:
    """Return the exit code for an error of the client."""
    if isinstance(error, NotFound):
        return Exit.NOT_FOUND
    if isinstance(error, NotReady | NoEmacs | NoCluster):
        return Exit.NOT_READY
    return Exit.USAGE if isinstance(error, Refused) else Exit.FAILED


def combined_exit(exits: list[Exit]) -> Exit:
    """Return the exit code after several objects: the first that is not DONE."""
    return next((code for code in exits if code is not Exit.DONE), Exit.DONE)
