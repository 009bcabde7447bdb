"""What a decision about a pool reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from efrit.api import EfritPool
from efrit.controller.model.snapshots import Refusal


@dataclass(frozen=True, slots=True)
class MemberView:
    """One EfritInstance that a pool owns."""

    name: str
    uid: str
    resource_version: str
    revision: str | None
    """Digest of the template it was made from."""
    created: datetime | None = None
    ready: bool = False
    """Whether its status says that it is Ready, of whatever process."""
    ready_changed: datetime | None = None
    """Since when it is Ready, or is not; None where its status does not say so yet."""
    ready_message: str = ""
    """What its status says of that."""
    load: int = 0
    """Open requests that are bound to it."""
    plans: int = 0
    """Open plans that live on it, suspended ones included."""
    working_since: datetime | None = None
    """Since when it has the request that it has had longest, or a plan that goes on; None where it has none."""
    deleting: bool = False
    asleep: bool = False
    """Whether it is suspended for idleness: work wakes it."""
    refused: str | None = None
    """Why the API server does not take its children, or its pod."""

    @property
    def serves(self) -> bool:
        """Whether requests get an answer from it, perhaps after it was woken."""
        return self.ready or self.asleep

    @property
    def has_work(self) -> bool:
        """Whether it may not be deleted yet."""
        return self.load > 0 or self.plans > 0


class PoolRevision(NamedTuple):
    """A template that a pool has, or had: its ControllerRevision."""

    digest: str
    """Of the template, as the label of members has it."""
    number: int
    """The current template has the highest."""
    uid: str
    resource_version: str


class Recommendation(NamedTuple):
    """How many members were needed, at a time."""

    time: datetime
    members: int


class Growth(NamedTuple):
    """How many members were added, at a time."""

    time: datetime
    members: int


class PoolLoad(NamedTuple):
    """The requests of a pool."""

    pending: int
    """How many wait for a member."""
    oldest: datetime | None
    """When the oldest of those was created."""
    flows: tuple[tuple[str, int, int], ...]
    """Name, running and waiting of each flow, those with the most requests first."""


@dataclass(frozen=True, slots=True)
class PoolSnapshot:
    """Everything that a decision about a pool reads."""

    pool: EfritPool
    """Without its template."""
    template: Mapping[str, Any] | None
    """spec.template as JSON data; None where it is larger than anything is made of."""
    revision: str
    members: tuple[MemberView, ...] = ()
    """By name."""
    has_too_many: bool = False
    """Whether more instances than these name it as their owner: not all of them are its own."""
    draining: frozenset[str] = frozenset()
    """Names of members that get no more requests."""
    drain_began: Mapping[str, datetime] = field(default_factory=dict)
    """Since when each of them drains, as far as this process knows."""
    listed: bool = False
    """Whether all open requests and plans of the namespace are known."""
    pending: int = 0
    """Open requests of the pool that no member has."""
    oldest_pending: datetime | None = None
    """When the oldest of them was created."""
    claims: int = 0
    """Exclusive claims that wait for a member."""
    claims_taken: tuple[datetime, ...] = ()
    """When the last ones took a member, the latest last."""
    claims_returned: tuple[datetime, ...] = ()
    """When the last members came back from one, the latest last."""
    returning: int = 0
    """Instances that exclusive claims have given up, and that the pool does not own yet."""
    flows: tuple[tuple[str, int, int], ...] = ()
    """Name, running and waiting of the flows with the most requests."""
    desired: int | None = None
    """How many members its autoscaler wanted last; None where it has not decided yet."""
    scale_cause: str = ""
    """Why that is another number than before."""
    recommendations: tuple[Recommendation, ...] = ()
    """Of the last while, oldest first, as far as a later one is not larger."""
    growths: tuple[Growth, ...] = ()
    """Of the last minute."""
    refusal: Refusal | None = None
    """The API server did not take its next member."""
    status_written: datetime | None = None
    """When this process last wrote its status."""
    claimed: tuple[str, ...] = ()
    """Names of instances that exclusive claims have, or are becoming the owner of."""
    claimed_revisions: frozenset[str] = frozenset()
    """Templates that those were made from."""
    history: tuple[PoolRevision, ...] | None = None
    """Templates that are kept; None where that is not known."""
    history_refusal: Refusal | None = None
    """The API server did not list or keep them."""
    budget: Mapping[str, Any] | None = None
    """Its PodDisruptionBudget as applied last; None where that is not known."""
    budget_written: datetime | None = None
    """When this process last wrote it."""
    budget_refusal: Refusal | None = None
    """The API server did not take it."""
