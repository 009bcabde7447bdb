"""Where the rig keeps things, and the names it gives them; nothing here touches the disk but `ensure`."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent


def cache() -> Path:
    """Programs, root file systems and image archives: costly to make, shared by all clones."""
    return Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "efrit-operator"


def state() -> Path:
    """Return the clone's own folder: kubeconfig and what was loaded."""
    return Path(os.environ.get("EFRIT_CLUSTER_STATE", REPOSITORY / ".cluster"))


def kubeconfig() -> Path:
    """Return the kubeconfig every test, demo and person uses, whatever the kind of cluster."""
    if chosen := os.environ.get("EFRIT_CLUSTER_KUBECONFIG"):
        return Path(chosen)
    return state() / "kubeconfig"


@dataclass(frozen=True)
class Layout:
    """Places and names of one bare cluster. Two clones get two sets, so they can run side by side."""

    identity: str

    @classmethod
    def of_this_clone(cls) -> Layout:
        """Short on purpose: the paths of Unix sockets end at 107 characters, clones may lie deep."""
        return cls(hashlib.sha256(str(state().resolve()).encode()).hexdigest()[:8])

    @property
    def second(self) -> Layout:
        """Places and names of the cluster's second node, where it has one."""
        return Layout(f"{self.identity}b")

    @property
    def name(self) -> str:
        """Name of the network namespace, the cgroup and the CNI network."""
        return f"efrit-{self.identity}"

    @property
    def data(self) -> Path:
        """Certificates, etcd, images, volumes, logs."""
        return Path("/var/lib") / f"efrit-cluster-{self.identity}"

    @property
    def run(self) -> Path:
        """Sockets and containerd's running containers."""
        return Path("/run") / f"efrit-cluster-{self.identity}"

    @property
    def netns(self) -> Path:
        """The namespace file `ip netns` keeps."""
        return Path("/run/netns") / self.name

    @property
    def containerd_socket(self) -> Path:
        """Where containerd listens."""
        return self.run / "containerd.sock"

    @property
    def volumes(self) -> Path:
        """Where the default StorageClass makes its directories."""
        return self.data / "volumes"

    def inside(self) -> tuple[str, ...]:
        """Words that run a command in the node's network and leave all else (cgroups, /sys) as it is."""
        return ("nsenter", f"--net={self.netns}")
