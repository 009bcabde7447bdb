"""A HorizontalPodAutoscaler sets the size of a pool: the real HPA controller, by the samples, on the real metric.

The adapter that brings the metric into the API server is a stand-in (tests/support/metrics_adapter.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from efrit.resources import AUTOSCALERS
from tests.cluster import programs
from tests.cluster.control_plane import ControlPlane
from tests.cluster.paths import REPOSITORY
from tests.support import yaml_documents
from tests.support.kube import Json, Kube, until
from tests.support.metrics_adapter import METRIC, MetricsAdapter
from tests.support.processes import Process
from tests.support.site import Site
from tests.support.timeout import TIMEOUT

SAMPLES = REPOSITORY / "samples"
SYNC_SECONDS = 1
"""How often the HPA controller looks; 15 outside of tests."""


def _sample(name: str) -> Json:
    document: Json = yaml_documents.load((SAMPLES / name).read_text())
    return document


@pytest.fixture
def hpa_controller(plane: ControlPlane, tmp_path: Path) -> Iterator[Process]:
    """Run kube-controller-manager with the HPA controller alone."""
    programs.ensure_go_programs(("kube-controller-manager",))
    command: list[str | Path] = [
        programs.program("kube-controller-manager"),
        f"--kubeconfig={plane.kubeconfig}",
        "--controllers=horizontal-pod-autoscaler-controller",
        f"--horizontal-pod-autoscaler-sync-period={SYNC_SECONDS}s",
        "--leader-elect=false",
        "--secure-port=0",
        "--profiling=false",
    ]
    process = Process(command, {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}, tmp_path / "hpa.log", tmp_path)
    yield process
    process.kill()


@pytest.fixture
def adapter(site: Site, plane: ControlPlane, kube: Kube) -> Iterator[MetricsAdapter]:
    operator = site.operator()
    operator.start()
    adapter = MetricsAdapter(kube, plane.authority, site.namespace, lambda: operator.fetch("/metrics").text)
    yield adapter
    adapter.close()


def test_a_backlog_makes_an_autoscaler_enlarge_the_pool_and_its_end_makes_it_small_again(
    site: Site, kube: Kube, adapter: MetricsAdapter, hpa_controller: Process
) -> None:
    until(adapter.available, adapter.diagnostics, TIMEOUT)
    autoscaler = _sample("pool-hpa/autoscaler.yaml")
    autoscaler["spec"] |= {"maxReplicas": 3, "behavior": {"scaleDown": {"stabilizationWindowSeconds": 0}}}
    kube.create("efritpools", site.namespace, _sample("pool-hpa/pool.yaml"), fieldValidation="Strict")
    path = AUTOSCALERS.path(site.namespace)
    kube.call("POST", path, autoscaler, fieldValidation="Strict")

    def diagnostics() -> str:
        now = kube.call("GET", f"{path}/crew")
        return f"{now.get('status')}\n{adapter.diagnostics()}\n{hpa_controller.tail()}\n{site.logs()}"

    def replicas(count: int) -> None:
        def reached() -> bool:
            found = kube.get("efritpools", site.namespace, "crew")
            wanted: bool = found["spec"]["replicas"] == found.get("status", {}).get("ready") == count
            return wanted

        until(reached, lambda: f"not {count} members\n{diagnostics()}", TIMEOUT)

    replicas(1)
    opened = site.directory / "opened"
    wait = f'(progn (while (not (file-exists-p "{opened}")) (sleep-for 0.1)) \'done)'
    names = [site.ask(wait, to=None, poolRef={"name": "crew"}) for _ in range(6)]
    replicas(3)

    opened.touch()
    assert {site.answer(name)["result"] for name in names} == {"done"}
    replicas(1)

    def is_active() -> bool:
        conditions = kube.call("GET", f"{path}/crew")["status"]["conditions"]
        return any((entry["type"], entry["status"]) == ("ScalingActive", "True") for entry in conditions)

    # It says False for as long as the metric is not served.
    until(is_active, diagnostics)


def test_the_samples_for_autoscalers_name_the_pool_and_the_metric_there_is(kube: Kube, namespace: str) -> None:
    for folder in ("pool-hpa", "pool-keda"):
        pool = _sample(f"{folder}/pool.yaml")
        kube.create("efritpools", namespace, pool, dryRun="All", fieldValidation="Strict")
        target = {"apiVersion": pool["apiVersion"], "kind": pool["kind"], "name": pool["metadata"]["name"]}
        scaler = _sample(f"{folder}/{'autoscaler' if folder == 'pool-hpa' else 'scaledobject'}.yaml")
        assert scaler["spec"]["scaleTargetRef"] == target
    (rule,) = _sample("pool-hpa/prometheus-adapter.yaml")["rules"]["external"]
    assert rule["seriesQuery"].startswith(f"{METRIC}{{")
    (metric,) = _sample("pool-hpa/autoscaler.yaml")["spec"]["metrics"]
    assert metric["external"]["metric"]["name"] == METRIC
    (trigger,) = _sample("pool-keda/scaledobject.yaml")["spec"]["triggers"]
    assert trigger["metadata"]["query"].startswith(f"sum({METRIC}{{pool_namespace=")
