"""What a decision about a plan may look at: the plan, its requests, where it lives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from efrit.api import EfritInstance, EfritPlan, EfritRequest


@dataclass(frozen=True, slots=True)
class Refusal:
    """The API server did not take the plan's next request."""

    sentence: str
    when: datetime


@dataclass(frozen=True, slots=True)
class PlanSnapshot:
    """Everything that a decision about a plan may look at."""

    plan: EfritPlan
    requests: Mapping[str, EfritRequest] | None = None
    """The plan's own requests by name; None: nobody has asked yet which there are."""
    results: Mapping[str, str] = field(default_factory=dict)
    """Whole results, by request, of those that do not fit into a status."""
    target: EfritInstance | None = None
    """The instance it lives on; before a pool has chosen one, any member, for they are alike."""
    refusal: Refusal | None = None
    """Until a request of the plan is accepted."""
    cramped: bool = False
    """The object had no room for a status of the usual size: say less."""
