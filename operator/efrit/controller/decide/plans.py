"""What to do next about one plan: the engine says which request comes, this makes it an object and writes the status.

The order is the protocol: what the plan's requests are is known before anything is decided, the moment it was taken
up is written before its first request is made, and its end only when nothing of it runs any more. Nothing of a plan
is remembered here: the same requests give the same decision in any controller.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from efrit.api import EfritInstance, EfritPlan, EfritRequest, PlanStatus
from efrit.api.instance_limits import Limits
from efrit.controller.decide.retention import retention
from efrit.controller.manifests.plan_request import plan_request
from efrit.controller.model.actions import (
    Action,
    CancelRequest,
    ConfirmPlan,
    CreateRequest,
    Delete,
    ListRequests,
    PatchStatus,
    ReadResult,
    RequeueAfter,
)
from efrit.controller.model.snapshots import PlanSnapshot
from efrit.plan import engine, view
from efrit.plan import status as plan_status
from efrit.plan.snapshot import Part, attempts_at

DELETED_AT_ONCE = 20
"""Requests of past steps that one reconciliation deletes at most: the next step should not wait for them."""
Judge = Callable[[engine.Snapshot, datetime], engine.Decision]
Describe = Callable[[engine.Snapshot, engine.Decision], Mapping[str, Any]]
SIZEABLE = ("tree", "commits", "observations")


def decide_plan(
    snapshot: PlanSnapshot, now: datetime, judge: Judge = engine.decide, describe: Describe = view.describe
) -> list[Action]:
    """Return the next actions for a plan; an empty list waits for the next event."""
    plan = snapshot.plan
    if plan.metadata.deletion_timestamp is not None:
        # Its requests go with it: the garbage collector deletes them, which stops their work.
        return []
    if plan.final:
        return retention("EfritPlan", plan, now)
    refusal = snapshot.refusal
    if snapshot.requests is None and refusal is not None and (remaining := refusal.remaining(now)):
        status_writes = _status_writes(snapshot, plan_status.blocked(plan, refusal.sentence, now), now)
        return [*status_writes, RequeueAfter(remaining)]
    if snapshot.requests is None:  # gate: requests-listed
        return [ListRequests(plan.key, plan.metadata.uid)]
    unread = list(_reads_of_results(snapshot, snapshot.requests.values()))
    if unread:  # gate: results-read
        return unread
    blocked = _blocked(snapshot, now)
    if blocked is not None:
        return [*_status_writes(snapshot, blocked, now), RequeueAfter(plan_status.RETRY_BLOCKED)]
    engine_snapshot = _engine_snapshot(snapshot, snapshot.requests)
    decision = judge(engine_snapshot, now)
    if _begins_anew(decision) and (missing := _unmounted(snapshot)) is not None:  # gate: plan-secret
        return [
            *_status_writes(snapshot, plan_status.blocked(plan, missing, now), now),
            RequeueAfter(plan_status.RETRY_BLOCKED),
        ]
    status_writes = _status_writes(
        snapshot, _status(snapshot, decision, describe(engine_snapshot, decision), now), now
    )
    return [*_actions(snapshot, decision, status_writes, now), *_deletions_of_superseded(snapshot, decision)]


def reads_first(actions: Sequence[Action]) -> bool:
    """Return whether a decision is to read what the next one rests on."""
    return any(isinstance(action, ListRequests | ReadResult) for action in actions)


def _actions(
    snapshot: PlanSnapshot, decision: engine.Decision, status_writes: list[Action], now: datetime
) -> Iterator[Action]:
    plan, requests = snapshot.plan, snapshot.requests or {}
    for name in decision.cancel:
        if name in requests and not requests[name].spec.cancel:
            yield CancelRequest(requests[name].key, requests[name].metadata.uid)
    match decision.action:
        case engine.Create() as create:
            create_request = CreateRequest(
                plan.key, plan.metadata.uid, plan_request(plan, _workspace_instance(snapshot), create)
            )
            begun = plan.status.start_time is not None
            if begun and snapshot.unconfirmed:
                # The garbage collector's deletion of a request may be reported before that of its plan.
                yield ConfirmPlan(plan.key, plan.metadata.uid)  # gate: confirm-plan
            # The time of a plan counts from its first status; after that the work goes before the word.
            yield from (
                [create_request, *status_writes] if begun else [*status_writes, create_request]
            )  # gate: status-first
        case engine.Wait(until=until):
            yield from status_writes
            if until is not None:
                yield RequeueAfter(max(until - now, timedelta(0)))
        case _:
            yield from status_writes


def _reads_of_results(snapshot: PlanSnapshot, requests: Iterable[EfritRequest]) -> Iterator[Action]:
    """Yield a reading of each result that its status only has the beginning of."""
    plan = snapshot.plan
    for request in requests:
        reference, uid = request.status.result_ref, request.metadata.uid
        if uid not in snapshot.results and reference is not None and reference.secret_name is not None:
            yield ReadResult(
                plan.key, plan.metadata.uid, request.metadata.name, uid, reference.sha256, request.status.result or ""
            )


# The snapshot of the engine.


def _engine_snapshot(snapshot: PlanSnapshot, requests: Mapping[str, EfritRequest]) -> engine.Snapshot:
    results = {
        name: snapshot.results.get(request.metadata.uid, request.status.result or "")
        for name, request in requests.items()
        if request.final
    }
    limits = snapshot.target.spec.limits if snapshot.target is not None else Limits()
    return engine.Snapshot(
        plan=snapshot.plan,
        requests=requests,
        results=results,
        credentials=_mount_path(snapshot.plan, snapshot.target),
        max_content_bytes=limits.max_request_bytes,
        max_session_tokens=limits.max_tokens,
        max_timeout_seconds=limits.max_timeout_seconds,
    )


def _secret(plan: EfritPlan) -> str | None:
    environment = plan.spec.environment
    reference = environment.git.secret_ref if environment is not None and environment.git is not None else None
    return reference.name if reference is not None else None


def _mount_path(plan: EfritPlan, target: EfritInstance | None) -> str | None:
    """Return the directory where the instance has the Secret for the plan's repository."""
    secret = _secret(plan)
    if secret is None or target is None:
        return None
    template = target.spec.pod_template
    volumes = {volume.name for volume in template.volumes if (volume.secret or {}).get("secretName") == secret}
    return next((mount.mount_path for mount in template.volume_mounts if mount.name in volumes), None)


# What keeps it from going on.


def _blocked(snapshot: PlanSnapshot, now: datetime) -> PlanStatus | None:
    """Return the status of a plan that can do nothing until somebody changes something else."""
    plan = snapshot.plan
    if plan.spec.cancel or plan.spec.suspend:
        return None
    if snapshot.refusal is not None and snapshot.refusal.remaining(now):
        return plan_status.blocked(plan, snapshot.refusal.sentence, now)
    missing = _unmounted(snapshot) if not snapshot.requests else None
    return plan_status.blocked(plan, missing, now) if missing is not None else None


def _begins_anew(decision: engine.Decision) -> bool:
    """Return whether the repository is to be cloned, for the first time or once more."""
    action = decision.action
    return isinstance(action, engine.Create) and action.attempt in attempts_at(Part.BEGIN)


def _unmounted(snapshot: PlanSnapshot) -> str | None:
    """Return why Emacs cannot read the Secret for the plan's repository; None where it can, or none is needed."""
    secret, target, pod = _secret(snapshot.plan), snapshot.target, snapshot.pod
    if secret is None or target is None:
        return None
    path = _mount_path(snapshot.plan, target)
    if path is None:
        return (
            f"EfritInstance {target.metadata.name} does not mount Secret {secret}, which "
            "spec.environment.git.secretRef names: add it to its spec.podTemplate.volumes and volumeMounts."
        )
    mounts = pod.secret_mounts if pod is not None and not pod.deleting else None
    if mounts is not None and (secret, path) not in mounts:
        return (
            f"The pod of EfritInstance {target.metadata.name} does not mount Secret {secret} at {path} yet: the "
            "plan continues once the pod is replaced."
        )
    return None


# What its status says.


def _status(
    snapshot: PlanSnapshot, decision: engine.Decision, described: Mapping[str, Any], now: datetime
) -> PlanStatus:
    if snapshot.reduced_status:
        described = {name: value for name, value in described.items() if name not in SIZEABLE}
    return plan_status.status_of(snapshot.plan, decision, described, _workspace_instance(snapshot), now)


def _status_writes(snapshot: PlanSnapshot, status: PlanStatus, now: datetime) -> list[Action]:
    """Return the write of a status that says something new: once a step, not once a request."""
    plan, meta = snapshot.plan, snapshot.plan.metadata
    if not plan_status.differs_in_substance(plan.status, status):
        return []
    new, old = status.to_wire(), plan.status.to_wire()
    return [PatchStatus("EfritPlan", plan.key, meta.uid, meta.resource_version, new, old, meta.creation_timestamp)]


# The objects it makes and takes away.


def _workspace_instance(snapshot: PlanSnapshot) -> str | None:
    """Return the instance that has the plan's workspace; None while a pool has not chosen one."""
    plan = snapshot.plan
    if plan.spec.instance_ref is not None:
        return plan.spec.instance_ref.name
    if plan.status.instance_name is not None:
        return plan.status.instance_name
    names = (request.status.instance_name for request in (snapshot.requests or {}).values())
    return next((name for name in names if name), None)


def _deletions_of_superseded(snapshot: PlanSnapshot, decision: engine.Decision) -> Iterator[Action]:
    """Yield deletions of requests that no decision needs any more."""
    if snapshot.plan.status.instance_name is None:
        # They alone know which member of the pool has the plan.
        return
    requests = snapshot.requests or {}
    for name in list(filter(requests.__contains__, decision.superseded))[:DELETED_AT_ONCE]:
        yield Delete("EfritRequest", requests[name].key, requests[name].metadata.uid)
