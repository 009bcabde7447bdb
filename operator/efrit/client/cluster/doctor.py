"""What is right and what is wrong with a cluster for its user, the cause before its effects. Changes nothing."""

from __future__ import annotations

from datetime import UTC, datetime

from efrit.client.cluster import states
from efrit.client.cluster.api import GROUP, Api
from efrit.client.errors import ClientError
from efrit.client.interface import Finding, InstanceStatus

_OVERLOOKED_SECONDS = 15.0


async def examine(api: Api, namespace: str, place: str) -> list[Finding]:
    """Everything that has to be right for an answer to come."""
    try:
        version = await api.call("GET", "/version")
    except ClientError as error:
        return [Finding("API server", False, error.message, error.advice)]
    findings = [Finding("API server", True, f"{version.get('gitVersion')} ({place})")]
    try:
        await api.call("GET", f"/apis/{GROUP}")
    except ClientError as error:
        remedy = "install the operator: docs/install.md"
        return [*findings, Finding("operator", False, f"{GROUP} is not served: {error.message}", remedy)]
    findings += [await _right(api, namespace, verb, plural) for verb, plural in _NEEDED]
    try:
        findings += await _instances(api, namespace)
        findings += await _requests(api, namespace)
    except ClientError as error:
        findings.append(Finding("resources", False, error.message, error.advice))
    return findings


_NEEDED = (
    ("create", "efritrequests"),
    ("watch", "efritrequests"),
    ("patch", "efritrequests"),
    ("list", "efritinstances"),
)


async def _right(api: Api, namespace: str, verb: str, plural: str) -> Finding:
    wanted = {"namespace": namespace, "verb": verb, "group": "efrit.dev", "resource": plural}
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": wanted},
    }
    found = await api.call("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", body=review)
    allowed = bool(found.get("status", {}).get("allowed"))
    remedy = f"have somebody bind a role to you that may {verb} {plural} in {namespace}"
    return Finding("rights", allowed, f"you may {'' if allowed else 'not '}{verb} {plural}", remedy)


async def _instances(api: Api, namespace: str) -> list[Finding]:
    now = datetime.now(UTC)
    found, _ = await api.list("efritinstances", namespace)
    if not found:
        return [Finding("instances", False, f"there are none in {namespace}", "efrit start NAME")]
    findings = []
    for each in found:
        instance = states.instance_of(each, now)
        created = states.moment(each["metadata"]["creationTimestamp"]) or now
        overlooked = not each.get("status") and (now - created).total_seconds() > _OVERLOOKED_SECONDS
        ok = instance.status is not InstanceStatus.ERROR and not overlooked
        remedy = "is the operator running? kubectl get pods -A -l app.kubernetes.io/name=efrit-operator"
        if not overlooked:
            remedy = f"kubectl describe efi/{instance.id} --namespace {namespace}"
        findings.append(Finding(f"instance {instance.id}", ok, f"{instance.reason}: {instance.message}", remedy))
    return findings


async def _requests(api: Api, namespace: str) -> list[Finding]:
    now = datetime.now(UTC)
    found, _ = await api.list("efritrequests", namespace)
    open_ones = [each for each in map(states.request_of, found) if not each.final]
    lost = [
        each.handle.id
        for each in open_ones
        if each.queued is None and each.created and (now - each.created).total_seconds() > _OVERLOOKED_SECONDS
    ]
    detail = f"{len(open_ones)} are open" + (
        f", {len(lost)} of them not handed over: {', '.join(lost[:5])}" if lost else ""
    )
    return [Finding("requests", not lost, detail, "efrit requests NAME -o yaml tells why" if lost else "")]
