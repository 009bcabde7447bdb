"""One plan's stage on the light tier: the controller's processes, and a node whose pods are processes.

Carries out single faults, at once and without waiting: the main loop calls (`inject`, `recover`, `tick`). What users
do is hand.py's; when to do what is decided in run.py.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from tests.support.custom_resources import new_namespace
from tests.support.faults.api_proxy.proxy import ArmedFault, Proxy
from tests.support.faults.availability import LeaseRecorder, ListProbe, merge_spans, silent_spans
from tests.support.faults.client import WorkloadClient
from tests.support.faults.file_shim.points import ArmedFileFault, FileShims
from tests.support.faults.history import Answer, Execution, Note, ObjectVersion
from tests.support.faults.light.administration import ADMINISTRATIVE_OPS, Administration
from tests.support.faults.light.cluster import LightCluster
from tests.support.faults.light.controllers import DAEMONS, DISTURBING, Controller, armed_fault, chosen, is_emacs
from tests.support.faults.recorder import ObjectRecorder, RequestRecorder
from tests.support.faults.schedule import FileEffect, Op, Schedule, Step, Theme
from tests.support.faults.workload import COUNTER
from tests.support.kube import Json, Refused
from tests.support.pod import Pod
from tests.support.site import Site

GRACE_SECONDS = 4
"""How long a request waits for an instance that does not exist."""
SETTINGS = {"EFRIT_SWEEP_SECONDS": "2", "EFRIT_TARGET_GRACE_SECONDS": str(GRACE_SECONDS)}
TWO_LEADERS = {"EFRIT_LEASE_SECONDS": "3"}
RELAUNCH_SECONDS = 0.5


class LightRun(WorkloadClient):
    """Open it, close it in every case: it has processes."""

    shares_controller = False
    """Whether other runs have the same controller, and disturb it without a word."""
    tidy_seconds = 45.0
    """How long after the end of everything it may take until all is put away.

    What an admission policy refuses a moment after it was taken away is tried again after half a minute.
    """

    def __init__(self, cluster: LightCluster, schedule: Schedule) -> None:
        super().__init__(schedule)
        self.cluster = cluster
        self.armed: list[tuple[ArmedFault, int]] = []
        self._counters: dict[Path, tuple[int, list[Execution]]] = {}
        self._stopped_emacs: dict[Step, int] = {}
        self._stopped_bridge: dict[Step, Pod] = {}
        self._stopped_controller: dict[Step, Controller] = {}
        self._proxy: Proxy | None = None
        self._shims: FileShims | None = None
        self._file_faults: dict[Step, ArmedFileFault] = {}
        self._objects: list[ObjectRecorder] = []
        self._leases: LeaseRecorder | None = None
        self._probe: ListProbe | None = None
        self.administration = Administration(self)
        self.disturbances: list[tuple[float, float]] = []
        """When the controller or its API server was kept from working."""

    # Beginning and end

    def open(self) -> None:
        """Bring up what is there when the run begins."""
        schedule = self.schedule
        self.cluster.repair()
        self.cluster.collect_garbage(schedule.theme is Theme.NAMESPACE)
        other = new_namespace(self.cluster.kube, "o") if schedule.theme is Theme.TENANTS else None
        others = (other,) if other else ()
        self.site = Site(self.cluster.plane, self.cluster.kube, Path("/dev/null"), self.cluster.lisp, others=others)
        self.namespace = self.site.namespace
        self.administration.open(other)
        self.recorder = RequestRecorder(self.cluster.plane, self.namespace, self.clock)
        self.recorder.start()
        for plural in ("efritinstances", "statefulsets", "efritplans"):
            self._objects.append(ObjectRecorder(self.cluster.plane, plural, self.namespace, self.clock))
            self._objects[-1].start()
        self._leases = LeaseRecorder(self.cluster.plane, "leases", self.namespace, self.clock)
        self._leases.start()
        self._probe = ListProbe(self.cluster.kube, self.namespace, self.clock)
        self._probe.start()
        server = None
        if schedule.theme is Theme.CALLS:
            self._proxy = Proxy(self.cluster.plane)
            self._proxy.start()
            self._proxy.kill_controller = self._kill_controller
            server = self._proxy.url
        if schedule.theme in (Theme.FILES, Theme.CLOCKS, Theme.VOLUMES):
            self._shims = FileShims(self.site.directory)
            self.site.node.environment = self._shims.for_pod
        env = {**SETTINGS, **(TWO_LEADERS if schedule.controllers > 1 else {})}
        self.controllers = [
            Controller(self.site.operator(f"operator-{number}", server=server))
            for number in range(schedule.controllers)
        ]
        for each in self.controllers:
            loaded = self._shims.for_controller(each.operator.name) if self._shims else {}
            each.operator.launch(**env, **loaded)
        if schedule.warm:
            first = schedule.instances[0]
            self.create_instance(first)
            self.site.until_condition(first.name, "Ready", 180, status="True")
        if self.administration.tenant is not None:
            self.administration.tenant.begin()
        self.clock.start()

    def close(self) -> None:
        for each in getattr(self, "controllers", ()):
            each.operator.close()
        if self._proxy is not None:
            self._proxy.close()
        if hasattr(self, "recorder"):
            self.recorder.close()
        for watcher in (*self._objects, self._leases, self._probe):
            if watcher is not None:
                watcher.close()
        if hasattr(self, "site"):
            self.cluster.repair()
            self.administration.close()
            self.site.close()

    def keep_logs(self, directory: Path) -> None:
        """Copy what every process has logged."""
        for path in self.site.directory.rglob("*.log"):
            target = directory / "-".join(path.relative_to(self.site.directory).parts)
            shutil.copy2(path, target)
        for daemon in (self.cluster.plane.etcd, self.cluster.plane.apiserver):
            (directory / f"{daemon.name}.log").write_text(daemon.log_tail(2000))

    # Fate: from the main loop, at once

    def inject(self, step: Step) -> None:
        """Let a fault happen."""
        instance = step.target if self._is_instance(step.target) else ""
        detail = step.call or step.file or (f"{step.target} by {step.hours:+} h" if step.hours else step.detail)
        self.note("fault", f"{step.op.value} {detail}".strip(), instance=instance, fault=True)
        # Those that wait for a call count when they strike.
        self.hits[step.op.value] += step.op not in (Op.CALL, Op.FILE)
        if step.op in DISTURBING:
            self.disturbances.append((self.clock(), self.clock() + step.seconds))
        match step.op:
            case op if op in ADMINISTRATIVE_OPS:
                self.administration.inject(step)
            case Op.KILL_CONTROLLER | Op.STOP_CONTROLLER:
                self._inject_controller_fault(step)
            case Op.KILL_API | Op.KILL_ETCD:
                self.cluster.daemon(DAEMONS[step.op]).stop()
            case Op.STOP_API | Op.STOP_ETCD:
                self.cluster.freeze(DAEMONS[step.op], True)
            case Op.CALL:
                assert self._proxy is not None
                assert step.call is not None
                self.armed.append((self._proxy.arm(armed_fault(step.call)), 0))
            case Op.FILE | Op.SET_CLOCK:
                self._inject_shim_fault(step)
            case _:
                self._inject_pod_fault(step)

    def _inject_shim_fault(self, step: Step) -> None:
        assert self._shims is not None
        if step.op is Op.SET_CLOCK:
            if not self._shims.set_clock(step.target, 3600 * step.hours):
                self.note("fault", "it is not there yet", instance=step.target)
                self.hits[step.op.value] -= 1
            return
        assert step.file is not None
        point = self._shims.arm(step.target, step.file, self.clock())
        if point is None:
            self.note("fault", "there is no pod to hit", instance=step.target)
        else:
            self._file_faults[step] = point

    def _inject_controller_fault(self, step: Step) -> None:
        hit = chosen(self.controllers, step.target)
        if step.op is Op.STOP_CONTROLLER:
            hit.frozen = True
            self._stopped_controller[step] = hit
            with contextlib.suppress(ProcessLookupError):
                hit.operator.freeze(True)
        else:
            hit.operator.kill()
            hit.relaunch_at = self.clock() + step.seconds
        self.note("fault", f"it is {hit.operator.name}", fault=True)

    def _inject_pod_fault(self, step: Step) -> None:
        pod, now = self.running_pod(step.target), self.clock()
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
                self._record_loss(step.target, now, self.clock(), step.op.value)
            case Op.DELETE_POD | Op.FORCE_POD:
                self.delete_pod(step, pod)
            case Op.KILL_EMACS | Op.STOP_EMACS:
                self._inject_emacs_fault(step, pod, now)

    def note_no_target(self, step: Step) -> None:
        """Note that there was nothing to hit."""
        self.note("fault", "there is no pod to hit", instance=step.target)
        self.hits[step.op.value] -= 1

    def delete_pod(self, step: Step, pod: Pod) -> None:
        """Delete a pod at the API server, and note that what runs in it may be cut off."""
        self._record_loss(step.target, self.clock(), None, step.op.value, queue=True)
        # Not from this thread: the API server may be away, and the main loop must go on.
        threading.Thread(target=self._remove_pod, args=(step.op, pod), daemon=True).start()

    def note_held_replacement(self, instance: str, cause: str) -> None:
        """Note that a pod is to be replaced once nothing runs in it."""
        self._record_loss(instance, self.clock(), None, cause, queue=True, held=True)

    def _remove_pod(self, op: Op, pod: Pod) -> None:
        only: Json = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": pod.uid}}
        body = only | ({"gracePeriodSeconds": 0} if op is Op.FORCE_POD else {})
        path = self.cluster.kube.path("pods", self.namespace, pod.name)

        def remove() -> Json:
            try:
                return self.cluster.kube.call("DELETE", path, body)
            except Refused as error:
                # Another pod has the name by now: an earlier try was heard.
                if error.status == 409:
                    return {}
                raise

        self._retry(remove)

    def _inject_emacs_fault(self, step: Step, pod: Pod, now: float) -> None:
        pid = pod.emacs_pid()
        number = signal.SIGKILL if step.op is Op.KILL_EMACS else signal.SIGSTOP
        try:
            if pid is None or not is_emacs(pid):
                raise ProcessLookupError
            os.kill(pid, number)
        except ProcessLookupError:
            self.note("fault", "there is no Emacs to hit", instance=step.target)
            self.hits[step.op.value] -= 1
            return
        self.note("fault", f"it is pid {pid}", instance=step.target, fault=True)
        if step.op is Op.KILL_EMACS:
            self._record_loss(step.target, now, self.clock(), step.op.value)
        else:
            self._stopped_emacs[step] = pid

    def recover(self, step: Step) -> None:
        """Undo a fault that lasts."""
        if step.op not in (Op.KILL_CONTROLLER, Op.CALL):
            self.note(
                "fault", f"{step.op.value} is over", instance=step.target if self._is_instance(step.target) else ""
            )
        self.administration.recover(step)
        match step.op:
            case Op.STOP_CONTROLLER:
                hit = self._stopped_controller.pop(step)
                with contextlib.suppress(ProcessLookupError):
                    hit.operator.freeze(False)
                hit.frozen = any(each is hit for each in self._stopped_controller.values())
            case Op.KILL_API | Op.KILL_ETCD:
                self.cluster.plane.start(wait=False)
            case Op.STOP_API | Op.STOP_ETCD:
                self.cluster.freeze(DAEMONS[step.op], False)
            case Op.FILE:
                if (point := self._file_faults.get(step)) is not None:
                    point.clear()
            case Op.SET_CLOCK:
                assert self._shims is not None
                self._shims.set_clock(step.target, 0)
            case Op.STOP_BRIDGE:
                if (pod := self._stopped_bridge.pop(step, None)) is not None:
                    with contextlib.suppress(ProcessLookupError):
                        pod.freeze_bridge(False)
            case Op.STOP_EMACS:
                pid = self._stopped_emacs.pop(step, None)
                if pid is not None and is_emacs(pid):
                    os.kill(pid, signal.SIGCONT)

    def tick(self) -> None:
        """Do what Kubernetes does: start controllers again that ended. And note what befell calls meanwhile."""
        for each in self.controllers:
            process = each.operator.process
            if each.frozen or process.status is None:
                continue
            if each.relaunch_at is None:
                told = f"{each.operator.name} ended by itself with status {process.status}"
                each.unexpected.append(told)
                self.note("controller", told)
                self.disturbances.append((self.clock(), self.clock() + RELAUNCH_SECONDS))
                each.relaunch_at = self.clock() + RELAUNCH_SECONDS
            if self.clock() >= each.relaunch_at:
                each.relaunch_at = None
                each.operator.launch()
                self.note("controller", f"{each.operator.name} is started again")
        self.close_losses()
        for index, (armed, seen) in enumerate(self.armed):
            for moment in armed.times[seen:]:
                self.hits[armed.fault.effect.value] += 1
                with self._lock:
                    at = moment - self.clock.epoch
                    self.notes.append(Note(at, "proxy", f"strikes: {armed.fault}", fault=True))
            self.armed[index] = armed, len(armed.times)
        for point in self._shims.armed_faults if self._shims else ():
            if hits := point.new_hits():
                self.hits[point.fault.effect.value] += hits
                self.note("shim", f"strikes {hits} times: {point.fault}", instance=point.instance, fault=True)
                self.administration.observe_file_fault(point)
                if point.fault.program == "emacs" and point.fault.effect in (
                    FileEffect.KILL_BEFORE,
                    FileEffect.KILL_AFTER,
                ):
                    self._record_loss(point.instance, point.armed_at, self.clock(), str(point.fault))

    def restart_programs(self, instances: Iterable[str]) -> None:
        """Have the programs of these instances end and start again, when all work is done."""
        for instance in sorted(instances):
            if (pod := self.running_pod(instance)) is not None:
                self.note("run", "its programs are started again", instance=instance)
                pod.kill()

    def heal(self) -> None:
        """End every fault that is not over yet."""
        if self._proxy is not None:
            self._proxy.heal()
        if self._shims is not None:
            self._shims.heal()
        self.administration.heal()
        for step in (*self._stopped_controller, *self._stopped_bridge, *self._stopped_emacs):
            self.recover(step)
        self.tick()

    def _kill_controller(self) -> None:
        each = self.controllers[0]
        each.relaunch_at = self.clock() + 0.1
        each.operator.kill()

    # Looking

    def pods(self) -> list[Pod]:
        """Return every pod there ever was."""
        return list(self.site.node.made)

    def running_pod(self, instance: str) -> Pod | None:
        """Return the running pod of an instance, None while there is none."""
        return self.site.node.find(instance)

    def serving(self, instance: str) -> str:
        """Return which pod's Emacs serves an instance, empty while none does."""
        pod = self.running_pod(instance)
        pid = pod.emacs_pid() if pod else None
        return pod.uid if pod and pid and is_emacs(pid) else ""

    def logged_defects(self) -> Sequence[str]:
        """Return what programs have written of defects of their own; here `tick` notes who ends by itself."""
        return ()

    def lost_answers(self) -> Iterable[Answer]:
        """Return responses that can no longer be read where they lay: none, pods' directories stay."""
        return ()

    def file(self, instance: str, path: str) -> Path:
        """Return a file as Emacs names it, of whichever instance: here they all see this machine's."""
        return Path(path)

    def ran(self) -> tuple[Execution, ...]:
        """Return the lines of every counter file."""
        counter = next((each.counter for each in self.schedule.requests), COUNTER)
        for path, instance in {pod.workspace / counter: pod.instance for pod in self.pods()}.items():
            with contextlib.suppress(OSError):
                size = path.stat().st_size
                if self._counters.get(path, (-1, []))[0] != size:
                    lines = path.read_text().splitlines()
                    self._counters[path] = size, [self._line(instance, line) for line in lines]
        return tuple(each for _, lines in self._counters.values() for each in lines)

    def _line(self, instance: str, line: str) -> Execution:
        marker, pid, written = [*line.split(), "0", "0", "0"][:3]
        return Execution(self.namespace, instance, marker, int(pid), float(written) - self.clock.epoch)

    def other_tenant_open(self) -> tuple[str, ...]:
        """Return the requests of the other tenant that are not final."""
        tenant = self.administration.tenant
        return tenant.open() if tenant is not None else ()

    @property
    def unavailable_spans(self) -> tuple[tuple[float, float], ...]:
        """Return the spans so far in which no controller renewed its Lease, or the API server answered no lists."""
        if self._leases is None or self._probe is None:
            return ()
        now = self.clock()
        return merge_spans([*silent_spans(self._leases.renewals, now), *silent_spans(self._probe.answers, now)])

    @property
    def objects(self) -> tuple[ObjectVersion, ...]:
        """Return what was seen of instances, StatefulSets and plans."""
        return tuple(version for each in self._objects for version in each.versions)

    @property
    def final(self) -> Mapping[str, object]:
        return self.recorder.final
