"""One control plane for the whole test run, one namespace per test."""

from __future__ import annotations

import json
import secrets
from collections.abc import Generator, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import yaml

from tests.cluster.control_plane import ControlPlane
from tests.cluster.paths import REPOSITORY
from tests.integration.kube import Kube, Refused, until
from tests.integration.stories import stories

AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {
            "level": "Metadata",
            "verbs": ["create", "update", "patch", "delete"],
            "resources": [{"group": "efrit.dev"}],
        },
        {"level": "None"},
    ],
}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        report.sections += stories()
    return report


@pytest.fixture(scope="session")
def audit_log() -> Iterator[Path]:
    """Where the API server writes down every write to our resources, one JSON object a line."""
    with TemporaryDirectory(prefix="efrit-audit-") as directory:
        (Path(directory) / "policy.json").write_text(json.dumps(AUDIT_POLICY))
        yield Path(directory) / "audit.log"


@pytest.fixture(scope="session")
def plane(audit_log: Path) -> Iterator[ControlPlane]:
    """etcd and kube-apiserver; builds or installs what is missing, and says so when it cannot."""
    flags = (
        f"--audit-policy-file={audit_log.parent / 'policy.json'}",
        f"--audit-log-path={audit_log}",
        "--audit-log-mode=blocking",
    )
    with ControlPlane(flags=flags) as running:
        yield running


@pytest.fixture(scope="session")
def kube(plane: ControlPlane) -> Iterator[Kube]:
    """The administrator's connection, with the CRDs established."""
    client = Kube(plane)
    try:
        install_crds(client)
        yield client
    finally:
        client.close()


def install_crds(client: Kube) -> None:
    """Install the CRDs and return once they are served."""
    for path in sorted((REPOSITORY / "crds").glob("*.yaml")):
        _install(client, path)


def _install(client: Kube, path: Path) -> None:
    definition = yaml.safe_load(path.read_text())
    root = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    client.call("POST", root, definition, fieldValidation="Strict")
    name = definition["metadata"]["name"]

    def established() -> bool:
        conditions = client.call("GET", f"{root}/{name}").get("status", {}).get("conditions") or ()
        return any(each["type"] == "Established" and each["status"] == "True" for each in conditions)

    until(established, f"{name} is not established")
    plural = name.partition(".")[0]

    def served() -> bool:
        try:
            client.list(plural, "default")
        except Refused:
            return False
        return True

    until(served, f"{plural} are not served")


def new_namespace(client: Kube, prefix: str = "t") -> str:
    """Make a namespace with a name of its own."""
    name = f"{prefix}-{secrets.token_hex(4)}"
    client.call("POST", "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    return name


@pytest.fixture
def namespace(kube: Kube) -> str:
    """A namespace for one test."""
    return new_namespace(kube)
