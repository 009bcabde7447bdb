"""What a decision about a changed pod template reads beyond its own instance: who else is being updated."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class UpdateCause(StrEnum):
    """Who changed a pod template."""

    SPEC = "Spec"
    """The user of the instance; limited per namespace only."""
    RELEASE = "Release"
    """The installation: another bridge or Emacs image, other bridge resources, another operator version."""


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
