"""EfritInstance: keep one Emacs daemon running, with this image, workspace, model and limits."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import Field

from efrit.api.conditions import Condition
from efrit.api.meta import ApiModel, PrinterColumn, Resource, Rule, Time
from efrit.api.pod_template import (
    NetworkPolicyEgressRule,
    NetworkPolicyPeer,
    PodTemplate,
    Quantity,
    ResourceRequirements,
)
from efrit.api.request import MAX_TIMEOUT_SECONDS, LocalReference, ObjectName

READY = "Ready"
QUEUE_HEALTHY = "QueueHealthy"
MODEL_READY = "ModelReady"
SELF_CHECK_PASSED = "SelfCheckPassed"
EMACS_RESPONSIVE = "EmacsResponsive"
SUSPENDED = "Suspended"
UPDATED = "Updated"


class OperatingMode(StrEnum):
    """Whether the daemon is to run."""

    RUNNING = "Running"
    SUSPENDED = "Suspended"


class PullPolicy(StrEnum):
    """When the image is pulled."""

    ALWAYS = "Always"
    IF_NOT_PRESENT = "IfNotPresent"
    NEVER = "Never"


class AccessMode(StrEnum):
    """How a volume may be mounted."""

    READ_WRITE_ONCE = "ReadWriteOnce"
    READ_WRITE_ONCE_POD = "ReadWriteOncePod"
    READ_WRITE_MANY = "ReadWriteMany"


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


class StorageClaim(ApiModel):
    """A volume made for the instance; it stays while the instance is suspended."""

    size: Quantity = Field(default="1Gi", description="Size; may grow where the class allows it, never shrink.")
    storage_class_name: str | None = Field(
        default=None, max_length=253, description="StorageClass; default: the cluster's. Immutable."
    )
    access_modes: tuple[AccessMode, ...] = Field(
        default=(AccessMode.READ_WRITE_ONCE,),
        min_length=1,
        max_length=3,
        description="Access modes. Immutable.",
    )
    rules: ClassVar = (
        Rule(
            "quantity(string(self.size)).isGreaterThan(quantity('0'))",
            "a volume has a size: give one such as 1Gi.",
        ),
        Rule("self.accessModes == oldSelf.accessModes", "accessModes is immutable: create a new EfritInstance."),
        Rule(
            "has(self.storageClassName) == has(oldSelf.storageClassName) && "
            "(!has(self.storageClassName) || self.storageClassName == oldSelf.storageClassName)",
            "storageClassName is immutable: create a new EfritInstance.",
        ),
    )


class Storage(ApiModel):
    """Where files live: a volume of its own (the default), a claim that exists, or the pod's life."""

    storage: StorageClaim | None = Field(default=None, description="A volume made for the instance.")
    existing_claim: ObjectName | None = Field(
        default=None, description="Name of a PersistentVolumeClaim in the same namespace."
    )
    ephemeral: bool | None = Field(
        default=None, description="true: files live and die with the pod. Only true has a meaning."
    )
    size_limit: Quantity | None = Field(
        default=None,
        description="With ephemeral: the pod is evicted when its files take more. "
        "Default: 2Gi for the queue, 10Gi for the workspace.",
    )
    rules: ClassVar = (
        Rule(
            "[has(self.storage), has(self.existingClaim), has(self.ephemeral) && self.ephemeral]"
            ".filter(given, given).size() <= 1",
            "choose one: storage (the default), existingClaim or ephemeral: true.",
        ),
        Rule(
            "!has(self.sizeLimit) || (has(self.ephemeral) && self.ephemeral)",
            "sizeLimit is for ephemeral: true; a volume's size is storage.size.",
        ),
        Rule(
            "!has(self.sizeLimit) || quantity(string(self.sizeLimit)).isGreaterThan(quantity('0'))",
            "sizeLimit must be greater than 0: give one such as 5Gi.",
        ),
        Rule(
            "(has(self.ephemeral) && self.ephemeral) == (has(oldSelf.ephemeral) && oldSelf.ephemeral) "
            "&& has(self.existingClaim) == has(oldSelf.existingClaim) "
            "&& (!has(self.existingClaim) || self.existingClaim == oldSelf.existingClaim)",
            "the kind of storage is immutable, the files would be left behind: create a new EfritInstance.",
        ),
    )

    @property
    def claim(self) -> StorageClaim | None:
        """The volume to make, or None where none is to be made."""
        if self.existing_claim is not None or self.ephemeral:
            return None
        return self.storage or StorageClaim()


class Workspace(Storage):
    """The volume mounted at /workspace: Emacs' default directory."""


class Queue(Storage):
    """The volume of the request queue, and how much may wait on it."""

    max_pending: int = Field(
        default=1000,
        ge=1,
        le=5000,
        description="Requests the instance takes on, the running one included; more are held back in the cluster.",
    )
    concurrency: int = Field(
        default=4,
        ge=1,
        le=100,
        description="Sessions that may wait for the model at a time. Evals always run one after the other.",
    )
    archive_seconds: int = Field(
        default=86_400, ge=60, le=365 * 86_400, description="How long answered requests stay on the volume at most."
    )
    archive_requests: int = Field(
        default=10_000,
        ge=0,
        le=50_000,
        description="Answered requests that stay on the volume at most; the oldest are deleted first.",
    )
    archive_bytes: int = Field(
        default=512 << 20,
        ge=0,
        le=1 << 40,
        description="Bytes of answered requests that stay on the volume at most; the oldest are deleted first.",
    )
    stalled_after_seconds: int = Field(
        default=15,
        ge=1,
        le=86_400,
        description="QueueHealthy turns False with reason Stalled when a request has waited this long and none runs.",
    )
    backlogged_after_seconds: int = Field(
        default=60,
        ge=1,
        le=365 * 86_400,
        description="QueueHealthy turns False with reason Backlogged when a request has waited this long.",
    )
    backlogged_percent: int = Field(
        default=80,
        ge=1,
        le=100,
        description="QueueHealthy turns False with reason Backlogged when this much of maxPending waits, in percent.",
    )


class SecretKeyRef(ApiModel):
    """One key of a Secret in the same namespace."""

    name: ObjectName = Field(description="Name of the Secret.")
    key: str = Field(min_length=1, max_length=253, pattern=r"^[-._a-zA-Z0-9]+$", description="Key in the Secret.")


METADATA_HOSTS = (
    r"169[.]254[.][0-9.]*|[[](fe[89ab][0-9a-f]:|fd00:ec2:|::ffff:(169[.]254[.]|a9fe:))[^/]*|"
    r"metadata([.]google[.]internal)?"
)
"""Regular expression of hosts where a node's own credentials are served, in CEL."""
SYSTEM_HOSTS = r"[^/.:]+[.]kube-[^/.:]+([.]svc([.][^/:]*)?)?"
"""Of Services in the namespaces of Kubernetes."""
METADATA_ADDRESSES = ("169.254.169.254", "fd00:ec2::254")


class ModelProvider(StrEnum):
    """Whose protocol the model speaks."""

    ANTHROPIC = "anthropic"


class ModelProtocol(StrEnum):
    """How the model acts in a command."""

    TOOLS = "tools"
    ELISP = "elisp"


class Model(ApiModel):
    """The model that chats and commands ask. Absent: the instance does evals only."""

    provider: ModelProvider = Field(default=ModelProvider.ANTHROPIC, description="Protocol of the model's API.")
    base_url: str = Field(
        alias="baseURL",
        default="https://api.anthropic.com",
        max_length=2048,
        # Spelled out: what else counts as white space, the API server and Python see differently.
        pattern=r"^https?://[!\"$-.0->@-~]+(/[!\"$->@-~]*)?$",
        description="Base URL of the API.",
    )
    name: str = Field(min_length=1, max_length=256, description="Name of the model.")
    protocol: ModelProtocol = Field(
        default=ModelProtocol.TOOLS,
        description="tools: a command's model calls tools. elisp: each of its answers is one Lisp expression to run "
        "and says whether the session goes on.",
    )
    proxy_url: str | None = Field(
        default=None,
        alias="proxyURL",
        max_length=2048,
        pattern=r"^(https?|socks5h?)://[!\"$-.0->A-~]+/?$",
        description="Proxy on the way to the API, without user and password; without a port it is 1080, or 443 with "
        "https. Default: none.",
    )
    api_key_secret_ref: SecretKeyRef = Field(description="Where the API key lies.")
    max_tokens: int = Field(default=8192, ge=1, le=1_000_000, description="Longest answer of one turn, in tokens.")
    rules: ClassVar = tuple(
        Rule(
            # Not by the functions for URLs: what they return has no bound, and so no cost that would be accepted.
            f"!has(self.{field}) || "
            f"!self.{field}.matches('(?i)^[a-z0-9]+://([^/]*@)?({pattern})[.]?(:[0-9]*)?(/.*)?$')",
            f"{field} {message}",
        )
        for field in ("baseURL", "proxyURL")
        for pattern, message in (
            (
                METADATA_HOSTS,
                "is a link-local address or a metadata service, from which a pod gets the credentials of its node: "
                "name the host of the model.",
            ),
            (SYSTEM_HOSTS, "is in a namespace of Kubernetes (kube-…): name the host of the model."),
        )
    )


class Limits(ApiModel):
    """Upper bounds of every request on this instance. A budget or timeout that asks for more is Rejected.

    What a session may use is counted over all its requests: continuing it begins no new count.
    """

    max_tool_calls: int = Field(
        default=30,
        ge=1,
        le=10_000,
        description="Tool calls of one session, all its commands together; one more breaks the circuit.",
    )
    max_repeated_calls: int = Field(
        default=3,
        ge=1,
        le=1000,
        description="Identical tool calls in a row in one session before the circuit breaks.",
    )
    max_iterations: int | None = Field(
        default=None,
        ge=1,
        le=10_000,
        description="Turns of the model in one session, all its requests together; one more breaks the circuit. "
        "Default: no bound.",
    )
    max_tokens: int | None = Field(
        default=None,
        ge=1,
        le=100_000_000,
        description="Tokens in and out of one session, all its requests together; no turn begins beyond them. "
        "Default: no bound.",
    )
    iteration_timeout_seconds: int | None = Field(
        default=None,
        ge=1,
        le=MAX_TIMEOUT_SECONDS,
        description="Longest time in seconds of one turn of a command or chat. Default: no bound.",
    )
    max_timeout_seconds: int = Field(
        default=MAX_TIMEOUT_SECONDS,
        ge=1,
        le=MAX_TIMEOUT_SECONDS,
        description="Longest spec.timeoutSeconds of a request in seconds; a longer one is Rejected. It "
        "bounds the two defaults below as well.",
    )
    max_request_bytes: int = Field(
        default=65_536,
        ge=1,
        le=1_048_576,
        description="Largest spec.content in bytes; a larger one is Rejected.",
    )
    max_result_bytes: int = Field(
        default=1_048_576,
        ge=1024,
        le=104_857_600,
        description="Largest result in bytes; a larger one is cut and says so.",
    )
    request_timeout_seconds: int = Field(
        default=30,
        ge=1,
        le=MAX_TIMEOUT_SECONDS,
        description="Longest running time in seconds of an eval that names none.",
    )
    command_timeout_seconds: int = Field(
        default=600,
        ge=1,
        le=MAX_TIMEOUT_SECONDS,
        description="Longest running time in seconds of a chat or command that names none.",
    )

    drain_seconds: int = Field(
        default=300,
        ge=10,
        le=MAX_TIMEOUT_SECONDS,
        description="Longest time in seconds that running work may go on when the pod is stopped (suspension, "
        "eviction, deletion). The pod gets the longest default timeout above and 10 s, at most this.",
    )


TOOL_NAMES = (
    "todo_add",
    "todo_update",
    "todo_status",
    "todo_next",
    "todo_get_instructions",
    "eval_sexp",
    "shell_exec",
    "file_read",
    "file_write",
    "file_edit",
    "file_search",
    "glob_files",
    "directory_files",
    "buffer_contents",
    "buffer_create",
    "buffer_edit",
    "warnings_buffer",
    "current_context",
    "function_at_point",
    "recent_changes",
)
"""The tools of the model, in the order in which they are offered; those that end a request cannot be denied."""

# Not a type of its own: an object that was stored with a name that a later version has not must still be read.
ToolName = Annotated[str, Field(max_length=128, json_schema_extra={"enum": list(TOOL_NAMES)})]


class Tools(ApiModel):
    """Which tools a command may use.

    Denying shell_exec while eval_sexp stays is no barrier: Lisp starts programs as well.
    """

    allow: tuple[ToolName, ...] = Field(default=(), max_length=100, description="Only these tools; empty: all.")
    deny: tuple[ToolName, ...] = Field(default=(), max_length=100, description="Never these tools.")


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
        description="NetworkPolicyPeers that may reach the instance, beside the operator.",
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
    """What is wanted. The operator never writes it."""

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
    pod_template: PodTemplate = Field(default=PodTemplate(), description=PodTemplate.__doc__)

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
    succeeded: int = Field(default=0, ge=0, description="Of these, with success.")
    failed: int = Field(default=0, ge=0, description="Of these, with an error.")
    interrupted: int = Field(default=0, ge=0, description="Of these, interrupted: what they did is unknown.")
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
    """What was observed."""

    phase: InstancePhase | None = Field(default=None, description="Derived from the conditions, for the column.")
    observed_generation: int | None = Field(default=None, ge=0, description="The spec this status speaks of.")
    conditions: tuple[Condition, ...] = Field(
        default=(),
        max_length=16,
        description="Ready (summary), QueueHealthy, EmacsResponsive, Suspended, "
        "Updated (the pod has the current template); with spec.model, ModelReady (its key can be used); once a "
        "self-check of Emacs has failed, SelfCheckPassed (it tells the last restart for that).",
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
    )
    queue: QueueStatus | None = Field(default=None, description=QueueStatus.__doc__)
    pod_name: str | None = Field(default=None, max_length=253, description="The pod that runs the daemon.")
    emacs_version: str | None = Field(default=None, max_length=64, description="Version of the running Emacs.")
    image: str | None = Field(default=None, max_length=1024, description="Image of the running Emacs.")
    start_time: Time | None = Field(default=None, description="When the pod was started.")
    last_activity_time: Time | None = Field(default=None, description="When work was last asked for or done.")
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

    kind: ClassVar = "EfritInstance"
    plural: ClassVar = "efritinstances"
    singular: ClassVar = "efritinstance"
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
