"""What processes have taken of the processors, user and system, dead children included."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from tests.cluster.node import CGROUPS
from tests.cluster.paths import Layout
from tests.cluster.processes import Daemon

TICKS = os.sysconf("SC_CLK_TCK")

Seconds = Mapping[str, float]
"""By the name of the part."""


class Stat(NamedTuple):
    """One process."""

    pid: int
    session: int
    seconds: float
    """Of the process and of those of its children that have ended."""


def stats() -> Iterator[Stat]:
    """Yield all processes of this machine."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        if (stat := stat_of(path)) is not None:
            yield stat


def stat_of(path: Path) -> Stat | None:
    """Return what a /proc/PID/stat says, None where the process is gone."""
    pid = int(path.parent.name)
    try:
        fields = path.read_text().rpartition(")")[2].split()
        # The clock of another process (clock_getcpuclockid(3)): to the nanosecond, where stat counts ticks.
        own = time.clock_gettime(~pid << 3 | 2)
    except OSError:
        return None
    # Session, and the ticks of children that have ended: in proc(5) the 6th, the 16th and the 17th field.
    return Stat(pid, int(fields[3]), own + sum(map(int, fields[13:15])) / TICKS)


def of_sessions(leaders: Mapping[str, int]) -> Seconds:
    """Return the seconds of each part, which is a session of processes that this pid leads."""
    parts = {pid: name for name, pid in leaders.items()}
    seconds = dict.fromkeys(leaders, 0.0)
    for stat in stats():
        if stat.session in parts:
            seconds[parts[stat.session]] += stat.seconds
    return seconds


OTHERS = "others"
"""kubelet, controller manager, scheduler, kube-proxy, containerd and its shims, other pods."""
DAEMONS = {"kube-apiserver": "API server", "etcd": "etcd"}
PROGRAMS = {"efrit-operator": "controller", "efrit-bridge": "bridge", "emacs": "Emacs"}
"""What the command line of a process in a pod holds."""


def of_cluster(layout: Layout) -> Seconds:
    """Return the seconds of each part of the bare cluster; of all instances and replicas together.

    What a shim has taken that has ended is missing.
    """
    names = {path.stem for path in (layout.data / "pids").glob("*.json")}
    leaders = {pid: name for name in names if (pid := Daemon(name, (), layout.data).pid()) is not None}
    seconds = dict.fromkeys((*DAEMONS.values(), *PROGRAMS.values(), OTHERS), 0.0)
    in_pods = 0.0
    for stat in stats():
        if stat.session in leaders:
            seconds[DAEMONS.get(leaders[stat.session], OTHERS)] += stat.seconds
        elif layout.name in _read(stat.pid, "cgroup"):
            if part := next((part for word, part in PROGRAMS.items() if word in _read(stat.pid, "cmdline")), None):
                seconds[part] += stat.seconds
                in_pods += stat.seconds
        elif str(layout.run) in _read(stat.pid, "cmdline"):
            seconds[OTHERS] += stat.seconds
    seconds[OTHERS] += max(0.0, _of_pods(layout) - in_pods)
    return seconds


def of_this_cluster() -> Seconds:
    """Return the same of the bare cluster of this clone, nothing where there is none."""
    layout = Layout.of_this_clone()
    return of_cluster(layout) if layout.data.exists() else {}


def _read(pid: int, name: str) -> str:
    try:
        return Path(f"/proc/{pid}/{name}").read_text(errors="replace")
    except OSError:
        return ""


def _of_pods(layout: Layout) -> float:
    """Return what all pods have taken, those that are gone included."""
    counted = CGROUPS / "cpuacct" / layout.name / "cpuacct.usage"
    if counted.exists():
        return int(counted.read_text()) / 1e9
    usage = (CGROUPS / layout.name / "cpu.stat").read_text().split()
    return int(usage[usage.index("usage_usec") + 1]) / 1e6


def between(before: Seconds, after: Seconds, count: int) -> dict[str, float]:
    """Return the milliseconds that each part took for each of `count`."""
    return {name: (after[name] - before.get(name, 0.0)) / count * 1000 for name in after}
