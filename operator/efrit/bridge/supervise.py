"""Keeps an eye on Emacs: is it there, does it answer, does a request overrun its time.

Reads the heartbeat, holds the process, carries out what `efrit.bridge.overrun` decides. It never starts
Emacs: run-emacs does, in the other container. While Emacs rests, as its heartbeat says, it checks as seldom as that
comes; a request, a heartbeat and the end of Emacs wake it.
"""

import asyncio
import logging
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from efrit.auto_reset_event import AutoResetEvent
from efrit.bridge.emacs import EmacsProcess
from efrit.bridge.overrun import (
    EmacsAlive,
    Interrupt,
    Kill,
    Order,
    Run,
    SignalTimes,
    Step,
    SupervisionLimits,
    Wake,
    can_react,
    decide,
    is_occupied,
    next_check,
    seconds_without_heartbeat,
)
from efrit.errors import EfritError, ProtocolError
from efrit.protocol import EmacsState, RequestId, RequestState, from_epoch, request_file, response_file
from efrit.protocol.view import EmacsRestart, EmacsStats, Heartbeat, RequestView
from efrit.queue.layout import HEARTBEAT, Area
from efrit.queue.process_place import here
from efrit.queue.process_sample import ResponseMeter
from efrit.queue.queue import DurableQueue
from efrit.queue.self_check import RestartCause, SelfCheck, SelfCheckMonitor
from efrit.queue.state import Entry

log = logging.getLogger(__name__)

FRESH_SECONDS = 5.0
_TICK_SECONDS = 1.0
# So late a tick says that this process was suspended, perhaps with Emacs: a missing heartbeat proves nothing then.
_SUSPENDED_SECONDS = 4.0
_MAX_IDLE_SECONDS = 15.0
"""What a heartbeat may announce; less than that after which a loop counts as stuck."""
_HEARTBEAT_TOLERANCE_SECONDS = 1.5
"""How late the heartbeat of an idle Emacs may be before a check: with _SUSPENDED_SECONDS less than HUNG_SECONDS."""
_COALESCE_SECONDS = 0.1
"""Within it what changes is looked at together: a busy Emacs begins, ends and writes its heartbeat in a few ms."""
_LONGEST_PROBLEM = 300


@dataclass(frozen=True)
class SupervisorSettings:
    """Seconds: for evals, and chats and commands, without a timeout; from interrupt to kill; of silence while
    nothing runs."""

    request_timeout: float = 30
    command_timeout: float = 600
    kill_grace: float = 5
    stall: float = 120


class Supervisor:
    """Watches one Emacs over one queue. `run` in a task; `wake` when something changed."""

    def __init__(
        self,
        queue: DurableQueue,
        settings: SupervisorSettings | None = None,
        *,
        on_signal: Callable[[str], None] = lambda name: None,
        on_restart: Callable[[], None] = lambda: None,
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        """`on_change` is called when Emacs starts, ends or is idle no longer."""
        self._queue = queue
        self._settings = settings or SupervisorSettings()
        self._on_signal, self._on_restart, self._on_change = on_signal, on_restart, on_change
        self._poked = AutoResetEvent()
        self._heartbeat: Heartbeat | None = None
        #: The bytes that it was read from.
        self._heartbeat_read: bytes | None = None
        self._process: EmacsProcess | None = None
        self._boot_seen = 0.0
        #: When the heartbeat last changed before our eyes; one found at start proves nothing.
        self._last_heartbeat: float | None = None
        self._asked: dict[RequestId, SignalTimes] = {}
        self._killed_boot: str | None = None
        self._first_check = True
        #: Whether anything occupied Emacs at the last check, and when that was last so.
        self._is_occupied, self._occupied = False, 0.0
        #: How long Emacs could have run since its last heartbeat and the end of what occupied it.
        self._unresponsive = ResponseMeter()
        #: Whose code may be what keeps Emacs busy when nothing runs.
        self._last_answered: RequestId | None = None
        self._self_check = SelfCheckMonitor(self._settings.stall)
        self._restarted: EmacsRestart | None = None
        #: Since when a request waits.
        self._waiting: float | None = None
        #: Whether there is nothing to look at before the next heartbeat.
        self.emacs_is_idle = False
        self.beat = time.monotonic()
        #: When to check again at the latest.
        self._next_check = self.beat + _TICK_SECONDS

    def wake(self) -> None:
        """Have the supervisor check at once."""
        self._check_within(0.0)

    def heartbeat(self) -> None:
        """Have the supervisor check soon, as Emacs wrote its heartbeat; at once where none was known."""
        self._check_within(0.0 if self._process is None else _COALESCE_SECONDS)

    def changed(self, view: RequestView) -> None:
        """Have the supervisor check as soon as a change of a request asks for it."""
        if view.state is RequestState.QUEUED:
            if self.emacs_is_idle:
                # Emacs begins it at once; if it does not, that is soon enough to begin to check.
                self.emacs_is_idle, self._waiting = False, time.monotonic()
                self._check_within(_TICK_SECONDS)
            return
        if view.state is RequestState.ANSWERED:
            self._last_answered = view.id
            if view.started_time is not None:  # gate: ended-between-checks
                self._occupied = time.monotonic()
        # What is to stop is signalled once Emacs can listen.
        stopping = any(entry.stop is not None for entry in self._queue.index.running())
        self._check_within(0.0 if stopping else _COALESCE_SECONDS)

    def _check_within(self, seconds: float) -> None:
        self._next_check = min(self._next_check, time.monotonic() + seconds)
        if seconds:
            self._poked.set_within(seconds)
        else:
            self._poked.set()

    async def run(self) -> None:
        """Supervise until cancelled."""
        try:
            while True:
                await self._tick()
                await self._pause()
        finally:
            self._close_process()

    async def _pause(self) -> None:
        now = time.monotonic()
        due = next_check(self._runs(), self._alive(), self._asked, self._settings.kill_grace, now)
        seconds = _TICK_SECONDS
        was_idle, idle_seconds = self.emacs_is_idle, self._idle_seconds(now)
        self.emacs_is_idle = idle_seconds > 0
        if self.emacs_is_idle:
            seconds = idle_seconds + _HEARTBEAT_TOLERANCE_SECONDS
        elif was_idle:
            self._on_change()
        if due is not None:
            seconds = min(seconds, max(0.01, due - now))
        self._next_check = now + seconds
        await self._poked.wait(seconds)

    def _idle_seconds(self, now: float) -> float:
        """Return for how long nothing needs to be looked at unless something wakes us."""
        alive, process = self._alive(), self._process
        # Without a pidfd nobody reports the end of Emacs, without inotify nobody a heartbeat.
        notified = process is not None and process.pidfd >= 0 and self._queue.parts.watch.working
        if alive is None or not notified or self._queue.index.open_count:
            return 0.0
        return max(0.0, -seconds_without_heartbeat(alive, now))

    async def _tick(self) -> None:
        now = time.monotonic()
        if now - self._next_check > _SUSPENDED_SECONDS and self._last_heartbeat is not None:  # gate: bridge-frozen
            self._last_heartbeat = now
            self._unresponsive.restart()
        self.beat = now
        self._read_heartbeat(now)
        runs = self._runs()
        self._note_waiting(now)
        self._note_no_heartbeat(runs, now)
        alive = self._alive()
        if alive is not None and not can_react(runs, alive, now):
            self._asked.clear()
        self._asked = {run.id: self._asked[run.id] for run in runs if run.id in self._asked}
        limits = SupervisionLimits(self._settings.kill_grace, self._settings.stall)
        for step in decide(runs, alive, self._asked, limits, now):
            await self._carry_out(step, now)

    async def _carry_out(self, step: Step, now: float) -> None:
        if isinstance(step, Order):
            entry = self._queue.index.get(step.id)
            if entry is None or entry.state.final:
                return
            log.info("request %s overran its time: interrupting Emacs", step.id)
            try:
                await self._queue.stop(entry, step.reason)
            except EfritError as error:
                # Without the order an interrupt does nothing; the next tick tries again.
                log.error("%s", error)
                return
            self.wake()
        elif self._process is None:
            return
        elif isinstance(step, Wake):
            self._interrupt(self._process, step.insist)
        elif isinstance(step, Interrupt):
            order = self._asked.get(step.id)
            self._asked[step.id] = SignalTimes(now if order is None else order.first, now)
            if self._interrupt(self._process, step.insist):
                self._on_signal("SIGUSR2")
        elif self._killed_boot != self._process.boot and not self._may_have_ended(step.id):  # gate: may-have-ended
            log.warning("killing Emacs (pid %d): %s", self._process.pid, self._kill_reason(step, now))
            self._killed_boot = self._process.boot
            if self._process.send(signal.SIGKILL):
                self._on_signal("SIGKILL")
                if step.cause is not None:
                    self._note_restart(step.cause, now)

    def _interrupt(self, process: EmacsProcess, insist: bool) -> bool:
        if insist:
            process.send(signal.SIGUSR1)
        return process.send(signal.SIGUSR2)

    def _note_restart(self, cause: RestartCause, now: float) -> None:
        self._self_check.ended(now)
        self._restarted = EmacsRestart(
            reason=cause.reason,
            message=cause.message[:_LONGEST_PROBLEM],
            time=from_epoch(time.time()),
            count=self._self_check.restarts,
        )

    def _kill_reason(self, step: Kill, now: float) -> str:
        if step.cause is not None:
            return f"{step.cause.reason}: {step.cause.message}"
        return f"request {step.id} did not stop" if step.id else self._no_heartbeat_reason(now)

    def _no_heartbeat_reason(self, now: float) -> str:
        alive = self._alive()
        seconds = 0.0 if alive is None else seconds_without_heartbeat(alive, now)
        after = "" if self._last_answered is None else f"; the last answer was that of {self._last_answered}"
        return f"silent for {seconds:.0f} s while no request ran{after}"

    def _note_waiting(self, now: float) -> None:
        if not self._queue.index.count(RequestState.QUEUED):
            self._waiting = None
        elif self._waiting is None:
            self._waiting = now

    def _note_no_heartbeat(self, runs: Sequence[Run], now: float) -> None:
        beat, before = self._heartbeat, self._is_occupied
        self._is_occupied = is_occupied(runs, None if beat is None else beat.current)
        # What ended between two checks occupied Emacs until now, for all we can tell.
        occupied = before or self._is_occupied
        if occupied:
            self._occupied = now
        sample = None if self._process is None else self._process.sample()
        alive = self._alive()
        due = 0.0 if alive is None else seconds_without_heartbeat(alive, now)
        self._unresponsive.note(sample, now, occupied=occupied or due <= 0, due_seconds=due)

    def _may_have_ended(self, rid: RequestId | None) -> bool:
        """Return whether Emacs may be done with a request that the index calls running, and be busy with another.

        The index learns of an answer once it is synced, which may fail for as long as the volume is full.
        """
        if rid is None:
            return False
        disk = self._queue.disk
        try:
            runs = disk.stat(Area.PROCESSING, request_file(rid)) is not None
            return not runs or disk.stat_any(Area.RESPONSES, response_file(rid)) is not None
        except OSError:
            return True

    # What we know of Emacs

    def _read_heartbeat(self, now: float) -> None:
        try:
            data = self._queue.disk.read(Area.ROOT, HEARTBEAT, limit=65536)
            if data is None:
                beat = None
            elif data == self._heartbeat_read:
                # Checks come more often than Emacs writes.
                beat = self._heartbeat
            else:
                beat, self._heartbeat_read = Heartbeat.parse(data), data
        except (ProtocolError, OSError) as error:
            log.warning("the heartbeat cannot be read: %s", error)
            return
        previous, self._heartbeat = self._heartbeat, beat or self._heartbeat
        degraded = beat is not None and beat.state is EmacsState.DEGRADED
        self._queue.report_emacs_problem(
            (beat.problem or "the queue cannot be written") if beat and degraded else None
        )
        if beat is not None and beat != previous:
            # One that lay there when we started may be of an Emacs long gone.
            self._last_heartbeat = None if self._first_check else now
            self._unresponsive.restart()
            if previous is None or beat.boot != previous.boot:
                self._new_boot(beat, now, restarted=previous is not None)
            if not self._first_check:
                self._self_check.observe(_self_check(beat), now)
        if self._process is None and beat is not None and self._killed_boot != beat.boot:
            self._open_process(beat)
        if self._first_check and beat is not None and beat.rest and self._process is not None:
            # Its next heartbeat would take a while.
            self._interrupt(self._process, insist=False)
        self._first_check = False
        if self._process is not None and not self._process.alive():
            self._ended()

    def _new_boot(self, beat: Heartbeat, now: float, *, restarted: bool) -> None:
        self._close_process()
        self._boot_seen = now
        self._asked.clear()
        self._open_process(beat)
        if self._process is None:
            log.info("the heartbeat is not that of an Emacs which runs here (pid %d)", beat.pid)
        else:
            log.info("Emacs %s started (pid %d)", beat.emacs_version or "", beat.pid)
        if restarted:
            self._on_restart()
        self._on_change()

    def _open_process(self, beat: Heartbeat) -> None:
        # In another PID namespace (an earlier pod, another host) the number is another process's.
        if beat.server is not None and not here().may_be(beat.server):  # gate: foreign-namespace
            return
        self._process = EmacsProcess.find(beat.pid, beat.boot)
        if self._process is not None and self._process.pidfd >= 0:
            asyncio.get_running_loop().add_reader(self._process.pidfd, self._ended)

    def _ended(self) -> None:
        if self._process is None:
            return
        log.info("Emacs ended (pid %d)", self._process.pid)
        self._close_process()
        self._on_change()
        self.wake()

    def _close_process(self) -> None:
        if self._process is None:
            return
        if self._process.pidfd >= 0:
            asyncio.get_running_loop().remove_reader(self._process.pidfd)
        self._process.close()
        self._process = None

    @property
    def sees_emacs(self) -> bool:
        """Whether the Emacs of this queue runs, as of this moment."""
        return self._process is not None and self._process.alive()

    def _alive(self) -> EmacsAlive | None:
        if self._process is None:
            return None
        beat = self._heartbeat
        return EmacsAlive(
            self._boot_seen,
            self._last_heartbeat if self._last_heartbeat is not None else self._boot_seen,
            None if beat is None else beat.current,
            self._occupied,
            self._unresponsive.seconds,
            beat is not None and beat.attended,
            self._self_check.cause(time.monotonic()),
            self._announced_idle_seconds(),
            self._waiting,
        )

    def _announced_idle_seconds(self) -> float:
        """Return how much later than usual the heartbeat after the last one may come."""
        beat = self._heartbeat
        # One that lay there when we started proves nothing.
        if beat is None or beat.rest is None or self._last_heartbeat is None:
            return 0.0
        return max(0.0, min(beat.rest, _MAX_IDLE_SECONDS) - _TICK_SECONDS)

    def _runs(self) -> list[Run]:
        now = time.monotonic()
        return [self._run(entry, now) for entry in self._queue.index.running()]

    def _run(self, entry: Entry, now: float) -> Run:
        return Run(
            entry.id,
            entry.running_since if entry.running_since is not None else now,
            entry.timeout if entry.timeout is not None else self._default_timeout(entry),
            None if entry.stop is None else entry.stop.since,
            entry.is_session,
        )

    def _default_timeout(self, entry: Entry) -> float:
        return self._settings.command_timeout if entry.is_session else self._settings.request_timeout

    def stats(self, now: float) -> EmacsStats:
        """Return the figures of Emacs; `now` is monotonic."""
        beat, alive = self._heartbeat, self._process is not None
        runs = self._runs() if self._queue.is_open else []
        current = None if beat is None else beat.current
        # What keeps Emacs busy: a session that waits for its model does not.
        busy = [run for run in runs if is_occupied([run], current)]
        first = min(busy, key=lambda run: run.since, default=None)
        age = None if self._last_heartbeat is None else max(0.0, now - self._last_heartbeat)
        # What occupied Emacs kept it from its heartbeat, and while it rests none is due.
        late = (
            self._announced_idle_seconds()
            if self._last_heartbeat is not None and self._last_heartbeat >= self._occupied
            else 0.0
        )
        fresh = age is not None and min(age - late, now - self._occupied) < FRESH_SECONDS
        limit = self._settings.kill_grace + FRESH_SECONDS
        in_time = any(now - run.since < run.timeout + limit for run in busy)
        problem = self._self_check.problem if alive else None
        return EmacsStats(
            alive=alive,
            responsive=alive and (fresh or in_time) and problem is None,
            pid=beat.pid if beat is not None and alive else None,
            version=None if beat is None else beat.emacs_version,
            boot=None if beat is None else beat.boot,
            heartbeat_age_seconds=age,
            current=None if first is None else first.id,
            sessions=sum(run.session for run in runs),
            model_key=None if beat is None else beat.model_key,
            self_check_problem=None if problem is None else problem[:_LONGEST_PROBLEM],
            restarted=self._restarted,
        )


def _self_check(beat: Heartbeat) -> SelfCheck:
    idle, report = beat.state is EmacsState.IDLE, beat.self_check
    if report is None:
        return SelfCheck(beat.boot, idle)
    problem = report.problem or "it does not say why"
    return SelfCheck(beat.boot, idle, report.time, report.passed, problem, worked=beat.processed > 0)
