"""Plays one plan and returns what was seen: the main loop that lets each step happen at its moment.

Users act in a thread of their own, one after the other, and are patient; faults happen in the main loop, which never
waits for the API server. When all is over it waits, within bounds, until everything has ended and is put away.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import httpx

from tests.support.faults import collect
from tests.support.faults.availability import seconds_of
from tests.support.faults.history import REMOVED, History, QueueFile
from tests.support.faults.job_thread import Users
from tests.support.faults.light.run import Stage
from tests.support.faults.request_invariants import violations
from tests.support.faults.schedule import Do, Plan, Step, Theme, When
from tests.support.faults.timeline import report
from tests.support.faults.violation import Violation
from tests.support.kube import Refused

TICK_SECONDS = 0.02
LITTER_SECONDS = 3.0
"""How long a temporary file lies before nobody is believed to work on it."""
LONGEST_WAIT_SECONDS = 240.0
"""Whether anybody leads or not."""
CALLS_SECONDS = 4.0
"""How long faults of calls stay armed after the last step."""


@dataclass(frozen=True)
class Verdict:
    """What was seen of a run and which promises it broke."""

    history: History
    violations: Sequence[Violation]


def play(stage: Stage, out: Path | None = None) -> Verdict:
    """Run a stage's plan in a namespace of its own. Raises where the rig fails, never for what the product does.

    out: where plan, timeline, history and logs of a run go that breaks a promise, or ends with an exception.
    """
    plan, users = stage.plan, Users()
    try:
        stage.open()
        _main_loop(stage, users)
        history = _finish(stage)
        broken = [Violation("I2", "", "a program of ours failed by itself", line) for line in stage.complaints()]
        verdict = Verdict(history, [*violations(history), *broken])
        if verdict.violations and out is not None:
            _keep(stage, plan, out, report(history, verdict.violations), history.to_json())
        return verdict
    except Exception:
        if out is not None:
            _keep(stage, plan, out, traceback.format_exc(), "")
        raise
    finally:
        users.close()
        stage.close()


def _keep(stage: Stage, plan: Plan, out: Path, told: str, history: str) -> None:
    out.mkdir(parents=True, exist_ok=True)
    (out / "plan.txt").write_text(plan.describe() + "\n")
    (out / "report.txt").write_text(told + "\n")
    (out / "history.json").write_text(history)
    if hasattr(stage, "namespace"):
        stage.keep_logs(out)


def _main_loop(stage: Stage, users: Users) -> None:
    plan = stage.plan
    creations: list[tuple[float, Callable[[], None]]] = [
        *((each.at, partial(stage.make, each)) for each in plan.instances),
        *((each.at, partial(stage.ask, each)) for each in plan.work),
        *((each.at, partial(stage.make_plan, each)) for each in plan.plans),
    ]
    creations.sort(key=lambda creation: creation[0])
    waiting, lasting = list(plan.steps), list[tuple[float, Step]]()
    steps_done_at: float | None = None
    while True:
        now = stage.clock()
        while creations and creations[0][0] <= now:
            users.do(creations.pop(0)[1])
        running, answered = {each.word for each in stage.ran()}, len(stage.final)
        for step in [each for each in waiting if _due(plan, each.when, now, running, answered)]:
            waiting.remove(step)
            if step.do.fault:
                stage.strike(step)
                if step.seconds and step.do is not Do.CALL:
                    # From when it has struck: that takes its time, too, on a busy machine.
                    lasting.append((stage.clock() + step.seconds, step))
                elif step.do in (Do.KILL_API, Do.KILL_ETCD):
                    stage.relieve(step)
            else:
                users.do(partial(stage.wish, step))
        for end, step in [each for each in lasting if each[0] <= now]:
            lasting.remove((end, step))
            stage.relieve(step)
        stage.tend()
        if not waiting and not lasting and not creations and users.idle:
            steps_done_at = now if steps_done_at is None else steps_done_at
            unspent = any(not armed.spent for armed, _ in stage.armed)
            everything_final = answered >= len(stage.submitted)
            if not unspent or everything_final or now - steps_done_at > CALLS_SECONDS:
                return
        # Nobody tells when a counter file grows or a moment has come.
        time.sleep(TICK_SECONDS)


def _due(plan: Plan, when: When, now: float, running: set[str], answered: int) -> bool:
    if now >= when.at:
        return True
    if when.running:
        return next(each.word for each in plan.work if each.name == when.running) in running
    return bool(when.answered) and answered >= when.answered


def _finish(stage: Stage) -> History:
    suffered_until = None
    if stage.plan.theme is Theme.TENANTS:
        # The other tenant's trouble lasts until all of this one's work is done.
        _within(stage, stage.plan.patience, lambda: _all_final(stage))
        suffered_until = stage.clock()
    stage.heal()
    stage.ground.mend()
    quiet_at = stage.clock()
    stage.note("run", "no more faults")
    left = False
    look = _Look(stage)
    if stage.namespace_deleted:
        left = not _within(stage, stage.plan.patience, lambda: _namespace_gone(stage))
        look.at_files()
    else:
        _within(stage, stage.plan.patience + 5, lambda: _all_final(stage))
        _within(stage, stage.tidy_seconds, lambda: look.settled() or bool(look.litter()))
        if instances := look.litter():
            # A temporary file that could not be removed is removed at the next start, says docs/queue.md.
            stage.start_again(instances)
            _within(stage, stage.tidy_seconds, look.settled)
        _within(stage, stage.plan.patience, lambda: not stage.others_open())
    return collect.collect(
        stage,
        quiet_at=quiet_at,
        files=look.files,
        ready=look.ready,
        namespace_left=left,
        suffered_until=suffered_until,
    )


class _Look:
    """The last look at queues and instances: what is judged is what was seen, not what came a moment later."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self.files: tuple[QueueFile, ...] = ()
        self.ready: dict[tuple[str, str], bool] = {}
        self._lying: dict[QueueFile, float] = {}

    def litter(self) -> set[str]:
        """Return the instances with temporary files that stay, where calls to files have failed."""
        if self._stage.plan.theme is not Theme.FILES:
            return set()
        now = self._stage.clock()
        temporary = [each for each in self.files if each.live and each.area == "tmp" and not each.reserved]
        self._lying = {each: self._lying.get(each, now) for each in temporary}
        return {each.instance for each, since in self._lying.items() if now - since > LITTER_SECONDS}

    def at_files(self) -> None:
        self.files = collect.queue_files(self._stage)

    def settled(self) -> bool:
        """Whether all is put away and every instance serves again, by the pod it is to have."""
        try:
            self.ready = collect.instances_ready(self._stage)
        except httpx.TransportError:
            return False
        self.at_files()
        return collect.tidy(self.files) and all(self.ready.values()) and not self._stage.awaits_pods


def _within(stage: Stage, seconds: float, reached: Callable[[], bool]) -> bool:
    """Whether it is reached within so many seconds in which a controller led."""
    began, before = time.monotonic(), seconds_of(stage.unserved)
    while not reached():
        waited = time.monotonic() - began
        if waited > LONGEST_WAIT_SECONDS or waited - (seconds_of(stage.unserved) - before) > seconds:
            return False
        stage.tend()
        time.sleep(5 * TICK_SECONDS)
    return True


def _all_final(stage: Stage) -> bool:
    final, latest = stage.recorder.final, stage.recorder.latest
    gone = {uid for uid, version in latest.items() if version.event in REMOVED}
    return all(each.uid in gone or (each.uid in final and not each.goes) for each in stage.submitted)


def _namespace_gone(stage: Stage) -> bool:
    try:
        stage.ground.kube.call("GET", f"/api/v1/namespaces/{stage.namespace}")
    except Refused as error:
        return error.status == 404
    except httpx.TransportError:
        return False
    return False
