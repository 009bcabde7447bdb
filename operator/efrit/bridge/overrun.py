"""When to interrupt and when to kill: pure decisions over what runs. No I/O, no clock; seconds are monotonic.

Timed out: order, then interrupt each second, then kill after the grace time. Cancelled: the same without
waiting for the timeout. An Emacs that runs nothing and whose heartbeat has stopped is woken up: after its clock
was set back its timers sleep that much longer. If it stays silent it is killed in the end, because nothing that waits
would ever be answered.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from efrit.protocol import Reason, RequestId

INTERRUPT_EVERY_SECONDS = 1.0
WAKE_AFTER_SECONDS = 3.0
"""Silence of an Emacs that runs nothing, which gives a sign of life every second."""


@dataclass(frozen=True)
class Run:
    """A request in processing/. `stop_since` is set once the order to stop is written."""

    id: RequestId
    since: float
    timeout: float
    stop_since: float | None = None


@dataclass(frozen=True)
class EmacsAlive:
    """The Emacs that runs them: when we first saw this start of it, and its last news."""

    since: float
    heard: float


@dataclass(frozen=True)
class Patience:
    """Seconds from the first interrupt to the kill, and of silence while nothing runs."""

    grace: float
    stall: float


@dataclass(frozen=True)
class Order:
    """Write the order to stop (timed out) where Emacs finds it."""

    id: RequestId
    reason: Reason


@dataclass(frozen=True)
class Interrupt:
    """Send SIGUSR2: Emacs quits the form if there is an order for it."""

    id: RequestId


@dataclass(frozen=True)
class Wake:
    """Send SIGUSR2 to an Emacs that runs nothing: it looks at everything again and sets its timers anew."""


@dataclass(frozen=True)
class Kill:
    """Send SIGKILL; recovery answers what ran. `id` None: it ran nothing and hung."""

    id: RequestId | None


Step = Order | Interrupt | Wake | Kill


def decide(
    runs: Iterable[Run],
    emacs: EmacsAlive | None,
    interrupted: Mapping[RequestId, float],
    patience: Patience,
    now: float,
) -> list[Step]:
    """What to do now. `interrupted` says when each run was last sent SIGUSR2."""
    if emacs is None:
        # Its successor answers for it, by the orders that lie in control/ already.
        return []
    steps: list[Step] = []
    empty = True
    for run in runs:
        empty = False
        since = max(run.since, emacs.since)
        if run.stop_since is None:
            if now - since >= run.timeout:
                steps.append(Order(run.id, Reason.TIMED_OUT))
            continue
        # A new Emacs has had no chance yet to see the order.
        stopping = now - max(run.stop_since, emacs.since)
        last = interrupted.get(run.id)
        if stopping >= patience.grace and last is not None:
            return [Kill(run.id)]
        if last is None or now - last >= INTERRUPT_EVERY_SECONDS:
            steps.append(Interrupt(run.id))
    silence = now - max(emacs.heard, emacs.since)
    if empty and silence >= patience.stall:
        return [Kill(None)]
    if empty and silence >= WAKE_AFTER_SECONDS:
        return [Wake()]
    return steps


def next_look(
    runs: Iterable[Run], emacs: EmacsAlive | None, interrupted: Mapping[RequestId, float], grace: float
) -> float | None:
    """The time at which `decide` may have something to do for `runs`; None: nothing is due."""
    if emacs is None:
        return None
    due = []
    for run in runs:
        if run.stop_since is None:
            due.append(max(run.since, emacs.since) + run.timeout)
        else:
            last = interrupted.get(run.id)
            due.append(0.0 if last is None else last + INTERRUPT_EVERY_SECONDS)
            due.append(max(run.stop_since, emacs.since) + grace)
    return min(due, default=None)
