"""The bare cluster below Kubernetes: its programs; processes, volumes, logs and network of its pods on the host.

Nothing in here asks the API server, so all of it works while that is away.
"""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from ipaddress import ip_network
from pathlib import Path

from tests.cluster import node
from tests.cluster.bare import BareCluster
from tests.cluster.network import NODE_POD_CIDR
from tests.cluster.paths import Layout
from tests.cluster.progress import wait_until
from tests.support.timeout import TIMEOUT

SERVICE_IP = "10.96.0.1"
"""The API server, as pods know it."""
GATEWAY = str(next(ip_network(NODE_POD_CIDR).hosts()))
"""The node, as pods know it."""

READY_SECONDS = TIMEOUT
QOS_CLASSES = ("", "burstable", "besteffort")
"""Where the kubelet puts the cgroup of a pod, by its qos_class of service."""

DAEMONS = (
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "containerd",
    "kubelet",
    "kube-proxy",
)
CONTROL_PLANE = ("etcd", "kube-apiserver")
ELECTED = ("kube-controller-manager", "kube-scheduler")


class Role(Enum):
    """A process of ours, by what its command line holds."""

    OPERATOR = "efrit-operator"
    BRIDGE = "efrit-bridge"
    EMACS = "--fg-daemon"


@dataclass(frozen=True)
class HostPod:
    """A pod that the kubelet has created; its log directory remains for a while when it is gone."""

    layout: Layout
    namespace: str
    name: str
    uid: str

    @property
    def instance(self) -> str:
        """The EfritInstance it belongs to, if it belongs to one."""
        return self.name.removeprefix("efrit-").removesuffix("-0")

    @property
    def log_directory(self) -> Path:
        """Where the kubelet keeps the logs of its containers."""
        return self.layout.data / "podlogs" / f"{self.namespace}_{self.name}_{self.uid}"

    def volume(self, name: str) -> Path:
        """Return where a volume of an instance lies: its claim's directory, or one that goes with the pod."""
        claims = self.layout.volumes.glob(f"pvc-*_{self.namespace}_efrit-{self.instance}-{name}")
        own = self.layout.data / "kubelet" / "pods" / self.uid / "volumes" / "kubernetes.io~empty-dir" / name
        return own if own.exists() else next(claims, own)

    @property
    def queue(self) -> Path:
        """Directory of the request queue."""
        return self.volume("queue") / "queue"

    @property
    def queue_outlives_it(self) -> bool:
        """Whether the queue lies on a claim."""
        return "kubernetes.io~empty-dir" not in self.queue.parts

    @property
    def workspace(self) -> Path:
        """Emacs' default directory."""
        return self.volume("workspace")

    def processes(self) -> dict[int, str]:
        """Return the command line of every process in the pod, by pid."""
        processes = {}
        for qos_class in QOS_CLASSES:
            # Containers come and go meanwhile.
            with contextlib.suppress(OSError):
                for container in os.scandir(_cgroups(self.layout) / "kubepods" / qos_class / f"pod{self.uid}"):
                    with contextlib.suppress(OSError):
                        for pid in map(int, Path(container.path, "cgroup.procs").read_text().split()):
                            command = Path(f"/proc/{pid}/cmdline").read_bytes()
                            processes[pid] = command.replace(b"\0", b" ").decode(errors="replace")
        return processes

    def pid(self, role: Role) -> int | None:
        """Return the pid of a role's process, None while there is none."""
        commands = self.processes()
        # The shell that starts Emacs over and over names no daemon: the pattern is Emacs' own switch.
        return next((pid for pid in sorted(commands) if role.value in commands[pid]), None)

    def send(self, role: Role, number: signal.Signals) -> int | None:
        """Send a signal. Return the pid it was sent to, None where no such process runs."""
        pid = self.pid(role)
        if pid is None:
            return None
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            return None
        return pid

    def kill(self) -> None:
        """SIGKILL every process in the pod, its sandbox included, as when a node loses power."""
        for pid in self.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    # Its network

    def cut_from(self, address: str, dropped: bool) -> None:
        """Drop every packet between the pod and an address, or let them through again."""
        for chain, side in (("OUTPUT", "-d"), ("INPUT", "-s")):
            self._rule(chain, dropped, side, address, "-j", "DROP")

    def cut_from_pods(self, dropped: bool) -> None:
        """Drop every packet between the pod and other pods, later ones included; the kubelet's probes go through."""
        for chain, side in (("OUTPUT", "-d"), ("INPUT", "-s")):
            self._rule(chain, dropped, side, NODE_POD_CIDR, "-j", "DROP")
            self._rule(chain, dropped, side, GATEWAY, "-j", "ACCEPT")

    def _rule(self, chain: str, dropped: bool, *rule: str) -> None:
        # Each new rule goes before the others.
        self._run_inside("iptables", "-w", "-I" if dropped else "-D", chain, *rule)

    def _run_inside(self, *command: str) -> subprocess.CompletedProcess[str]:
        pids = sorted(self.processes())
        if not pids:
            return subprocess.CompletedProcess(command, 1, "", "no process")
        words = ["nsenter", f"--net=/proc/{pids[0]}/ns/net", *command]
        return subprocess.run(words, capture_output=True, text=True, check=False, timeout=TIMEOUT)


class Host:
    """The machine the bare cluster runs on."""

    def __init__(self) -> None:
        self.cluster = BareCluster()
        self.layout = self.cluster.layout
        self._lock = threading.Lock()
        self._away = False
        """Whether the API server has been away since the last repair."""

    def pods(self, namespace: str) -> list[HostPod]:
        """Return the pods of a namespace that have logs here: running ones, and those that ended a moment ago."""
        return list(self._pods(namespace))

    def _pods(self, namespace: str) -> Iterator[HostPod]:
        for directory in sorted((self.layout.data / "podlogs").glob(f"{namespace}_*")):
            where, name, uid = directory.name.split("_")
            yield HostPod(self.layout, where, name, uid)

    def running(self, namespace: str) -> list[HostPod]:
        """Return the pods of a namespace that have a process."""
        return [pod for pod in self._pods(namespace) if pod.processes()]

    # Its programs: two threads that both find one dead must not both start it

    def stop(self, name: str) -> None:
        """SIGKILL a program of the cluster."""
        with self._lock:
            self._away |= name in CONTROL_PLANE
            self.cluster.daemon(name).stop()

    def start(self, name: str) -> None:
        """Start a program of the cluster that does not run."""
        with self._lock:
            daemon = self.cluster.daemon(name)
            if daemon.pid() is None:
                daemon.start()
                daemon.favour()

    def start_dead(self) -> None:
        """Start every program of the cluster that does not run."""
        with self._lock:
            self.cluster.start_dead()

    def freeze(self, name: str, frozen: bool) -> None:
        """Stop or continue a program of the cluster by signal."""
        self._away |= name in CONTROL_PLANE
        pid = self.cluster.daemon(name).pid()
        if pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP if frozen else signal.SIGCONT)

    def repair(self) -> None:
        """Continue and start every program, and wait until the node is ready."""
        for name in DAEMONS:
            pid = self.cluster.daemon(name).pid()
            if pid is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)
        self.start_dead()
        self.cluster.reached().wait_ready("127.0.0.1", self.cluster.reached().ports.api)
        with self._lock:
            # With leader election, as elsewhere, they end when they lose the API server. Those that do not back off
            # for half a minute after it is back.
            for name in ELECTED if self._away else ():
                self.cluster.daemon(name).stop()
                self.cluster.daemon(name).start()
                self.cluster.daemon(name).favour()
            self._away = False

        def ready() -> bool:
            # A kubelet ends at once where containerd answers but is not yet what it wants.
            self.start_dead()
            return self.cluster.ready()

        wait_until(ready, "a ready node", timeout=READY_SECONDS, hint=f"See {self.layout.data / 'logs'}.")


@functools.cache
def _cgroups(layout: Layout) -> Path:
    folders = node.cgroup_folders(layout)
    return next((folder for folder in folders if folder.parent.name == "pids"), folders[0])
