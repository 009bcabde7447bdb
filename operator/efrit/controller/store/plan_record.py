"""What the store keeps of one plan, and of each of its requests."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from efrit.api import EfritPlan
from efrit.controller.model.snapshots import Refusal
from efrit.controller.store.records import ObjectRecord


class PlanPart(NamedTuple):
    """What is known of one request of a plan, its content apart."""

    uid: str
    version: str
    instance_name: str | None
    progress: tuple[object, ...]
    """What a plan may wait for."""
    final: bool


@dataclass(slots=True)
class PlanRecord(ObjectRecord[EfritPlan]):
    """What is known of one plan; `object` is without what may be large, which is in the plan's content."""

    read_final: bool = False
    """Whether a decision has read its final status: until then nobody knows when it is to be deleted."""
    parts: dict[str, PlanPart] = field(default_factory=dict)
    """Its requests by name."""
    listed: bool = False
    """Whether all of them are known."""
    listed_at_start: bool = False
    """Whether another process may have made requests of it."""
    unconfirmed: bool = False
    """Whether a request of it that may be needed went, or may have, since the API server was asked for the plan."""
    confirming: bool = False
    """Whether the API server is being asked for the plan, and no such request went since."""
    refusal: Refusal | None = None

    @property
    def plan(self) -> EfritPlan:
        """The object without what may be large."""
        return self.object

    @property
    def instance_names(self) -> Iterator[str | None]:
        """Where its requests are."""
        return (part.instance_name for part in self.parts.values())
