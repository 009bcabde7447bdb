"""The nemesis of the cluster tier: signals to processes on the node, dropped packets, deleted and evicted pods.

What is done to processes, pods and node is done on the host: it works while the API server is away.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from efrit import resources
from efrit.errors import ApiError
from tests.support.faults.nemesis import Nemesis
from tests.support.faults.node.cluster import SYSTEM, call_with_retries
from tests.support.faults.node.host import SERVICE_IP, HostPod, Role
from tests.support.faults.schedule import Op, Step

if TYPE_CHECKING:
    from tests.support.faults.node.run import NodeRun

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
LEADS = "leading; serving"
"""What a controller logs when it becomes the leader."""


class NodeNemesis(Nemesis):
    """Injects the faults of one run."""

    def __init__(self, run: NodeRun) -> None:
        self._run = run
        self._undo: dict[Step, Callable[[], None]] = {}

    def inject(self, step: Step) -> None:
        """Begin the fault of a step, and note whom it hit."""
        run = self._run
        instance = step.target if run.is_instance(step.target) else ""
        run.note("fault", step.op.value, instance=instance, fault=True)
        run.hits[step.op.value] += 1
        match step.op:
            case Op.KILL_CONTROLLER | Op.STOP_CONTROLLER | Op.CUT_CONTROLLER:
                self._inject_controller_fault(step)
            case Op.STOP_API | Op.STOP_ETCD:
                run.cluster.host.freeze(DAEMONS[step.op], True)
                self._undo[step] = lambda: run.cluster.host.freeze(DAEMONS[step.op], False)
            case Op.KILL_API | Op.KILL_ETCD | Op.KILL_KUBELET | Op.KILL_RUNTIME:
                run.cluster.host.stop(DAEMONS[step.op])
                self._undo[step] = lambda: run.cluster.host.start(DAEMONS[step.op])
            case Op.KILL_NODE:
                self._kill_node(step)
            case Op.ROLL_CONTROLLER:
                self._in_thread(run.cluster.restart_operator)
            case _:
                self._inject_pod_fault(step)
        if step in self._undo:
            # On a busy machine later than it was noted above.
            run.note("fault", f"{step.op.value} has begun", instance=instance, fault=True)

    def _inject_controller_fault(self, step: Step) -> None:
        run = self._run
        controller = self._select_operator(step.target)
        if controller is None:
            run.note("fault", "there is no controller to hit")
            run.hits[step.op.value] -= 1
            return
        run.note("fault", f"it is {controller.name}", fault=True)
        match step.op:
            case Op.KILL_CONTROLLER:
                controller.send(Role.OPERATOR, signal.SIGKILL)
            case Op.STOP_CONTROLLER:
                self._freeze(step, controller.send(Role.OPERATOR, signal.SIGSTOP))
            case Op.CUT_CONTROLLER:
                controller.cut_from(SERVICE_IP, True)
                self._undo[step] = lambda: controller.cut_from(SERVICE_IP, False)

    def _select_operator(self, target: str) -> HostPod | None:
        run = self._run
        operators = run.cluster.operators()
        # The API server may be away or frozen: this must not wait for it.
        leader = _leader(operators)
        candidates = [operator for operator in operators if (operator.name == leader) == (target != "standby")]
        return next(iter(candidates or operators), None)

    def _inject_pod_fault(self, step: Step) -> None:
        run = self._run
        pod, now = run.running_pod(step.target), run.clock()
        if pod is None:
            run.note("fault", "there is no pod to hit", instance=step.target)
            run.hits[step.op.value] -= 1
            return
        match step.op:
            case Op.KILL_BRIDGE | Op.KILL_EMACS:
                pid = pod.send(ROLES[step.op], signal.SIGKILL)
                run.note("fault", f"it is pid {pid}", instance=step.target, fault=True)
                if pid and step.op is Op.KILL_EMACS:
                    run.record_loss(step.target, now, run.clock(), step.op.value)
            case Op.STOP_BRIDGE | Op.STOP_EMACS:
                self._freeze(step, pod.send(ROLES[step.op], signal.SIGSTOP))
            case Op.KILL_POD:
                pod.kill()
                run.record_loss(step.target, now, run.clock(), step.op.value)
            case Op.DELETE_POD | Op.FORCE_POD | Op.EVICT_POD:
                run.record_loss(step.target, now, None, step.op.value, queue=True)
                self._in_thread(lambda: self._remove_pod(step.op, pod))
            case Op.CUT_BRIDGE:
                pod.cut_from_pods(True)
                self._undo[step] = lambda: pod.cut_from_pods(False)

    def _remove_pod(self, op: Op, pod: HostPod) -> None:
        run = self._run
        path = resources.PODS.path(pod.namespace, pod.name)
        only = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": pod.uid}}
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod.name}}

        def remove() -> object:
            try:
                if op is Op.EVICT_POD:
                    return run.cluster.kube.call("POST", f"{path}/eviction", eviction)
                return run.cluster.kube.call(
                    "DELETE", path, only | ({"gracePeriodSeconds": 0} if op is Op.FORCE_POD else {})
                )
            except ApiError as error:
                # Another pod has the name by now: an earlier try was heard.
                if error.status == 409:
                    return True
                raise

        call_with_retries(remove)
        run.note("fault", f"{op.value}: accepted", instance=pod.instance)

    def _kill_node(self, step: Step) -> None:
        """Take the power from the node's pods, runtime and kubelet; the control plane is elsewhere."""
        run = self._run
        now = run.clock()
        run.cluster.host.stop("kubelet")
        run.cluster.host.stop("containerd")
        for pod in (*run.cluster.host.running(run.namespace), *run.cluster.host.running(SYSTEM)):
            pod.kill()
        for instance in run.schedule.instances:
            run.record_loss(instance.name, now, run.clock(), step.op.value)
        self._undo[step] = lambda: self._in_thread(run.cluster.host.start_dead)

    def _freeze(self, step: Step, pid: int | None) -> None:
        run = self._run
        run.note("fault", f"it is pid {pid}", fault=True)
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
        """End the fault of a step that lasts."""
        run = self._run
        undo = self._undo.pop(step, None)
        if undo is not None:
            run.note(
                "fault", f"{step.op.value} is over", instance=step.target if run.is_instance(step.target) else ""
            )
            undo()

    def heal(self) -> None:
        """End every fault that is not over yet."""
        for step in list(self._undo):
            self.recover(step)


def _leader(operators: list[HostPod]) -> str:
    """Return the name of the pod that leads, by what all have logged: the API server may be away."""
    by_line = {}
    for operator in operators:
        for log in operator.log_directory.glob("*/*.log"):
            with contextlib.suppress(OSError):
                lines = [line for line in log.read_text(errors="replace").splitlines() if LEADS in line]
                if lines:
                    by_line[lines[-1]] = operator.name
    return by_line[max(by_line)] if by_line else ""


def _start_of(pid: int) -> str | None:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        return None
