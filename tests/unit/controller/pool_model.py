"""A pool in a world of its own: a cluster that is a few dictionaries, the real store, the real decisions.

Each event goes to the store as from the watch; keys are reconciled as the store requeues them and not otherwise,
so that a wake-up that is lost stays lost. A process that dies may do so before or after any of its writes.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from fractions import Fraction
from typing import Any

import msgspec

from efrit.api.pool import PoolTemplate
from efrit.api.request import MAX_PREEMPTIONS
from efrit.controller.decide.claims import decide_claim
from efrit.controller.decide.pools import decide_pool
from efrit.controller.decide.requests import decide_orphans, decide_request
from efrit.controller.manifests.member_owner import returned, taken
from efrit.controller.model.actions import (
    Acknowledge,
    Action,
    Bind,
    CancelWork,
    ConfirmHandover,
    ConfirmMissing,
    CreateMember,
    Decision,
    Delete,
    Drain,
    PatchStatus,
    RemoveInstance,
    RequeueAfter,
    ReturnMember,
    Scale,
    SettleOrphan,
    Submit,
    Superseded,
    TakeMember,
)
from efrit.controller.model.keys import Key, WorkKey
from efrit.controller.model.names import REVISION_LABEL
from efrit.controller.store.store import Store
from efrit.controller.work_queue import WorkQueue
from efrit.protocol import RequestReason, RequestState, request_id
from efrit.protocol.events import Reset
from efrit.protocol.ids import run_id
from efrit.protocol.view import RequestView
from tests.support.factory import (
    CONFIG,
    NAMESPACE,
    NOW,
    QUEUE_ID,
    Json,
    condition_json,
    request_json,
    response,
    statefulset_json,
    stats,
    wire_time,
)
from tests.unit.controller.store.world import child

CREW = (NAMESPACE, "crew")
POOL, MEMBER, REQUEST, CLAIM = "EfritPool", "EfritInstance", "EfritRequest", "EfritClaim"
FINAL = {"Succeeded", "Failed", "Expired", "Released"}
SETTLED_WITHIN = timedelta(seconds=30)
TEMPLATE = PoolTemplate().to_wire()
"""What the API server puts where none is given."""
MAX_SURGE = 1
"""Of a pool that says nothing else."""
MAX_STEPS = 3000
"""Reconciliations after one event; more of them never end."""


class Died(Exception):  # noqa: N818 - reads as what happened
    """The process is gone."""


class ManualQueue(WorkQueue):
    """Keys that wait, the oldest first, and those whose time is yet to come."""

    def __init__(self, clock: Callable[[], datetime]) -> None:
        self._clock = clock
        self.waiting: dict[WorkKey, None] = {}
        self.later: dict[WorkKey, datetime] = {}

    def add(self, key: WorkKey, *, first: bool = False, awaited: bool = False) -> None:
        self.waiting.setdefault(key)

    def add_all(self, kind: str, namespace: str, keys: Iterable[Key]) -> None:
        for key in keys:
            self.add(WorkKey(kind, *key))

    def add_background(self, key: WorkKey) -> None:
        """Leave out what is there to be on the safe side: it hides wake-ups that are lost."""

    def add_after(self, key: WorkKey, seconds: float) -> None:
        due = self._clock() + timedelta(seconds=seconds)
        self.later[key] = min(due, self.later.get(key, due))

    def add_background_after(self, key: WorkKey, seconds: float) -> None:
        """Leave it out, too."""

    def forget(self, key: WorkKey) -> None:
        self.later.pop(key, None)

    def settled(self, key: WorkKey) -> None:
        self.forget(key)
        self.waiting.pop(key, None)

    def is_loaded(self, namespace: str) -> bool:
        return False

    def set_aside(self, key: WorkKey) -> None:
        """Do nothing: one key is reconciled at a time."""


@dataclass
class Run:
    """What the queue of a member has of a request, by the id of its run."""

    id: str
    member: str
    request: str
    state: RequestState = RequestState.QUEUED
    reason: RequestReason | None = None
    """How it ended."""

    @property
    def view(self) -> RequestView:
        answer = response(self.id, reason=self.reason, result=self.id) if self.reason is not None else None
        metadata = {"name": self.request, "namespace": NAMESPACE}
        attempt = 0 if self.state == RequestState.QUEUED else 1
        return RequestView(
            id=request_id(self.id),
            state=self.state,
            queued_time=NOW,
            metadata=metadata,
            response=answer,
            attempt=attempt,
        )


class PoolWorld:
    """The cluster, and the process that leads."""

    def __init__(self) -> None:
        self.time = NOW
        self.objects: dict[tuple[str, str], Json] = {}
        self.serving: set[str] = set()
        """Members whose Emacs answers."""
        self.runs: dict[str, Run] = {}
        """What members were handed and is not acknowledged, by the id of the run."""
        self.over: set[str] = set()
        """Runs that have ended, acknowledged ones included."""
        self.placed: Counter[str] = Counter()
        """Requests of each flow that were bound while the same flows waited."""
        self.broken: list[str] = []
        self._versions = 100
        self._made = 0
        self._writes_left: int | None = None
        self._dies_after_write = False
        self._put(POOL, "crew", {"replicas": 2, "template": TEMPLATE, "fairness": {"flowLabel": "team"}})
        self.start()

    def now(self) -> datetime:
        return self.time

    # The cluster.

    def of(self, kind: str) -> dict[str, Json]:
        return {name: obj for (each, name), obj in self.objects.items() if each == kind}

    def open(self, kind: str) -> dict[str, Json]:
        return {name: obj for name, obj in self.of(kind).items() if obj["status"].get("phase") not in FINAL}

    def bound_to(self, member: str) -> list[str]:
        return [name for name, obj in self.open(REQUEST).items() if obj["status"].get("instanceName") == member]

    def members(self) -> dict[str, Json]:
        """Return the instances that the pool owns."""
        return {name: obj for name, obj in self.of(MEMBER).items() if _owner(obj)["kind"] == POOL}

    def waiting(self) -> dict[str, Json]:
        return {name: obj for name, obj in self.open(REQUEST).items() if "instanceName" not in obj["status"]}

    def _version(self) -> str:
        self._versions += 1
        return str(self._versions)

    def _put(self, kind: str, name: str, spec: Json, *, labels: Json | None = None, **meta: Any) -> Json:
        self._made += 1
        metadata = {
            "name": name,
            "namespace": NAMESPACE,
            "uid": f"uid-{name}-{self._made}",
            "generation": 1,
            "resourceVersion": self._version(),
            "creationTimestamp": wire_time(self.time),
            "labels": labels or {},
            **meta,
        }
        obj = {"kind": kind, "metadata": metadata, "spec": spec, "status": {}}
        self.objects[kind, name] = obj
        return obj

    def _changed(self, obj: Json) -> None:
        """Give an object its next version and tell of it, as a watch would."""
        obj["metadata"]["resourceVersion"] = self._version()
        self._observe(obj)

    def _observe(self, obj: Json) -> None:
        self.store.of(obj["kind"]).observe(_wired(obj))

    def _gone(self, kind: str, name: str) -> None:
        obj = self.objects.pop((kind, name))
        self.store.of(kind).observe_gone((NAMESPACE, name), obj["metadata"]["uid"])
        if kind == MEMBER:
            self.serving.discard(name)
            gone = {run.id for run in self.runs.values() if run.member == name}
            for run in gone:
                self._forget_run(run)
            for request in self.open(REQUEST).values():
                if _run_id(request) in gone:
                    request["status"].update(phase="Failed", reason="Interrupted")
                    self._changed(request)
        if kind == CLAIM:
            # Garbage collection.
            for member, instance in list(self.of(MEMBER).items()):
                if _owner(instance)["uid"] == obj["metadata"]["uid"]:
                    self._gone(MEMBER, member)

    # Events.

    def request(self, flow: str, priority: int, policy: str = "Never") -> None:
        name = f"r{self._made:03}"
        spec = request_json(name, target=None, poolRef={"name": "crew"}, priority=priority, retryPolicy=policy)[
            "spec"
        ]
        self._observe(self._put(REQUEST, name, spec, labels={"team": flow}))

    def end_request(self, which: int) -> None:
        running = [name for name, obj in self.open(REQUEST).items() if obj["status"].get("instanceName")]
        if running:
            obj = self.objects[REQUEST, running[which % len(running)]]
            self._forget_run(_run_id(obj))
            obj["status"].update(phase="Succeeded", reason="Succeeded")
            self._changed(obj)

    def _forget_run(self, run: str) -> None:
        self.over.add(run)
        self.runs.pop(run, None)

    def begin_run(self, which: int) -> None:
        """Have the Emacs of a member begin what it was handed."""
        self._move_run(which, RequestState.QUEUED, RequestState.RUNNING)

    def end_run(self, which: int) -> None:
        """Have what runs end by itself."""
        self._move_run(which, RequestState.RUNNING, RequestState.ANSWERED)

    def _move_run(self, which: int, before: RequestState, after: RequestState) -> None:
        runs = [run for run in self.runs.values() if run.state == before and run.member in self.serving]
        if runs:
            run = runs[which % len(runs)]
            run.state = after
            if after == RequestState.ANSWERED:
                self._answer(run, RequestReason.SUCCEEDED)
            self.store.bridges.event((NAMESPACE, run.member), f"pod-{run.member}", run.view)

    def _answer(self, run: Run, reason: RequestReason) -> None:
        run.state, run.reason = RequestState.ANSWERED, reason
        self.over.add(run.id)

    def delete_request(self, which: int) -> None:
        names = list(self.of(REQUEST))
        if names:
            self._gone(REQUEST, names[which % len(names)])

    def serve(self, which: int) -> None:
        """Have a member answer that does not yet."""
        names = [name for name in self.of(MEMBER) if name not in self.serving]
        if names:
            self._serve(names[which % len(names)])

    def _serve(self, name: str) -> None:
        self.serving.add(name)
        obj = self.objects[MEMBER, name]
        obj["status"]["conditions"] = [condition_json("Ready", "True", "Ready")]
        self._connect(name)
        self._changed(obj)

    def _connect(self, name: str) -> None:
        key, pod = (NAMESPACE, name), f"pod-{name}"
        meta = {**statefulset_json(name)["metadata"], "uid": f"ss-{name}"}
        meta["ownerReferences"] = [{"uid": self.objects[MEMBER, name]["metadata"]["uid"], "controller": True}]
        self.store.children.observe_statefulset({**statefulset_json(name), "metadata": meta})
        self.store.children.observe_pod(
            child(name=f"efrit-{name}-0", of=name, uid=pod, owner=f"ss-{name}", phase="Running", podIP="127.0.0.1")
        )
        self.store.bridges.event(key, pod, Reset(queue_id=QUEUE_ID, epoch="e"))
        for run in self.runs.values():
            if run.member == name:
                self.store.bridges.event(key, pod, run.view)
        self.store.bridges.event(key, pod, stats())
        snapshot = self.store.instances.snapshot(key)
        if snapshot is not None:
            # decide_instance opens it.
            obj = self.objects[MEMBER, name]
            obj["status"]["handover"] = {"state": "Open", "id": snapshot.facts.handover_id}
            self._changed(obj)

    def fall_silent(self, which: int) -> None:
        """Have a member answer no more."""
        names = sorted(self.serving)
        if names:
            name = names[which % len(names)]
            self.serving.discard(name)
            obj = self.objects[MEMBER, name]
            obj["status"]["conditions"] = [condition_json("Ready", "False", "Starting")]
            self.store.bridges.bridge_lost((NAMESPACE, name), f"pod-{name}", "it does not answer")
            self._changed(obj)

    def delete_member(self, which: int) -> None:
        names = list(self.of(MEMBER))
        if names:
            self._gone(MEMBER, names[which % len(names)])

    def change_pool(self, change: Mapping[str, Any]) -> None:
        obj = self.objects[POOL, "crew"]
        spec = {"fairness": {"flowLabel": "team"}, "placement": obj["spec"].get("placement", {}), "template": {}}
        spec["preemption"] = obj["spec"].get("preemption", "Never")
        size = {name: obj["spec"][name] for name in ("replicas", "autoscaling") if name in obj["spec"]}
        new = _wired({**spec, **size, **change})
        if "autoscaling" in change:
            new.pop("replicas", None)
        if "replicas" in change:
            new.pop("autoscaling", None)
        new["fairness"] = {"flowLabel": "team", **new["fairness"]}
        new["template"] = {**TEMPLATE, **new["template"]}
        obj["spec"] = new
        obj["metadata"]["generation"] += 1
        self.placed.clear()
        self._changed(obj)

    def claim(self, policy: str) -> None:
        name = f"c{self._made:03}"
        spec = {"poolRef": {"name": "crew"}, "release": policy, "ttlSeconds": 3600}
        self._observe(self._put(CLAIM, name, spec))

    def release(self, which: int) -> None:
        names = list(self.open(CLAIM))
        if names:
            obj = self.objects[CLAIM, names[which % len(names)]]
            obj["spec"]["released"] = True
            self._changed(obj)

    def delete_claim(self, which: int) -> None:
        names = list(self.of(CLAIM))
        if names:
            self._gone(CLAIM, names[which % len(names)])

    def die_at(self, write: int, *, after: bool) -> None:
        """Have the process die before or after one of its next writes."""
        self._writes_left, self._dies_after_write = write, after

    def wait(self, seconds: int) -> None:
        self.time += timedelta(seconds=seconds)

    # The process.

    def start(self) -> None:
        """Have a process lead that knows nothing but what the cluster says."""
        self._writes_left = None
        self.placed.clear()
        self.queue = ManualQueue(self.now)
        self.store = Store(self.queue, CONFIG, self.now, lambda: (self.time - NOW).total_seconds())
        # Lists come in any order.
        orders = list(itertools.permutations((MEMBER, REQUEST, POOL, CLAIM)))
        for kind in orders[self._versions % len(orders)]:
            for obj in self.of(kind).values():
                if obj["status"].get("phase") not in FINAL:
                    self._observe(obj)
        self.store.first_list_complete(None)
        for name in sorted(self.serving):
            self._connect(name)

    def settle(self) -> None:
        """Reconcile until nothing is left to do, and whoever dies meanwhile is replaced."""
        until = self.time + SETTLED_WITHIN
        for _ in range(MAX_STEPS):
            for key in [key for key, due in self.queue.later.items() if due <= self.time]:
                del self.queue.later[key]
                self.queue.add(key)
            if not self.queue.waiting:
                due = min(self.queue.later.values(), default=until)
                if due >= until:
                    return
                self.time = due
                continue
            key = next(iter(self.queue.waiting))
            del self.queue.waiting[key]
            try:
                self._reconcile(key)
            except Died:
                self.start()
        self.broken.append("reconciliations never end")

    def _reconcile(self, work: WorkKey) -> None:
        key, store = (work.namespace, work.name), self.store
        if work.kind == REQUEST:
            store.requests.assume(key, None)
            request = store.requests.snapshot(key)
            self._carry_out(work, decide_request(request, self.time) if request is not None else ())
            self._carry_out(work, decide_orphans(key, store.bridges.orphans(key)))
            store.requests.drop_if_done(key)
        elif work.kind == POOL:
            store.pools.requeue_waiting(key)
            pool = store.pools.snapshot(key)
            self._carry_out(work, decide_pool(pool, self.time) if pool is not None else ())
        elif work.kind == CLAIM:
            claim = store.claims.snapshot(key)
            self._carry_out(work, decide_claim(claim, self.time) if claim is not None else ())
            store.claims.drop_if_done(key)

    def _carry_out(self, work: WorkKey, actions: Iterable[Action]) -> None:
        try:
            for action in actions:
                self._act(work, action)
        except Superseded:
            return

    def _act(self, work: WorkKey, action: Action) -> None:
        match action:
            case RequeueAfter(after=after):
                self.queue.add_after(work, after.total_seconds())
            case Scale(pool=pool, pool_uid=uid, needed=needed, wanted=wanted):
                self.store.pools.scale(pool, uid, needed, wanted)
            case Drain(pool=pool, pool_uid=uid, members=members):
                self.store.pools.drain(pool, uid, members)
            case RemoveInstance(instance=instance, only_idle=only_idle):
                self._remove(action, instance, only_idle=only_idle)
            case ConfirmMissing(instance=instance) if (MEMBER, instance[1]) in self.objects:
                raise Superseded("the instance exists")
            case ConfirmHandover(instance=instance) if (MEMBER, instance[1]) not in self.objects:
                raise Superseded("the instance is gone")
            case Submit(instance=instance, request_key=key, handover_id=handover):
                uid = str(action.request.id)
                if not self.store.handovers.submit_begins(instance, key, uid, handover):
                    raise Superseded("it is not open under this id")
                self._write(lambda: self._written(action), lambda: self._learned(action))
                self.store.handovers.submit_ended(instance, key, uid)
            case PatchStatus() | CreateMember() | TakeMember() | ReturnMember() | Delete():
                self._write(lambda: self._written(action), lambda: self._learned(action))
            case CancelWork(instance=instance) | Acknowledge(instance=instance) if instance[1] in self.serving:
                self._write(lambda: self._written(action), lambda: self._learned(action))
            case CancelWork() | Acknowledge():
                # The work queue comes back to it.
                self.queue.add_after(work, 5)
                raise Superseded("the bridge does not answer")
            case SettleOrphan(request_key=key, instance=instance, uid=uid):
                self._settle(work, key, instance, uid)

    def _remove(self, action: RemoveInstance, instance: Key, *, only_idle: bool) -> None:
        """Do what the actor does to delete a member."""
        if not self.store.instances.removal_begins(instance, only_idle=only_idle):
            raise Superseded("it has work in the store")
        try:
            if only_idle and self.bound_to(instance[1]):
                raise Superseded("it has work")
            self._write(lambda: self._written(action), lambda: self._learned(action))
        finally:
            self.store.instances.removal_ended(instance)

    def _settle(self, work: WorkKey, request: Key, instance: Key, run: str) -> None:
        """Do what the actor does with work of no request that is known."""
        obj = self.objects.get((REQUEST, request[1]))
        if obj is not None and _run_id(obj) == run and obj["status"].get("phase") not in FINAL:
            self._observe(obj)
            return
        self._act(work, CancelWork(instance, request, run))
        self._act(work, Acknowledge(instance, run))
        self.store.bridges.orphan_settled(request, instance, run)

    def _write(self, write: Callable[[], bool], learn: Callable[[], None]) -> None:
        if self._writes_left is not None:
            self._writes_left -= 1
            if self._writes_left < 0:
                if self._dies_after_write:
                    write()
                raise Died
        if not write():
            raise Superseded("the object has changed")
        learn()

    def _written(self, action: Action) -> bool:
        """Change the cluster; return whether the API server took it."""
        match action:
            case PatchStatus(kind=kind, key=key, uid=uid, resource_version=version):
                obj = self.objects.get((kind, key[1]))
                if obj is None or (obj["metadata"]["uid"], obj["metadata"]["resourceVersion"]) != (uid, version):
                    return False
                if isinstance(action, Bind):
                    self._check_binding(obj, action)
                if kind == REQUEST:
                    self._check_status(obj, action)
                obj["status"] = _wired(action.status)
                obj["metadata"]["resourceVersion"] = self._version()
            case CreateMember(manifest=manifest):
                meta, name = manifest["metadata"], f"m{self._made:03}"
                most = self._bounds()[1] + MAX_SURGE
                if len(self.members()) >= most:
                    self.broken.append(f"{name} is created beside {len(self.members())} members, {most} at most")
                made = self._put(MEMBER, name, _wired(manifest["spec"]), labels=dict(meta["labels"]))
                made["metadata"]["ownerReferences"] = _wired(meta["ownerReferences"])
                self._new_member = made
            case TakeMember(instance=instance):
                return self._change_owner(instance, taken(action))
            case ReturnMember(instance=instance):
                return self._change_owner(instance, returned(action))
            case Delete(kind=kind, key=key, uid=uid, resource_version=version):
                return self._deleted(kind, key[1], uid, version)
            case RemoveInstance(instance=instance, uid=uid, resource_version=version):
                return self._deleted(MEMBER, instance[1], uid, version)
            case Submit(request_key=key):
                request = self.objects.get((REQUEST, key[1]))
                if request is not None:
                    self._hand_over(request, str(action.request.id), action.instance[1])
            case CancelWork(uid=run):
                if run in self.runs and self.runs[run].reason is None:
                    self._answer(self.runs[run], RequestReason.CANCELLED)
            case Acknowledge(uid=run):
                if run in self.runs and self.runs[run].reason is None:
                    self.broken.append(f"{run} is acknowledged before it ends")
                self.runs.pop(run, None)
        return True

    def _deleted(self, kind: str, name: str, uid: str, version: str | None) -> bool:
        obj = self.objects.get((kind, name))
        if obj is None:
            return True
        meta = obj["metadata"]
        if meta["uid"] != uid or version not in (None, meta["resourceVersion"]):
            return False
        if kind == MEMBER and _owner(obj)["kind"] == POOL and self.bound_to(name):
            self.broken.append(f"{name} is deleted though it has work")
        self._gone(kind, name)
        return True

    def _hand_over(self, request: Json, run: str, member: str) -> None:
        name, uid = request["metadata"]["name"], request["metadata"]["uid"]
        earlier = {run_id(uid, count) for count in range(MAX_PREEMPTIONS + 1)} - {run}
        unfinished = {id_ for id_, other in self.runs.items() if other.request == name} & earlier - self.over
        if unfinished:
            self.broken.append(f"{name} is handed over while {unfinished} may run")
        if run in self.over:
            return
        if self.runs.setdefault(run, Run(run, member, name)).member != member:
            self.broken.append(f"{name} is on {self.runs[run].member} and {member}")

    def _check_status(self, request: Json, action: PatchStatus) -> None:
        """Check what is written of a request: the answer of its present run, and who is interrupted for whom."""
        name, before = request["metadata"]["name"], request["status"]
        if before.get("phase") in FINAL:
            self.broken.append(f"{name} is written though it is final")
        if action.status.get("result") not in (None, _run_id(request)):
            self.broken.append(f"{name} has the answer {action.status['result']} of another run")
        was, now = before.get("preemption", {}), action.status.get("preemption", {})
        if now.get("inProgress") and not was.get("inProgress"):
            self._check_victim(request, now)
        if now.get("count", 0) > was.get("count", 0) and _run_id(request) not in self.over:
            self.broken.append(f"{name} waits again though its run is not over")

    def _check_victim(self, request: Json, preemption: Json) -> None:
        name, spec = request["metadata"]["name"], request["spec"]
        by = next(obj for obj in self.of(REQUEST).values() if obj["metadata"]["uid"] == preemption["byUID"])
        run = self.runs.get(_run_id(request))
        if spec["retryPolicy"] != "IfInterrupted" or spec["priority"] >= by["spec"]["priority"]:
            self.broken.append(f"{name} is interrupted for {by['metadata']['name']}")
        if run is None or run.state == RequestState.QUEUED:
            self.broken.append(f"{name} is interrupted though it has not begun")
        others = [obj for obj in self.open(REQUEST).values() if _interrupted_by(obj) == preemption["byUID"]]
        if others or request["status"].get("preemption", {}).get("count", 0) >= MAX_PREEMPTIONS:
            self.broken.append(f"{name} is interrupted beyond what is allowed")
        running = Counter(_flow(obj) for obj in self.open(REQUEST).values() if _has_place(obj))
        weights = self._fairness().get("weights", {})
        own, other = _flow(by), _flow(request)
        shares = {flow: running[flow] / weights.get(flow, 1) for flow in (own, other)}
        if own != other and shares[own] >= shares[other]:
            self.broken.append(f"flow {own} takes a place from {other}, which has no more: {shares}")

    def _check_binding(self, request: Json, action: Bind) -> None:
        before, name = request["status"].get("instanceName"), request["metadata"]["name"]
        member = self.members().get(action.instance[1])
        if _run_id(request) in self.runs:
            self.broken.append(f"{name} moves though a queue may have it")
        if member is None:
            self.broken.append(f"{name} is bound to {action.instance[1]}, which is no member")
        flow, most = _flow(request), self._fairness().get("maxRunningPerFlow")
        running = [obj for obj in self.open(REQUEST).values() if _has_place(obj)]
        # One more of a flow that takes its own place is none more.
        swapped = [obj for obj in self.open(REQUEST).values() if _interrupted_by(obj) == request["metadata"]["uid"]]
        grows = before is None and flow not in map(_flow, swapped)
        if grows and most is not None and sum(_flow(obj) == flow for obj in running) >= most:
            self.broken.append(f"flow {flow} has more than {most} requests on members")
        load = self.objects[POOL, "crew"]["spec"].get("placement", {}).get("maxLoadPerInstance", 2)
        bound = [self.objects[REQUEST, other] for other in self.bound_to(action.instance[1])]
        preempts = action.placed is not None and action.placed.decision == Decision.PREEMPTING
        if preempts and request["metadata"]["uid"] not in map(_interrupted_by, bound):
            self.broken.append(f"{name} takes the place of none that is interrupted for it")
        if not preempts and len(bound) >= load:
            self.broken.append(f"{action.instance[1]} gets more than {load} requests")
        if before is None and not preempts and "preemption" not in request["status"]:
            self._count(flow)

    def _count(self, flow: str) -> None:
        """Count what flows get while all of them wait: one that does not is out of the comparison."""
        waiting = {_flow(obj) for obj in self.waiting().values()}
        for other in [other for other in self.placed if other not in waiting]:
            del self.placed[other]
        if waiting - self.placed.keys():
            # It may have nothing more than those had before it came.
            self.placed.clear()
        for other in waiting:
            self.placed.setdefault(other, 0)
        self.placed[flow] += 1

    def _fairness(self) -> Json:
        fairness: Json = self.objects[POOL, "crew"]["spec"].get("fairness", {})
        return fairness

    def _change_owner(self, instance: Key, body: Mapping[str, Any]) -> bool:
        obj, wanted = self.objects.get((MEMBER, instance[1])), body["metadata"]
        if obj is None:
            return False
        meta = obj["metadata"]
        if (meta["uid"], meta["resourceVersion"]) != (wanted["uid"], wanted["resourceVersion"]):
            return False
        meta["ownerReferences"] = _wired(wanted["ownerReferences"])
        meta["resourceVersion"] = self._version()
        return True

    def _learned(self, action: Action) -> None:
        """Tell the store what came of a write."""
        match action:
            case PatchStatus(kind=kind, key=key):
                self._observe(self.objects[kind, key[1]])
                if kind == POOL:
                    self.store.pools.status_written(key)
            case CreateMember(pool=pool, pool_uid=uid):
                self._observe(self._new_member)
                self.store.pools.created(pool, uid)
            case TakeMember(claim=claim, claim_uid=uid, instance=instance):
                self._observe(self.objects[MEMBER, instance[1]])
                self.store.claims.take_ended(claim, uid)
            case ReturnMember(instance=instance):
                self._observe(self.objects[MEMBER, instance[1]])
            case Submit(instance=instance, request_key=key):
                run = str(action.request.id)
                if run in self.runs:
                    self.store.bridges.request_submitted(instance, self.runs[run].view)
            case CancelWork(instance=instance, request_key=key, uid=run):
                if run in self.runs:
                    self.store.bridges.view(instance, self.runs[run].view)
                else:
                    self.store.handovers.absent(key, run, "")
            case Acknowledge(instance=instance, uid=run):
                self.store.bridges.answer_acknowledged(instance, run)

    # What must hold.

    def check(self) -> list[str]:
        """Return what is broken now that nothing is left to do."""
        broken, self.broken = self.broken, []
        broken += [*self._claims_share(), *self._size(), *self._idle_beside_work(), *self._unfair()]
        return [*broken, *self._unsettled()]

    def _unsettled(self) -> list[str]:
        """Return runs that are over and whose queue was not cleared, and work that is yet to be interrupted."""
        runs = [run for run in self.runs.values() if run.member in self.serving]
        present = {_run_id(obj): obj for obj in self.open(REQUEST).values()}
        left = [f"{run.id} is left on {run.member}" for run in runs if run.id not in present]
        unstopped = [run.id for run in runs if run.id in present and _interrupted_by(present[run.id])]
        return [*left, *(f"{run} is to be interrupted" for run in unstopped)]

    def _claims_share(self) -> list[str]:
        owners = Counter(_owner(obj)["uid"] for obj in self.of(MEMBER).values() if _owner(obj)["kind"] == CLAIM)
        held = Counter(obj["status"].get("instanceUID") for obj in self.open(CLAIM).values())
        held.pop(None, None)
        return [
            f"{uid} has {count} members or holders" for uid, count in (*owners.items(), *held.items()) if count > 1
        ]

    def _bounds(self) -> tuple[int, int]:
        spec = self.objects[POOL, "crew"]["spec"]
        limits = spec.get("autoscaling")
        return (limits["minReplicas"], limits["maxReplicas"]) if limits else (spec["replicas"],) * 2

    def _size(self) -> list[str]:
        status, (least, most) = self.objects[POOL, "crew"]["status"], self._bounds()
        wanted = status.get("desiredReplicas")
        if wanted is None or not least <= wanted <= most:
            return [f"{wanted} members are wanted, not {least} to {most}"]
        snapshot = self.store.pools.snapshot(CREW)
        draining = snapshot.draining if snapshot is not None else frozenset()
        staying = [name for name in self.members() if name not in draining]
        # While a template is rolled out those of the former one stay until others serve, returned ones included.
        revisions = {self.objects[MEMBER, name]["metadata"]["labels"][REVISION_LABEL] for name in staying}
        if len(staying) == wanted or (len(staying) > wanted and revisions - {status["revision"]}):
            return []
        return [f"{len(staying)} members stay where {wanted} are wanted"]

    def _idle_beside_work(self) -> list[str]:
        """Return requests that wait though a member has room for one of their flow, and claims, too."""
        spec = self.objects[POOL, "crew"]["spec"]
        load, most = spec.get("placement", {}).get("maxLoadPerInstance", 2), self._fairness().get("maxRunningPerFlow")
        snapshot = self.store.pools.snapshot(CREW)
        draining = snapshot.draining if snapshot is not None else frozenset()
        free = [name for name in self.members() if name in self.serving and name not in draining]
        claims = [name for name, obj in self.open(CLAIM).items() if not obj["status"].get("instanceName")]
        owned = {_owner(obj)["uid"] for obj in self.of(MEMBER).values()}
        claims = [name for name in claims if self.objects[CLAIM, name]["metadata"]["uid"] not in owned]
        idle = [name for name in free if not self.bound_to(name)]
        if claims and idle:
            return [f"claims {claims} wait while {idle} have no work"]
        # As many members as claims wait are kept for those.
        by_load = sorted(self.members().keys() - draining, key=lambda name: (len(self.bound_to(name)), name))
        room = [name for name in free if name not in by_load[: len(claims)] and len(self.bound_to(name)) < load]
        running = Counter(_flow(obj) for obj in self.open(REQUEST).values() if "instanceName" in obj["status"])
        may_go = [name for name, obj in self.waiting().items() if most is None or running[_flow(obj)] < most]
        return [f"{may_go} wait while {room} have room"] if room and may_go else []

    def _unfair(self) -> list[str]:
        """Return flows that have had more than their share while others waited."""
        fairness = self._fairness()
        weights = fairness.get("weights", {})
        if fairness.get("maxRunningPerFlow") is not None:
            return []
        if self.objects[POOL, "crew"]["spec"].get("preemption") == "LowerPriority":
            # What a flow takes out of turn it pays for later.
            return []
        one = {flow: Fraction(1, weights.get(flow, 1)) for flow in self.placed}
        return [
            f"flow {ahead} has had {self.placed[ahead]}, flow {behind} {self.placed[behind]}"
            for ahead in one
            for behind in one
            if self.placed[ahead] * one[ahead] - self.placed[behind] * one[behind] > one[ahead] + one[behind]
        ]


def _wired(value: Any) -> Any:
    """Return a copy, as it comes from the API server."""
    return msgspec.json.decode(msgspec.json.encode(value))


def _run_id(request: Json) -> str:
    return run_id(request["metadata"]["uid"], request["status"].get("preemption", {}).get("count", 0))


def _interrupted_by(request: Json) -> str | None:
    preemption = request["status"].get("preemption", {})
    return preemption.get("byUID") if preemption.get("inProgress") else None


def _has_place(request: Json) -> bool:
    """Return whether a member has a request, which is not about to lose its place to another."""
    return "instanceName" in request["status"] and _interrupted_by(request) is None


def _owner(obj: Json) -> Json:
    owner: Json = obj["metadata"]["ownerReferences"][0]
    return owner


def _flow(request: Json) -> str:
    flow: str = request["metadata"]["labels"]["team"]
    return flow
