"""Pods of a pool are evicted, as a drain of their node does it. Kubernetes' own disruption controller runs here."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from efrit.errors import ApiError
from tests.cluster.control_plane import ControlPlane
from tests.integration.controller.test_deletion import collectors_of
from tests.support.kube import Json, Kube, until
from tests.support.site import Site
from tests.support.timeout import TIMEOUT


@pytest.fixture(scope="module", autouse=True)
def disruption(plane: ControlPlane, kube: Kube, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with collectors_of(plane, tmp_path_factory.mktemp("disruption"), "disruption-controller"):
        yield


def _pool(site: Site, replicas: int) -> dict[str, str]:
    """Make a pool; return the UIDs of the pods of its members, once all are ready, by their names."""
    site.operator().start()
    site.node.grace_seconds = 600
    site.pool(replicas=replicas)
    site.until_pool(ready=replicas)
    pods = site.kube.list("pods", site.namespace, labelSelector="efrit.dev/instance")
    for pod in pods:
        name = pod["metadata"]["name"]
        # As the StatefulSet controller and the kubelet have it.
        labels = {"statefulset.kubernetes.io/pod-name": name}
        site.kube.patch("pods", site.namespace, name, {"metadata": {"labels": labels}})
        ready = {"type": "Ready", "status": "True"}
        site.kube.patch("pods", site.namespace, name, {"status": {"conditions": [ready]}}, sub="status")
    return {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in pods}


def _evict(site: Site, pod: str, uid: str) -> int | None:
    """Evict a pod; return the status of the answer, 201 where it goes."""
    options = {"preconditions": {"uid": uid}}
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod}, "deleteOptions": options}
    try:
        site.kube.call("POST", site.kube.path("pods", site.namespace, pod, "eviction"), eviction)
    except ApiError as refused:
        return refused.status
    return 201


def _drain(site: Site, pods: dict[str, str]) -> None:
    """Evict these pods, and try again where that is refused, as `kubectl drain` does."""
    remaining = dict(pods)

    def are_evicted() -> bool:
        for pod, uid in list(remaining.items()):
            if _evict(site, pod, uid) in (201, 404, 409):
                del remaining[pod]
        return not remaining

    until(are_evicted, lambda: f"not evicted: {remaining}\n{_budget(site)}\n{site.logs()}", TIMEOUT)


def _budget(site: Site) -> Json:
    budget: Json = site.kube.get("poddisruptionbudgets", site.namespace, "efrit-crew")
    return budget


def _guards(site: Site, pod: str) -> bool:
    """Return whether the budget guards this pod alone, and the cluster has taken that in."""
    budget = _budget(site)
    expression, status = budget["spec"]["selector"]["matchExpressions"][0], budget.get("status", {})
    is_seen = status.get("observedGeneration") == budget["metadata"]["generation"]
    return bool(expression.get("values") == [pod] and is_seen and status["currentHealthy"] == 1)


def test_an_eviction_takes_an_idle_member_and_leaves_one_alone_until_its_longer_work_has_ended(site: Site) -> None:
    pods = _pool(site, 2)
    gate = Path("/tmp/go-" + site.namespace)
    site.ask_pool("long", f'(progn (while (not (file-exists-p "{gate}")) (sleep-for 0.02)) \'done)')
    busy = f"efrit-{site.until_status('long', phase='Running')['instanceName']}-0"
    until(lambda: _guards(site, busy), lambda: f"it is not guarded: {_budget(site)}\n{site.logs()}", TIMEOUT)
    assert _evict(site, busy, pods[busy]) == 429
    (idle,) = pods.keys() - {busy}
    assert _evict(site, idle, pods[idle]) == 201
    assert site.kube.get("pods", site.namespace, busy)["metadata"].get("deletionTimestamp") is None

    gate.touch()
    try:
        assert site.answer("long")["result"] == "done"
    finally:
        gate.unlink()
    _drain(site, {busy: pods[busy]})
    site.ask_pool("later", "(+ 1 2)")
    assert site.answer("later")["result"] == "3"


def test_each_request_runs_once_and_is_answered_while_all_pods_of_a_pool_are_evicted(
    site: Site, tmp_path: Path
) -> None:
    pods, log = _pool(site, 3), tmp_path / "runs"
    for number in range(12):
        run = f'(write-region "{number}\\n" nil "{log}" t)'
        site.ask_pool(f"r{number}", f"(progn {run} (sleep-for 0.5) {number})")
    site.answer("r0")
    _drain(site, pods)
    answers = [site.answer(f"r{number}") for number in range(12)]
    assert [answer.get("result") for answer in answers] == [str(number) for number in range(12)], site.logs()
    assert sorted(map(int, log.read_text().split())) == list(range(12))


def test_what_is_handed_over_in_the_moment_of_the_stop_or_answered_in_it_is_not_lost(site: Site) -> None:
    pods = _pool(site, 1)
    (name,) = pods
    gate = Path("/tmp/go-" + site.namespace)
    site.ask_pool("running", f'(progn (while (not (file-exists-p "{gate}")) (sleep-for 0.02)) \'done)')
    member = site.until_status("running", phase="Running")["instanceName"]
    pod = site.node.pod(member)

    # Nothing that its Emacs does, and nothing that is sent to it, is known to the bridge before it is asked to stop.
    pod.freeze_bridge(True)
    site.ask_pool("waiting", "(+ 1 2)")
    until(lambda: site.status("waiting").get("queueID"), lambda: f"it is not handed over\n{site.logs()}", TIMEOUT)
    gate.touch()
    try:
        site.kube.delete("pods", site.namespace, name)
        until(lambda: pod.bridge_is_asked_to_stop, lambda: f"Emacs does not end\n{site.logs()}", TIMEOUT)
    finally:
        gate.unlink()
        pod.freeze_bridge(False)

    answers = [site.answer(request) for request in ("running", "waiting")]
    assert [answer.get("result") for answer in answers] == ["done", "3"], site.logs()


def test_what_waits_in_the_queue_of_a_member_is_answered_before_its_pod_goes(site: Site) -> None:
    pods = _pool(site, 1)
    (name,) = pods
    gate = Path("/tmp/go-" + site.namespace)
    site.ask_pool("running", f'(progn (while (not (file-exists-p "{gate}")) (sleep-for 0.02)) \'done)')
    pod = site.node.pod(site.until_status("running", phase="Running")["instanceName"])
    site.ask_pool("waiting", "(+ 1 2)")
    until(lambda: any((pod.queue / "requests").iterdir()), lambda: f"it is not handed over\n{site.logs()}", TIMEOUT)
    site.kube.delete("pods", site.namespace, name)
    gate.touch()
    try:
        answers = [site.answer(request) for request in ("running", "waiting")]
    finally:
        gate.unlink()
    assert [answer.get("result") for answer in answers] == ["done", "3"], site.logs()
    assert {answer["podUID"] for answer in answers} == {pods[name]}
