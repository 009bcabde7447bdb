"""The client of a run's workload: carries out what users do, on every tier, and notes when.

`create_instance`, `submit` and `perform` may block while the API server is away: they need their own thread.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from efrit import resources
from efrit.errors import ApiError, ApiUnreachable
from tests.support.faults.history import Eviction, ExpectedEnd, Loss, Note, SubmittedRequest
from tests.support.faults.pool_workload import BROKEN_IMAGE, MEMBER, ClaimSpec, PoolSpec
from tests.support.faults.schedule import POOL_OPS, Op, Schedule, Step
from tests.support.faults.workload import InstanceSpec, RequestSpec, SuspendedPlanSpec
from tests.support.kube import Json, Kube

SUSPENDED = "suspended"
"""Cause of a loss that may not happen: an instance that is resumed at once may keep its pod."""
TRY_AGAIN = (429, 500, 502, 503, 504)


class Cluster(Protocol):
    """What runs share on a tier, as far as users know it."""

    kube: Kube

    def repair(self) -> None:
        """Bring back the programs that a fault took away."""


class Clock:
    """Seconds since the run began; 0 until then."""

    def __init__(self) -> None:
        self._began: float | None = None
        self.epoch = 0.0

    def start(self) -> None:
        """Begin to count."""
        self._began, self.epoch = time.monotonic(), time.time()

    def __call__(self) -> float:
        """Return the seconds since `start`."""
        return 0.0 if self._began is None else time.monotonic() - self._began


class WorkloadClient:
    """The users of one run. Everything here may be used from any thread."""

    cluster: Cluster
    namespace = ""
    """Where the run takes place; empty until it is created."""

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self.clock = Clock()
        self.notes: list[Note] = []
        self.losses: list[Loss] = []
        self._open_losses: list[tuple[int, str]] = []
        self.submitted: list[SubmittedRequest] = []
        self.created_at: dict[str, float] = {}
        self.namespace_deleted = False
        self.deleted_members: list[str] = []
        self.evictions: list[Eviction] = []
        self.hits: Counter[str] = Counter()
        self._lock = threading.Lock()

    def note(
        self,
        actor: str,
        event: str,
        *,
        request: str = "",
        instance: str = "",
        fault: bool = False,
        at: float | None = None,
    ) -> None:
        """Note that something happened, now or at `at` by the clock of the run."""
        with self._lock:
            self.notes.append(Note(self.clock() if at is None else at, actor, event, request, instance, fault))

    # What users do: may block, in a thread of its own

    def create_instance(self, instance: InstanceSpec) -> None:
        """Create an instance."""
        if instance.name in self.created_at:
            return
        self.note("user", "creates the instance", instance=instance.name)
        self.retry(lambda: self._create("efritinstances", instance.manifest()))
        self.created_at[instance.name] = self.clock()

    def create_suspended_plan(self, suspended: SuspendedPlanSpec) -> None:
        """Create a plan that is suspended."""
        self.note("user", f"creates the suspended plan {suspended.name}", instance=suspended.instance)
        self.retry(lambda: self._create("efritplans", suspended.manifest()))

    def create_pool(self, pool: PoolSpec) -> None:
        """Create a pool."""
        if pool.name in self.created_at:
            return
        self.note("user", "creates the pool", instance=pool.name)
        manifest = pool.manifest()
        manifest["spec"]["template"]["spec"] |= self.member_spec(pool)
        self.retry(lambda: self._create("efritpools", manifest))
        self.created_at[pool.name] = self.clock()

    def create_claim(self, claim: ClaimSpec) -> None:
        """Create a claim of a member."""
        self.note("user", f"creates the claim {claim.name}")
        self.retry(lambda: self._create("efritclaims", claim.manifest()))

    def submit(self, request: RequestSpec) -> None:
        """Create a request, and record it as submitted."""
        began = self.clock()
        created = self.retry(lambda: self._create("efritrequests", request.manifest()))
        if created is None:
            self.note("user", "could not create it: the namespace is being deleted", request=request.name)
            return
        with self._lock:
            self.submitted.append(
                SubmittedRequest(
                    namespace=self.namespace,
                    name=request.name,
                    uid=created["metadata"]["uid"],
                    at=began,
                    marker=request.marker,
                    instances=request.target_instances(self.schedule.instances),
                    ends=self._ends(request),
                    attempts=request.attempts,
                    deleted=request.deleted,
                    expires=request.ttl is not None,
                    pool=request.pool,
                    flow=request.flow,
                    session=request.session,
                    priority=request.priority,
                )
            )

    def _ends(self, request: RequestSpec) -> tuple[ExpectedEnd, ...]:
        """Return how a request may end without faults, one of a pool that lets few wait included."""
        pool = self.schedule.pool
        turned_away = (ExpectedEnd("Rejected", runs=(0,)),) if request.pool and pool and pool.max_pending else ()
        return request.ends() + turned_away

    def member_spec(self, pool: PoolSpec) -> Json:
        """Return what the template of a pool has beside what its specification says."""
        del pool
        return {}

    def members(self) -> tuple[str, ...]:
        """Return the names of the pool's members, as last seen."""
        return ()

    def hit_by(self, step: Step) -> str:
        """Return the name of the instance that a step is about; empty where the pool has no member."""
        if not step.target.startswith(MEMBER):
            return step.target
        members = self.members()
        return members[int(step.target.removeprefix(MEMBER)) % len(members)] if members else ""

    def _change_pool(self, step: Step) -> None:
        """Do what a user does to a pool, to a member or to a claim."""
        kube, where, name = self.cluster.kube, self.namespace, step.target
        match step.op:
            case Op.SCALE:
                body: Json = {"spec": {"replicas": int(step.detail)}}
                self.retry(lambda: kube.patch("efritpools", where, name, body))
            case Op.TEMPLATE:
                template: Json = {"spec": {"template": {"spec": {"emacs": self.changed_emacs()}}}}
                self.retry(lambda: kube.patch("efritpools", where, name, template))
            case Op.BREAK | Op.ROLL_BACK:
                image = BROKEN_IMAGE if step.op is Op.BREAK else None
                broken: Json = {"spec": {"template": {"spec": {"emacs": {"image": image}}}}}
                self.retry(lambda: kube.patch("efritpools", where, name, broken))
            case Op.RELEASE:
                released: Json = {"spec": {"released": True}}
                self.retry(lambda: kube.patch("efritclaims", where, name, released))
            case Op.DELETE_CLAIM:
                self._delete("efritclaims", name)
            case Op.DELETE_MEMBER:
                if not (member := self.hit_by(step)):
                    self.note("user", "there is no member to delete")
                    return
                self.deleted_members.append(member)
                self.record_loss(member, self.clock(), float("inf"), step.op.value, queue=True)
                self._delete("efritinstances", member)

    def perform(self, step: Step) -> None:
        """Do what a user does to a request or an instance that exists."""
        if step.op in POOL_OPS:
            self.note("user", f"{step.op.value} {step.target} {step.detail}".strip())
            self._change_pool(step)
            return
        kube, where, name = self.cluster.kube, self.namespace, step.target
        of_request = step.op in (Op.CANCEL, Op.DELETE)
        request, instance = (name, "") if of_request else ("", name)
        self.note("user", step.op.value, request=request, instance=instance)
        began = self.clock()

        def change(**spec: object) -> Json | None:
            return self.retry(lambda: kube.patch("efritinstances", where, name, {"spec": spec}))

        match step.op:
            case Op.CANCEL:
                body = {"spec": {"cancel": True}}
                self.retry(lambda: kube.patch("efritrequests", where, name, body))
            case Op.DELETE:
                self._delete("efritrequests", name)
            case Op.SUSPEND:
                self.record_loss(name, began, None, SUSPENDED, queue=True)
                change(operatingMode="Suspended")
            case Op.RESUME:
                change(operatingMode="Running")
            case Op.CHANGE:
                self.record_loss(name, began, None, "its pod template was changed", queue=True, held_back=True)
                change(emacs=self.changed_emacs())
            case Op.DELETE_NAMESPACE:
                self.namespace_deleted = True
                self.retry(lambda: kube.call("DELETE", resources.NAMESPACES.path(name=where)))
        self.note("user", f"{step.op.value}: done", request=request, instance=instance)

    def _create(self, plural: str, manifest: Json) -> Json:
        try:
            return self.cluster.kube.create(plural, self.namespace, manifest, fieldValidation="Strict")
        except ApiError as error:
            # An earlier attempt was carried out though its answer was lost.
            if error.status == 409:
                return self.cluster.kube.get(plural, self.namespace, manifest["metadata"]["name"])
            raise

    def _delete(self, plural: str, name: str) -> None:
        path = self.cluster.kube.path(plural, self.namespace, name)
        self.retry(lambda: self.cluster.kube.call("DELETE", path))

    def retry(self, call: Callable[[], Json]) -> Json | None:
        """Call until the API server has answered. Return None where the object is gone."""
        while True:
            try:
                return call()
            except ApiUnreachable:
                pass
            except ApiError as error:
                gone = error.status == 404 or (error.status in (403, 409) and self.namespace_deleted)
                if gone:
                    return None
                if error.status not in TRY_AGAIN:
                    raise
            time.sleep(0.1)

    def changed_emacs(self) -> Json:
        """Return a change of spec.emacs that needs a new pod."""
        return {"daemonName": f"d{round(self.clock() * 1000)}"}

    # Losses

    def record_loss(
        self,
        instance: str,
        begin: float,
        end: float | None,
        cause: str,
        *,
        queue: bool = False,
        held_back: bool = False,
        graceful: bool = False,
    ) -> None:
        """Record that an Emacs ended.

        queue: whether a queue that lives in the pod went with it. end: None until the pod has been replaced.
        """
        ephemeral = any(spec.name == instance and spec.ephemeral_queue for spec in self.schedule.instances)
        if self.schedule.pool is not None and not self.is_instance(instance):
            ephemeral = self.schedule.pool.ephemeral_queue or instance in self.deleted_members
        loss = Loss(
            self.namespace,
            instance,
            begin,
            end or float("inf"),
            cause,
            queue and ephemeral,
            held_back=held_back,
            graceful=graceful,
        )
        serving = self.serving(instance)
        with self._lock:
            self._open_losses += [(len(self.losses), serving)] if end is None else []
            self.losses.append(loss)

    def record_eviction(self, instance: str, at: float, cause: str) -> None:
        """Record that a pod was evicted: what runs may end, what waits in a queue on storage runs elsewhere."""
        self.record_loss(instance, at, None, cause, queue=True, graceful=True)
        with self._lock:
            self.evictions.append(Eviction(at, instance))

    def serving(self, instance: str) -> str:
        """Return the UID of the pod whose Emacs serves an instance; empty while none does."""
        return ""

    @property
    def awaits_replacement(self) -> bool:
        """Return whether a pod still serves that is to be replaced: it may yet take requests with it."""
        with self._lock:
            waiting = [self.losses[index] for index, before in self._open_losses if before]
        return any(loss.cause != SUSPENDED and not self.is_gone(loss.instance) for loss in waiting)

    def is_gone(self, instance: str) -> bool:
        """Return whether an instance was deleted: nothing replaces its pod."""
        del instance
        return False

    def close_losses(self) -> None:
        """End the losses whose pod has been replaced."""
        with self._lock:
            waiting, self._open_losses = self._open_losses, []
        for index, before in waiting:
            now = self.serving(self.losses[index].instance)
            replaced = before and now and now != before
            with self._lock:
                if replaced:
                    self.losses[index] = replace(self.losses[index], end=self.clock())
                else:
                    self._open_losses.append((index, before))

    def is_instance(self, name: str) -> bool:
        """Return whether the schedule has an instance of this name."""
        return any(instance.name == name for instance in self.schedule.instances)

    def closed_losses(self, ended_at: float) -> tuple[Loss, ...]:
        """Return the losses, those that are still open ended at `ended_at`."""
        return tuple(loss if loss.end < ended_at else replace(loss, end=ended_at) for loss in self.losses)
