"""The chart's rights against the audit log: each verb used is granted, and each verb granted is used."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from efrit import resources
from tests.cluster.ports import free_port
from tests.support import chart, plans
from tests.support.custom_resources import install_crds
from tests.support.fixtures import audited
from tests.support.kube import Json, Kube, until
from tests.support.rights import is_allowed
from tests.support.site import Site
from tests.support.timeout import TIMEOUT

Right = tuple[str, str]
"""A verb, and a resource with its subresource."""

CHART = "helm.sh/chart"

AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata", "userGroups": ["system:serviceaccounts"]}],
}


@pytest.fixture(scope="module", params=[False, True], ids=["one namespace", "the whole cluster"])
def day(
    lisp: Path, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[tuple[Site, Path]]:
    """Yield a namespace on an API server of its own, which writes down every call of an account."""
    directory = tmp_path_factory.mktemp("audit")
    (directory / "policy.json").write_text(json.dumps(AUDIT_POLICY))
    log = directory / "audit.log"
    with audited(log) as plane, closing(Kube(plane)) as kube:
        install_crds(kube)
        site = Site(plane, kube, log, lisp, everywhere=request.param)
        chart.install_policies(kube, site.namespace)
        try:
            yield site, log
        finally:
            site.close()


def granted(site: Site) -> set[Right]:
    """Return what the roles of the controller's account grant."""
    roles = site.kube.list("roles", site.namespace)
    return {
        (verb, resource)
        for role in [*roles, *_cluster_roles(site)]
        for rule in role["rules"]
        for verb in rule["verbs"]
        for resource in rule.get("resources", ())
    }


def _cluster_roles(site: Site) -> list[Json]:
    whole = site.kube.call("GET", resources.CLUSTER_ROLES.path())["items"]
    return [role for role in whole if CHART in role["metadata"].get("labels", {})]


def used(log: Path, *, allowed: bool) -> set[Right]:
    """Return what the controller has asked for, of what it was allowed or of what it was not."""
    permissions = set()
    # A line that is being written is not a line yet.
    for line in log.read_text().rpartition("\n")[0].splitlines():
        event = json.loads(line)
        target = event.get("objectRef", {})
        if (event["annotations"].get("authorization.k8s.io/decision") == "allow") is allowed and "resource" in target:
            sub = target.get("subresource")
            permissions.add((event["verb"], f"{target['resource']}/{sub}" if sub else target["resource"]))
    return permissions


def test_each_verb_used_is_granted_and_each_verb_granted_is_used(day: tuple[Site, Path]) -> None:
    site, log = day
    operator, port = site.operator(), free_port()
    operator.start(EFRIT_METRICS_PORT=str(port))
    if any("metrics" in cluster_role["metadata"]["name"] for cluster_role in _cluster_roles(site)):
        _metrics(site, port)
    _instances(site)
    _requests(site)
    _plans(site)
    _pools(site)
    _claims(site)
    rights = granted(site)
    until(
        lambda: not rights - used(log, allowed=True), lambda: f"not used: {sorted(rights - used(log, allowed=True))}"
    )
    assert used(log, allowed=False) == set()
    assert used(log, allowed=True) <= granted(site)


def _metrics(site: Site, port: int) -> None:
    """Ask as nobody, as an account without the right, and as one that has it."""
    url, (reader,) = (
        f"https://127.0.0.1:{port}/metrics",
        [
            cluster_role["metadata"]["name"]
            for cluster_role in _cluster_roles(site)
            if cluster_role["metadata"]["name"].endswith("reader")
        ],
    )

    def ask(**headers: str) -> httpx.Response:
        return httpx.get(url, headers=headers, verify=False, trust_env=False, timeout=TIMEOUT)  # noqa: S501

    statuses = [ask().status_code]
    for account in ("stranger", "prometheus"):
        site.kube.create("serviceaccounts", site.namespace, {"metadata": {"name": account}})
        if account == "prometheus":
            _bind(site, reader, account)
            # A binding holds a moment after it is made, and a refusal is remembered.
            until(lambda: _may_read(site, account), "the binding takes no hold")  # noqa: B023
        answer = ask(Authorization=f"Bearer {chart.token(site.kube, site.namespace, account)}")
        statuses.append(answer.status_code)
    assert statuses == [401, 403, 200]
    assert "efrit_leader" in answer.text


def _may_read(site: Site, account: str) -> bool:
    return is_allowed(site.kube, site.namespace, account, nonResourceAttributes={"path": "/metrics", "verb": "get"})


def _bind(site: Site, role: str, account: str) -> None:
    binding = {
        "metadata": {"name": account},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": site.namespace}],
    }
    site.kube.call("POST", resources.CLUSTER_ROLE_BINDINGS.path(), binding)


def _instances(site: Site) -> None:
    site.instance()
    # Twice the same events, so that one is counted; and the second start asks for the claims.
    for _ in range(2):
        _switch(site, "Suspended")
        site.until_condition("one", "Ready", reason="Suspended")
        _switch(site, "Running")
        site.until_condition("one", "Ready", status="True")
    # What keeps a pod from starting, and does not stand in its status, is looked up in its events.
    volume = {"name": "data", "secret": {"secretName": "absent"}}
    site.instance("waiting", ready=False, podTemplate={"volumes": [volume]})
    # Nobody waits for it to be ready: a busy machine may see that only when it is gone.
    site.instance("short", ready=False, idle={"deleteAfterSeconds": 10})
    until(lambda: site.kube.find("efritinstances", site.namespace, "short") is None, "it is not deleted for idleness")


def _switch(site: Site, mode: str) -> None:
    site.kube.patch("efritinstances", site.namespace, "one", {"spec": {"operatingMode": mode}})


def _requests(site: Site) -> None:
    large = site.ask("(make-string 50000 ?x)", ttlSecondsAfterFinished=1)
    until(lambda: site.kube.find("efritrequests", site.namespace, large) is None, "it outlives its time")
    # Before a request fails for want of its instance, the API server is asked for that.
    assert site.answer(site.ask("1", to="nowhere"))["reason"] == "Rejected"
    running = site.ask("(sleep-for 600)")
    site.until_status(running, phase="Running")
    site.kube.delete("efritrequests", site.namespace, running)


def _plans(site: Site) -> None:
    # While Emacs is busy the first request of a plan waits, and is cancelled with the plan.
    busy = site.ask("(sleep-for 600)")
    site.until_status(busy, phase="Running")
    plans.begin(site, "cancelled", {"description": "Nothing."}, "first", ttlSecondsAfterFinished=1)
    until(lambda: plans.parts(site, "cancelled"), lambda: plans.describe_plan(site, "cancelled"))
    plans.change(site, "cancelled", cancel=True)

    def is_gone() -> bool:
        return site.kube.find("efritplans", site.namespace, "cancelled") is None

    until(is_gone, lambda: plans.describe_plan(site, "cancelled"))
    # One that leaves the selection of the watch without having ended for us is looked up.
    plans.begin(site, "deleted", {"description": "Nothing."}, "first")
    until(lambda: plans.parts(site, "deleted"), lambda: plans.describe_plan(site, "deleted"))
    site.kube.delete("efritplans", site.namespace, "deleted")
    site.cancel(busy)
    site.answer(busy)


def _pools(site: Site) -> None:
    site.pool(replicas=1)
    site.until_pool(ready=1)
    # A template that comes back, and one that is kept no more.
    _until_numbered(site, 1)
    site.change_pool(updateStrategy={"type": "OnDelete"}, template={"metadata": {"labels": {"team": "blue"}}})
    _until_numbered(site, 1, 2)
    site.change_pool(template={"metadata": None})
    _until_numbered(site, 2, 3)
    site.change_pool(revisionHistoryLimit=0)
    _until_numbered(site, 3)


def _until_numbered(site: Site, *numbers: int) -> None:
    def kept() -> list[int]:
        return sorted(each["revision"] for each in site.kube.list("controllerrevisions", site.namespace))

    until(lambda: kept() == list(numbers), lambda: f"the templates that are kept have the numbers {kept()}")


def _claims(site: Site) -> None:
    def claim(name: str, **spec: int) -> None:
        manifest = {"metadata": {"name": name}, "spec": {"poolRef": {"name": "crew"}, **spec}}
        site.kube.create("efritclaims", site.namespace, manifest)

    def is_bound() -> bool:
        status = site.kube.get("efritclaims", site.namespace, "held").get("status", {})
        return bool(status.get("phase") == "Bound")

    claim("short", ttlSeconds=1, ttlSecondsAfterFinished=1)
    until(lambda: site.kube.find("efritclaims", site.namespace, "short") is None, "it outlives its time")
    claim("held")
    until(is_bound, "the claim has no member")
    # One that leaves the selection of the watch without having ended for us is looked up.
    site.kube.delete("efritclaims", site.namespace, "held")
