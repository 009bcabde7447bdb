"""The schedule of a run as data: the workload, the steps of users and of the nemesis, and their triggers.

`generators` make schedules from seeds; `Schedule.describe` says all of one. Nothing in here runs anything.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import StrEnum

from tests.support.faults.api_proxy.rules import Effect
from tests.support.faults.pool_workload import ClaimSpec, PoolSpec
from tests.support.faults.workload import InstanceSpec, RequestSpec, SuspendedPlanSpec


class Theme(StrEnum):
    """What kind of faults a seed is about."""

    PROCESSES = "processes"
    """Whatever runs is killed, stopped for a while, or deleted."""
    CALLS = "calls"
    """Single calls and watches of the controller fail, through a proxy."""
    LEADERS = "leaders"
    """Two controllers; the leader is stopped beyond its lease, or killed."""
    NAMESPACE = "namespace"
    """The namespace is deleted while work runs."""
    FILES = "files"
    """A call of a bridge or an Emacs on its queue fails, or its process is killed at it."""
    CLOCKS = "clocks"
    """The clock of a pod or a controller jumps by an hour."""
    FROZEN = "frozen"
    """A process is stopped for a minute and a half."""
    AWAY = "away"
    """The API server is away for two minutes."""
    IDLE = "idle"
    """Instances with spec.idle, among them some with long evals and suspended plans; the controller is restarted."""
    ROLLOUT = "rollout"
    """Pod templates are changed and the operator is upgraded under load."""
    REFUSALS = "refusals"
    """An admission policy or a quota temporarily refuses what the operator creates."""
    VOLUMES = "volumes"
    """A volume has no bytes or no inodes left, or its fsync hangs."""
    TENANTS = "tenants"
    """A second namespace that is served as well is deleted, forbidden, refused, flooded, or its bridge is stopped."""
    TERMINATING = "terminating"
    """A deleted pod stays Terminating while its containers go on, as on a lost node."""
    POOLS = "pools"
    """A pool shares its members between flows and lends some; it is scaled and changed, members and calls fail."""
    NODE = "node"
    """The node loses its kubelet, its container runtime, its power or a part of its network (real cluster only)."""


class Op(StrEnum):
    """An operation of a step: of a user, or a fault of the nemesis."""

    CANCEL = "cancel"
    DELETE = "delete"
    SUSPEND = "suspend"
    RESUME = "resume"
    CHANGE = "change the pod template of"
    DELETE_NAMESPACE = "delete the namespace"
    SCALE = "scale the pool"
    TEMPLATE = "change the template of the pool"
    BREAK = "roll out a broken image in the pool"
    ROLL_BACK = "roll back the image of the pool"
    DELETE_MEMBER = "delete the member"
    RELEASE = "release the claim"
    DELETE_CLAIM = "delete the claim"

    KILL_CONTROLLER = "SIGKILL controller"
    STOP_CONTROLLER = "SIGSTOP controller"
    KILL_BRIDGE = "SIGKILL bridge"
    STOP_BRIDGE = "SIGSTOP bridge"
    KILL_EMACS = "SIGKILL Emacs"
    STOP_EMACS = "SIGSTOP Emacs"
    KILL_POD = "SIGKILL every process of the pod"
    DELETE_POD = "delete the pod"
    FORCE_POD = "delete the pod without grace"
    KILL_API = "SIGKILL API server"
    STOP_API = "SIGSTOP API server"
    KILL_ETCD = "SIGKILL etcd"
    STOP_ETCD = "SIGSTOP etcd"
    CALL = "API call or watch"
    FILE = "file call"
    SET_CLOCK = "set the clock of"
    UPGRADE = "upgrade the bridge's image and restart the controller"
    REFUSE = "have an admission policy refuse"
    QUOTA = "have a quota refuse"
    FILL = "fill a volume of"
    KEEP_POD = "delete the pod and keep it Terminating"
    DELETE_TENANT = "delete the other namespace"
    FORBID_TENANT = "take away the rights in the other namespace"
    REFUSE_TENANT = "refuse all the operator creates in the other namespace"
    STOP_TENANT = "SIGSTOP the bridge of the other namespace"
    FLOOD_TENANT = "create requests in the other namespace"

    EVICT_POD = "evict the pod"
    CUT_BRIDGE = "drop every packet between the pod and other pods"
    CUT_CONTROLLER = "drop every packet between the API server and the controller"
    ROLL_CONTROLLER = "upgrade the controller"
    KILL_KUBELET = "SIGKILL kubelet"
    KILL_RUNTIME = "SIGKILL containerd"
    KILL_NODE = "SIGKILL every process of every pod, containerd and kubelet"

    @property
    def fault(self) -> bool:
        """Whether it is a fault, not an operation of a user."""
        return self not in USER_OPS


POOL_OPS = frozenset({Op.SCALE, Op.TEMPLATE, Op.BREAK, Op.ROLL_BACK, Op.DELETE_MEMBER, Op.RELEASE, Op.DELETE_CLAIM})
USER_OPS = POOL_OPS | {Op.CANCEL, Op.DELETE, Op.SUSPEND, Op.RESUME, Op.CHANGE, Op.DELETE_NAMESPACE}


@dataclass(frozen=True)
class Trigger:
    """When a step is due: at `at` seconds, or once `running` has begun or `answered` requests are final.

    noted: or once these have been noted, each as a part of an event and one after the other; for what follows on
    something that takes its time.
    """

    at: float
    running: str = ""
    answered: int = 0
    noted: tuple[str, ...] = ()

    def is_due(self, now: float, running: Collection[str], answered: int, events: Iterable[str]) -> bool:
        """Return whether it is due at `now`.

        running: names of the requests that have begun. answered: how many are final. events: what was noted so far.
        """
        if now >= self.at:
            return True
        if self.running:
            return self.running in running
        if self.noted:
            remaining = iter(events)
            return all(any(part in event for event in remaining) for part in self.noted)
        return bool(self.answered) and answered >= self.answered

    def __str__(self) -> str:
        latest = f"at {self.at:.2f} s"
        if self.running:
            return f"when {self.running} runs, at the latest {latest}"
        if self.answered:
            return f"when {self.answered} are final, at the latest {latest}"
        if self.noted:
            return f"when it was noted: {', then '.join(self.noted)}; at the latest {latest}"
        return latest


@dataclass(frozen=True)
class CallFault:
    """A fault of one call or watch event of the controller; fields left empty match all."""

    effect: Effect
    verb: str = ""
    resource: str = ""
    sub: str = ""
    final: bool = False
    """Only a write of a final status, or an event that shows one."""
    skip: int = 0
    times: int = 1
    seconds: float = 1.0

    def __str__(self) -> str:
        about = f"{self.resource}/{self.sub}" if self.sub else self.resource
        parts = [self.effect.value, self.verb, about, "final" if self.final else ""]
        return " ".join(filter(None, parts)) + f" (after {self.skip}, {self.times} times, {self.seconds} s)"


class FileEffect(StrEnum):
    """What a fault does to a call that changes a file."""

    KILL_BEFORE = "SIGKILL before"
    KILL_AFTER = "SIGKILL after"
    EIO = "EIO"
    ENOSPC = "ENOSPC"
    SHORT = "half written, ENOSPC"
    HANG = "hangs"
    """It returns only when the fault is over."""


@dataclass(frozen=True)
class FileFault:
    """A fault of the calls of `program` (bridge, emacs or any) to paths that match, after the first `skip`.

    operation: create, write, fsync, link, rename, unlink …, or * for all. lasting: until it is ended, not once.
    """

    effect: FileEffect
    program: str
    operation: str
    path: str
    skip: int = 0
    lasting: bool = False

    def __str__(self) -> str:
        how = "lasting" if self.lasting else f"after {self.skip}"
        return f"{self.effect.value} of {self.program}: {self.operation} {self.path} ({how})"


@dataclass(frozen=True)
class Step:
    """One operation with its trigger. `seconds`: how long a fault lasts; 0: it ends at once or never.

    target: an instance, or `member-N` for a member of the pool. hours: what a clock is set forward by.
    detail: what is refused, which volume is filled with what, or how many members the pool is to have.
    """

    op: Op
    trigger: Trigger
    target: str = ""
    seconds: float = 0.0
    call: CallFault | None = None
    file: FileFault | None = None
    hours: int = 0
    detail: str = ""

    def __str__(self) -> str:
        detail = str(self.call or self.file or (f"by {self.hours:+} h" if self.hours else self.detail))
        what = " ".join(filter(None, (self.op.value, self.target, detail)))
        return f"{self.trigger}: {what}" + (f" for {self.seconds:.1f} s" if self.seconds else "")


@dataclass(frozen=True)
class Schedule:
    """One run. `controllers`: how many there are; `warm`: whether it begins once the first instance is ready."""

    seed: int
    theme: Theme
    instances: tuple[InstanceSpec, ...]
    requests: tuple[RequestSpec, ...]
    steps: tuple[Step, ...]
    controllers: int = 1
    warm: bool = True
    recovery_seconds: float = 180.0
    plans: tuple[SuspendedPlanSpec, ...] = ()
    pool: PoolSpec | None = None
    claims: tuple[ClaimSpec, ...] = ()

    @property
    def faults(self) -> tuple[Step, ...]:
        """The steps that are faults."""
        return tuple(step for step in self.steps if step.op.fault)

    def requests_from(self, op: Op | None) -> tuple[RequestSpec, ...]:
        """Return the requests whose time counts from a step of this operation, with None from the beginning.

        Those that go on with a session are not among them: each comes once the one before it has ended.
        """
        after = op.value if op is not None else ""
        return tuple(request for request in self.requests if request.after == after and not request.continues)

    def describe(self) -> str:
        """Return the whole schedule as text, to read and to compare."""
        lines = [
            f"seed {self.seed}, {self.theme.value}: {len(self.instances)} instances, {len(self.requests)} requests, "
            f"{len(self.faults)} faults, {self.controllers} controllers, {'warm' if self.warm else 'cold'}"
        ]
        lines += [f"  {_instance(instance)}" for instance in self.instances]
        lines += [f"  {self.pool}"] if self.pool is not None else []
        lines += [f"  {claim}" for claim in self.claims]
        lines += [f"  plan {plan.name} at {plan.at:.2f} s: suspended, on {plan.instance}" for plan in self.plans]
        lines += [f"  {_request(request)}" for request in self.requests]
        lines += [f"  {'!!' if step.op.fault else '--'} {step}" for step in self.steps]
        return "\n".join(lines)


def _instance(instance: InstanceSpec) -> str:
    parts = [f"instance {instance.name} at {instance.at:.2f} s"]
    parts.append("queue ephemeral" if instance.ephemeral_queue else "queue on a claim")
    parts.append(f"maxPending {instance.max_pending}")
    parts += [f"idle: suspended after {instance.suspend_after} s"] if instance.suspend_after else []
    parts += [f"idle: deleted after {instance.delete_after} s"] if instance.delete_after else []
    return ", ".join(parts)


def _request(request: RequestSpec) -> str:
    target = f"pool {request.pool}" if request.pool else request.instance or f"team {request.team}"
    since = f" after {request.after}" if request.after else ""
    parts = [f"{request.name} at {request.at:.2f} s{since}: {request.kind.value} on {target}"]
    parts += [f"flow {request.flow}"] if request.flow else []
    parts += [f"in the session of {request.continues}"] if request.continues else []
    options = {
        "seconds": request.seconds,
        "size": request.size,
        "timeout": request.timeout,
        "queue timeout": request.queue_timeout,
        "priority": request.priority,
    }
    parts += [f"{name} {value}" for name, value in options.items() if value]
    parts += [f"{request.attempts} attempts"] if request.attempts > 1 else []
    parts += [f"time to live {request.ttl} s"] if request.ttl is not None else []
    parts += ["cancelled"] if request.cancelled else []
    parts += ["deleted"] if request.deleted else []
    return ", ".join(parts)
