"""What a decision about a changed pod template may look at beyond its own instance: who else is being updated."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum


class UpdateCause(StrEnum):
    """Who changed a pod template."""

    SPEC = "Spec"
    """The user of the instance; limited per namespace only."""
    RELEASE = "Release"
    """The installation: another bridge or Emacs image, other bridge resources, another operator version."""


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
class UpdateSlot:
    """One instance that is being updated, or drained for its update."""

    namespace: str
    name: str
    since: datetime
    cause: UpdateCause
    draining: bool = False


@dataclass(frozen=True, slots=True)
class RolloutView:
    """The updates under way, and what became of those to the current release."""

    slots: tuple[UpdateSlot, ...] = ()
    failed: tuple[tuple[str, str], ...] = ()
    """Namespace and name of instances that were Ready and are not since they got the current release."""
    succeeded: int = 0
    """Instances that were Ready, got the current release, and became Ready again."""
