"""What was observed of one run: the requests, every status, what really ran, the files of the queues, the faults.

Data only. `recorder.py` and `collect.py` fill it, `checker.py` judges it, `timeline.py` prints it. Times are seconds
since the start of the run; nothing in here asks a cluster or a clock.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from efrit.protocol.ids import run_id
from efrit.queue.reserve import FILES
from tests.support.faults.pool_workload import PoolSpec

FINAL_PHASES = ("Succeeded", "Failed")

Json = Mapping[str, Any]


@dataclass(frozen=True)
class Digest:
    """A whole result by its size in bytes and its SHA-256: some have a megabyte."""

    size: int
    sha256: str

    @classmethod
    def of(cls, text: str | bytes) -> Digest:
        """Return the digest of a result."""
        data = text.encode() if isinstance(text, str) else text
        return cls(len(data), hashlib.sha256(data).hexdigest())


@dataclass(frozen=True)
class ExpectedEnd:
    """A way in which a request may end: reason, result (None: without one), number of runs.

    any_result: the result is not compared.
    """

    reason: str
    result: Digest | None = None
    runs: tuple[int, ...] = (1,)
    any_result: bool = False


@dataclass(frozen=True)
class SubmittedRequest:
    """A request that the API server accepted.

    marker: what its evals append to the counter file of their instance; unique.
    instances: names of the instances it may run on; more than one for a selector.
    attempts: how often it may be begun; 1 without a retry policy.
    ends: how it may end without faults.
    deleted: whether the workload deletes it before it is final.
    expires: whether it has a time to live, after which it is deleted.
    pool: the pool that it is for; its `instances` are then all members that the pool has had.
    session: id of the session that it goes on with.
    priority: its spec.priority.
    """

    namespace: str
    name: str
    uid: str
    at: float
    marker: str
    instances: tuple[str, ...]
    ends: tuple[ExpectedEnd, ...]
    attempts: int = 1
    deleted: bool = False
    expires: bool = False
    pool: str = ""
    flow: str = ""
    session: str = ""
    priority: int = 0


@dataclass(frozen=True)
class RequestVersion:
    """One version of a request, from a watch straight at the API server.

    event: ADDED, MODIFIED, DELETED; LISTED where the recorder had to list after its own watch broke; UNSEEN where
    that list had the request no more: it ended and was deleted meanwhile, and its end was not observed.
    """

    at: float
    event: str
    namespace: str
    name: str
    uid: str
    resource_version: int
    status: Json
    cancel: bool = False

    @property
    def phase(self) -> str:
        """Phase in the status; empty without one."""
        return str(self.status.get("phase", ""))

    @property
    def reason(self) -> str:
        """Reason in the status; empty without one."""
        return str(self.status.get("reason", ""))

    @property
    def final(self) -> bool:
        """Whether the status is final."""
        return self.phase in FINAL_PHASES

    @property
    def preemption(self) -> Json:
        """How it was interrupted for other requests, empty where it was not."""
        preemption: Json = self.status.get("preemption") or {}
        return preemption


@dataclass(frozen=True)
class ObjectVersion:
    """One version of an instance, a StatefulSet, a plan, a pool or a claim, from a watch straight at the API server.

    kind: the plural of the resource. instance: the instance it is, or belongs to.
    mode: operatingMode of an instance. replicas: of a StatefulSet. suspended, final: of a plan; final of a claim too.
    owner: kind and name of the controlling owner. instance_uid: of what a claim has. revision: of a pool's template,
    or the one that a member was made from. ready: whether an instance is Ready; asleep: suspended for idleness.
    smallest, largest: how many members a pool may have. broken: whether the template, or the member, has an image
    that no node can pull.
    """

    at: float
    event: str
    kind: str
    namespace: str
    name: str
    uid: str
    resource_version: int
    instance: str
    mode: str = ""
    replicas: int = 0
    suspended: bool = False
    final: bool = False
    owner: str = ""
    owner_uid: str = ""
    instance_uid: str = ""
    revision: str = ""
    ready: bool = False
    asleep: bool = False
    smallest: int = 0
    largest: int = 0
    phase: str = ""
    broken: bool = False


@dataclass(frozen=True)
class Execution:
    """A line of a counter file: an eval really ran, at `written` by the clock of its Emacs."""

    namespace: str
    instance: str
    marker: str
    pid: int = 0
    written: float = 0.0


@dataclass(frozen=True)
class QueueFile:
    """A file on a queue at the end of the run. `queue` distinguishes the queues an instance has had."""

    namespace: str
    instance: str
    queue: str
    area: str
    name: str
    live: bool = True
    """False for a queue that went with its pod: no bridge can tidy it."""

    @property
    def may_stay(self) -> bool:
        """Whether it may be there at rest: a run's pause, or of the reserve for answers on a full volume.

        A pod that was deleted by force may write the pause after its successor has started: it is for the Emacs of
        that run alone, and goes at the next start.
        """
        prefix, _, number = self.name.partition("_")
        if not number.isdigit():
            return False
        return (self.area, prefix) == ("control", "pause") or (
            (self.area, prefix) == ("tmp", "reserve") and int(number) < FILES
        )


@dataclass(frozen=True)
class Answer:
    """A response file in archive/ or responses/ at the end of the run. `uid`: id of the run that it answers."""

    namespace: str
    instance: str
    queue: str
    area: str
    uid: str
    response: Json


@dataclass(frozen=True)
class Note:
    """An event of the run: who did what, to which request or instance, if to any."""

    at: float
    actor: str
    event: str
    request: str = ""
    instance: str = ""
    fault: bool = False


@dataclass(frozen=True)
class Loss:
    """An Emacs that ended while it may have had requests, or a whole queue that went with its pod.

    begin, end: between which moments it happened, as far as is known.
    """

    namespace: str
    instance: str
    begin: float
    end: float
    cause: str
    queue: bool = False
    runs: int = 1
    """How many runs it may have interrupted."""
    held_back: bool = False
    """Whether the pod was replaced only for a changed template: the operator promises to wait until it is idle."""
    graceful: bool = False
    """Whether what ran had the time to end: only what went with a queue can be lost."""


@dataclass(frozen=True)
class Eviction:
    """An eviction of an instance's pod that the API server has let happen, asked for at `at`."""

    at: float
    instance: str


REMOVED = ("DELETED", "UNSEEN")
"""Events after which a request no longer exists."""


@dataclass(frozen=True)
class Allowance:
    """An end that a fault allows a request although it would not end so without the fault.

    instance, request: limit it to one of either; empty allows all.
    """

    reason: str
    why: str
    instance: str = ""
    request: str = ""
    runs: tuple[int, ...] = (0, 1)


@dataclass(frozen=True)
class History:
    """Everything observed of one run, in the order of observation.

    results: the whole result by UID, read as a user would: from the status, the Secret or the workspace file.
    secrets: (namespace, name) of the result Secrets that existed at the end.
    healed_at: when the last fault was over. recovery_seconds: within which all requests must be final after that.
    namespaces_deleted: their requests need not end, but must not run twice or be left on a live queue.
    namespaces_left: those of them that still existed at the end.
    instances_ready: whether each instance was ready at the end, by (namespace, name).
    hits: how often each kind of fault was really injected.
    objects: versions of instances, StatefulSets, plans, pools and claims.
    pool: the pool of the schedule. pool_unsettled: how the pool or its claims were not at rest at the end, if so.
    deleted_by_users: names of the members that users have deleted.
    evictions: those of members' pods that were not refused.
    undisturbed: spans in which a controller led and the API server answered, without the time to settle.
    tenant_fault_until: when the fault of the other tenant was ended; None without one.
    other_tenant_open: names of the other tenant's requests that were open at the end.
    watch_gaps: when the recorder's own watch broke.
    """

    submitted: tuple[SubmittedRequest, ...]
    versions: tuple[RequestVersion, ...] = ()
    ran: tuple[Execution, ...] = ()
    files: tuple[QueueFile, ...] = ()
    answers: tuple[Answer, ...] = ()
    results: Mapping[str, Digest] = field(default_factory=dict)
    secrets: tuple[tuple[str, str], ...] = ()
    notes: tuple[Note, ...] = ()
    losses: tuple[Loss, ...] = ()
    allowances: tuple[Allowance, ...] = ()
    watch_gaps: tuple[float, ...] = ()
    namespaces_deleted: tuple[str, ...] = ()
    namespaces_left: tuple[str, ...] = ()
    instances_ready: Mapping[tuple[str, str], bool] = field(default_factory=dict)
    hits: Mapping[str, int] = field(default_factory=dict)
    objects: tuple[ObjectVersion, ...] = ()
    pool: PoolSpec | None = None
    pool_unsettled: str = ""
    deleted_by_users: tuple[str, ...] = ()
    undisturbed: tuple[tuple[float, float], ...] = ()
    evictions: tuple[Eviction, ...] = ()
    tenant_fault_until: float | None = None
    other_tenant_open: tuple[str, ...] = ()
    healed_at: float = 0.0
    ended_at: float = 0.0
    recovery_seconds: float = 60.0

    @cached_property
    def by_uid(self) -> Mapping[str, SubmittedRequest]:
        """The submitted requests by UID."""
        return {request.uid: request for request in self.submitted}

    @cached_property
    def versions_of(self) -> Mapping[str, tuple[RequestVersion, ...]]:
        """Versions by UID, in order of the API server's resource versions, each once."""
        by_uid: dict[str, dict[tuple[int, bool], RequestVersion]] = {}
        for version in self.versions:
            by_uid.setdefault(version.uid, {}).setdefault(
                (version.resource_version, version.event in REMOVED), version
            )
        return {uid: tuple(versions[key] for key in sorted(versions)) for uid, versions in by_uid.items()}

    def last(self, request: SubmittedRequest) -> RequestVersion | None:
        """Return the newest version of a request."""
        versions = self.versions_of.get(request.uid, ())
        return versions[-1] if versions else None

    def final(self, request: SubmittedRequest) -> RequestVersion | None:
        """Return the first final version of a request."""
        return next((version for version in self.versions_of.get(request.uid, ()) if version.final), None)

    @cached_property
    def _runs(self) -> Mapping[tuple[str, str], int]:
        counts: dict[tuple[str, str], int] = {}
        for execution in self.ran:
            counts[execution.namespace, execution.marker] = counts.get((execution.namespace, execution.marker), 0) + 1
        return counts

    def of_run(self, uid: str) -> SubmittedRequest | None:
        """Return the request of a run, whose id is its UID, with a number where an earlier run was interrupted."""
        return self.by_uid.get(uid.partition(".")[0])

    def preemptions(self, request: SubmittedRequest) -> int:
        """Return how many runs of a request were interrupted for other requests."""
        last = self.last(request)
        return int(last.preemption.get("count", 0)) if last is not None else 0

    def last_run(self, request: SubmittedRequest) -> str:
        """Return the id of the last run of a request."""
        return run_id(request.uid, self.preemptions(request))

    def homes(self, request: SubmittedRequest) -> tuple[str, ...]:
        """Return the instances that may have had a request: of a pool's members those it was given to."""
        if not request.pool:
            return request.instances
        names = (version.status.get("instanceName") for version in self.versions_of.get(request.uid, ()))
        return tuple(dict.fromkeys(str(name) for name in names if name))

    def runs(self, request: SubmittedRequest) -> int:
        """Return how often a request really began to run, by its marker in the counter files."""
        return self._runs.get((request.namespace, request.marker), 0)

    def to_json(self) -> str:
        """Return the history as JSON, for a file beside the timeline."""
        plain = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        plain["instances_ready"] = [[*key, value] for key, value in self.instances_ready.items()]
        return json.dumps(plain, default=_plain, indent=1)


def _plain(value: object) -> object:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    raise TypeError(f"{type(value)} has no JSON form")
