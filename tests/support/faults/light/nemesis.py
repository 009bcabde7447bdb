"""The nemesis of the light tier: kills, stops and deletes processes and pods, and arms faults of calls and files.

What administrators do beside the workload is administration.py's.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from typing import TYPE_CHECKING

from efrit.errors import ApiError, ApiUnreachable
from tests.support.faults.api_proxy.rules import ArmedFault
from tests.support.faults.file_shim.points import ArmedFileFault
from tests.support.faults.light.administration import ADMINISTRATIVE_OPS, Administration
from tests.support.faults.light.controllers import (
    DAEMONS,
    DISTURBING,
    Controller,
    armed_fault,
    is_emacs,
    select_controller,
)
from tests.support.faults.nemesis import Nemesis
from tests.support.faults.schedule import FileEffect, Op, Step
from tests.support.kube import Json
from tests.support.pod import Pod

if TYPE_CHECKING:
    from tests.support.faults.light.run import LightRun


EVICTION_SECONDS = 0.5
"""Between two tries to evict a pod."""


class LightNemesis(Nemesis):
    """Injects the faults of one run."""

    def __init__(self, run: LightRun) -> None:
        self._run = run
        self.administration = Administration(run, self)
        self._stopped_emacs: dict[Step, int] = {}
        self._stopped_bridge: dict[Step, Pod] = {}
        self._stopped_controller: dict[Step, Controller] = {}
        self._file_faults: dict[Step, ArmedFileFault] = {}
        self._noted: dict[ArmedFault, int] = {}

    def inject(self, step: Step) -> None:
        """Begin the fault of a step, and note whom it hit."""
        run = self._run
        target = run.hit_by(step)
        instance = target if run.is_instance(target) or target != step.target else ""
        detail = step.call or step.file or (f"{step.target} by {step.hours:+} h" if step.hours else step.detail)
        run.note("fault", f"{step.op.value} {detail}".strip(), instance=instance, fault=True)
        # Those that wait for a call are counted when they hit one.
        run.hits[step.op.value] += step.op not in (Op.CALL, Op.FILE)
        if step.op in DISTURBING:
            run.disturbances.append((run.clock(), run.clock() + step.seconds))
        match step.op:
            case op if op in ADMINISTRATIVE_OPS:
                self.administration.inject(step)
            case Op.KILL_CONTROLLER | Op.STOP_CONTROLLER:
                self._inject_controller_fault(step)
            case Op.KILL_API | Op.KILL_ETCD:
                run.cluster.daemon(DAEMONS[step.op]).stop()
            case Op.STOP_API | Op.STOP_ETCD:
                run.cluster.freeze(DAEMONS[step.op], True)
            case Op.CALL:
                assert run.proxy is not None
                assert step.call is not None
                run.armed.append(run.proxy.arm(armed_fault(step.call)))
            case Op.FILE | Op.SET_CLOCK:
                self._inject_shim_fault(step)
            case _:
                self._inject_pod_fault(step)

    def _inject_shim_fault(self, step: Step) -> None:
        run = self._run
        assert run.shims is not None
        if step.op is Op.SET_CLOCK:
            if not run.shims.set_clock(step.target, 3600 * step.hours):
                run.note("fault", "it is not there yet", instance=step.target)
                run.hits[step.op.value] -= 1
            return
        assert step.file is not None
        point = run.shims.arm(step.target, step.file, run.clock())
        if point is None:
            run.note("fault", "there is no pod to hit", instance=step.target)
        else:
            self._file_faults[step] = point

    def _inject_controller_fault(self, step: Step) -> None:
        run = self._run
        hit = select_controller(run.controllers, step.target)
        if step.op is Op.STOP_CONTROLLER:
            hit.frozen = True
            self._stopped_controller[step] = hit
            with contextlib.suppress(ProcessLookupError):
                hit.operator.freeze(True)
        else:
            hit.operator.kill()
            hit.relaunch_at = run.clock() + step.seconds
        run.note("fault", f"it is {hit.operator.name}", fault=True)

    def _inject_pod_fault(self, step: Step) -> None:
        run = self._run
        pod, now = run.running_pod(run.hit_by(step)), run.clock()
        if pod is None or not pod.started:
            self.note_no_target(step)
            return
        match step.op:
            case Op.KILL_BRIDGE:
                pod.kill_bridge()
            case Op.STOP_BRIDGE:
                pod.freeze_bridge(True)
                self._stopped_bridge[step] = pod
            case Op.KILL_POD:
                pod.kill()
                run.record_loss(pod.instance, now, run.clock(), step.op.value)
            case Op.DELETE_POD | Op.FORCE_POD:
                self.delete_pod(step, pod)
            case Op.EVICT_POD:
                threading.Thread(target=self._evict, args=(step, pod), daemon=True).start()
            case Op.KILL_EMACS | Op.STOP_EMACS:
                self._inject_emacs_fault(step, pod, now)

    def note_no_target(self, step: Step) -> None:
        """Note that the target of a step is not there."""
        run = self._run
        run.note("fault", "there is no pod to hit", instance=step.target)
        run.hits[step.op.value] -= 1

    def delete_pod(self, step: Step, pod: Pod) -> None:
        """Delete a pod at the API server, and note that its requests may be interrupted."""
        run = self._run
        run.record_loss(pod.instance, run.clock(), None, step.op.value, queue=True)
        # Not from this thread: the API server may be away, and the main loop must go on.
        threading.Thread(target=self._remove_pod, args=(step.op, pod), daemon=True).start()

    def note_held_replacement(self, instance: str, cause: str) -> None:
        """Note that a pod is to be replaced once nothing runs in it."""
        run = self._run
        run.record_loss(instance, run.clock(), None, cause, queue=True, held_back=True)

    def _remove_pod(self, op: Op, pod: Pod) -> None:
        run = self._run
        only: Json = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": pod.uid}}
        body = only | ({"gracePeriodSeconds": 0} if op is Op.FORCE_POD else {})
        path = run.cluster.kube.path("pods", run.namespace, pod.name)

        def remove() -> Json:
            try:
                return run.cluster.kube.call("DELETE", path, body)
            except ApiError as error:
                # Another pod has the name by now: an earlier try was heard.
                if error.status == 409:
                    return {}
                raise

        run.retry(remove)

    def _evict(self, step: Step, pod: Pod) -> None:
        """Evict a pod, and try again where that is refused, as a drain of its node does."""
        run, until = self._run, self._run.clock() + step.seconds
        path = run.cluster.kube.path("pods", run.namespace, pod.name, "eviction")
        options = {"preconditions": {"uid": pod.uid}}
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": pod.name},
            "deleteOptions": options,
        }
        unanswered: float | None = None
        while True:
            began = run.clock()
            try:
                run.cluster.kube.call("POST", path, body)
            except (ApiUnreachable, RuntimeError):
                # RuntimeError: the connection was closed with the run.
                unanswered = began if unanswered is None else unanswered
            except ApiError as refused:
                if refused.status in (404, 409):
                    # It is another pod by now: a try that was not answered may have been heard.
                    break
                unanswered = None if refused.status == 429 else unanswered
            else:
                unanswered = began if unanswered is None else unanswered
                break
            if run.clock() > until:
                break
            time.sleep(EVICTION_SECONDS)
        if unanswered is None:
            run.note("fault", "the eviction was refused", instance=pod.instance)
        else:
            run.note("fault", "it is evicted", instance=pod.instance, fault=True)
            run.record_eviction(pod.instance, unanswered, step.op.value)

    def _inject_emacs_fault(self, step: Step, pod: Pod, now: float) -> None:
        run = self._run
        pid = pod.emacs_pid()
        number = signal.SIGKILL if step.op is Op.KILL_EMACS else signal.SIGSTOP
        try:
            if pid is None or not is_emacs(pid):
                raise ProcessLookupError
            os.kill(pid, number)
        except ProcessLookupError:
            run.note("fault", "there is no Emacs to hit", instance=pod.instance)
            run.hits[step.op.value] -= 1
            return
        run.note("fault", f"it is pid {pid}", instance=pod.instance, fault=True)
        if step.op is Op.KILL_EMACS:
            run.record_loss(pod.instance, now, run.clock(), step.op.value)
        else:
            self._stopped_emacs[step] = pid

    def recover(self, step: Step) -> None:
        """End the fault of a step that lasts."""
        run = self._run
        if step.op not in (Op.KILL_CONTROLLER, Op.CALL):
            run.note(
                "fault", f"{step.op.value} is over", instance=step.target if run.is_instance(step.target) else ""
            )
        self.administration.recover(step)
        match step.op:
            case Op.STOP_CONTROLLER:
                hit = self._stopped_controller.pop(step)
                with contextlib.suppress(ProcessLookupError):
                    hit.operator.freeze(False)
                hit.frozen = any(controller is hit for controller in self._stopped_controller.values())
            case Op.KILL_API | Op.KILL_ETCD:
                run.cluster.plane.start(wait=False)
            case Op.STOP_API | Op.STOP_ETCD:
                run.cluster.freeze(DAEMONS[step.op], False)
            case Op.FILE:
                if (point := self._file_faults.get(step)) is not None:
                    point.clear()
            case Op.SET_CLOCK:
                assert run.shims is not None
                run.shims.set_clock(step.target, 0)
            case Op.STOP_BRIDGE:
                if (pod := self._stopped_bridge.pop(step, None)) is not None:
                    with contextlib.suppress(ProcessLookupError):
                        pod.freeze_bridge(False)
            case Op.STOP_EMACS:
                pid = self._stopped_emacs.pop(step, None)
                if pid is not None and is_emacs(pid):
                    os.kill(pid, signal.SIGCONT)

    def heal(self) -> None:
        """End every fault that is not over yet."""
        run = self._run
        if run.proxy is not None:
            run.proxy.heal()
        if run.shims is not None:
            run.shims.heal()
        self.administration.heal()
        for step in (*self._stopped_controller, *self._stopped_bridge, *self._stopped_emacs):
            self.recover(step)

    def note_hits(self) -> None:
        """Note which armed faults have hit a call since this was called last."""
        run = self._run
        for armed in run.armed:
            for moment in armed.times[self._noted.get(armed, 0) :]:
                run.hits[armed.fault.effect.value] += 1
                run.note("proxy", f"injects: {armed.fault}", fault=True, at=moment - run.clock.epoch)
                self._noted[armed] = self._noted.get(armed, 0) + 1
        for armed_file in run.shims.armed_faults if run.shims else ():
            if hits := armed_file.new_hits():
                fault = armed_file.fault
                run.hits[fault.effect.value] += hits
                run.note("shim", f"injects {hits} times: {fault}", instance=armed_file.instance, fault=True)
                self.administration.observe_file_fault(armed_file)
                if fault.program == "emacs" and fault.effect in (FileEffect.KILL_BEFORE, FileEffect.KILL_AFTER):
                    run.record_loss(armed_file.instance, armed_file.armed_at, run.clock(), str(fault))
