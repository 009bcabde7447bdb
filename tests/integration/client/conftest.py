"""The two places a client works in: this machine, and a real API server with the operator. Tests run in both."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.model.running import Model, running
from tests.support.efrit_program import Program
from tests.support.laptop import WORLD, laptop, model_environment
from tests.support.model_access import secret, with_model
from tests.support.site import Site

__all__ = ["efrit", "in_a_cluster", "laptop", "model", "model_environment", "on_this_machine"]


@pytest.fixture(scope="session")
def model() -> Iterator[Model]:
    with running() as made:
        yield made


@pytest.fixture(scope="session")
def on_this_machine(model: Model, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    with laptop({"one": {}}, **model_environment(model, tmp_path_factory.mktemp("model"))) as made:
        yield made


@pytest.fixture(scope="session")
def in_a_cluster(request: pytest.FixtureRequest, model: Model) -> Iterator[Program]:
    plane, kube = request.getfixturevalue("plane"), request.getfixturevalue("kube")
    site = Site(plane, kube, request.getfixturevalue("audit_log"), request.getfixturevalue("lisp"))
    try:
        site.operator().start()
        secret(kube, site.namespace, "key")
        site.instance("one", model=with_model(model))
        # What is sent to this pool waits.
        kube.create("efritpools", site.namespace, {"metadata": {"name": "nobody"}, "spec": {"replicas": 0}})
        whole = {name: os.environ[name] for name in WORLD if name in os.environ}
        whole |= {"HOME": str(site.directory), "KUBECONFIG": str(plane.kubeconfig)}
        yield Program(
            "cluster", whole, ("--namespace", site.namespace), workspace=lambda name: site.node.pod(name).workspace
        )
    finally:
        site.close()


@pytest.fixture
def fresh() -> Iterator[Program]:
    """Yield the program on a machine on which nothing was ever started."""
    with laptop({"one": {}}) as made:
        yield made


@pytest.fixture(params=["local", "cluster"], scope="session")
def efrit(request: pytest.FixtureRequest) -> Program:
    """Return the program in each of the two places, with the instance `one`."""
    program: Program = request.getfixturevalue("on_this_machine" if request.param == "local" else "in_a_cluster")
    return program
