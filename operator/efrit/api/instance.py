"""EfritInstance: keep one Emacs daemon running, with this image, workspace, model and limits."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import Field

from efrit.api.conditions import Condition
from efrit.api.instance_limits import Limits, Tools
from efrit.api.instance_model import METADATA_ADDRESSES, Model
from efrit.api.instance_volumes import Queue, StorageClaim, Workspace
from efrit.api.meta import ApiModel, PrinterColumn, Resource, Rule, Time
from efrit.api.pod_template import (
    NetworkPolicyEgressRule,
    NetworkPolicyPeer,
    PodTemplate,
    ResourceRequirements,
)
from efrit.api.request import LocalReference, ObjectName
from efrit.resources import INSTANCES

READY = "Ready"
QUEUE_HEALTHY = "QueueHealthy"
MODEL_READY = "ModelReady"
SELF_CHECK_PASSED = "SelfCheckPassed"
EMACS_RESPONSIVE = "EmacsResponsive"
SUSPENDED = "Suspended"
UPDATED = "Updated"
MAX_CONDITIONS = 16


class OperatingMode(StrEnum):
    """Whether the daemon is to run."""

    RUNNING = "Running"
    SUSPENDED = "Suspended"


class PullPolicy(StrEnum):
    """When the image is pulled."""

    ALWAYS = "Always"
    IF_NOT_PRESENT = "IfNotPresent"
    NEVER = "Never"


LibraryName = Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[A-Za-z0-9][-A-Za-z0-9_+./]*$")]


class FastStart(ApiModel):
    """Libraries that Emacs has loaded before it serves, kept in a dump so that the next start need not load them."""

    libraries: tuple[LibraryName, ...] = Field(
        min_length=1,
        max_length=200,
        description="Features to require, in this order. They may start no process and no thread.",
    )
    existing_claim: ObjectName | None = Field(
        default=None,
        description="PersistentVolumeClaim in the same namespace for the dumps, ReadWriteMany if several instances "
        "share it; default: the queue's volume, unless that is ephemeral. Anyone who can write to it runs code in "
        "all of them.",
    )


class Emacs(ApiModel):
    """The daemon."""

    image: str | None = Field(
        default=None,
        min_length=1,
        max_length=1024,
        pattern=r"^[!-~]+$",
        description="Any image with Emacs 28 or newer and /bin/sh; default: the operator's own.",
    )
    image_pull_policy: PullPolicy | None = Field(default=None, description="As in a container.")
    daemon_name: str = Field(
        default="efrit",
        min_length=1,
        max_length=63,
        pattern=r"^[A-Za-z0-9]([-A-Za-z0-9._]*[A-Za-z0-9])?$",
        description="Name of the daemon's server, for emacsclient -s.",
    )
    init_config_map_ref: LocalReference | None = Field(
        default=None, description="ConfigMap whose key init.el is loaded once the daemon is up."
    )
    resources: ResourceRequirements | None = Field(
        default=None, description="Requests and limits of the Emacs container."
    )
    fast_start: FastStart | None = Field(default=None, description=FastStart.__doc__)


class Idle(ApiModel):
    """What happens to an instance without work. It never rewrites spec: see status."""

    suspend_after_seconds: int | None = Field(
        default=None,
        ge=10,
        le=365 * 86_400,
        description="Suspend after this long without work; the next request wakes it.",
    )
    delete_after_seconds: int | None = Field(
        default=None, ge=10, le=365 * 86_400, description="Delete the instance after this long without work."
    )
    rules: ClassVar = (
        Rule(
            "!has(self.suspendAfterSeconds) || !has(self.deleteAfterSeconds) || "
            "self.suspendAfterSeconds < self.deleteAfterSeconds",
            "idle.suspendAfterSeconds must be smaller than idle.deleteAfterSeconds.",
        ),
    )


class Network(ApiModel):
    """What the instance may reach and who may reach it. Default: nothing but DNS and the model."""

    egress: tuple[NetworkPolicyEgressRule, ...] = Field(
        default=(), max_length=50, description="NetworkPolicyEgressRules added to the instance's policy."
    )
    allow_ingress_from: tuple[NetworkPolicyPeer, ...] = Field(
        default=(),
        max_length=50,
        description="NetworkPolicyPeers that may reach the instance, in addition to the operator.",
    )
    rules: ClassVar = (
        Rule(
            "!has(self.egress) || self.egress.all(rule, has(rule.to) && rule.to.size() > 0)",
            "each rule of network.egress names its peers in 'to': without them it would open everything.",
        ),
        *(
            Rule(
                "!has(self.egress) || self.egress.all(rule, !has(rule.to) || rule.to.all(peer, !has(peer.ipBlock) || "
                "!has(peer.ipBlock.cidr) || !isCIDR(peer.ipBlock.cidr) || "
                f"!cidr(peer.ipBlock.cidr).containsIP('{address}') || (has(peer.ipBlock.except) && "
                f"peer.ipBlock.except.exists(part, isCIDR(part) && cidr(part).containsIP('{address}')))))",
                f"an ipBlock of network.egress contains the metadata service {address}, from which a pod gets the "
                "credentials of its node: put a range around it in 'except', such as " + without,
            )
            for address, without in zip(METADATA_ADDRESSES, ("169.254.0.0/16.", "fc00::/7."), strict=True)
        ),
    )


class InstanceSpec(ApiModel):
    """Desired state. The operator never writes it."""

    operating_mode: OperatingMode = Field(
        default=OperatingMode.RUNNING,
        description="Suspended scales the pod away and keeps the volumes; requests wait.",
    )
    emacs: Emacs = Field(default=Emacs(), description=Emacs.__doc__)
    workspace: Workspace = Field(default=Workspace(storage=StorageClaim()), description=Workspace.__doc__)
    queue: Queue = Field(default=Queue(storage=StorageClaim()), description=Queue.__doc__)
    model: Model | None = Field(default=None, description=Model.__doc__)
    limits: Limits = Field(default=Limits(), description=Limits.__doc__)
    tools: Tools = Field(default=Tools(), description=Tools.__doc__)
    idle: Idle | None = Field(default=None, description=Idle.__doc__)
    network: Network = Field(default=Network(), description=Network.__doc__)
    pod_template: PodTemplate = Field(default_factory=PodTemplate, description=PodTemplate.__doc__)

    rules: ClassVar = (
        Rule(
            "!has(self.model) || self.model.protocol != 'elisp' || !has(self.tools) || "
            "((!has(self.tools.allow) || self.tools.allow.all(name, name == 'eval_sexp')) && "
            "(!has(self.tools.deny) || self.tools.deny.size() == 0))",
            "with model.protocol elisp every step is eval_sexp, and Lisp can do what any other tool does: remove "
            "spec.tools (allow may name eval_sexp), or set model.protocol to tools.",
        ),
    )


class QueueStatus(ApiModel):
    """Figures of the queue."""

    pending: int = Field(default=0, ge=0, description="Requests that wait on the instance.")
    processing: int = Field(default=0, ge=0, description="Requests that run.")
    processed: int = Field(default=0, ge=0, description="Requests answered since the daemon's queue was made.")
    succeeded: int = Field(default=0, ge=0, description="Answered requests that succeeded.")
    failed: int = Field(default=0, ge=0, description="Answered requests that failed.")
    interrupted: int = Field(
        default=0, ge=0, description="Answered requests that were interrupted: what they did is unknown."
    )
    average_processing_seconds: float = Field(default=0, ge=0, description="Average running time in seconds.")
    oldest_pending_seconds: float = Field(default=0, ge=0, description="Age of the oldest waiting request.")


class InstancePhase(StrEnum):
    """A word for the printer column; programs read the conditions."""

    PENDING = "Pending"
    READY = "Ready"
    NOT_READY = "NotReady"
    SUSPENDED = "Suspended"


class HandoverState(StrEnum):
    """Whether a request may have been handed to the instance without a trace in the request's own status."""

    OPEN = "Open"
    CLOSED = "Closed"


class InstanceHandover(ApiModel):
    """Whether requests may be handed to the instance; recorded before the first of them is."""

    state: HandoverState = Field(
        description="Open before the first request is handed over. Closed once the instance has no running pod and "
        "every open request that it may have got says so in its own status: any other was never handed over."
    )
    id: str | None = Field(
        default=None,
        max_length=64,
        description="Differs for each controller process and each time that it opens; only its holder hands over.",
    )


class InstanceStatus(ApiModel):
    """Observed state."""

    phase: InstancePhase | None = Field(default=None, description="Derived from the conditions, for the column.")
    observed_generation: int | None = Field(
        default=None, ge=0, description="The metadata.generation that this status describes."
    )
    conditions: tuple[Condition, ...] = Field(
        default=(),
        max_length=MAX_CONDITIONS,
        description="Ready (summary), QueueHealthy, EmacsResponsive, Suspended, "
        "Updated (the pod has the current template); with spec.model, ModelReady (its key can be used); once a "
        "self-check of Emacs has failed, SelfCheckPassed (its message gives the last restart for that).",
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
    )
    queue: QueueStatus | None = Field(default=None, description=QueueStatus.__doc__)
    pod_name: str | None = Field(default=None, max_length=253, description="The pod that runs the daemon.")
    emacs_version: str | None = Field(default=None, max_length=64, description="Version of the running Emacs.")
    image: str | None = Field(default=None, max_length=1024, description="Image of the running Emacs.")
    start_time: Time | None = Field(default=None, description="When the pod was started.")
    last_activity_time: Time | None = Field(default=None, description="When work was last requested or done.")
    suspended_idle: bool | None = Field(
        default=None, description="Whether it is suspended for idleness: the next request wakes it."
    )
    handover: InstanceHandover | None = Field(default=None, description=InstanceHandover.__doc__)


def _no_shrinking(volume: str) -> Rule:
    """Return the rule of a volume's size: at the root, for it takes the status to know that a growth was refused."""
    new, old = (f"{scope}.spec.{volume}.storage" for scope in ("self", "oldSelf"))
    refused = f"self.status.conditions.exists(each, each.type == '{READY}' && each.reason == 'ChildRefused')"
    return Rule(
        f"!has({new}) || !has({old}) "
        f"|| quantity(string({new}.size)).compareTo(quantity(string({old}.size))) >= 0 "
        f"|| (has(self.status) && has(self.status.conditions) && {refused})",
        f"spec.{volume}.storage.size: a volume cannot shrink: keep the size or make it larger. Only a growth that "
        "was refused (Ready is False with reason ChildRefused) can be taken back.",
    )


class EfritInstance(Resource):
    """A resident Emacs daemon that works through requests."""

    resource: ClassVar = INSTANCES
    short_names: ClassVar = ("efi",)
    printer_columns: ClassVar = (
        PrinterColumn("Mode", ".spec.operatingMode"),
        PrinterColumn("Ready", ".status.conditions[?(@.type=='Ready')].status"),
        PrinterColumn("Reason", ".status.conditions[?(@.type=='Ready')].reason"),
        PrinterColumn("Pending", ".status.queue.pending", "integer"),
        PrinterColumn("Processing", ".status.queue.processing", "integer"),
        PrinterColumn("Processed", ".status.queue.processed", "integer"),
        PrinterColumn("Age", ".metadata.creationTimestamp", "date"),
        PrinterColumn("Image", ".status.image", "string", "Image of the running Emacs.", 1),
        PrinterColumn("Last activity", ".status.lastActivityTime", "date", "When it last worked.", 1),
    )
    selectable_fields: ClassVar = (".spec.operatingMode", ".status.phase")
    rules: ClassVar = (
        Rule(
            "self.metadata.name.size() <= 46 && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",
            "metadata.name names the pod too: at most 46 lower-case letters, digits and '-', starting with a letter.",
        ),
        _no_shrinking("queue"),
        _no_shrinking("workspace"),
    )

    spec: InstanceSpec = Field(default_factory=InstanceSpec, description=InstanceSpec.__doc__)
    status: InstanceStatus = Field(default_factory=InstanceStatus, description=InstanceStatus.__doc__)
