"""Executes one run: the main loop in which each step happens when it is due, then the end and the verdict.

Users act in a thread of their own, one operation after the other, and retry; the nemesis acts in the main loop, which
never waits for the API server. At the end the run waits, within bounds, until every request is final and the queues
are empty.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from efrit import resources
from efrit.errors import ApiError, ApiUnreachable
from tests.support.faults import collect
from tests.support.faults.availability import total_seconds
from tests.support.faults.base_run import FaultRun
from tests.support.faults.checker import check
from tests.support.faults.continued_sessions import ContinuedSessions
from tests.support.faults.history import REMOVED, History, QueueFile
from tests.support.faults.job_thread import JobThread
from tests.support.faults.pool_state import pool_unsettled
from tests.support.faults.schedule import Op, Schedule, Step, Theme
from tests.support.faults.timeline import report
from tests.support.faults.violation import Violation

TICK_SECONDS = 0.02
STALE_FILE_SECONDS = 3.0
"""How long a temporary file lies before it counts as abandoned."""
LONGEST_WAIT_SECONDS = 600.0
"""How long any wait lasts at most, whether or not a controller leads."""
SESSION_SECONDS = 60.0
"""How long after the last step requests of sessions wait for the ends of those before them."""
ARMED_SECONDS = 4.0
"""How long faults of calls stay armed after the last step."""


@dataclass(frozen=True)
class Verdict:
    """The history of a run, and the promises it broke."""

    history: History
    violations: Sequence[Violation]


def execute(run: FaultRun, out: Path | None = None) -> Verdict:
    """Execute a run in a namespace of its own. Raises where the harness fails, never for what the product does.

    out: directory for schedule, timeline, history and logs of a run that breaks a promise or ends with an exception.
    """
    schedule, user_thread = run.schedule, JobThread()
    try:
        run.open()
        _main_loop(run, user_thread)
        history = _finish(run)
        defects = [Violation("I2", "", "a program of ours failed by itself", line) for line in run.logged_defects()]
        verdict = Verdict(history, [*check(history), *defects])
        if verdict.violations and out is not None:
            _save_evidence(run, schedule, out, report(history, verdict.violations), history.to_json())
        return verdict
    except Exception:
        if out is not None:
            _save_evidence(run, schedule, out, traceback.format_exc(), "")
        raise
    finally:
        user_thread.close()
        run.close()


def _save_evidence(run: FaultRun, schedule: Schedule, out: Path, text: str, history: str) -> None:
    out.mkdir(parents=True, exist_ok=True)
    (out / "schedule.txt").write_text(schedule.describe() + "\n")
    (out / "report.txt").write_text(text + "\n")
    (out / "history.json").write_text(history)
    if run.namespace:
        run.keep_logs(out)


def _main_loop(run: FaultRun, user_thread: JobThread) -> None:
    schedule = run.schedule
    creations: list[tuple[float, Callable[[], None]]] = [
        *((instance.at, partial(run.create_instance, instance)) for instance in schedule.instances),
        *((request.at, partial(run.submit, request)) for request in schedule.requests_from(None)),
        *((plan.at, partial(run.create_suspended_plan, plan)) for plan in schedule.plans),
        *((0.0, partial(run.create_pool, pool)) for pool in [schedule.pool] if pool is not None),
        *((claim.at, partial(run.create_claim, claim)) for claim in schedule.claims),
    ]
    creations.sort(key=lambda creation: creation[0])
    waiting, lasting, sessions = list(schedule.steps), list[tuple[float, Step]](), ContinuedSessions(run)
    steps_done_at: float | None = None
    while True:
        now = run.clock()
        while creations and creations[0][0] <= now:
            user_thread.submit(creations.pop(0)[1])
        for request in sessions.due(now):
            user_thread.submit(partial(run.submit, request))
        markers, answered = {execution.marker for execution in run.executions()}, len(run.final)
        running = {request.name for request in schedule.requests if request.marker in markers}
        events = [note.event for note in run.notes]
        for step in [step for step in waiting if step.trigger.is_due(now, running, answered, events)]:
            waiting.remove(step)
            creations += [
                (now + request.at, partial(run.submit, request)) for request in schedule.requests_from(step.op)
            ]
            creations.sort(key=lambda creation: creation[0])
            if step.op.fault:
                run.nemesis.inject(step)
                if step.seconds and step.op is not Op.CALL:
                    # Counted from after the injection, which takes time on a busy machine.
                    lasting.append((run.clock() + step.seconds, step))
                elif step.op in (Op.KILL_API, Op.KILL_ETCD):
                    run.nemesis.recover(step)
            else:
                user_thread.submit(partial(run.perform, step))
        for end, step in [entry for entry in lasting if entry[0] <= now]:
            lasting.remove((end, step))
            run.nemesis.recover(step)
        run.tick()
        if not waiting and not lasting and not creations and user_thread.idle:
            steps_done_at = now if steps_done_at is None else steps_done_at
            if sessions.open:
                if now - steps_done_at > SESSION_SECONDS:
                    sessions.drop_all()
                time.sleep(TICK_SECONDS)
                continue
            unspent = any(not armed.spent for armed in run.armed)
            everything_final = answered >= len(run.submitted)
            if not unspent or everything_final or now - steps_done_at > ARMED_SECONDS:
                return
        # There is no event for a counter file that grows or a moment that has come.
        time.sleep(TICK_SECONDS)


def _finish(run: FaultRun) -> History:
    tenant_fault_until = None
    if run.schedule.theme is Theme.TENANTS:
        # The fault of the other tenant lasts until all requests of this one are final.
        _wait(run, run.schedule.recovery_seconds, lambda: _all_final(run))
        tenant_fault_until = run.clock()
    run.heal()
    run.cluster.repair()
    healed_at = run.clock()
    run.note("run", "no more faults")
    namespace_remains = False
    final_state = _FinalState(run)
    if run.namespace_deleted:
        namespace_remains = not _wait(run, run.schedule.recovery_seconds, lambda: _namespace_gone(run))
        final_state.read_files()
    else:
        _wait(run, run.schedule.recovery_seconds + 5, lambda: _all_final(run))
        _wait(run, run.tidy_seconds, lambda: final_state.settled() or bool(final_state.stale_files()))
        if instances := final_state.stale_files():
            # By docs/queue.md a temporary file that could not be removed is removed at the next start.
            run.restart_programs(instances)
            _wait(run, run.tidy_seconds, final_state.settled)
        _wait(run, run.schedule.recovery_seconds, lambda: not run.other_tenant_open())
    return collect.collect(
        run,
        healed_at=healed_at,
        files=final_state.files,
        ready=final_state.ready,
        namespace_left=namespace_remains,
        pool_unsettled=final_state.pool_unsettled,
        tenant_fault_until=tenant_fault_until,
    )


class _FinalState:
    """The last state of queues and instances: what is judged is what was seen, not what came a moment later."""

    def __init__(self, run: FaultRun) -> None:
        self._stage = run
        self.files: tuple[QueueFile, ...] = ()
        self.ready: dict[tuple[str, str], bool] = {}
        self.pool_unsettled = ""
        self._lying: dict[QueueFile, float] = {}

    def stale_files(self) -> set[str]:
        """Return the instances with temporary files that stay, where calls on files have failed."""
        if self._stage.schedule.theme is not Theme.FILES:
            return set()
        now = self._stage.clock()
        temporary = [file for file in self.files if file.live and file.area == "tmp" and not file.may_stay]
        self._lying = {file: self._lying.get(file, now) for file in temporary}
        return {file.instance for file, since in self._lying.items() if now - since > STALE_FILE_SECONDS}

    def read_files(self) -> None:
        """Read which files lie on the queues."""
        self.files = collect.queue_files(self._stage)

    def settled(self) -> bool:
        """Return whether the queues are empty and every instance is served by the pod it is to have."""
        try:
            self.ready = collect.instances_ready(self._stage)
            self.pool_unsettled = pool_unsettled(
                self._stage.cluster.kube, self._stage.namespace, self._stage.schedule.pool
            )
        except ApiUnreachable:
            return False
        self.read_files()
        at_rest = all(self.ready.values()) and not self.pool_unsettled
        return collect.tidy(self.files) and at_rest and not self._stage.awaits_replacement


def _wait(run: FaultRun, seconds: float, condition: Callable[[], bool]) -> bool:
    """Wait until a condition holds. Return whether it did within so many seconds in which a controller led."""
    began, before = time.monotonic(), total_seconds(run.unavailable_spans)
    while not condition():
        waited = time.monotonic() - began
        if waited > LONGEST_WAIT_SECONDS or waited - (total_seconds(run.unavailable_spans) - before) > seconds:
            return False
        run.tick()
        time.sleep(5 * TICK_SECONDS)
    return True


def _all_final(run: FaultRun) -> bool:
    final, latest = run.recorder.final, run.recorder.latest
    gone = {uid for uid, version in latest.items() if version.event in REMOVED}
    return all(request.uid in gone or (request.uid in final and not request.expires) for request in run.submitted)


def _namespace_gone(run: FaultRun) -> bool:
    try:
        run.cluster.kube.call("GET", resources.NAMESPACES.path(name=run.namespace))
    except ApiError as error:
        return error.status == 404
    return False
