"""What the store keeps of one pool."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from efrit.api import EfritPool
from efrit.controller.model.pools import Growth, PoolRevision, Recommendation
from efrit.controller.model.snapshots import Refusal
from efrit.controller.store.records import ObjectRecord

MAX_CLAIMS_TAKEN = 64
"""Claims of a pool of which it is kept when they took a member: those of a second, unless more come."""


@dataclass(slots=True)
class PoolRecord(ObjectRecord[EfritPool]):
    """What is known of one pool; `object` is without its template."""

    template: bytes | None = None
    """spec.template as JSON, compressed; None where it is larger than anything is made of."""
    revision: str = ""
    """Digest of the template."""
    drain_began: dict[str, float] = field(default_factory=dict)
    """Members that get no more requests, by name, with when this process decided so, on the monotonic clock."""
    refusal: Refusal | None = None
    status_written: datetime | None = None
    """When this process last wrote its status."""
    desired: int | None = None
    """How many members its autoscaler wanted last."""
    scale_cause: str = ""
    """Why that is another number than before."""
    recommendations: deque[Recommendation] = field(default_factory=deque)
    """Of the last while: each is larger than all that came after it."""
    growths: deque[Growth] = field(default_factory=deque)
    """Of the last minute."""
    claims_taken: deque[datetime] = field(default_factory=lambda: deque(maxlen=MAX_CLAIMS_TAKEN))
    """When the last exclusive claims took a member, as far as this process knows."""
    claims_returned: deque[datetime] = field(default_factory=lambda: deque(maxlen=MAX_CLAIMS_TAKEN))
    """When the last members came back from an exclusive claim, as far as this process knows."""
    history: tuple[PoolRevision, ...] | None = None
    """Templates that are kept; None where that is not known."""
    history_refusal: Refusal | None = None
    budget: Mapping[str, Any] | None = None
    """Its PodDisruptionBudget as applied last; None where that is not known."""
    budget_written: datetime | None = None
    budget_refusal: Refusal | None = None

    @property
    def draining(self) -> Set[str]:
        """Names of members that get no more requests."""
        return self.drain_began.keys()
