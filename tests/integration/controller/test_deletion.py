"""Deleting: what goes with what, and that nothing of ours stands in the way. Kubernetes' own collectors run here."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from efrit import resources
from tests.cluster import programs
from tests.cluster.control_plane import ControlPlane
from tests.support.kube import Json, Kube, until
from tests.support.processes import Process
from tests.support.site import Site

CONTROLLERS = "namespace-controller,garbage-collector-controller"

# The namespace controller waits for pods as long as their grace period allows: one second and ten to drain.
NO_CLAIMS: Json = {
    "queue": {"ephemeral": True},
    "workspace": {"ephemeral": True},
    "limits": {"requestTimeoutSeconds": 1},
}


@pytest.fixture(scope="module", autouse=True)
def collectors(plane: ControlPlane, kube: Kube, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with collectors_of(plane, tmp_path_factory.mktemp("collectors")):
        yield


@contextmanager
def collectors_of(plane: ControlPlane, directory: Path, controllers: str = CONTROLLERS) -> Iterator[Process]:
    """Run controllers of Kubernetes: by default those that delete namespaces and what something deleted had."""
    programs.ensure_go_programs(["kube-controller-manager"])
    command = [
        programs.program("kube-controller-manager"),
        f"--kubeconfig={plane.kubeconfig}",
        f"--controllers={controllers}",
        "--leader-elect=false",
        "--secure-port=0",
        "--kube-api-qps=200",
        "--kube-api-burst=400",
    ]
    process = Process([str(word) for word in command], {}, directory / "log", directory)
    try:
        yield process
    finally:
        process.kill()


def test_everything_of_an_instance_goes_with_it_and_its_work_ends(site: Site) -> None:
    site.operator().start()
    site.instance()
    running = site.ask("(sleep-for 600)", timeoutSeconds=600)
    site.until_status(running, phase="Running")
    site.kube.delete("efritinstances", site.namespace, "one")
    owned = ("statefulsets", "secrets", "persistentvolumeclaims", "serviceaccounts", "networkpolicies", "pods")

    def remaining_names() -> list[str]:
        objects = [obj for plural in owned for obj in site.kube.list(plural, site.namespace)]
        return [obj["metadata"]["name"] for obj in objects if obj["metadata"]["name"].startswith("efrit-one")]

    # The claims' protection is lifted by a controller that does not run here; they are marked for deletion.
    until(
        lambda: all("queue" in name or "workspace" in name for name in remaining_names()),
        lambda: f"remain: {remaining_names()}",
    )
    status = site.answer(running)
    assert (status["phase"], status["reason"]) == ("Failed", "Interrupted")


def test_the_pod_of_a_deleted_instance_is_isolated_until_it_has_stopped(site: Site) -> None:
    site.operator().start()
    site.instance()
    pod = site.kube.get("pods", site.namespace, "efrit-one-0")
    own = f"efrit-one-0-{pod['metadata']['uid']}"

    def policies() -> list[str]:
        return sorted(policy["metadata"]["name"] for policy in site.kube.list("networkpolicies", site.namespace))

    until(lambda: policies() == ["efrit-one", own], lambda: f"there are {policies()}")
    site.node.kept.add("one")
    site.kube.delete("efritinstances", site.namespace, "one")
    until(lambda: policies() == [own], lambda: f"there are {policies()}")
    pod = site.kube.get("pods", site.namespace, "efrit-one-0")
    policy = site.kube.get("networkpolicies", site.namespace, own)["spec"]
    assert policy["podSelector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    assert "egress" not in policy
    site.node.kept.discard("one")
    until(lambda: policies() == [], lambda: f"there are {policies()}")


def test_a_pool_deleted_with_cascade_orphan_leaves_its_members_and_no_budget(site: Site) -> None:
    """The members serve on as instances, and a pool of the name again makes its own members and its budget."""
    operator = site.operator()
    operator.start()
    site.pool(replicas=1)
    site.until_pool(ready=1)
    until(lambda: budgets(site), lambda: f"there is no budget\n{site.logs()}")
    (member,) = site.kube.list("efritinstances", site.namespace)
    site.kube.delete("efritpools", site.namespace, "crew", propagationPolicy="Orphan")
    until(lambda: not budgets(site), lambda: f"it is left behind: {budgets(site)}\n{site.logs()}")
    (left,) = site.kube.list("efritinstances", site.namespace)
    assert left["metadata"]["uid"] == member["metadata"]["uid"]
    assert "ownerReferences" not in left["metadata"]
    site.ask_pool("by-label")
    assert site.answer("by-label")["instanceName"] == left["metadata"]["name"]

    site.pool(replicas=1)
    site.until_pool(ready=1)
    until(lambda: budgets(site), lambda: f"there is no budget\n{site.logs()}")
    operator.kill()
    site.kube.delete("efritpools", site.namespace, "crew", propagationPolicy="Orphan")
    until(lambda: site.kube.find("efritpools", site.namespace, "crew") is None, "the pool is still there")
    assert "ownerReferences" not in budgets(site)[0]["metadata"], "this is not about an orphan"
    operator.start()
    site.pool(replicas=0)
    until(lambda: "ownerReferences" in budgets(site)[0]["metadata"], lambda: f"it is not taken over\n{site.logs()}")


def budgets(site: Site) -> list[Json]:
    return site.kube.list("poddisruptionbudgets", site.namespace)


def test_a_large_result_goes_with_its_request(site: Site) -> None:
    site.operator().start()
    site.instance()
    name = site.ask("(make-string 50000 ?x)")
    secret = site.answer(name)["resultRef"]["secretName"]
    site.kube.delete("efritrequests", site.namespace, name)
    until(lambda: site.kube.find("secrets", site.namespace, secret) is None, "the result is left behind")


def test_a_namespace_with_running_work_can_be_deleted(site: Site) -> None:
    site.operator().start()
    site.instance(**NO_CLAIMS)
    site.until_status(site.ask("(sleep-for 600)", timeoutSeconds=600), phase="Running")
    site.ask("'waiting")
    site.kube.call("DELETE", resources.NAMESPACES.path(name=site.namespace))
    _until_gone(site)


def test_a_namespace_can_be_deleted_while_no_controller_runs(site: Site) -> None:
    operator = site.operator()
    operator.start()
    site.instance(**NO_CLAIMS)
    site.until_status(site.ask("(sleep-for 600)", timeoutSeconds=600), phase="Running")
    operator.kill()
    site.kube.call("DELETE", resources.NAMESPACES.path(name=site.namespace))
    _until_gone(site)


def _until_gone(site: Site) -> None:
    def namespace_status() -> str | None:
        body = site.kube.call("GET", resources.NAMESPACES.path(), fieldSelector=f"metadata.name={site.namespace}")
        return str(body["items"][0]["status"]) if body["items"] else None

    until(lambda: namespace_status() is None, lambda: f"the namespace stays: {namespace_status()}")
