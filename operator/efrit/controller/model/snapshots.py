"""What a decision reads: frozen snapshots of the world, made by the store.

The smaller views hold just the part of a Kubernetes object that a decision needs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple

from efrit.api import ConditionStatus, EfritInstance, EfritPlan, EfritRequest, UpdateReason, condition_of
from efrit.api.instance import UPDATED, HandoverState
from efrit.api.pool import PlacementStrategy
from efrit.controller.model.config import ControllerConfig
from efrit.controller.model.instance_facts import InstanceFacts
from efrit.controller.model.keys import Key
from efrit.controller.model.pauses import pause_remaining
from efrit.controller.model.rollout import RolloutView
from efrit.controller.model.views import BridgeView, ClaimView, PodView, StatefulSetView
from efrit.protocol.view import RequestView


def pod_goes_for_update(instance: EfritInstance, pod: PodView | None, statefulset: StatefulSetView | None) -> bool:
    """Return whether the pod of an instance is drained for another template, or is about to be stopped for it.

    A pod of another template than the StatefulSet is stopped by the StatefulSet's controller any moment. That needs
    no update that was waited for: a template that is applied while the pod starts is applied at once.
    """
    if pod is None or statefulset is None:
        return False
    updated = condition_of(instance.status.conditions, UPDATED)
    if updated is None:
        return False
    is_outdated = pod.template_hash != statefulset.template_hash
    if is_outdated and updated.reason != UpdateReason.FAILED:  # gate: outdated-pod
        return True
    return updated.status == ConditionStatus.UNKNOWN and updated.reason == UpdateReason.DRAINING


@dataclass(frozen=True, slots=True)
class InstanceSnapshot:
    """Everything that a decision about an instance reads."""

    instance: EfritInstance
    config: ControllerConfig
    too_large: bool = False
    """Whether its spec is larger than anything is made of: `facts.refused` says so."""
    statefulset: StatefulSetView | None = None
    pod: PodView | None = None
    claims: tuple[ClaimView, ...] = ()
    bridge: BridgeView = field(default_factory=BridgeView)
    facts: InstanceFacts = field(default_factory=InstanceFacts)
    open_requests: int = 0
    active_plans: int = 0
    """Open plans that live on it and are not suspended."""
    suspended_plans: int = 0
    listed: bool = False
    """Whether this process has listed all open requests and plans that may be on it."""
    unfinished: int = 0
    """Requests on their way to the bridge, recorded on its ephemeral queue, or on its queue without an answer."""
    controller_started: datetime | None = None
    rollout: RolloutView = field(default_factory=RolloutView)
    update_reserved: bool = False
    """Whether an update was decided on whose status is still being written."""
    replacing: bool = False
    """Whether a StatefulSet is being applied that may replace the pod."""
    removing: bool = False
    """Whether it is just being deleted, and nobody knows yet whether that succeeds."""
    may_close: bool = False
    """Whether every open request that the instance may have got says so in its own status."""
    claimed: bool = False
    """Whether an exclusive claim has it, or is about to."""
    waiting: int = 0
    """Open requests bound to it that its bridge has not reported."""
    figures_wait: bool = False
    """Whether figures of other instances are to be written first: it needs a turn for its own."""

    @property
    def accepts_requests(self) -> bool:
        """Whether requests may be handed over: its bridge is connected, and neither it nor its pod is about to go."""
        stopping = self.statefulset is not None and self.statefulset.replicas == 0
        return self.available and not self.facts.handover_paused and not stopping and not self.removing

    @property
    def available(self) -> bool:
        """Whether the bridge of its pod is connected and all it has is known."""
        return (
            self.bridge.connected
            and self.pod is not None
            and not self.pod.deleting
            and self.bridge.pod_uid == self.pod.uid
        )

    @property
    def held_for_update(self) -> bool:
        """Whether new requests wait until the pod is replaced."""
        if self.update_reserved or self.replacing:
            return True
        return pod_goes_for_update(self.instance, self.pod, self.statefulset)

    @property
    def handover_open(self) -> bool:
        """Whether it is recorded that this process may hand requests over."""
        handover = self.instance.status.handover
        return handover is not None and handover.state == HandoverState.OPEN and handover.id == self.facts.handover_id

    @property
    def load(self) -> int:
        """Requests bound to it that are not final."""
        return self.open_requests


@dataclass(frozen=True, slots=True)
class Handover:
    """What this process remembers of having handed a request to a bridge."""

    queue_id: str
    absent: bool = False
    """The bridge said that it does not know the request."""
    refused: str | None = None
    """Why the bridge will never take the request."""


@dataclass(frozen=True, slots=True)
class ActionFailure:
    """An action for a request that fails, and has failed since `first`."""

    action: str
    """Name of the action's class."""
    code: str
    """Code of the error, as in the tree of errors."""
    sentence: str
    """What the API server or the bridge said."""
    sentence_time: datetime
    first: datetime
    last: datetime
    refusals: int = 0
    """How often it was refused in a way that a repetition does not change."""


@dataclass(frozen=True, slots=True)
class Victim:
    """A running request of a pool that is interrupted for one that waits."""

    request: EfritRequest
    member: InstanceSnapshot
    marked: bool = False
    """Whether its status says already that it is interrupted for this one."""


@dataclass(frozen=True, slots=True)
class PoolPlace:
    """What a request of a pool that waits for a member reads of the pool."""

    name: str
    strategy: PlacementStrategy
    max_load: int
    """Open requests that a member gets at a time."""
    ahead: int = 0
    """Requests of the pool that go first, as far as there is room for them."""
    waiting: int = 0
    """Requests that wait for a member, this one included."""
    awake: int = 0
    """Requests that members which are awake have room for."""
    asleep: int = 0
    """Requests that members which sleep have room for."""
    flow_has_all: bool = False
    """Whether members have as many of its flow as they may have at a time."""
    turned_away: int | None = None
    """How many of its flow the pool lets wait, where as many did when it came."""
    leaves: str | None = None
    """The member that it is bound to, where that drains, is being stopped or is gone."""
    affinity_wait: timedelta | None = None
    """How long a request waits for the member that has its session; None for as long as it takes."""
    victim: Victim | None = None
    """The request that is interrupted for this one, if no member has room."""
    victim_may_come: bool = False
    """Whether there is one that is yet to begin, or whose member cannot be asked at the moment."""


@dataclass(frozen=True, slots=True)
class RequestSnapshot:
    """Everything that a decision about a request reads."""

    request: EfritRequest
    """Without its labels, its annotations and its owners; see also `content_bytes`."""
    config: ControllerConfig
    target: InstanceSnapshot | None = None
    """The instance named or recorded, if it exists."""
    candidates: tuple[InstanceSnapshot, ...] = ()
    """Instances that spec.selector or spec.poolRef match, while none is recorded; of an EfritPool some with room."""
    bridge_view: RequestView | None = None
    """What the target's bridge reported about the request."""
    handover: Handover | None = None
    ahead: int = 0
    """Open requests of the same target that are not handed over and go first."""
    seen_for: timedelta = timedelta(0)
    """How long this process has known it, whatever happened to the clock meanwhile."""
    listed_at_start: bool = False
    """The request may be older than this process: another may have handed it over without having written so."""
    never_submitted: bool = False
    """This process has recorded the queue that the status names, and nobody has sent the request there."""
    opened_by_other: bool = False
    """Another process may have handed it over: it has opened the instance, which may be gone by now."""
    gone: bool = False
    """The object is deleted: stop its work, store nothing."""
    reduced_status: bool = False
    """The object is too large for a status of the usual size: write less."""
    loaded: bool = False
    """Many objects of its namespace wait to be reconciled: what need not be written is not."""
    progress_written: datetime | None = None
    """When its status last said how far it has come, or was to say so."""
    failure: ActionFailure | None = None
    """The action that fails for it at present."""
    session_instance: str | None = None
    """The instance that has the session it continues, `""` where no request says so; None: nobody has asked yet."""
    pool: PoolPlace | None = None
    """Its place among those that wait for a member of their EfritPool, or look for another one; None for others."""
    content_bytes: int | None = None
    """Size of spec.content where `request` has it not, which must be read before it is sent; None where it has it."""


class EndedRequest(NamedTuple):
    """Everything that a decision reads about a request that exists and has its final status."""

    request: EfritRequest
    instance: Key | None
    """The instance named or recorded, if it exists."""
    bridge_view: RequestView | None
    bridge: BridgeView
    """That of the instance."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """The API server did not take the plan's next request, or there is no room for those that it has."""

    sentence: str
    when: datetime
    pause: timedelta = timedelta(seconds=10)
    is_reported: bool = True
    """False: it is likely to pass, and nobody needs to know."""

    def remaining(self, now: datetime) -> timedelta:
        """Return how long it is not tried again, zero where it may be."""
        return pause_remaining(self.when, self.pause, now)


@dataclass(frozen=True, slots=True)
class PlanSnapshot:
    """Everything that a decision about a plan reads."""

    plan: EfritPlan
    requests: Mapping[str, EfritRequest] | None = None
    """The plan's own requests by name; None: nobody has asked yet which there are."""
    results: Mapping[str, str] = field(default_factory=dict)
    """Whole results, by request, of those that do not fit into a status."""
    target: EfritInstance | None = None
    """The instance it lives on; before a pool has chosen one, any member, for they are alike."""
    pod: PodView | None = None
    """The pod of that instance."""
    refusal: Refusal | None = None
    """Until a request of the plan is accepted."""
    unconfirmed: bool = False
    """Whether requests of it may have gone with the plan itself, which the watch has not reported yet."""
    reduced_status: bool = False
    """The object is too large for a status of the usual size: write less."""
