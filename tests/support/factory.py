"""Builders of what the controller looks at: resources, their children's views, what a bridge tells, snapshots.

Every builder has a plain default for everything, so that a test spells out only what it is about. Resources are
made from JSON as the API server sends it, not from Python field names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields as fields_of
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from efrit.api import EfritInstance, EfritPlan, EfritRequest
from efrit.api.instance import HandoverState, InstanceHandover
from efrit.controller.manifests import Children
from efrit.controller.manifests.volume_claims import build_volume_claims
from efrit.controller.model.actions import PatchStatus
from efrit.controller.model.config import ControllerConfig
from efrit.controller.model.instance_facts import InstanceFacts
from efrit.controller.model.snapshots import InstanceSnapshot, RequestSnapshot
from efrit.controller.model.views import BridgeView, ClaimView, ContainerView, PodView, StatefulSetView
from efrit.protocol import RequestReason, RequestState, Response, request_id
from efrit.protocol.view import EmacsStats, RequestView, Stats
from efrit.resources import resource_named

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
NAMESPACE = "team"
CONFIG = ControllerConfig(bridge_image="example.org/efrit-operator:1", emacs_image="example.org/efrit-emacs:30")
QUEUE_ID = "queue-1"
POD_UID = "pod-uid-1"
BORN = NOW - timedelta(hours=1)
HANDOVER = InstanceHandover(state=HandoverState.OPEN, id="handover-1")

Json = dict[str, Any]
Kind = TypeVar("Kind")


def seconds(count: float) -> timedelta:
    return timedelta(seconds=count)


def wire_time(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def object_json(
    kind: str,
    name: str,
    spec: Json,
    *,
    version: str,
    namespace: str = NAMESPACE,
    uid: str | None = None,
    generation: int = 1,
    created: datetime | None = NOW,
    deleting: bool = False,
    finalizers: Sequence[str] = (),
    labels: Mapping[str, str] | None = None,
    status: Json | None = None,
) -> Json:
    """Return a resource as the API server sends it."""
    meta: Json = {
        "name": name,
        "namespace": namespace,
        "uid": uid or f"uid-{name}",
        "resourceVersion": version,
        "generation": generation,
        "labels": dict(labels or {}),
    }
    if created is not None:
        meta["creationTimestamp"] = wire_time(created)
    if deleting:
        meta["deletionTimestamp"] = wire_time(NOW)
    if finalizers:
        meta["finalizers"] = list(finalizers)
    return resource_named(kind).manifest(meta, spec=spec, status=status or {})


def instance_json(name: str = "alpha", *, version: str = "10", spec: Json | None = None, **fields: Any) -> Json:
    return object_json("EfritInstance", name, spec or {}, version=version, **({"created": BORN} | fields))


META = {"namespace", "uid", "generation", "created", "deleting", "labels", "status"}


def _work(kind: str, name: str, target: str | None, version: str, fields: Json) -> Json:
    """Return a request or a plan: what is no metadata is its spec."""
    spec = {key: value for key, value in fields.items() if key not in META}
    if target is not None:
        spec["instanceRef"] = {"name": target}
    meta = {key: value for key, value in fields.items() if key in META}
    return object_json(kind, name, spec, version=version, **meta)


def instance(name: str = "alpha", **fields: Any) -> EfritInstance:
    return EfritInstance.model_validate(instance_json(name, **fields))


def request_json(name: str = "work", *, version: str = "20", target: str | None = "alpha", **fields: Any) -> Json:
    return _work("EfritRequest", name, target, version, {"type": "eval", "content": "(+ 1 1)", **fields})


def request(name: str = "work", **fields: Any) -> EfritRequest:
    return EfritRequest.model_validate(request_json(name, **fields))


def plan_json(name: str = "app", *, version: str = "30", target: str | None = "alpha", **fields: Any) -> Json:
    return _work("EfritPlan", name, target, version, {"intent": {"description": "Build it."}, **fields})


def plan(name: str = "app", **fields: Any) -> EfritPlan:
    return EfritPlan.model_validate(plan_json(name, **fields))


def part_json(name: str, *, plan: str = "app", plan_uid: str | None = None, **fields: Any) -> Json:
    """Return a request that belongs to a plan."""
    made = request_json(name, **fields)
    uid = plan_uid or f"uid-{plan}"
    made["metadata"]["labels"] = {"efrit.dev/plan": uid}
    made["metadata"]["ownerReferences"] = [{"kind": "EfritPlan", "name": plan, "uid": uid, "controller": True}]
    return made


def part(name: str, **fields: Any) -> EfritRequest:
    return EfritRequest.model_validate(part_json(name, **fields))


def final_status(phase: str = "Succeeded", *, ended: datetime = NOW, instance_name: str | None = "alpha") -> Json:
    status: Json = {"phase": phase, "reason": phase, "completionTime": wire_time(ended)}
    return {**status, "instanceName": instance_name} if instance_name else status


def emacs(*, alive: bool = True, responsive: bool = True, **fields: Any) -> EmacsStats:
    return EmacsStats(alive=alive, responsive=responsive, version="30.1", **fields)


def stats(*, queue_id: str = QUEUE_ID, emacs: EmacsStats | None = None, **figures: Any) -> Stats:
    running = EmacsStats(alive=True, responsive=True, version="30.1")
    return Stats(queue_id=queue_id, emacs=emacs or running, **figures)


def pod(uid: str = POD_UID, **fields: Any) -> PodView:
    defaults: Json = {
        "name": "efrit-alpha-0",
        "ip": "10.1.2.3",
        "phase": "Running",
        "created": NOW - seconds(600),
        "started": NOW - seconds(600),
        "image": "example.org/efrit-emacs:30",
        "containers": (ContainerView("bridge", running=True), ContainerView("emacs", running=True)),
    }
    return PodView(uid=uid, **(defaults | fields))


def statefulset(children: Children, replicas: int = 1, **fields: Any) -> StatefulSetView:
    """Return the StatefulSet that these children leave behind."""
    defaults: Json = {
        "name": "efrit-alpha",
        "uid": "ss",
        "replicas": replicas,
        "children_hash": children.digest,
        "template_hash": children.template_digest,
        "statefulset_hash": children.statefulset_digest,
        "spec_hash": children.spec_digest,
        "release_hash": children.release_digest,
    }
    return StatefulSetView(**(defaults | fields))


OWNED = {"ownerReferences": [{"uid": "ss", "controller": True}]}
"""Metadata of a pod that the StatefulSet below owns."""


def statefulset_json(name: str = "alpha", namespace: str = NAMESPACE) -> Json:
    """Return the StatefulSet of an instance as the API server sends it, as far as it says whose it is."""
    owners = [{"uid": f"uid-{name}", "controller": True}]
    meta = {"name": f"efrit-{name}", "namespace": namespace, "uid": "ss", "labels": {"efrit.dev/instance": name}}
    return {"metadata": {**meta, "ownerReferences": owners}, "spec": {"replicas": 1}}


def connected(*, pod_uid: str = POD_UID, queue_id: str = QUEUE_ID, bridge_stats: Stats | None = None) -> BridgeView:
    return BridgeView(
        connected=True, pod_uid=pod_uid, queue_id=queue_id, stats=bridge_stats or stats(queue_id=queue_id)
    )


def claims(of: EfritInstance, **fields: Any) -> tuple[ClaimView, ...]:
    """Return the claims that an instance is to have."""
    defaults: Json = {"phase": "Bound"}
    return tuple(ClaimView(claim["metadata"]["name"], **(defaults | fields)) for claim in build_volume_claims(of))


FACTS = {field.name for field in fields_of(InstanceFacts)}


def changed(instance_snapshot: InstanceSnapshot, **fields: Any) -> InstanceSnapshot:
    """Return the snapshot with other fields, those of its facts included."""
    facts = replace(instance_snapshot.facts, **{name: value for name, value in fields.items() if name in FACTS})
    return replace(
        instance_snapshot, **{"facts": facts, **{name: value for name, value in fields.items() if name not in FACTS}}
    )


def ready(efrit_instance: EfritInstance | None = None, **fields: Any) -> InstanceSnapshot:
    """Return an instance whose pod runs, whose bridge is connected and which is open for requests."""
    defaults: Json = {"pod": pod(), "bridge": connected(), "listed": True, "handover_id": HANDOVER.id}
    made = efrit_instance or instance()
    defaults["claims"] = claims(made)
    if made.status.handover is None:
        made = made.model_copy(update={"status": made.status.model_copy(update={"handover": HANDOVER})})
    return changed(InstanceSnapshot(instance=made, config=CONFIG), **(defaults | fields))


def away(efrit_instance: EfritInstance | None = None, **fields: Any) -> InstanceSnapshot:
    """Return an instance without a pod."""
    made = efrit_instance or instance()
    defaults: Json = {"listed": True, "claims": claims(made)}
    return changed(InstanceSnapshot(instance=made, config=CONFIG), **(defaults | fields))


def snapshot(
    efrit_request: EfritRequest | None = None, target: InstanceSnapshot | None = None, **fields: Any
) -> RequestSnapshot:
    """Return a request's snapshot; the request was created after the controller had started."""
    defaults: Json = {"config": CONFIG}
    return RequestSnapshot(request=efrit_request or request(), target=target, **(defaults | fields))


def response(uid: str = "uid-work", *, reason: RequestReason = RequestReason.SUCCEEDED, **fields: Any) -> Response:
    defaults: Json = {
        "status": reason.status,
        "reason": reason,
        "outcome": "Success" if reason == RequestReason.SUCCEEDED else "Failure",
        "attempt": 1,
        "started": NOW - seconds(2),
        "execution_time": 1.5,
    }
    return Response.from_dict({"id": uid, **(defaults | fields)})


def view(
    uid: str = "uid-work", state: RequestState = RequestState.QUEUED, *, answer: Response | None = None, **fields: Any
) -> RequestView:
    return RequestView(id=request_id(uid), state=state, response=answer, **fields)


def answered(uid: str = "uid-work", **fields: Any) -> RequestView:
    return view(uid, RequestState.ANSWERED, answer=response(uid, **fields), attempt=1, queued_time=NOW - seconds(3))


def of_kind(actions: Sequence[object], kind: type[Kind]) -> list[Kind]:
    return [action for action in actions if isinstance(action, kind)]


def the(actions: Sequence[object], kind: type[Kind]) -> Kind:
    """Return the one action of this kind."""
    (action,) = of_kind(actions, kind)
    return action


def written(actions: Sequence[object]) -> Json:
    """Return the status that is written."""
    return dict(the(actions, PatchStatus).status)


def condition_json(kind: str, status: str, reason: str, since: datetime = NOW) -> Json:
    """Return a condition as a status has it."""
    return {"type": kind, "status": status, "reason": reason, "message": "", "lastTransitionTime": wire_time(since)}


def condition(status: Mapping[str, Any], kind: str) -> tuple[str, str, str]:
    """Status, reason and message of a condition."""
    (entry,) = [entry for entry in status["conditions"] if entry["type"] == kind]
    return entry["status"], entry["reason"], entry["message"]
