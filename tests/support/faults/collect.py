"""The history of a run that is over: files of the queues, responses, whole results, Secrets.

Reads disks and the API server; changes nothing and judges nothing.
"""

from __future__ import annotations

import base64
import contextlib
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from efrit.errors import ApiError
from tests.support.faults import large_results
from tests.support.faults.availability import total_seconds
from tests.support.faults.base_run import FaultRun, RunPod
from tests.support.faults.history import (
    REMOVED,
    Allowance,
    Answer,
    Digest,
    History,
    ObjectVersion,
    QueueFile,
    RequestVersion,
    SubmittedRequest,
)
from tests.support.faults.light.run import GRACE_SECONDS
from tests.support.faults.operator_invariants import CREATED_BEFORE_SECONDS
from tests.support.faults.request_invariants import OPEN_AREAS
from tests.support.faults.schedule import Op, Theme
from tests.support.faults.workload import Kind
from tests.support.kube import Json

SETTLE_SECONDS = 20.0
"""How long a controller takes to lead again after a disturbance: a lease is at most 15 s old."""

MISSING = Digest(-1, "missing")
"""Stands for a result whose Secret or file is missing."""


def queues(run: FaultRun) -> Iterator[tuple[RunPod, str, bool]]:
    """Yield one pod for each queue there ever was, a label for the queue, and whether a pod still serves it."""
    newest: dict[Path, RunPod] = {pod.queue: pod for pod in run.pods()}
    for number, (path, pod) in enumerate(newest.items(), 1):
        current = run.running_pod(pod.instance)
        served = current is not None and current.queue == path
        yield pod, f"{pod.instance}-claim" if pod.queue_outlives_it else f"{pod.instance}-p{number}", served


def queue_files(run: FaultRun) -> tuple[QueueFile, ...]:
    """Return every file of every queue."""
    files = []
    for pod, label, served in queues(run):
        for area in (*OPEN_AREAS, "archive"):
            with contextlib.suppress(FileNotFoundError):
                files += [
                    QueueFile(run.namespace, pod.instance, label, area, path.name, served)
                    for path in sorted((pod.queue / area).iterdir())
                ]
    return tuple(files)


def tidy(files: tuple[QueueFile, ...]) -> bool:
    """Return whether no request is under way on any queue that is served."""
    return not any(file.live and file.area in OPEN_AREAS and not file.may_stay for file in files)


def instances_ready(run: FaultRun) -> dict[tuple[str, str], bool]:
    """Return by (namespace, name) whether each instance is Ready, or suspended because it is idle."""
    ready_instances = {}
    for instance in run.cluster.kube.list("efritinstances", run.namespace):
        conditions = instance.get("status", {}).get("conditions", ())
        ready = any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
        asleep = bool(instance["spec"].get("idle")) and instance.get("status", {}).get("suspendedIdle") is True
        ready_instances[run.namespace, instance["metadata"]["name"]] = ready or asleep
    return ready_instances


def collect(
    run: FaultRun,
    *,
    healed_at: float,
    files: tuple[QueueFile, ...],
    ready: dict[tuple[str, str], bool],
    namespace_left: bool,
    pool_unsettled: str = "",
    tenant_fault_until: float | None = None,
) -> History:
    """Return the whole history of a run that is over."""
    ended_at = run.clock()
    deleted = (run.namespace,) if run.namespace_deleted else ()
    return History(
        submitted=_with_members(run),
        versions=run.recorder.versions,
        ran=run.executions(),
        files=files,
        answers=(*_answers(run), *run.lost_answers()),
        results={} if deleted else _results(run),
        secrets=() if deleted else _secrets(run),
        notes=tuple(run.notes),
        losses=run.closed_losses(ended_at),
        allowances=tuple(_allowances(run)),
        watch_gaps=run.recorder.watch_gaps,
        namespaces_deleted=deleted,
        namespaces_left=deleted if namespace_left else (),
        instances_ready={} if deleted else ready,
        hits=dict(run.hits),
        objects=run.objects,
        pool=run.schedule.pool,
        pool_unsettled=pool_unsettled,
        deleted_by_users=tuple(run.deleted_members),
        undisturbed=_undisturbed(run, ended_at),
        evictions=tuple(run.evictions),
        tenant_fault_until=tenant_fault_until,
        other_tenant_open=run.other_tenant_open(),
        healed_at=healed_at,
        ended_at=ended_at,
        # On a busy machine a controller may take long to start, which breaks no promise.
        recovery_seconds=run.schedule.recovery_seconds + total_seconds(run.unavailable_spans),
    )


def _with_members(run: FaultRun) -> tuple[SubmittedRequest, ...]:
    """Return the requests, those of the pool with the names of all members that it has had."""
    pool = run.schedule.pool
    if pool is None:
        return tuple(run.submitted)
    owner = f"EfritPool/{pool.name}"
    members = tuple(sorted({version.name for version in run.objects if version.owner == owner}))
    return tuple(replace(request, instances=members) if request.pool else request for request in run.submitted)


def _undisturbed(run: FaultRun, ended_at: float) -> tuple[tuple[float, float], ...]:
    """Return the spans in which a controller led and the API server answered, without the time to settle."""
    if run.shares_controller:
        return ()
    spans, begin = [], 0.0 if run.schedule.warm else SETTLE_SECONDS
    disturbances = [*run.disturbances, *run.unavailable_spans]
    if run.schedule.pool is not None:
        # What a call has hit may be learned only from the next list.
        disturbances += [(at - run.clock.epoch, at - run.clock.epoch) for armed in run.armed for at in armed.times]
    for disturbed, over in sorted(disturbances):
        if disturbed > begin:
            spans.append((begin, disturbed))
        begin = max(begin, over + SETTLE_SECONDS)
    return tuple([*spans, (begin, ended_at)] if ended_at > begin else spans)


def _answers(run: FaultRun) -> Iterator[Answer]:
    for pod, label, _ in queues(run):
        for area in ("responses", "archive"):
            for path in sorted((pod.queue / area).glob("resp_*.json")):
                try:
                    response = json.loads(path.read_text())
                except (OSError, ValueError) as error:
                    response = {"unreadable": str(error)}
                uid = path.stem.removeprefix("resp_")
                yield Answer(run.namespace, pod.instance, label, area, uid, response)


def _secrets(run: FaultRun) -> tuple[tuple[str, str], ...]:
    secrets = run.cluster.kube.list("secrets", run.namespace, fieldSelector="type=efrit.dev/result")
    # No garbage collector runs here: the Secret of a deleted request stays.
    gone = {request.uid for request in run.submitted if request.deleted}
    names = [secret["metadata"]["name"] for secret in secrets]
    return tuple((run.namespace, name) for name in names if name.removeprefix("efrit-result-") not in gone)


def _results(run: FaultRun) -> dict[str, Digest]:
    results = {}
    for uid, version in run.recorder.final.items():
        if version.phase == "Succeeded" and (whole := _whole(run, version)) is not None:
            results[uid] = whole
    return results


def _whole(run: FaultRun, version: RequestVersion) -> Digest | None:
    reference: Json | None = version.status.get("resultRef")
    if reference is None:
        text = version.status.get("result")
        return None if text is None or version.status.get("truncated") else Digest.of(text)
    if path := reference.get("workspacePath"):
        with contextlib.suppress(OSError):
            return Digest.of(run.workspace_file(version.status["instanceName"], path).read_bytes())
        return MISSING
    try:
        secret = run.cluster.kube.get("secrets", run.namespace, reference["secretName"])
    except ApiError as error:
        if error.status is None:
            raise
        deleted = any(
            request.uid == version.uid and (request.deleted or request.expires) for request in run.submitted
        )
        return None if deleted else MISSING
    return Digest.of(base64.b64decode(secret["data"][reference["key"]]))


def _allowances(run: FaultRun) -> Iterator[Allowance]:
    """Yield what the faults of this run allow beyond what `losses` says."""
    kinds = {request.name: request.kind for request in run.schedule.requests}
    restarted = any(note.event.endswith("is started again") for note in run.notes)
    restarted = restarted or run.schedule.controllers > 1 or not run.schedule.warm
    for submitted in run.submitted:
        if kinds[submitted.name] is Kind.LOST and restarted:
            why = (
                "a controller that leads only since then cannot know whether an instance that is gone had the request"
            )
            yield Allowance("Interrupted", why, request=submitted.name, runs=(0,))
        if submitted.pool:
            continue
        late = min((run.created_at.get(name, float("inf")) for name in submitted.instances), default=0.0)
        if late - submitted.at > GRACE_SECONDS - 1 and kinds[submitted.name] is not Kind.LOST:
            for reason in ("Rejected", "Interrupted"):
                yield Allowance(reason, "its instance was created too late", request=submitted.name, runs=(0,))
    yield from _allowances_for_refusals(run)
    yield from _allowances_for_idleness(run)
    yield from _allowances_for_sessions(run)
    if run.schedule.theme is Theme.CLOCKS:
        for step in run.schedule.faults:
            for request in run.schedule.requests:
                if step.op is Op.SET_CLOCK and request.kind is Kind.SLEEP:
                    # Emacs sleeps by the wall clock: set back, it sleeps that much longer.
                    why = "the clock was set while it slept"
                    yield Allowance("TimedOut", why, instance=step.target, request=request.name, runs=(1, 2, 3))
    if run.schedule.theme is Theme.FROZEN:
        for step in run.schedule.faults:
            if step.op in (Op.STOP_EMACS, Op.STOP_BRIDGE):
                why = "its time ran out while Emacs or its supervisor stood still"
                yield Allowance("TimedOut", why, instance=step.target, runs=(0, 1, 2, 3))


def _allowances_for_refusals(run: FaultRun) -> Iterator[Allowance]:
    """Yield an allowance for each large result that could not be stored whole."""
    if run.schedule.theme not in (Theme.REFUSALS, Theme.VOLUMES, Theme.FILES):
        return
    yield from large_results.allowances(
        run.submitted,
        dict(run.recorder.final),
        _answers(run),
        run.executions(),
        refused=run.refused_secrets(),
        full_volumes=run.full_volumes,
    )


def _allowances_for_sessions(run: FaultRun) -> Iterator[Allowance]:
    """Yield an allowance for each request whose session went with the member, or the Emacs, that had it."""
    homes = {
        str((version.status.get("session") or {}).get("id")): str(version.status.get("instanceName"))
        for version in run.recorder.final.values()
        if not version.status.get("sessionLeft")
    }
    again = {
        version.name
        for version in run.recorder.final.values()
        if version.status.get("attempt", 0) > 1 or (version.status.get("preemption") or {}).get("count")
    }
    left = {version.name for version in run.objects if version.kind == "efritinstances" and _has_left(version, run)}
    lost = {loss.instance for loss in run.losses}
    for request in run.submitted:
        if request.session and homes.get(request.session, "") in left | lost:
            why = "the member with its session is gone, or began anew without it"
            yield Allowance("Rejected", why, request=request.name, runs=(0,))
            if request.name in again:
                yield Allowance("Interrupted", f"{why}, and it had run before", request=request.name, runs=(0, 1))


def _has_left(version: ObjectVersion, run: FaultRun) -> bool:
    pool = run.schedule.pool
    return version.event in REMOVED or pool is None or version.owner != f"EfritPool/{pool.name}"


def _allowances_for_idleness(run: FaultRun) -> Iterator[Allowance]:
    """Yield an allowance for each request created about when its instance was deleted for idleness, or later."""
    gone = {
        version.instance: version.at
        for version in run.objects
        if version.kind == "efritinstances" and version.event == "DELETED"
    }
    for request in run.submitted:
        if request.pool:
            continue
        deleted = min((gone.get(name, float("inf")) for name in request.instances), default=float("inf"))
        if request.at > deleted - CREATED_BEFORE_SECONDS:
            for reason in ("Rejected", "Interrupted"):
                yield Allowance(reason, "its instance was deleted for idleness", request=request.name, runs=(0,))
