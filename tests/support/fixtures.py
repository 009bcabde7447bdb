"""Fixtures of several tiers, which their conftest.py imports: an API server and the compiled Lisp, once a run.

Tests are kept apart by their namespaces. Those that stop the API server or change what is of the whole cluster have
one of their own: `own_control_plane`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.cluster.control_plane import ControlPlane, Ports
from tests.forks import made_once
from tests.scratch import owned_for_a_while
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


class Audited(NamedTuple):
    """A control plane and the file in which it writes down every write to our resources, one JSON object a line."""

    plane: ControlPlane
    log: Path


FOR_ALL_FORKS = pytest.StashKey[Audited]()
NEEDING_IT = frozenset({"plane", "efrit"})
"""Fixtures of whose tests some want the control plane; `efrit` asks for it where its place is the cluster."""


@contextmanager
def own_control_plane() -> Iterator[Audited]:
    """Run an audited control plane."""
    with owned_for_a_while("audit") as directory:
        (directory / "policy.json").write_text(json.dumps(AUDIT_POLICY))
        log = directory / "audit.log"
        with audited(log) as plane:
            yield Audited(plane, log)


def pytest_before_forks(session: pytest.Session, until_end: ExitStack) -> None:
    """Run one control plane for all forks: each takes 3 s of a processor to start, and 1 % of it from then on."""
    config = session.config
    wanted = (NEEDING_IT.intersection(getattr(item, "fixturenames", ())) for item in session.items)
    if SHARED_PLANE in os.environ or FOR_ALL_FORKS in config.stash or not any(wanted):
        return
    made = config.stash[FOR_ALL_FORKS] = until_end.enter_context(own_control_plane())
    with closing(Kube(made.plane)) as client:
        install_crds(client)


def audited(log: Path) -> ControlPlane:
    """Return a control plane that writes down, in `log`, what the policy beside it asks for.

    It keeps every version there ever was: a list of the past may be asked for later than five minutes after it.
    """
    policy = f"--audit-policy-file={log.parent / 'policy.json'}"
    flags = (policy, f"--audit-log-path={log}", "--audit-log-mode=blocking", "--etcd-compaction-interval=0")
    return ControlPlane(flags=flags)


@pytest.fixture(scope="session")
def control_plane(pytestconfig: pytest.Config) -> Iterator[Audited]:
    """etcd and kube-apiserver; builds or installs what is missing, and says so when it cannot."""
    if shared := os.environ.get(SHARED_PLANE):
        directory, *ports = json.loads(shared)
        with owned_for_a_while("audit") as empty:
            yield Audited(ControlPlane(Path(directory), ports=Ports(*ports)), empty / "audit.log")
    elif (made := pytestconfig.stash.get(FOR_ALL_FORKS, None)) is not None:
        yield made
    else:
        with own_control_plane() as made:
            yield made


@pytest.fixture(scope="session")
def audit_log(control_plane: Audited) -> Path:
    """Return where the API server writes down every write to our resources, one JSON object a line."""
    return control_plane.log


@pytest.fixture(scope="session")
def plane(control_plane: Audited) -> ControlPlane:
    """Return the control plane of the run."""
    return control_plane.plane


@pytest.fixture(scope="session")
def kube(plane: ControlPlane, pytestconfig: pytest.Config) -> Iterator[Kube]:
    """Yield the administrator's connection, with the CRDs established."""
    with closing(Kube(plane)) as client:
        if SHARED_PLANE in os.environ:
            remove_crds(client)
        if FOR_ALL_FORKS not in pytestconfig.stash:
            install_crds(client)
        yield client


@pytest.fixture(scope="session")
def lisp(pytestconfig: pytest.Config) -> Path:
    """Return the Lisp files with their compiled ones, as the operator's image has them."""
    return made_once(pytestconfig, "compiled-lisp", compiled_lisp)
