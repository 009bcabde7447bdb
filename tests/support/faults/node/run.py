"""One plan's stage on the real cluster: the installed operator, real pods and volumes, faults by signal and packet.

The hand of the users is the light tier's (light.py). What is done to processes, pods and node is done here on the
host: it works while the API server is away, and `inject` and `recover` never wait for it.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

from tests.support.faults.history import Answer, Execution
from tests.support.faults.light.run import LightRun
from tests.support.faults.log_defects import logged_defects
from tests.support.faults.node.cluster import SYSTEM, NodeCluster, call_with_retries
from tests.support.faults.node.host import SERVICE_IP, HostPod, Role
from tests.support.faults.recorder import RequestRecorder
from tests.support.faults.schedule import Op, Schedule, Step
from tests.support.faults.workload import COUNTER
from tests.support.kube import Json, Refused, until

READY_SECONDS = 240.0
ROLES = {
    Op.KILL_BRIDGE: Role.BRIDGE,
    Op.STOP_BRIDGE: Role.BRIDGE,
    Op.KILL_EMACS: Role.EMACS,
    Op.STOP_EMACS: Role.EMACS,
}
DAEMONS = {
    Op.KILL_API: "kube-apiserver",
    Op.STOP_API: "kube-apiserver",
    Op.KILL_ETCD: "etcd",
    Op.STOP_ETCD: "etcd",
    Op.KILL_KUBELET: "kubelet",
    Op.KILL_RUNTIME: "containerd",
}
WORKSPACE = "/workspace"
OTHER_IMAGE = "localhost/efrit/emacs:28-dev"
OTHERS_SECONDS = 300.0
TICK_SECONDS = 0.1
"""How often is looked through the node's directories: seeing more would cost the run its processor."""
LEADS = "leading; serving"
LOG_BYTES = 20_000


class NodeRun(LightRun):
    """Open it, close it in every case: it has frozen processes and a namespace.

    others: stages on the same cluster meet there before any of them calls its faults over.
    """

    shares_controller = True
    tidy_seconds = 90.0

    def __init__(self, cluster: NodeCluster, schedule: Schedule, others: threading.Barrier | None = None) -> None:
        super().__init__(cluster, schedule)
        self._others = others
        self.cluster: NodeCluster = cluster
        self._host = cluster.host
        self._operators: set[tuple[str, int | None]] = set()
        self._undo: dict[Step, Callable[[], None]] = {}
        self._seen: dict[str, HostPod] = {}
        self._counter_files: dict[tuple[int, int], tuple[str, TextIO]] = {}
        self._counted: set[str] = set()
        self._logs: dict[Path, TextIO] = {}
        self.written: dict[Path, str] = {}
        self._next_tick = 0.0
        self._kept: dict[tuple[str, str, str], str] = {}

    # Beginning and end

    def open(self) -> None:
        """Bring up what is there when the run begins."""
        self.cluster.repair()
        self.cluster.fresh_operator(self.schedule.controllers)
        self.namespace = self.cluster.new_namespace()
        self.recorder = RequestRecorder(self.cluster.plane, self.namespace, self.clock)
        self.recorder.start()
        if self.schedule.warm:
            for each in self.schedule.instances:
                if each.at <= 0:
                    self.create_instance(each)
            until(self._all_ready, "the instances are not ready", READY_SECONDS)
        for pod in self.cluster.operators():
            self._operators.add((pod.uid, pod.pid(Role.OPERATOR)))
        self._began = datetime.now(UTC).isoformat()
        self.clock.start()

    def close(self) -> None:
        """End the faults, and let the namespace go."""
        self.heal()
        self.cluster.repair()
        if hasattr(self, "recorder"):
            self.recorder.close()
        if hasattr(self, "namespace"):
            self.cluster.remove(self.namespace)
        self._read_logs()
        for file in (*self._logs.values(), *(file for _, file in self._counter_files.values())):
            file.close()

    def _all_ready(self) -> bool:
        found = self.cluster.kube.list("efritinstances", self.namespace)
        conditions = [one for each in found for one in each.get("status", {}).get("conditions", ())]
        return sum(one["type"] == "Ready" and one["status"] == "True" for one in conditions) == len(found)

    # Fate: from the main loop, at once

    def inject(self, step: Step) -> None:
        """Let a fault happen."""
        instance = step.target if self._is_instance(step.target) else ""
        self.note("fault", step.op.value, instance=instance, fault=True)
        self.hits[step.op.value] += 1
        match step.op:
            case Op.KILL_CONTROLLER | Op.STOP_CONTROLLER | Op.CUT_CONTROLLER:
                self._inject_controller_fault(step)
            case Op.STOP_API | Op.STOP_ETCD:
                self._host.freeze(DAEMONS[step.op], True)
                self._undo[step] = lambda: self._host.freeze(DAEMONS[step.op], False)
            case Op.KILL_API | Op.KILL_ETCD | Op.KILL_KUBELET | Op.KILL_RUNTIME:
                self._host.stop(DAEMONS[step.op])
                self._undo[step] = lambda: self._host.start(DAEMONS[step.op])
            case Op.KILL_NODE:
                self._kill_node(step)
            case Op.ROLL_CONTROLLER:
                self._in_thread(self.cluster.restart_operator)
            case _:
                self._inject_pod_fault(step)

    def _inject_controller_fault(self, step: Step) -> None:
        chosen = self._select_operator(step.target)
        if chosen is None:
            self.note("fault", "there is no controller to hit")
            self.hits[step.op.value] -= 1
            return
        self.note("fault", f"it is {chosen.name}", fault=True)
        match step.op:
            case Op.KILL_CONTROLLER:
                chosen.send(Role.OPERATOR, signal.SIGKILL)
            case Op.STOP_CONTROLLER:
                self._freeze(step, chosen.send(Role.OPERATOR, signal.SIGSTOP))
            case Op.CUT_CONTROLLER:
                chosen.cut_from(SERVICE_IP, True)
                self._undo[step] = lambda: chosen.cut_from(SERVICE_IP, False)

    def _select_operator(self, target: str) -> HostPod | None:
        found = self.cluster.operators()
        # The API server may be away or frozen: this must not wait for it.
        leader = self._leader(found)
        wanted = [each for each in found if (each.name == leader) == (target != "standby")]
        return next(iter(wanted or found), None)

    def _inject_pod_fault(self, step: Step) -> None:
        pod, now = self.running_pod(step.target), self.clock()
        if pod is None:
            self.note("fault", "there is no pod to hit", instance=step.target)
            self.hits[step.op.value] -= 1
            return
        match step.op:
            case Op.KILL_BRIDGE | Op.KILL_EMACS:
                pid = pod.send(ROLES[step.op], signal.SIGKILL)
                self.note("fault", f"it is pid {pid}", instance=step.target, fault=True)
                if pid and step.op is Op.KILL_EMACS:
                    self._record_loss(step.target, now, self.clock(), step.op.value)
            case Op.STOP_BRIDGE | Op.STOP_EMACS:
                self._freeze(step, pod.send(ROLES[step.op], signal.SIGSTOP))
            case Op.KILL_POD:
                pod.kill()
                self._record_loss(step.target, now, self.clock(), step.op.value)
            case Op.DELETE_POD | Op.FORCE_POD | Op.EVICT_POD:
                self._record_loss(step.target, now, None, step.op.value, queue=True)
                self._in_thread(lambda: self._remove_pod(step.op, pod))
            case Op.CUT_BRIDGE:
                pod.cut_from_pods(True)
                self._undo[step] = lambda: pod.cut_from_pods(False)

    def _remove_pod(self, op: Op, pod: HostPod) -> None:
        path = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}"
        only = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": pod.uid}}
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod.name}}

        def remove() -> object:
            try:
                if op is Op.EVICT_POD:
                    return self.cluster.kube.call("POST", f"{path}/eviction", eviction)
                return self.cluster.kube.call(
                    "DELETE", path, only | ({"gracePeriodSeconds": 0} if op is Op.FORCE_POD else {})
                )
            except Refused as error:
                # Another pod has the name by now: an earlier try was heard.
                return True if error.status == 409 else self._raise(error)

        call_with_retries(remove)
        self.note("fault", f"{op.value}: accepted", instance=pod.instance)

    @staticmethod
    def _raise(error: Exception) -> None:
        raise error

    def _kill_node(self, step: Step) -> None:
        """Take the power from the node's pods, runtime and kubelet; the control plane is elsewhere."""
        now = self.clock()
        self._host.stop("kubelet")
        self._host.stop("containerd")
        for pod in (*self._host.running(self.namespace), *self._host.running(SYSTEM)):
            pod.kill()
        for each in self.schedule.instances:
            self._record_loss(each.name, now, self.clock(), step.op.value)
        self._undo[step] = lambda: self._in_thread(self._host.start_dead)

    def _freeze(self, step: Step, pid: int | None) -> None:
        self.note("fault", f"it is pid {pid}", fault=True)
        if pid is not None:
            began = _start_of(pid)

            def thaw() -> None:
                if _start_of(pid) == began:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGCONT)

            self._undo[step] = thaw

    def _in_thread(self, call: Callable[[], object]) -> None:
        threading.Thread(target=call, daemon=True).start()

    def recover(self, step: Step) -> None:
        """Undo a fault that lasts."""
        undo = self._undo.pop(step, None)
        if undo is not None:
            self.note(
                "fault", f"{step.op.value} is over", instance=step.target if self._is_instance(step.target) else ""
            )
            undo()

    def tick(self) -> None:
        """Keep what would go with a pod: its logs and its answers. The lines its evals have written, `ran` keeps."""
        if time.monotonic() < self._next_tick:
            return
        self._next_tick = time.monotonic() + TICK_SECONDS
        for pod in (*self._host.pods(self.namespace), *self._host.pods(SYSTEM)):
            for log in pod.log_directory.glob("*/*.log"):
                if log not in self._logs:
                    with contextlib.suppress(OSError):
                        self._logs[log] = log.open(errors="replace")
        running = {pod.uid for pod in self._host.running(self.namespace)}
        for pod in self._host.pods(self.namespace):
            if pod.uid not in self._seen:
                self._seen[pod.uid] = pod
                self.note("kubelet", f"makes pod {pod.uid[:8]}", instance=pod.instance)
            self._open_counter(pod)
            if pod.uid in running and not pod.queue_outlives_it:
                self._keep_answers(pod)
        self._note_operators()
        self.close_losses()

    def _note_operators(self) -> None:
        for pod in self.cluster.operators():
            if (process := (pod.uid, pod.pid(Role.OPERATOR))) not in self._operators:
                self.note("controller", f"{pod.name} is started again")
                self._operators.add(process)

    def heal(self) -> None:
        """End every fault that is not over yet."""
        for step in list(self._undo):
            self.recover(step)
        self.tick()
        if self._others is not None:
            others, self._others = self._others, None
            others.wait(OTHERS_SECONDS)

    # Looking

    def running_pod(self, instance: str) -> HostPod | None:
        """Return the running pod of an instance, the newest if an old one still ends."""
        mine = [each for each in self._host.running(self.namespace) if each.instance == instance]
        return max(mine, key=_made_at, default=None)

    def serving(self, instance: str) -> str:
        """Return which pod's Emacs serves an instance, empty while none does."""
        pod = self.running_pod(instance)
        return pod.uid if pod and pod.pid(Role.EMACS) and (pod.queue / "heartbeat").exists() else ""

    def pods(self) -> list[HostPod]:
        """Return every pod there ever was, the oldest first."""
        return list(self._seen.values())

    def lost_answers(self) -> Iterator[Answer]:
        """Return the responses that lay on queues that went with their pods, as they were seen before."""
        for (uid, area, name), text in self._kept.items():
            pod = self._seen[uid]
            if not (pod.queue / area).exists():
                request = name.removeprefix("resp_").removesuffix(".json")
                label = f"{pod.instance}-{uid[:8]}"
                yield Answer(pod.namespace, pod.instance, label, area, request, json.loads(text))

    def _keep_answers(self, pod: HostPod) -> None:
        for area in ("responses", "archive"):
            for path in (pod.queue / area).glob("resp_*.json"):
                if (key := (pod.uid, area, path.name)) not in self._kept:
                    with contextlib.suppress(OSError):
                        self._kept[key] = path.read_text()

    def file(self, instance: str, path: str) -> Path:
        """Return a file of the workspace as it is on the host."""
        pod = next(each for each in reversed(self.pods()) if each.instance == instance)
        return pod.workspace / Path(path).relative_to(WORKSPACE)

    def ran(self) -> tuple[Execution, ...]:
        """Return the lines of every counter file there ever was: an open file can be read after its end."""
        found = []
        for instance, file in self._counter_files.values():
            file.seek(0)
            # A line that is being written is no line yet.
            found += [self._line(instance, line) for line in file.read().rpartition("\n")[0].splitlines()]
        return tuple(found)

    def _open_counter(self, pod: HostPod) -> None:
        """Hold the file that evals of a pod count in, made before the first does: its volume may go with the pod."""
        if pod.uid in self._counted:
            return
        with contextlib.suppress(FileNotFoundError):
            file = (pod.workspace / COUNTER).open("a+")
            about = os.fstat(file.fileno())
            # Whose uid the evals have, only the pod knows.
            os.fchmod(file.fileno(), 0o666)
            self._counted.add(pod.uid)
            if (key := (about.st_dev, about.st_ino)) in self._counter_files:
                file.close()
            else:
                self._counter_files[key] = pod.instance, file

    def keep_logs(self, directory: Path) -> None:
        """Write down what the operator and the pods have written, whether they are there or not."""
        (directory / "pods.log").write_text(self.logs())
        for name in ("kubelet", "containerd", "kube-apiserver", "kube-controller-manager"):
            (directory / f"{name}.log").write_text(self._host.cluster.daemon(name).log_tail(2000))

    def logs(self) -> str:
        """Return what the operator and the pods have written."""
        self._read_logs()
        return "\n".join(
            f"== {path.parent.parent.name} {path.parent.name}/{path.name}\n{text[-LOG_BYTES:]}"
            for path, text in self.written.items()
        )

    def _read_logs(self) -> None:
        for path, log in self._logs.items():
            if not log.closed:
                log.seek(0)
                self.written[path] = log.read()

    def changed_emacs(self) -> Json:
        """Return a change of spec.emacs that needs a new pod: another image, with an older Emacs."""
        return {"image": OTHER_IMAGE}

    def logged_defects(self) -> Sequence[str]:
        """Return what controllers and bridges have written since the run began that tells of a defect of theirs."""
        self._read_logs()
        return [
            f"{path.parent.parent.name}: {line}"
            for path, text in self.written.items()
            for line in logged_defects(text, self._began)
        ]

    def _leader(self, operators: list[HostPod]) -> str:
        """Tell who leads from what they wrote: the API server may be away."""
        said = {}
        for each in operators:
            for log in each.log_directory.glob("*/*.log"):
                with contextlib.suppress(OSError):
                    lines = [line for line in log.read_text(errors="replace").splitlines() if LEADS in line]
                    if lines:
                        said[lines[-1]] = each.name
        return said[max(said)] if said else ""


def _made_at(pod: HostPod) -> float:
    try:
        return pod.log_directory.stat().st_ctime
    except OSError:
        return 0.0


def _start_of(pid: int) -> str | None:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        return None
