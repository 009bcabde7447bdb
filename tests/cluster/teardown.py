"""Finds and removes everything a bare cluster leaves on the machine, whatever state it was left in.

Works from names alone (layout), never from what a former run wrote down: a cluster whose `up` or `down` was
killed half-way is taken away the same way.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import time
from pathlib import Path

from tests.cluster import network, node
from tests.cluster.paths import Layout
from tests.cluster.progress import ClusterError, run

# Places of the machine that cannot be configured away, with the folders around them that may be left empty.
SHIM_SOCKETS = Path("/run/containerd/s")
CNI_RESULTS = Path("/var/lib/cni/results")
CONTAINER_LOGS = Path("/var/log/containers")
DEVICE_SOCKET = Path("/var/lib/kubelet/device-plugins/kubelet.sock")
SHARED_FOLDERS = (
    SHIM_SOCKETS,
    SHIM_SOCKETS.parent,
    CNI_RESULTS,
    CNI_RESULTS.parent,
    CONTAINER_LOGS,
    DEVICE_SOCKET.parent,
    DEVICE_SOCKET.parent.parent,
)

# Beginnings of the names of the programs that a bare cluster starts.
DAEMONS = ("etcd", "kube", "containerd", "python", "nsenter")

# Machine-wide settings the kubelet changes at its start.
KUBELET_SYSCTLS = (
    "vm/overcommit_memory",
    "vm/panic_on_oom",
    "kernel/panic",
    "kernel/panic_on_oops",
    "kernel/keys/root_maxkeys",
    "kernel/keys/root_maxbytes",
)


def remember_sysctls(layout: Layout) -> None:
    """Note the settings the kubelet is going to change, for `remove` to put back."""
    values = {name: _sysctl(name).read_text().strip() for name in KUBELET_SYSCTLS if _sysctl(name).exists()}
    (layout.data / "sysctls.json").write_text(json.dumps(values))


def remove(layout: Layout) -> None:
    """Remove it all, in the order in which nothing is made anew behind our back."""
    _restore_sysctls(layout)
    strays = [*_shim_sockets(layout), *_loopback_results(layout)]
    deadline = time.monotonic() + 20
    while pids := processes(layout):
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if time.monotonic() > deadline:
            raise ClusterError(f"Processes {pids} of the cluster do not die; look at /proc/PID/stack.")
        time.sleep(0.05)
    for mount in mounts(layout):
        run(["umount", "--lazy", mount])
    if layout.netns.exists():
        run(["ip", "netns", "delete", layout.name])
    for folder in cgroups(layout):
        _remove_cgroup(folder, deadline)
    for path in (*strays, *_stray_files(layout)):
        path.unlink(missing_ok=True)
    for folder in (layout.run, layout.data):
        if folder.exists():
            shutil.rmtree(folder)
    for folder in SHARED_FOLDERS:
        with contextlib.suppress(OSError):  # absent, or in use by others
            folder.rmdir()


def leftovers(layout: Layout) -> list[str]:
    """Return what of the cluster is still on the machine, one line each; empty after `remove`."""
    leftovers = [f"process {pid}: {_command_line(pid)[:120]}" for pid in processes(layout)]
    leftovers += [f"mount {mount}" for mount in mounts(layout)]
    leftovers += [f"cgroup {folder}" for folder in cgroups(layout)]
    places = (layout.netns, layout.run, layout.data, *_stray_files(layout))
    return leftovers + [f"file {place}" for place in places if os.path.lexists(place)]


def processes(layout: Layout) -> list[int]:
    """Pids of daemons, shims and everything in the pods: known by network, cgroup or command line."""
    try:
        namespace = layout.netns.stat() if network.exists(layout) else None
    except OSError:
        namespace = None
    pids = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            if (entry / "stat").read_text().rpartition(")")[2].split()[0] in "ZX":
                continue
            inside = namespace is not None and os.path.samestat((entry / "ns/net").stat(), namespace)
            podded = f"/{layout.name}/" in (entry / "cgroup").read_text().replace("\n", "/\n")
            if inside or podded or _is_daemon(layout, _command_line(int(entry.name))):
                pids.append(int(entry.name))
        except OSError:
            continue
    return pids


def _is_daemon(layout: Layout, command: str) -> bool:
    """Tell a daemon of ours from, say, a pager on one of its logs; needed where the namespace is gone."""
    program = command.partition(" ")[0].rpartition("/")[2]
    marked = any(mark in command for mark in (f"{layout.run}/", f"{layout.data}/", f"--cluster={layout.name} "))
    return marked and program.startswith(DAEMONS)


def mounts(layout: Layout) -> list[str]:
    """Mount points under the cluster's folders, innermost first."""
    points = [line.split()[1].encode().decode("unicode_escape") for line in _mount_table()]
    return sorted((p for p in points if p.startswith((f"{layout.run}/", f"{layout.data}/"))), reverse=True)


def cgroups(layout: Layout) -> list[Path]:
    """Return the cluster's cgroup in each hierarchy that still has it."""
    return [folder for folder in node.cgroup_folders(layout) if folder.exists()]


def _mount_table() -> list[str]:
    return Path("/proc/self/mounts").read_text().splitlines()


def _remove_cgroup(folder: Path, deadline: float) -> None:
    inner = sorted((Path(path) for path, _, _ in os.walk(folder)), reverse=True)
    for cgroup in inner:
        # The kernel keeps a cgroup busy for a moment after its last process is gone.
        while cgroup.exists():
            try:
                cgroup.rmdir()
            except OSError as error:
                if time.monotonic() > deadline:
                    raise ClusterError(f"The cgroup {cgroup} cannot be removed: {error}.") from error
                time.sleep(0.02)


def _shim_sockets(layout: Layout) -> list[Path]:
    sockets = []
    for note in (layout.run / "containerd").glob("io.containerd.runtime.v2.task/*/*/address"):
        with contextlib.suppress(OSError):
            sockets.append(Path(note.read_text().strip().removeprefix("unix://")))
    return [path for path in sockets if path.parent == SHIM_SOCKETS]


def _loopback_results(layout: Layout) -> list[Path]:
    tasks = (layout.run / "containerd").glob("io.containerd.runtime.v2.task/*/*")
    return [CNI_RESULTS / f"cni-loopback-{task.name}-lo" for task in tasks]


def _stray_files(layout: Layout) -> list[Path]:
    """Files that containerd and the kubelet put into fixed places of the machine."""
    files = list(CNI_RESULTS.glob(f"{layout.name}-*"))
    for link in CONTAINER_LOGS.glob("*.log"):
        with contextlib.suppress(OSError):
            if str(link.readlink()).startswith(f"{layout.data}/"):
                files.append(link)
    if DEVICE_SOCKET.exists() and not _somebody_listens(DEVICE_SOCKET):
        files.append(DEVICE_SOCKET)  # else it is another kubelet's, at work now
    return files


def _somebody_listens(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as client:
        try:
            client.connect(str(path))
        except OSError:
            return False
    return True


def _restore_sysctls(layout: Layout) -> None:
    with contextlib.suppress(OSError, ValueError):
        for name, value in json.loads((layout.data / "sysctls.json").read_text()).items():
            if _sysctl(name).read_text().strip() != value:
                _sysctl(name).write_text(value)


def _sysctl(name: str) -> Path:
    return Path("/proc/sys") / name


def _command_line(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    return ""
