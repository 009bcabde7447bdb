"""Fixtures of several tiers, which their conftest.py imports: an API server and the compiled Lisp, once a process."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.cluster.control_plane import ControlPlane, Ports
from tests.forks import made_once
from tests.support.compiled_lisp import compiled_lisp
from tests.support.custom_resources import install_crds, remove_crds
from tests.support.kube import Kube

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

SHARED_PLANE = "EFRIT_TEST_CONTROL_PLANE"
"""The variable that names a running control plane, which several processes of tests use one after the other."""


def shared_plane(plane: ControlPlane) -> str:
    """Return the value of SHARED_PLANE for a control plane."""
    ports = plane.ports
    return json.dumps([str(plane.directory), ports.api, ports.etcd, ports.peer])


@pytest.fixture(scope="session")
def audit_log() -> Iterator[Path]:
    """Where the API server writes down every write to our resources, one JSON object a line."""
    with TemporaryDirectory(prefix="efrit-audit-") as directory:
        (Path(directory) / "policy.json").write_text(json.dumps(AUDIT_POLICY))
        yield Path(directory) / "audit.log"


def audited(log: Path) -> ControlPlane:
    """Return a control plane that writes down, in `log`, what the policy beside it asks for."""
    policy = f"--audit-policy-file={log.parent / 'policy.json'}"
    return ControlPlane(flags=(policy, f"--audit-log-path={log}", "--audit-log-mode=blocking"))


@pytest.fixture(scope="session")
def plane(audit_log: Path) -> Iterator[ControlPlane]:
    """etcd and kube-apiserver; builds or installs what is missing, and says so when it cannot."""
    if shared := os.environ.get(SHARED_PLANE):
        directory, *ports = json.loads(shared)
        yield ControlPlane(Path(directory), ports=Ports(*ports))
        return
    with audited(audit_log) as running:
        yield running


@pytest.fixture(scope="session")
def kube(plane: ControlPlane) -> Iterator[Kube]:
    """Yield the administrator's connection, with the CRDs established."""
    client = Kube(plane)
    try:
        if SHARED_PLANE in os.environ:
            remove_crds(client)
        install_crds(client)
        yield client
    finally:
        client.close()


@pytest.fixture(scope="session")
def lisp(pytestconfig: pytest.Config) -> Path:
    """Return the Lisp files with their compiled ones, as the operator's image has them."""
    return made_once(pytestconfig, "compiled-lisp", compiled_lisp)
