"""One connection for the run, namespaces that are taken away again, and an operator that may not crash."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from efrit.kube.media_types import MERGE_PATCH
from tests.support.kube import Json, Kube, until
from tests.support.kubeconfig import Kubeconfig
from tests.support.kubectl import kubectl
from tests.support.model_service import ModelService

RELEASE = os.environ.get("RELEASE", "efrit-operator")
SYSTEM = os.environ.get("NAMESPACE", "efrit-system")
OPERATOR = "app.kubernetes.io/name=efrit-operator"
RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}
NewNamespace = Callable[[], str]


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Fail neither those that are `alone` nor the others where all that were chosen by name are in the other half."""
    if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and session.config.option.markexpr:
        session.exitstatus = pytest.ExitCode.OK


@pytest.fixture(scope="session")
def kube() -> Iterator[Kube]:
    """Yield the administrator's connection."""
    client = Kube(Kubeconfig())
    try:
        yield client
    finally:
        client.close()


@pytest.fixture(scope="session")
def new_namespace(kube: Kube) -> Iterator[NewNamespace]:
    """Make namespaces that enforce the restricted Pod Security Standard; all of them are gone after the run."""
    made: list[str] = []

    def make() -> str:
        name = f"e2e-{secrets.token_hex(3)}"
        kube.create("Namespace", None, {"metadata": {"name": name, "labels": RESTRICTED}})
        made.append(name)
        # Kubernetes creates the account a moment later, and refuses pods without it.
        until(lambda: kube.find("ServiceAccount", name, "default") is not None, f"{name} gets no service account")
        return name

    yield make

    def remaining_namespaces() -> list[str]:
        return [name for name in made if kube.find("Namespace", None, name) is not None]

    for name in remaining_namespaces():
        kube.discard("Namespace", None, name)
    until(
        lambda: not remaining_namespaces(),
        lambda: f"namespaces do not go: {remaining_namespaces()}\n{kubectl('get', 'ns,pods', '-A')}",
    )


@pytest.fixture
def namespace(kube: Kube, new_namespace: NewNamespace) -> Iterator[str]:
    """Yield a namespace for one test."""
    name = new_namespace()
    yield name
    kube.discard("Namespace", None, name)


@pytest.fixture(scope="module")
def shared_namespace(kube: Kube, new_namespace: NewNamespace) -> Iterator[str]:
    """Yield a namespace for the tests of one module."""
    name = new_namespace()
    yield name
    kube.discard("Namespace", None, name)


def operator_pods(kube: Kube) -> list[Json]:
    """Return the pods of the operator."""
    return kube.list("Pod", SYSTEM, labelSelector=f"app.kubernetes.io/instance={RELEASE},{OPERATOR}")


def wait_operator(kube: Kube) -> Json:
    """Return the operator's pod once it leads."""

    def leading() -> Json | None:
        pods = operator_pods(kube)
        serving = [pod for pod in pods if not pod["metadata"].get("deletionTimestamp") and _ready(pod)]
        return serving[0] if len(pods) == 1 and serving else None

    return until(leading, lambda: f"the operator is not ready\n{kubectl('get', 'pods', '-n', SYSTEM)}")


def _uids(pods: list[Json]) -> set[str]:
    return {pod["metadata"]["uid"] for pod in pods if not pod["metadata"].get("deletionTimestamp")}


def _ready(pod: Json) -> bool:
    conditions = pod["status"].get("conditions", [])
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)


@pytest.fixture(autouse=True)
def _operator_does_not_crash(kube: Kube, request: pytest.FixtureRequest) -> Iterator[None]:
    """No test may make a container of the operator end; one that replaces its pod is marked `alone`."""
    before = _uids(operator_pods(kube))
    yield
    after = operator_pods(kube)
    if request.node.get_closest_marker("alone") is None:
        assert _uids(after) == before, "it replaced the operator's pod, which other tests use: mark it `alone`"
    for pod in after:
        for status in pod["status"].get("containerStatuses", []):
            if status["restartCount"]:
                name = pod["metadata"]["name"]
                log = kubectl("logs", name, "-n", SYSTEM, "--previous", "--tail=60", check=False)
                # As it has to do on a machine that stands still for longer than its lease.
                assert "the controller stops: the lease is lost" in log, f"{name} has restarted\n{log}"


@pytest.fixture(scope="session")
def emacs_image(kube: Kube) -> str:
    """Return the image of instances that name none."""
    manifest = kubectl("get", "deployment", RELEASE, "-n", SYSTEM, "-o", "yaml")
    match = re.search(r"name: EFRIT_EMACS_IMAGE\n\s+value: (\S+)", manifest)
    assert match, manifest
    return match.group(1)


@pytest.fixture(scope="module")
def shared_model(kube: Kube, shared_namespace: str) -> ModelService:
    """Return a model's API that plays scenarios, for the instances of one module."""
    operator = kube.get("Deployment", SYSTEM, RELEASE)
    image = operator["spec"]["template"]["spec"]["containers"][0]["image"]
    return ModelService.create(kube, shared_namespace, image)


@contextmanager
def stopped_operator(kube: Kube) -> Iterator[None]:
    """No operator at all in the meantime."""

    def scale(replicas: int) -> None:
        kube.call(
            "PATCH",
            kube.path("Deployment", SYSTEM, RELEASE, "scale"),
            {"spec": {"replicas": replicas}},
            content_type=MERGE_PATCH,
        )

    scale(0)
    try:
        until(lambda: not operator_pods(kube), "the operator's pod stays")
        yield
    finally:
        scale(1)
        wait_operator(kube)
