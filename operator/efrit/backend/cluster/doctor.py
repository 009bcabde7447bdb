"""What is right and what is wrong with a cluster for its user, the cause before its effects. Changes nothing."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from efrit.backend.cluster import convert
from efrit.backend.cluster.api import Api
from efrit.backend.errors import ClientError
from efrit.backend.interface import Finding, InstanceStatus
from efrit.protocol.times import parse_time
from efrit.resources import INSTANCES, REQUESTS, SELF_ACCESS_REVIEWS, Resource

_OVERLOOKED_SECONDS = 15.0


async def examine(api: Api, namespace: str, place: str) -> list[Finding]:
    """Check everything a request needs to get its response."""
    try:
        version = await api.call("GET", "/version")
    except ClientError as error:
        return [Finding("API server", False, error.message, error.advice)]
    findings = [Finding("API server", True, f"{version.get('gitVersion')} ({place})")]
    try:
        await api.call("GET", INSTANCES.root)
    except ClientError as error:
        detail = f"{INSTANCES.api_version} is not served: {error.message}"
        return [*findings, Finding("operator", False, detail, "install the operator: docs/install.md")]
    findings += [await _permission_finding(api, namespace, verb, resource) for verb, resource in _NEEDED]
    try:
        findings += await _instances(api, namespace)
        findings += await _requests(api, namespace)
    except ClientError as error:
        findings.append(Finding("resources", False, error.message, error.advice))
    return findings


_NEEDED = (
    ("create", REQUESTS),
    ("watch", REQUESTS),
    ("patch", REQUESTS),
    ("list", INSTANCES),
)


async def _permission_finding(api: Api, namespace: str, verb: str, resource: Resource) -> Finding:
    plural = resource.plural
    attributes = {"namespace": namespace, "verb": verb, "group": resource.group, "resource": plural}
    status = await api.review(SELF_ACCESS_REVIEWS, {"resourceAttributes": attributes})
    allowed = bool(status.get("allowed"))
    remedy = f"ask an administrator for a role that allows {verb} on {plural} in {namespace}"
    return Finding("rights", allowed, f"you may {'' if allowed else 'not '}{verb} {plural}", remedy)


async def _instances(api: Api, namespace: str) -> list[Finding]:
    now = datetime.now(UTC)
    objects, _ = await api.list(INSTANCES, namespace)
    if not objects:
        return [Finding("instances", False, f"there are none in {namespace}", "efrit start NAME")]
    findings = []
    for obj in objects:
        instance = convert.instance_of(obj, now)
        created = parse_time(obj["metadata"]["creationTimestamp"]) or now
        overlooked = not obj.get("status") and (now - created).total_seconds() > _OVERLOOKED_SECONDS
        ok = instance.status is not InstanceStatus.ERROR and not overlooked
        remedy = "is the operator running? kubectl get pods -A -l app.kubernetes.io/name=efrit-operator"
        if not overlooked:
            remedy = f"kubectl describe efi/{instance.id} --namespace {namespace}"
        findings.append(Finding(f"instance {instance.id}", ok, f"{instance.reason}: {instance.message}", remedy))
        findings += _model(instance.id, obj, remedy)
    return findings


def _model(name: str, instance: Mapping[str, Any], remedy: str) -> list[Finding]:
    """Return what keeps the instance from asking its model, as its condition ModelReady says."""
    conditions = (instance.get("status") or {}).get("conditions") or []
    return [
        Finding(f"model of {name}", False, str(condition.get("message") or condition.get("reason")), remedy)
        for condition in conditions
        if condition.get("type") == "ModelReady" and condition.get("status") == "False"
    ]


async def _requests(api: Api, namespace: str) -> list[Finding]:
    now = datetime.now(UTC)
    objects, _ = await api.list(REQUESTS, namespace)
    open_requests = [request for request in map(convert.request_of, objects) if not request.final]
    lost = [
        request.handle.id
        for request in open_requests
        if request.queued is None
        and request.created
        and (now - request.created).total_seconds() > _OVERLOOKED_SECONDS
    ]
    detail = f"{len(open_requests)} are open" + (
        f", {len(lost)} of them not handed over: {', '.join(lost[:5])}" if lost else ""
    )
    return [Finding("requests", not lost, detail, "efrit requests NAME -o yaml shows why" if lost else "")]
