"""What the installation fixes for every decision."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

HEAD_START_INSTANCES = 50
"""From so many instances on, a few requests are served at a start before all instances are listed: a page of them."""


@dataclass(frozen=True, slots=True)
class RolloutLimits:
    """How changed pod templates are rolled out; chart values `rollout.*`."""

    max_concurrent: int = 5
    max_concurrent_per_namespace: int = 2
    max_hold: timedelta = timedelta(hours=1)
    """How long a change waits for an idle moment before new requests are held back."""
    progress_deadline: timedelta = timedelta(minutes=10)
    """How long an updated instance may take to become Ready."""


@dataclass(frozen=True, slots=True)
class ControllerConfig:
    """What the installation fixes, as far as decisions need it."""

    bridge_image: str
    emacs_image: str
    image_pull_policy: str = "IfNotPresent"
    image_pull_secrets: tuple[str, ...] = ()
    bridge_resources: Mapping[str, Any] = field(
        default_factory=lambda: {
            "requests": {"cpu": "20m", "memory": "64Mi"},
            "limits": {"memory": "192Mi"},
        }
    )
    emacs_resources: Mapping[str, Any] = field(
        default_factory=lambda: {"requests": {"cpu": "50m", "memory": "128Mi"}, "limits": {"memory": "2Gi"}}
    )
    """Of Emacs in instances that name none."""
    operator_namespace: str = "efrit-system"
    target_grace: timedelta = timedelta(seconds=30)
    queue_timeout: timedelta = timedelta(days=7)
    """How long a request that does not say so itself waits for its start."""
    is_requester_noted: bool = False
    """Whether the API server notes who made a request, so that nobody else writes that."""
    running_after: timedelta = timedelta(seconds=1)
    queued_after: timedelta = timedelta(seconds=5)
    progress_every: timedelta = timedelta(seconds=1)
    stats_every: timedelta = timedelta(seconds=10)
    settled_after: timedelta = timedelta(seconds=1)
    node_lost_after: timedelta = timedelta(seconds=30)
    """How long a pod may be there after its grace period: the kubelet needs a moment."""
    unreachable_after: timedelta = timedelta(seconds=30)
    volume_after: timedelta = timedelta(seconds=30)
    explain_after: timedelta = timedelta(seconds=4)
    rollout: RolloutLimits = field(default_factory=RolloutLimits)
