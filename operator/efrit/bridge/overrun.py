"""When to interrupt and when to kill: pure decisions over what runs. No I/O, no clock; seconds are monotonic.

Timed out: order, then interrupt each second, then kill after the grace time. Cancelled: the same without
waiting for the timeout. An Emacs that nothing occupies and whose heartbeat has stopped is woken up: after its clock
was set back its timers sleep that much longer, and code that a request has left behind is stopped by the signal. If
it stays silent although it could run, it is killed after the grace time, and six seconds after its last heartbeat at
the latest; if it cannot run, or a person works in it, after the stall time: nothing that waits would ever be
answered. While something occupies it, no heartbeat can come: silence begins with the end of that at the earliest. An
Emacs that rests has said when its next heartbeat comes, and is silent from then on; where a request waits, from when
that came, since it is to begin at once.
One whose self-check fails (`efrit.queue.self_check`) is killed while nothing occupies it.

Several may run at once: one eval at most, which occupies Emacs, and sessions, which occupy it while they run a tool
and otherwise wait for their model. Whatever occupies Emacs within its own time is left in peace: a session that is to
stop meanwhile is signalled when Emacs can listen, and its grace time begins then.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from efrit.protocol import RequestId, RequestReason
from efrit.queue.process_sample import HUNG_SECONDS, WAKE_SECONDS
from efrit.queue.self_check import RestartCause

INTERRUPT_EVERY_SECONDS = 1.0
SECOND_SIGNAL_SECONDS = 2.0
"""Seconds after which SIGUSR1 is sent as well: code may have set `debug-on-event` to that."""


@dataclass(frozen=True)
class Run:
    """A request in processing/. `stop_since` is set once the order to stop is written.

    `session`: a chat or command, which need not occupy Emacs while it is under way.
    """

    id: RequestId
    since: float
    timeout: float
    stop_since: float | None = None
    session: bool = False


@dataclass(frozen=True)
class EmacsAlive:
    """The Emacs that runs them: when this start of it and its last heartbeat were seen, and what it said occupies it.

    `occupied`: when something last occupied it. `unresponsive`: the seconds of the present silence in which it could
    run and did not answer. `attended`: a person may be working in it. `cause`: why its self-check asks for a restart.
    `rest`: how much later than usual its next heartbeat may come. `waiting`: since when a request waits, if one does.
    """

    since: float
    last_heartbeat: float
    current: RequestId | None = None
    occupied: float = 0.0
    unresponsive: float = 0.0
    attended: bool = False
    cause: RestartCause | None = None
    rest: float = 0.0
    waiting: float | None = None


@dataclass(frozen=True)
class SignalTimes:
    """When a run was first and last sent SIGUSR2 for its order to stop."""

    first: float
    last: float


@dataclass(frozen=True)
class SupervisionLimits:
    """Seconds from the first interrupt to the kill, and of silence while nothing occupies Emacs."""

    grace: float
    stall: float


@dataclass(frozen=True)
class Order:
    """Write the order to stop (timed out) where Emacs finds it."""

    id: RequestId
    reason: RequestReason


@dataclass(frozen=True)
class Interrupt:
    """Send SIGUSR2: Emacs quits the form if there is an order for it. `insist`: send SIGUSR1 as well."""

    id: RequestId
    insist: bool = False


@dataclass(frozen=True)
class Wake:
    """Send SIGUSR2 to an Emacs that nothing occupies: it looks at everything again and sets its timers anew.

    `insist`: send SIGUSR1 as well.
    """

    insist: bool = False


@dataclass(frozen=True)
class Kill:
    """Send SIGKILL; recovery answers what ran. `id` None: nothing occupied it; it hung, or `cause` says why."""

    id: RequestId | None
    cause: RestartCause | None = None


Step = Order | Interrupt | Wake | Kill


def occupant(runs: Sequence[Run], emacs: EmacsAlive, now: float) -> Run | None:
    """Return what occupies Emacs within its own time; None: nothing does that must be left in peace."""
    # Evals run one after the other: one in processing/ occupies Emacs, whatever the heartbeat has come to say.
    occupying = [run for run in runs if not run.session] or [run for run in runs if run.id == emacs.current]
    in_time = (run for run in occupying if run.stop_since is None and now - max(run.since, emacs.since) < run.timeout)
    return next(in_time, None)  # gate: eval-in-time


def is_occupied(runs: Sequence[Run], current: RequestId | None) -> bool:
    """Return whether anything occupies Emacs: an eval, or the session that its heartbeat named last."""
    return any(not run.session or run.id == current for run in runs)


def seconds_without_heartbeat(emacs: EmacsAlive, now: float) -> float:
    """Return for how many seconds Emacs could have written a heartbeat and wrote none; below 0 while it rests."""
    since = max(emacs.last_heartbeat, emacs.since, emacs.occupied)  # gate: silence-occupied
    # What occupied it after its last heartbeat has ended the rest that was reported there.
    rested = since + (emacs.rest if since == emacs.last_heartbeat else 0.0)  # gate: rest-ended
    if emacs.waiting is not None:  # gate: rest-waiting
        rested = min(rested, max(since, emacs.waiting))
    return now - rested


def can_react(runs: Sequence[Run], emacs: EmacsAlive, now: float) -> bool:
    """Return whether Emacs can react to an order to stop; if not, the signals so far were lost, too."""
    return occupant(runs, emacs, now) is None


def decide(
    runs: Sequence[Run],
    emacs: EmacsAlive | None,
    signalled: Mapping[RequestId, SignalTimes],
    limits: SupervisionLimits,
    now: float,
) -> list[Step]:
    """Return what to do now. `signalled` has when each run was asked to stop, while Emacs could listen."""
    if emacs is None:
        # Its successor answers for it, by the orders that lie in control/ already.
        return []
    steps: list[Step] = [
        Order(run.id, RequestReason.TIMED_OUT)
        for run in runs
        if run.stop_since is None and now - max(run.since, emacs.since) >= run.timeout
    ]
    if can_react(runs, emacs, now):
        for run in runs:
            if run.stop_since is None:
                continue
            order = signalled.get(run.id)
            if order is not None and now >= _deadline(run, emacs, order, limits, runs, now):
                return [Kill(run.id)]
            if order is None or now - order.last >= INTERRUPT_EVERY_SECONDS:
                seconds_ignored = 0.0 if order is None else now - order.first
                steps.append(Interrupt(run.id, insist=seconds_ignored >= SECOND_SIGNAL_SECONDS))
    if is_occupied(runs, emacs.current):  # gate: self-check-busy
        return steps
    if emacs.cause is not None:  # gate: self-check-kill
        return [Kill(None, emacs.cause)]
    # Only sessions that wait, or nothing: an Emacs like that writes its heartbeat every second.
    without_heartbeat = seconds_without_heartbeat(emacs, now)
    if without_heartbeat >= limits.stall or _is_hung(emacs, limits):
        return [Kill(None)]
    if not steps and without_heartbeat >= WAKE_SECONDS:
        # Whoever works in it may have bound that signal.
        return [Wake(insist=not emacs.attended and without_heartbeat >= WAKE_SECONDS + INTERRUPT_EVERY_SECONDS)]
    return steps


def _is_hung(emacs: EmacsAlive, limits: SupervisionLimits) -> bool:
    """Return whether Emacs, occupied by nothing, could run and reacted to none of the signals."""
    return not emacs.attended and emacs.unresponsive >= min(HUNG_SECONDS, WAKE_SECONDS + limits.grace)


def _deadline(
    run: Run, emacs: EmacsAlive, order: SignalTimes, limits: SupervisionLimits, runs: Sequence[Run], now: float
) -> float:
    """Return when Emacs is killed for a run that was asked to stop, if it has not stopped by then."""
    grace = max(run.stop_since or 0.0, emacs.since, order.first if run.session else 0.0) + limits.grace
    if not run.session or run.id == emacs.current:
        return grace
    is_silent = seconds_without_heartbeat(emacs, now) >= limits.grace
    alone = not any(other.session and other.stop_since is None for other in runs)
    # Emacs lives and does not obey, or others would be lost with it: it gets the time of one that hangs.
    return grace if is_silent and alone else max(grace, (run.stop_since or 0.0) + limits.stall)


def next_check(
    runs: Sequence[Run],
    emacs: EmacsAlive | None,
    signalled: Mapping[RequestId, SignalTimes],
    grace: float,
    now: float,
) -> float | None:
    """Return the time at which `decide` may have something to do for `runs`; None: nothing is due."""
    if emacs is None:
        return None
    reacts = can_react(runs, emacs, now)
    due = []
    for run in runs:
        if run.stop_since is None:
            due.append(max(run.since, emacs.since) + run.timeout)
        elif reacts:
            order = signalled.get(run.id)
            due.append(0.0 if order is None else order.last + INTERRUPT_EVERY_SECONDS)
            due.append(max(run.stop_since, emacs.since, order.first if order and run.session else 0.0) + grace)
    return min(due, default=None)
