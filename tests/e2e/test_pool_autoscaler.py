"""The samples of a HorizontalPodAutoscaler, applied as they are, with Prometheus, its adapter and the HPA controller.

Prometheus collects the metrics of the installed controller; the adapter serves them as the sample's rule says.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from tests.cluster.paths import REPOSITORY
from tests.e2e.conftest import RELEASE, SYSTEM
from tests.e2e.instance import Instance, held, send
from tests.support import monitoring, yaml_documents
from tests.support.kube import Json, Kube, until
from tests.support.kubectl import kubectl
from tests.support.timeout import TIMEOUT

SAMPLES = REPOSITORY / "samples/pool-hpa"
POOL = "crew"
REQUESTS, MEMBERS = 6, 3
"""Of two open requests for each member."""
DEFAULT_STABILIZATION_SECONDS = 300
"""After which a pool shrinks where the cluster's HPA controller has the settings of Kubernetes (kind)."""


@pytest.fixture(scope="module")
def external_metrics(kube: Kube, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    if (namespace := monitoring.served_by(kube)) not in (None, monitoring.NAMESPACE):
        pytest.skip(f"the cluster has external metrics of its own, served from the namespace {namespace}")
    rules = yaml_documents.load((SAMPLES / "prometheus-adapter.yaml").read_text())["rules"]
    metrics = f"{RELEASE}-metrics.{SYSTEM}.svc:8080"
    # As the adapter's chart writes its file of rules from these values.
    directory = tmp_path_factory.mktemp("monitoring")
    with monitoring.monitoring(kube, metrics, {"externalRules": rules["external"]}, directory):
        yield


@pytest.mark.usefixtures("external_metrics")
def test_an_autoscaler_by_the_samples_enlarges_the_pool_for_work_that_waits_and_makes_it_small_after_it(
    kube: Kube, namespace: str
) -> None:
    for name in ("pool.yaml", "autoscaler.yaml"):
        kubectl("apply", "-n", namespace, "-f", str(SAMPLES / name))

    def diagnostics() -> str:
        here = ("-n", namespace)
        described = kubectl("describe", "hpa", POOL, *here, check=False)
        objects = kubectl("get", "efp,efi,efr,pods", *here, "-o", "wide", check=False)
        return f"{described}\n{objects}\n{monitoring.diagnostics()}"

    def members(count: int, seconds: float = TIMEOUT) -> list[str]:
        def reached() -> bool:
            pool = kube.get("EfritPool", namespace, POOL)
            status: Json = pool.get("status", {})
            return bool(pool["spec"]["replicas"] == status.get("ready") == status.get("replicas") == count)

        until(reached, lambda: f"the pool has not {count} members\n{diagnostics()}", seconds)
        return [member["metadata"]["name"] for member in kube.list("EfritInstance", namespace)]

    members(1)
    go = "/workspace/go"
    to_pool: Json = {"poolRef": {"name": POOL}, "timeoutSeconds": 600}
    requests = [send(kube, namespace, held(go, str(number)), **to_pool) for number in range(REQUESTS)]
    names = members(MEMBERS)

    def spread() -> bool:
        targets = [request.get("status", {}).get("instanceName") for request in kube.list("EfritRequest", namespace)]
        return Counter(targets) == dict.fromkeys(names, REQUESTS // MEMBERS)

    # A member stays until it is touched, as it has work.
    until(spread, lambda: f"not each of {names} has its requests\n{diagnostics()}")
    for member in names:
        Instance(kube, namespace, member).touch(go)
    answers = [request.wait() for request in requests]
    assert [(answer["result"], answer["attempt"]) for answer in answers] == [
        (str(number), 1) for number in range(REQUESTS)
    ]

    members(1, DEFAULT_STABILIZATION_SECONDS + TIMEOUT)

    def is_read() -> bool:
        path = "jsonpath={.status.currentMetrics[*].external.metric.name}"
        return kubectl("get", "hpa", POOL, "-n", namespace, "-o", path) == "efrit_pool_open_requests"

    # Of a metric that is not served for a moment the status has no value.
    until(is_read, diagnostics)
