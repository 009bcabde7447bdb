"""A pool of a workload, and the exclusive claims on its members."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

FLOW_LABEL = "flow"
BROKEN_IMAGE = "efrit/emacs:broken"
"""An image that no node can pull."""
SESSION_FLOW = "s"
"""Flow of the requests of sessions, which go to the member that has theirs whatever other flows have."""
MEMBER = "member-"
"""Begins the target of a step that hits a member: its number follows."""


PREFERRED, REQUIRED = "Preferred", "Required"
ROLLING_UPDATE, ON_REPLENISH, ON_DELETE = "RollingUpdate", "OnReplenish", "OnDelete"


@dataclass(frozen=True)
class PoolSpec:
    """One EfritPool. smallest, largest: its size; with `autoscaled` by its own autoscaler, otherwise both are one."""

    name: str
    smallest: int
    largest: int
    autoscaled: bool = False
    spares: int = 0
    spares_percent: int = 0
    """Spares of an autoscaled pool as a share of the members that its requests need; 0: `spares` counts."""
    max_load: int = 2
    max_running: int = 0
    """Requests of a flow that members have at a time; 0: any."""
    max_pending: int = 0
    """Requests of a flow that may wait; 0: any."""
    weights: Mapping[str, int] = field(default_factory=dict)
    strategy: str = "Spread"
    ephemeral_queue: bool = True
    suspend_after: int = 0
    """Seconds after which an idle member is suspended; 0: never."""
    surge: int = 1
    unavailable: int = 0
    """Its maxSurge and maxUnavailable, while a template is rolled out."""
    update: str = ROLLING_UPDATE
    """The type of its updateStrategy."""
    min_ready: int = 0
    """Seconds for which a new member must be Ready before it replaces another."""
    affinity: str = ""
    """Its sessionAffinity; empty where its members have no model, so that nobody begins a session."""
    affinity_wait: int = 0
    """Seconds that a request waits for the member with its session; for Preferred alone."""
    preempts: bool = False
    """Whether urgent requests take the place of others."""

    def manifest(self) -> dict[str, Any]:
        """Return the EfritPool."""
        member: dict[str, Any] = {
            "queue": {"ephemeral": True} if self.ephemeral_queue else {"storage": {}},
            "workspace": {"ephemeral": True},
            "limits": {"requestTimeoutSeconds": 30},
        }
        if self.suspend_after:
            member["idle"] = {"suspendAfterSeconds": self.suspend_after}
        fairness: dict[str, Any] = {"flowLabel": FLOW_LABEL, "weights": dict(self.weights)}
        if self.max_running:
            fairness["maxRunningPerFlow"] = self.max_running
        if self.max_pending:
            fairness["maxPendingPerFlow"] = self.max_pending
        spec: dict[str, Any] = {
            "template": {"spec": member},
            "placement": {"strategy": self.strategy, "maxLoadPerInstance": self.max_load},
            "fairness": fairness,
            "updateStrategy": {
                "type": self.update,
                "maxSurge": self.surge,
                "maxUnavailable": self.unavailable,
                "minReadySeconds": self.min_ready,
            },
        }
        if self.preempts:
            spec["preemption"] = "LowerPriority"
        if self.affinity:
            spec["placement"]["sessionAffinity"] = self.affinity
        if self.affinity == PREFERRED:
            spec["placement"]["affinityWaitSeconds"] = self.affinity_wait
        if self.autoscaled:
            limits = {"minReplicas": self.smallest, "maxReplicas": self.largest}
            spec["autoscaling"] = {**limits, "scaleDown": {"stabilizationSeconds": 1}}
            spec["warm"] = {"spares": f"{self.spares_percent}%" if self.spares_percent else self.spares}
        else:
            spec["replicas"] = self.largest
        return {"metadata": {"name": self.name}, "spec": spec}

    def __str__(self) -> str:
        size = f"{self.smallest} to {self.largest} members" if self.autoscaled else f"{self.largest} members"
        parts = [f"pool {self.name}: {size}", f"{self.max_load} requests each", self.strategy]
        parts.append("queue ephemeral" if self.ephemeral_queue else "queue on a claim")
        parts += [f"{self.spares} spares"] if self.spares and not self.spares_percent else []
        parts += [f"{self.spares_percent} % spares"] if self.spares_percent else []
        parts += [f"{self.max_running} requests of a flow"] if self.max_running else []
        parts += [f"{self.max_pending} of a flow wait"] if self.max_pending else []
        parts += [f"weights {dict(self.weights)}"] if self.weights else []
        parts += [f"members suspended after {self.suspend_after} s"] if self.suspend_after else []
        parts += (
            [f"surge {self.surge}, unavailable {self.unavailable}"]
            if (self.surge, self.unavailable) != (1, 0)
            else []
        )
        parts += [self.update] if self.update != ROLLING_UPDATE else []
        parts += [f"new ones Ready for {self.min_ready} s"] if self.min_ready else []
        parts += [f"sessions {self.affinity} {self.affinity_wait or ''}".strip()] if self.affinity else []
        parts += ["urgent requests take the place of others"] if self.preempts else []
        return ", ".join(parts)


@dataclass(frozen=True)
class ClaimSpec:
    """One EfritClaim of a member. `at`: when it is created, in seconds."""

    name: str
    pool: str
    at: float
    release: str = "Recycle"
    ttl: int = 3600

    def manifest(self) -> dict[str, Any]:
        """Return the EfritClaim."""
        spec = {"poolRef": {"name": self.pool}, "release": self.release, "ttlSeconds": self.ttl}
        return {"metadata": {"name": self.name}, "spec": spec}

    def __str__(self) -> str:
        return f"claim {self.name} at {self.at:.2f} s: of {self.pool}, {self.release}, held for {self.ttl} s"
