"""A run on the cluster tier: the installed operator, real pods and volumes of the bare node."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import threading
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

from tests.support.faults.base_run import FaultRun
from tests.support.faults.history import Answer, Execution
from tests.support.faults.log_defects import logged_defects
from tests.support.faults.node.cluster import SYSTEM, NodeCluster
from tests.support.faults.node.host import HostPod, Role
from tests.support.faults.node.nemesis import NodeNemesis
from tests.support.faults.recorder import RequestRecorder
from tests.support.faults.schedule import Schedule
from tests.support.faults.workload import COUNTER
from tests.support.kube import Json, until
from tests.support.timeout import TIMEOUT

READY_SECONDS = 240.0
WORKSPACE = "/workspace"
OTHER_IMAGE = "localhost/efrit/emacs:28-dev"
OTHERS_SECONDS = 600.0
TICK_SECONDS = 0.1
"""How often the node's directories are read: more often would take processor time from the run."""
LOG_BYTES = 20_000


class NodeRun(FaultRun):
    """One run on the bare node.

    others: where the runs beside this one meet before any of them notes that its faults are over.
    """

    nemesis: NodeNemesis
    cluster: NodeCluster

    shares_controller = True
    tidy_seconds = TIMEOUT

    def __init__(self, cluster: NodeCluster, schedule: Schedule, others: threading.Barrier | None = None) -> None:
        super().__init__(schedule)
        self.cluster = cluster
        self.nemesis = NodeNemesis(self)
        self._others = others
        self._host = cluster.host
        self._operators: set[tuple[str, int | None]] = set()
        self._seen: dict[str, HostPod] = {}
        self._counter_files: dict[tuple[int, int], tuple[str, TextIO]] = {}
        self._counted: set[str] = set()
        self._logs: dict[Path, TextIO] = {}
        self.written: dict[Path, str] = {}
        self._next_tick = 0.0
        self._kept: dict[tuple[str, str, str], str] = {}

    # Beginning and end

    def open(self) -> None:
        """Bring up what exists when the run begins, then start the clock."""
        self.cluster.repair()
        self.cluster.fresh_operator(self.schedule.controllers)
        self.namespace = self.cluster.new_namespace()
        self.recorder = RequestRecorder(self.cluster.plane, self.namespace, self.clock)
        self.recorder.start()
        if self.schedule.warm:
            for instance in self.schedule.instances:
                if instance.at <= 0:
                    self.create_instance(instance)
            until(self._all_ready, "the instances are not ready", READY_SECONDS)
        for pod in self.cluster.operators():
            self._operators.add((pod.uid, pod.pid(Role.OPERATOR)))
        self._began = datetime.now(UTC).isoformat()
        self.clock.start()

    def close(self) -> None:
        """End the faults and begin to delete the namespace, whether or not `open` came to its end."""
        self.heal()
        self.cluster.repair()
        if hasattr(self, "recorder"):
            self.recorder.close()
        if self.namespace:
            self.cluster.remove(self.namespace)
        self._read_logs()
        self.close_files()

    def close_files(self) -> None:
        """Close the logs and counter files that are kept open."""
        for file in (*self._logs.values(), *(file for _, file in self._counter_files.values())):
            file.close()

    def _all_ready(self) -> bool:
        instances = self.cluster.kube.list("efritinstances", self.namespace)
        return all(
            any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)
            for conditions in (instance.get("status", {}).get("conditions", ()) for instance in instances)
        )

    def tick(self) -> None:
        """Keep what would go with a pod: its logs, its answers, and its counter file for `executions`."""
        # Without a namespace `open` failed before there was anything to keep.
        if not self.namespace or time.monotonic() < self._next_tick:
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
            # It may have ended since it was listed.
            pid = pod.pid(Role.OPERATOR)
            if pid is not None and (pod.uid, pid) not in self._operators:
                self.note("controller", f"{pod.name} is started again")
                self._operators.add((pod.uid, pid))

    def heal(self) -> None:
        """End every fault that is not over yet, and wait until the runs beside this one have done so."""
        super().heal()
        if self._others is not None:
            others, self._others = self._others, None
            others.wait(OTHERS_SECONDS)

    # What can be observed

    def running_pod(self, instance: str) -> HostPod | None:
        """Return the running pod of an instance, the newest if an old one still ends."""
        mine = [pod for pod in self._host.running(self.namespace) if pod.instance == instance]
        return max(mine, key=_made_at, default=None)

    def serving(self, instance: str) -> str:
        """Return which pod's Emacs serves an instance, empty while none does."""
        pod = self.running_pod(instance)
        return pod.uid if pod and pod.pid(Role.EMACS) and (pod.queue / "heartbeat").exists() else ""

    def pods(self) -> list[HostPod]:
        """Return every pod there ever was, the oldest first."""
        return list(self._seen.values())

    def lost_answers(self) -> Iterator[Answer]:
        """Return the responses, seen before, of queues that went with their pods."""
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

    def workspace_file(self, instance: str, path: str) -> Path:
        """Return where a file of the workspace lies on the host."""
        pod = next(pod for pod in reversed(self.pods()) if pod.instance == instance)
        return pod.workspace / Path(path).relative_to(WORKSPACE)

    def executions(self) -> tuple[Execution, ...]:
        """Return the lines of every counter file there ever was: an open file can be read after its removal."""
        # The last turn of the main loop may have been before the last pod.
        for pod in self._host.pods(self.namespace) if self.namespace else ():
            self._open_counter(pod)
        executions = []
        for instance, file in self._counter_files.values():
            file.seek(0)
            # A line that is being written is not a line yet.
            executions += [self._execution(instance, line) for line in file.read().rpartition("\n")[0].splitlines()]
        return tuple(executions)

    def _open_counter(self, pod: HostPod) -> None:
        """Open the counter file of a pod before its first eval writes: its volume may go with the pod."""
        if pod.uid in self._counted:
            return
        with contextlib.suppress(FileNotFoundError):
            _make_for_all(pod.workspace / COUNTER)
            file = (pod.workspace / COUNTER).open("a+")
            about = os.fstat(file.fileno())
            os.fchmod(file.fileno(), 0o666)
            self._counted.add(pod.uid)
            if (key := (about.st_dev, about.st_ino)) in self._counter_files:
                file.close()
            else:
                self._counter_files[key] = pod.instance, file

    def keep_logs(self, directory: Path) -> None:
        """Copy the logs of the operator, the pods and the node's programs into a directory."""
        (directory / "pods.log").write_text(self.logs())
        for name in ("kubelet", "containerd", "kube-apiserver", "kube-controller-manager"):
            (directory / f"{name}.log").write_text(self._host.cluster.daemon(name).log_tail(2000))

    def logs(self) -> str:
        """Return the logs of the operator and the pods, of those that are gone as well."""
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
        """Return the lines that controllers and bridges have logged since the run began and must not."""
        self._read_logs()
        return [
            f"{path.parent.parent.name}: {line}"
            for path, text in self.written.items()
            for line in logged_defects(text, self._began)
        ]


def _made_at(pod: HostPod) -> float:
    try:
        return pod.log_directory.stat().st_ctime
    except OSError:
        return 0.0


def _make_for_all(path: Path) -> None:
    """Make an empty file that every user may write from its first moment on, unless it is there.

    Whose uid the evals have, only the pod knows, and one may run by now.
    """
    made = path.with_name(f".{path.name}-{secrets.token_hex(4)}")
    made.touch()
    try:
        made.chmod(0o666)
        with contextlib.suppress(FileExistsError):
            path.hardlink_to(made)
    finally:
        made.unlink()
