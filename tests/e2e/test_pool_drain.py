"""`kubectl drain` under a pool: what may move moves, for all else it waits, and each request is answered once."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from efrit.errors import ApiError
from tests.cluster.bare import BareCluster
from tests.cluster.cli import choose
from tests.cluster.second_node import second_node
from tests.e2e.instance import Instance, held, send
from tests.support.kube import Json, Kube, until
from tests.support.kubectl import kubectl
from tests.support.timeout import TIMEOUT

pytestmark = pytest.mark.alone

POOL = "moved"
BUDGET = f"efrit-{POOL}"
MEMBERS = 2
SHORT = 12
REFUSED = "Cannot evict pod as it would violate the pod's disruption budget."


def _pool(kube: Kube, namespace: str, queue: Json, **pod_template: object) -> None:
    template = {
        "queue": queue,
        "workspace": {"ephemeral": True},
        "podTemplate": {"labels": {"drained": namespace}, **pod_template},
    }
    spec = {"replicas": MEMBERS, "template": {"spec": template}}
    kube.create("EfritPool", namespace, {"metadata": {"name": POOL}, "spec": spec})


def _diagnostics(namespace: str) -> str:
    objects = kubectl("get", "efp,efi,efc,efr,pods,pdb", "-n", namespace, "-o", "wide", check=False)
    return objects + kubectl("get", "pdb", BUDGET, "-n", namespace, "-o", "yaml", check=False)


def _wait_ready(kube: Kube, namespace: str) -> None:
    def is_ready() -> bool:
        status = kube.get("EfritPool", namespace, POOL).get("status", {})
        return bool(status.get("ready") == status.get("replicas") == MEMBERS)

    until(is_ready, lambda: f"the pool is not ready\n{_diagnostics(namespace)}")


def _claimed_member(kube: Kube, namespace: str) -> str:
    kube.create("EfritClaim", namespace, {"metadata": {"name": "ada"}, "spec": {"poolRef": {"name": POOL}}})
    kubectl("wait", "efc/ada", "--for=condition=Ready", f"--timeout={TIMEOUT:.0f}s", "-n", namespace)
    return str(kube.get("EfritClaim", namespace, "ada")["status"]["instanceName"])


def _pods(kube: Kube, namespace: str) -> dict[str, str]:
    """Return the UIDs of the pods that no drain has asked to stop, by their names."""
    pods = [pod["metadata"] for pod in kube.list("Pod", namespace)]
    return {meta["name"]: meta["uid"] for meta in pods if "deletionTimestamp" not in meta}


def _guards(kube: Kube, namespace: str, pods: set[str]) -> bool:
    """Return whether the budget guards these pods, and the cluster has taken that in."""
    budget = kube.find("PodDisruptionBudget", namespace, BUDGET) or {"spec": {"selector": {"matchExpressions": [{}]}}}
    values = budget["spec"]["selector"]["matchExpressions"][0].get("values", ())
    status = budget.get("status", {})
    is_seen = status.get("observedGeneration") == budget.get("metadata", {}).get("generation")
    return bool(set(values) == pods and is_seen and status["currentHealthy"] == len(pods))


def _evict(kube: Kube, namespace: str, pod: str) -> int | None:
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod}}
    try:
        kube.call("POST", kube.path("Pod", namespace, pod, "eviction"), eviction)
    except ApiError as refused:
        return refused.status
    return 201


class Drain:
    """`kubectl drain` of the node, for the pods of one namespace alone."""

    def __init__(self, node: str, namespace: str, output: Path) -> None:
        self._output = output
        # What it waits for is waited for one after the other.
        bound = f"--timeout={10 * TIMEOUT:.0f}s"
        selected = (f"--pod-selector=drained={namespace}", "--delete-emptydir-data", bound)
        with output.open("w") as file:
            self.process = subprocess.Popen(["kubectl", "drain", node, *selected], stdout=file, stderr=file)

    @property
    def output(self) -> str:
        """What it has printed so far."""
        return self._output.read_text()


def _nodes(kube: Kube, namespace: str) -> set[str]:
    return {pod["spec"]["nodeName"] for pod in kube.list("Pod", namespace)}


@contextmanager
def _draining(kube: Kube, namespace: str, output: Path) -> Iterator[Drain]:
    (node,) = _nodes(kube, namespace)
    drain = Drain(node, namespace, output)
    try:
        yield drain
    finally:
        drain.process.kill()
        drain.process.wait()
        kubectl("uncordon", node)


def _is_refused(drain: Drain, pod: str) -> bool:
    return any(f'"{pod}"' in line and REFUSED in line for line in drain.output.splitlines())


def _run(number: int) -> str:
    return f"(progn (sleep-for 0.2) {number})"


def _drained(kube: Kube, namespace: str, tmp_path: Path) -> None:
    """Drain the node of a pool, of which one member is busy and one claimed."""
    claimed = Instance(kube, namespace, _claimed_member(kube, namespace))
    _wait_ready(kube, namespace)
    go = "/workspace/go"
    long = send(kube, namespace, held(go, "'done"), poolRef={"name": POOL}, timeoutSeconds=600)
    busy = Instance(kube, namespace, long.wait_reason("Running")["instanceName"])
    guarded = {busy.pod_name, claimed.pod_name}
    until(lambda: _guards(kube, namespace, guarded), lambda: f"not guarded: {guarded}\n{_diagnostics(namespace)}")
    before = _pods(kube, namespace)
    assert len(before) == MEMBERS + 1

    short = [send(kube, namespace, _run(number), poolRef={"name": POOL}) for number in range(SHORT)]
    with _draining(kube, namespace, tmp_path / "drain") as drain:

        def diagnostics() -> str:
            return f"{drain.output}\n{_diagnostics(namespace)}"

        until(lambda: all(_is_refused(drain, pod) for pod in guarded), diagnostics)
        assert [_evict(kube, namespace, pod) for pod in guarded] == [429, 429]

        def are_evicted() -> bool:
            now = _pods(kube, namespace)
            return all(now.get(pod) != uid for pod, uid in before.items() if pod not in guarded)

        until(are_evicted, diagnostics)
        assert {pod: _pods(kube, namespace)[pod] for pod in guarded} == {pod: before[pod] for pod in guarded}

        busy.touch(go)
        status = long.wait()
        assert (status["result"], status["podUID"]) == ("done", before[busy.pod_name])
        kube.patch("EfritClaim", namespace, "ada", {"spec": {"released": True}})
        until(lambda: drain.process.poll() is not None, diagnostics)
        assert drain.process.returncode == 0, drain.output

    answers = [request.wait() for request in short]
    assert [(answer["phase"], answer["result"], answer["attempt"]) for answer in answers] == [
        ("Succeeded", str(number), 1) for number in range(SHORT)
    ]
    _wait_ready(kube, namespace)
    assert not _pods(kube, namespace).items() & before.items()


def test_a_drain_waits_for_a_busy_and_a_claimed_member_and_each_request_is_answered_once(
    kube: Kube, namespace: str, tmp_path: Path
) -> None:
    # What waits in a queue on a volume runs in the next pod.
    _pool(kube, namespace, {"storage": {"size": "64Mi"}})
    _drained(kube, namespace, tmp_path)


@pytest.fixture
def other_node() -> Iterator[str]:
    cluster = choose()
    if not isinstance(cluster, BareCluster):
        pytest.skip("only the bare cluster can have a second node for a while")
    with second_node(cluster) as name:
        yield name


def test_work_goes_on_on_another_node_while_one_is_drained(
    kube: Kube, other_node: str, namespace: str, tmp_path: Path
) -> None:
    name = {"key": "kubernetes.io/hostname", "operator": "In", "values": [other_node]}
    preferred = [{"weight": 100, "preference": {"matchExpressions": [name]}}]
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
    tolerations = [{"key": "second", "operator": "Exists"}]
    _pool(kube, namespace, {"ephemeral": True}, affinity=affinity, tolerations=tolerations)
    _wait_ready(kube, namespace)
    assert _nodes(kube, namespace) == {other_node}
    _drained(kube, namespace, tmp_path)
    assert other_node not in _nodes(kube, namespace)
