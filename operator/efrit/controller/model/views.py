"""The parts of Kubernetes objects and of a bridge's state that decisions read."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from efrit.protocol.view import Stats


@dataclass(frozen=True, slots=True)
class ContainerView:
    """One container's state in a pod."""

    name: str
    ready: bool = False
    running: bool = False
    restarts: int = 0
    waiting_reason: str | None = None
    waiting_message: str | None = None
    last_exit_code: int | None = None
    last_exit_reason: str | None = None


@dataclass(frozen=True, slots=True)
class PodView:
    """The instance's pod."""

    name: str
    uid: str
    ip: str | None = None
    phase: str = "Pending"
    deleting: bool = False
    created: datetime | None = None
    started: datetime | None = None
    unschedulable: str | None = None
    image: str | None = None
    bridge_port: int = 8443
    containers: tuple[ContainerView, ...] = ()
    template_hash: str | None = None
    """Digest of the template it was made from; None for a pod of an older operator."""
    owner_uid: str | None = None
    """UID of its controlling owner."""
    deletion_deadline: datetime | None = None
    """When its grace period ends, once it is being deleted."""
    node: str | None = None
    secret_mounts: tuple[tuple[str, str], ...] | None = ()
    """Secrets that Emacs has mounted, with their paths; None where there are more than are remembered."""

    @property
    def is_running(self) -> bool:
        """Whether a container runs: what kept the pod from starting is over."""
        return any(container.running for container in self.containers)

    @property
    def may_run(self) -> bool:
        """Whether a container runs, or has run: the pod may have work, whatever its bridge reports."""
        if self.phase in ("Succeeded", "Failed"):
            return False
        started = (
            container.running or container.restarts > 0 or container.last_exit_code is not None
            for container in self.containers
        )
        return self.phase != "Pending" or any(started)


@dataclass(frozen=True, slots=True)
class StatefulSetView:
    """The instance's StatefulSet."""

    name: str
    uid: str
    replicas: int
    children_hash: str | None = None
    template_hash: str | None = None
    deleting: bool = False
    statefulset_hash: str | None = None
    spec_hash: str | None = None
    release_hash: str | None = None
    update_started: datetime | None = None
    """When its template replaced that of a running pod."""
    update_trial: bool = False
    """Whether the release is in doubt if the instance does not become Ready after this update."""
    owner_uid: str | None = None
    taken_up: bool = True
    """Whether Kubernetes' controller of StatefulSets has processed what its spec says now."""


@dataclass(frozen=True, slots=True)
class ClaimView:
    """A PersistentVolumeClaim of the instance."""

    name: str
    phase: str
    uid: str = ""
    terminating: bool = False
    """Whether it is being deleted; it goes when no pod uses it and its finalizers are done."""


@dataclass(frozen=True, slots=True)
class BridgeView:
    """What the bridge of the running pod has reported."""

    connected: bool = False
    pod_uid: str | None = None
    queue_id: str | None = None
    stats: Stats | None = None
    problem: str | None = None
    unresponsive: str | None = None
    """Why no calls but probes are made to it, a sentence; its event stream may go on."""
    lost_since: datetime | None = None
    """Since when there have been no figures of the pod; None while connected, or when this process never got any."""

    @property
    def takes_work(self) -> bool:
        """Whether it is connected and its Emacs claims requests: that of a broken image never does."""
        return self.connected and emacs_takes_work(self.stats)


def emacs_takes_work(stats: Stats | None) -> bool:
    """Return whether Emacs runs and its self-check does not keep it from claiming requests."""
    return stats is not None and stats.emacs.alive and stats.emacs.self_check_problem is None
