"""The operator as the cluster sees it: ready, measurable, explained by kubectl."""

from __future__ import annotations

import re

import pytest

from efrit import resources
from efrit.errors import ApiError
from tests.e2e.conftest import RELEASE, SYSTEM, wait_operator
from tests.e2e.instance import Instance
from tests.support.kube import Kube, until
from tests.support.kubectl import kubectl
from tests.support.timeout import TIMEOUT


@pytest.fixture(scope="module")
def instance(kube: Kube, shared_namespace: str) -> Instance:
    return Instance.create(kube, shared_namespace, "shown").wait_ready()


def read(kube: Kube, what: str) -> str:
    """Return what the operator's Service answers, over the API server's proxy."""
    services = kube.list("Service", SYSTEM, labelSelector=f"app.kubernetes.io/instance={RELEASE}")
    (service,) = services
    place = f"{service['metadata']['name']}:{service['spec']['ports'][0]['port']}"
    return kube.read("GET", resources.SERVICES.path(SYSTEM, place, f"proxy/{what}")).decode()


def test_the_operator_answers_its_probes_through_its_service(kube: Kube) -> None:
    wait_operator(kube)

    def leads() -> bool:
        try:
            return read(kube, "readyz").strip() == "leading"
        except ApiError:
            return False  # Its Service does not lead to it yet.

    until(leads, "the operator does not lead")
    assert read(kube, "healthz").strip() == "ok"


def test_the_operator_counts_what_it_does(kube: Kube, instance: Instance) -> None:
    def finished(reason: str) -> float:
        pattern = rf'^efrit_requests_finished_total{{reason="{reason}"}} (\S+)$'
        match = re.search(pattern, read(kube, "metrics"), re.MULTILINE)
        return float(match.group(1)) if match else 0.0

    before = finished("Succeeded"), finished("EvalError")
    for content in ("1", "2", '(error "x")'):
        instance.run(content)
    until(lambda: finished("Succeeded") >= before[0] + 2, "answers are not counted")
    until(lambda: finished("EvalError") >= before[1] + 1, "errors are not counted")
    metrics = read(kube, "metrics")
    assert re.search(r"^efrit_leader 1\.0$", metrics, re.MULTILINE)
    instances = re.search(r"^efrit_instances (\S+)$", metrics, re.MULTILINE)
    assert instances
    assert float(instances.group(1)) >= 1


def test_kubectl_shows_and_explains_instances_and_requests(instance: Instance) -> None:
    namespace = instance.namespace
    request = instance.send("'visible")
    kubectl("wait", f"efr/{request.name}", "-n", namespace, "--for=condition=Complete", f"--timeout={TIMEOUT:.0f}s")
    table = kubectl("get", "efi,efr", "-n", namespace)
    assert re.search(r"efritinstance\S*/shown +Running +True +Ready", table), table
    assert re.search(rf"{request.name} +shown +eval +Succeeded +Succeeded", table), table
    assert "visible" in kubectl("get", "efr", "-n", namespace, "-o", "wide")
    # Events are sent after the status.
    until(
        lambda: re.search(r"Normal +Ready ", kubectl("describe", "efi", "shown", "-n", namespace)),
        lambda: kubectl("describe", "efi", "shown", "-n", namespace),
    )
    assert "The EfritInstance that does the work" in kubectl("explain", "efr.spec")
