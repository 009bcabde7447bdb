"""EfritPool: keep a number of instances of one template, and give each request of the pool to one that is free."""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import BeforeValidator, Field

from efrit.api.conditions import Condition
from efrit.api.instance import InstanceSpec
from efrit.api.meta import ApiModel, PrinterColumn, Resource, Rule, Scale, Time
from efrit.api_group import GROUP
from efrit.resources import POOLS

AVAILABLE = "Available"
PROGRESSING = "Progressing"
BACKLOGGED = "Backlogged"
SCALING_ACTIVE = "ScalingActive"
SCALING_LIMITED = "ScalingLimited"

MAX_MEMBERS = 1000
SHARE = r"^(1000|[0-9]{1,3}|(1000|[0-9]{1,3})%)$"
MAX_NAME_CHARS = 40
"""A member's name adds `-` and five characters, and may have 46."""
REQUESTER = f"{GROUP}/requester"
"""Annotation in which the API server notes who made a request."""
LABEL_KEY = r"^([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$"
LABEL_VALUE = r"^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$"
MAX_FLOW_CHARS = 256
DEFAULT_AFFINITY_WAIT_SECONDS = 60
DEFAULT_REVISION_HISTORY_LIMIT = 10
MAX_FLOWS = 10
"""Flows that a status names."""
MAX_REVISIONS = 10
"""Templates that a status names."""


class PoolTemplateMetadata(ApiModel):
    """Labels that each member gets, in addition to those of the pool."""

    labels: dict[str, Annotated[str, Field(max_length=63)]] = Field(
        default_factory=dict,
        max_length=32,
        description="Labels of the members, for spec.selector of requests and for kubectl. Keys that begin with "
        f"{GROUP}/ are the operator's.",
    )
    rules: ClassVar = (
        Rule(
            f"!has(self.labels) || self.labels.all(key, !key.startsWith('{GROUP}/'))",
            f"template.metadata.labels: keys that begin with {GROUP}/ are the operator's: use another prefix.",
        ),
        Rule(
            f"!has(self.labels) || self.labels.all(key, key.matches('{LABEL_KEY}') && "
            f"self.labels[key].matches('{LABEL_VALUE}'))",
            "template.metadata.labels: one of them is not a Kubernetes label: keys and values have letters, digits, "
            "'-', '_' and '.', and begin and end with a letter or digit; a key may have a prefix (example.org/team).",
        ),
    )


class PoolTemplate(ApiModel):
    """What each member is: an EfritInstance with this spec."""

    metadata: PoolTemplateMetadata = Field(
        default_factory=PoolTemplateMetadata, description=PoolTemplateMetadata.__doc__
    )
    spec: InstanceSpec = Field(default=InstanceSpec(), description="The spec of an EfritInstance.")

    may_change: ClassVar = True
    rules: ClassVar = (
        Rule(
            "!has(self.spec) || !has(self.spec.operatingMode) || self.spec.operatingMode == 'Running'",
            "template.spec.operatingMode: the members of a pool run. Leave it out; to have no members set "
            "spec.replicas to 0, and to have idle ones sleep template.spec.idle.suspendAfterSeconds.",
        ),
        Rule(
            "!has(self.spec) || !has(self.spec.idle) || !has(self.spec.idle.deleteAfterSeconds)",
            "template.spec.idle.deleteAfterSeconds: the pool would create the member anew: leave it out, and use "
            "suspendAfterSeconds or a smaller spec.replicas.",
        ),
        Rule(
            "!has(self.spec) || ((!has(self.spec.queue) || !has(self.spec.queue.existingClaim)) "
            "&& (!has(self.spec.workspace) || !has(self.spec.workspace.existingClaim)))",
            "template.spec names an existingClaim: all members would share that volume. Use storage or ephemeral.",
        ),
    )


class PlacementStrategy(StrEnum):
    """Which of several free members gets the next request."""

    SPREAD = "Spread"
    PACKED = "Packed"


class SessionAffinity(StrEnum):
    """What becomes of a request that continues a session when the member that has the session is away."""

    REQUIRED = "Required"
    PREFERRED = "Preferred"


class Placement(ApiModel):
    """Which of several free members gets the next request."""

    strategy: PlacementStrategy = Field(
        default=PlacementStrategy.SPREAD,
        description="Spread takes the member with the fewest open requests. Packed takes the one with the most that "
        "is still free, so that others can sleep (template.spec.idle).",
    )
    max_load_per_instance: int = Field(
        default=2,
        ge=1,
        le=1000,
        description="Open requests that a member gets at a time; all others wait in the cluster, where they are "
        "still placed fairly. 2 keeps Emacs busy while an answer is written; more suits chats and commands, "
        "which wait for a model.",
    )
    session_affinity: SessionAffinity = Field(
        default=SessionAffinity.REQUIRED,
        description="A request that continues a session goes to the member that has it. While that one is away: "
        "Required waits for it, and ends Rejected where it is gone for good. Preferred gives the request to another "
        "member after affinityWaitSeconds, at once where it is gone; it begins a new session there, and "
        "status.sessionLeft of the request says so.",
    )
    affinity_wait_seconds: int | None = Field(
        default=None,
        ge=0,
        le=86_400,
        description="Preferred: how long a request waits, from its creation, for the member that has its session. "
        "Default: 60.",
    )

    rules: ClassVar = (
        Rule(
            "!has(self.affinityWaitSeconds) || (has(self.sessionAffinity) && self.sessionAffinity == 'Preferred')",
            "placement.affinityWaitSeconds is for placement.sessionAffinity: Preferred; with Required a request "
            "waits for the member that has its session: leave it out.",
        ),
    )

    @property
    def affinity_wait(self) -> timedelta | None:
        """How long a request waits for the member that has its session; None for as long as it takes."""
        if self.session_affinity == SessionAffinity.REQUIRED:
            return None
        seconds = self.affinity_wait_seconds
        return timedelta(seconds=DEFAULT_AFFINITY_WAIT_SECONDS if seconds is None else seconds)


class Fairness(ApiModel):
    """How requests of different users share the members."""

    flow_label: str | None = Field(
        default=None,
        min_length=1,
        max_length=317,
        description="Label of the requests whose value names their flow. Default: who created the request, where the "
        "installation has the API server note that (pools.requester), otherwise all are one flow.",
    )
    weights: dict[str, Annotated[int, Field(ge=1, le=100)]] = Field(
        default_factory=dict,
        max_length=100,
        description="Shares by flow, 1 where none is given: while flows wait, one with weight 2 gets twice as much.",
    )
    max_running_per_flow: int | None = Field(
        default=None, ge=1, le=100_000, description="Requests of a flow that members have at a time; default: any."
    )
    max_pending_per_flow: int | None = Field(
        default=None,
        ge=1,
        le=100_000,
        description="Requests of a flow that may wait; one more ends Rejected. Default: any.",
    )
    rules: ClassVar = (
        Rule(
            f"!has(self.flowLabel) || self.flowLabel.matches('{LABEL_KEY}')",
            "fairness.flowLabel is not a valid label key: name one with letters, digits, '-', '_' and '.', "
            "such as team or example.org/team.",
        ),
    )


class ScaleUp(ApiModel):
    """How fast the pool grows."""

    max_per_minute: int | None = Field(
        default=None, ge=1, le=MAX_MEMBERS, description="Members added within a minute at most; default: any."
    )


class ScaleDown(ApiModel):
    """How fast the pool shrinks."""

    stabilization_seconds: int = Field(
        default=300,
        ge=0,
        le=86_400,
        description="The pool has at least as many members as it needed at any time within this many seconds.",
    )


class Autoscaling(ApiModel):
    """The pool's own autoscaler: as many members as its open requests need."""

    min_replicas: int = Field(
        default=0, ge=0, le=MAX_MEMBERS, description="Members at least; with 0 the first request starts one."
    )
    max_replicas: int = Field(ge=1, le=MAX_MEMBERS, description="Members at most.")
    target_load_per_instance: int = Field(
        default=1, ge=1, le=1000, description="Open requests, waiting and running, for which one member is there."
    )
    scale_up: ScaleUp = Field(default=ScaleUp(), description=ScaleUp.__doc__)
    scale_down: ScaleDown = Field(default=ScaleDown(), description=ScaleDown.__doc__)

    rules: ClassVar = (
        Rule(
            "!has(self.minReplicas) || self.minReplicas <= self.maxReplicas",
            "autoscaling.minReplicas must not be larger than autoscaling.maxReplicas.",
        ),
    )


Share = Annotated[
    str,
    BeforeValidator(str),
    Field(
        max_length=5,
        json_schema_extra={
            "x-kubernetes-int-or-string": True,
            "pattern": SHARE,
            "minimum": 0,
            "maximum": MAX_MEMBERS,
        },
    ),
]
"""A number of members, or a share of those that the open requests need, such as 25%."""


class Warm(ApiModel):
    """Members that are ready before a request needs them."""

    spares: Share | None = Field(
        default=None,
        description="Members beyond those that the open requests need, within autoscaling.maxReplicas: a number, or "
        "a percentage of those needed, rounded up, such as 25%. Default: none.",
    )

    def spares_beside(self, needed: int) -> int:
        """Return how many members there are to be beyond the `needed` ones."""
        spares = self.spares or "0"
        return -(-needed * int(spares[:-1]) // 100) if spares.endswith("%") else int(spares)


class UpdateType(StrEnum):
    """How members of a former template come to be replaced."""

    ROLLING_UPDATE = "RollingUpdate"
    ON_REPLENISH = "OnReplenish"
    ON_DELETE = "OnDelete"


class UpdateStrategy(ApiModel):
    """How a changed template reaches the members, and how long one that goes may finish its work."""

    type: UpdateType = Field(
        default=UpdateType.ROLLING_UPDATE,
        description="RollingUpdate replaces members of a former template, those without work first. OnReplenish "
        "replaces none: members that are made anyway have the new template, and where there are too many those of a "
        "former one go first. OnDelete keeps each member of a former template until you delete it; where there are "
        "too many, the template does not matter.",
    )
    max_surge: int = Field(
        default=1, ge=0, le=MAX_MEMBERS, description="RollingUpdate: members beyond those wanted meanwhile."
    )
    max_unavailable: int = Field(
        default=0, ge=0, le=MAX_MEMBERS, description="RollingUpdate: members that may be missing meanwhile."
    )
    min_ready_seconds: int = Field(
        default=0,
        ge=0,
        le=3600,
        description="RollingUpdate: how long a new member must have been Ready before it replaces another.",
    )
    drain_seconds: int | None = Field(
        default=None,
        ge=1,
        le=604_800,
        description="How long a member that is to go (too many, or of a former template) may finish what it has. "
        "Then it is deleted: what it has not been handed moves to others, what runs is interrupted once its pod's "
        "own limits.drainSeconds are over. Counted anew when another controller takes over. Default: as long as it "
        "takes.",
    )
    progress_deadline_seconds: int = Field(
        default=600,
        ge=1,
        le=86_400,
        description="A new member that is not Ready within this many seconds stops the roll-out (Progressing is "
        "False, RevisionFailed): no further one is made, and the members of the former template stay.",
    )

    rules: ClassVar = (
        Rule(
            "!(has(self.maxSurge) && self.maxSurge == 0) || (has(self.maxUnavailable) && self.maxUnavailable > 0)",
            "updateStrategy.maxSurge and updateStrategy.maxUnavailable are both 0: no member could be replaced. Make "
            "one of them larger.",
        ),
        Rule(
            "!has(self.minReadySeconds) || !has(self.progressDeadlineSeconds) || "
            "self.minReadySeconds < self.progressDeadlineSeconds",
            "updateStrategy.minReadySeconds must be smaller than updateStrategy.progressDeadlineSeconds.",
        ),
    )


class DisruptionBudget(StrEnum):
    """Which members an eviction leaves alone."""

    BUSY_MEMBERS = "BusyMembers"
    NONE = "None"


class PreemptionPolicy(StrEnum):
    """Whether work that may run twice is interrupted for a request of higher priority."""

    NEVER = "Never"
    LOWER_PRIORITY = "LowerPriority"


class PoolSpec(ApiModel):
    """Desired state. The operator never writes it; `kubectl scale` and autoscalers write replicas."""

    replicas: int | None = Field(
        default=None, ge=0, le=MAX_MEMBERS, description="Desired number of members; or else autoscaling."
    )
    autoscaling: Autoscaling | None = Field(default=None, description=Autoscaling.__doc__)
    warm: Warm | None = Field(default=None, description=Warm.__doc__)
    template: PoolTemplate = Field(default=PoolTemplate(), description=PoolTemplate.__doc__)
    placement: Placement = Field(default=Placement(), description=Placement.__doc__)
    fairness: Fairness = Field(default_factory=Fairness, description=Fairness.__doc__)
    preemption: PreemptionPolicy = Field(
        default=PreemptionPolicy.NEVER,
        description="LowerPriority: for a request that comes when no member has room, one running request with a "
        "lower spec.priority and spec.retryPolicy: IfInterrupted is interrupted and waits again, to run from its "
        "beginning. One of another flow is interrupted only where that flow has more than its share.",
    )
    update_strategy: UpdateStrategy = Field(default=UpdateStrategy(), description=UpdateStrategy.__doc__)
    revision_history_limit: int = Field(
        default=DEFAULT_REVISION_HISTORY_LIMIT,
        ge=0,
        le=100,
        description="How many former templates are kept to go back to, beside those that the pool or a member has. "
        "Each is a ControllerRevision.",
    )
    disruption_budget: DisruptionBudget = Field(
        default=DisruptionBudget.BUSY_MEMBERS,
        description="BusyMembers: the operator keeps a PodDisruptionBudget, so that a node drain waits for members "
        "that have had a request for 2 s, have a plan, or are held by an EfritClaim. None: it keeps none, and a node "
        "drain ends what takes longer than limits.drainSeconds. A PodDisruptionBudget of your own may then select "
        "the members: Kubernetes evicts no pod that two of them select.",
    )

    rules: ClassVar = (
        Rule(
            "has(self.replicas) != has(self.autoscaling)",
            "set the number of members: either spec.replicas (for kubectl scale and other autoscalers) or "
            "spec.autoscaling.",
        ),
        Rule(
            "!has(self.warm) || has(self.autoscaling)",
            "spec.warm adds to what spec.autoscaling finds: without that, make spec.replicas larger.",
        ),
    )


class PoolFlow(ApiModel):
    """One flow of requests."""

    name: str = Field(max_length=MAX_FLOW_CHARS, description="Value of the label, or who made the requests.")
    running: int = Field(default=0, ge=0, description="Its requests that members have.")
    pending: int = Field(default=0, ge=0, description="Its requests that wait for a member.")


class PoolRevisionMembers(ApiModel):
    """One template, the present one or a former one, and the members that have it."""

    revision: str = Field(max_length=64, description="Digest of the template.")
    replicas: int = Field(default=0, ge=0, description="Members that have it, those being removed included.")
    ready: int = Field(default=0, ge=0, description="Those of them that take requests.")


class LastScale(ApiModel):
    """The last time that the pool's autoscaler changed the number of members."""

    from_: int = Field(alias="from", ge=0, description="Members before.")
    to: int = Field(ge=0, description="Members since.")
    reason: str = Field(max_length=256, description="Why.")
    time: Time | None = Field(default=None, description="When.")


class PoolStatus(ApiModel):
    """Observed state."""

    observed_generation: int | None = Field(
        default=None, ge=0, description="The metadata.generation that this status describes."
    )
    selector: str | None = Field(
        default=None,
        max_length=512,
        description="Label selector of the members' pods, for autoscalers; members that claims have are among them.",
    )
    desired_replicas: int | None = Field(
        default=None, ge=0, description="Desired number of members, by spec.replicas or by autoscaling."
    )
    last_scale: LastScale | None = Field(default=None, description=LastScale.__doc__)
    replicas: int | None = Field(default=None, ge=0, description="Members that exist, those being removed excluded.")
    ready: int | None = Field(default=None, ge=0, description="Members that take requests.")
    idle: int | None = Field(default=None, ge=0, description="Ready members without open requests.")
    busy: int | None = Field(default=None, ge=0, description="Members with open requests.")
    draining: int | None = Field(
        default=None, ge=0, description="Members that get no more requests and are deleted once they have none."
    )
    suspended: int | None = Field(default=None, ge=0, description="Members that sleep until they are needed.")
    pending: int | None = Field(default=None, ge=0, description="Open requests of the pool that no member has.")
    oldest_pending_time: Time | None = Field(
        default=None,
        description="When the oldest of them was created: a time, as an age would have to be written every second.",
    )
    flows: tuple[PoolFlow, ...] = Field(
        default=(), max_length=MAX_FLOWS, description="The flows with the most open requests."
    )
    revision: str | None = Field(default=None, max_length=64, description="Digest of spec.template.")
    updated: int | None = Field(default=None, ge=0, description="Members that have this template.")
    updated_ready: int | None = Field(
        default=None, ge=0, description="Members that have this template and take requests."
    )
    revisions: tuple[PoolRevisionMembers, ...] = Field(
        default=(),
        max_length=MAX_REVISIONS,
        description="The templates that members have: the present one first, then those with the most members.",
    )
    conditions: tuple[Condition, ...] = Field(
        default=(),
        max_length=8,
        description="Available (a member takes requests), Progressing (members are created, updated or removed), "
        "Backlogged (requests wait for a free member), ScalingActive (spec.autoscaling decides how many members "
        "there are), ScalingLimited (it wants another number than it may have).",
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
    )


class EfritPool(Resource):
    """So many instances of one template; a request of the pool goes to one that is free."""

    resource: ClassVar = POOLS
    short_names: ClassVar = ("efp",)
    printer_columns: ClassVar = (
        PrinterColumn("Wanted", ".status.desiredReplicas", "integer"),
        PrinterColumn("Members", ".status.replicas", "integer"),
        PrinterColumn("Ready", ".status.ready", "integer"),
        PrinterColumn("Busy", ".status.busy", "integer"),
        PrinterColumn("Pending", ".status.pending", "integer"),
        PrinterColumn("Available", ".status.conditions[?(@.type=='Available')].status"),
        PrinterColumn("Age", ".metadata.creationTimestamp", "date"),
    )
    scale: ClassVar = Scale(".spec.replicas", ".status.replicas", ".status.selector")
    rules: ClassVar = (
        Rule(
            f"self.metadata.name.size() <= {MAX_NAME_CHARS} && "
            "self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",
            f"metadata.name begins the names of the members: at most {MAX_NAME_CHARS} lower-case letters, digits and "
            "'-', starting with a letter.",
        ),
    )

    spec: PoolSpec = Field(description=PoolSpec.__doc__)
    status: PoolStatus = Field(default_factory=PoolStatus, description=PoolStatus.__doc__)
