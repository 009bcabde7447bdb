"""The two places a client works in: this machine, and a real API server with the operator. Tests run in both."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.model.running import KEY, Model, running
from tests.support.efrit_program import Program
from tests.support.local_daemons import HOMES, end_daemons
from tests.support.model_access import secret, with_model
from tests.support.site import Site

WORLD = ("PATH", "LANG", "COVERAGE_PROCESS_START", "XDG_CACHE_HOME")


@pytest.fixture(scope="session")
def model() -> Iterator[Model]:
    with running() as made:
        yield made


@contextmanager
def laptop(instances: dict[str, dict[str, object]], **env: str) -> Iterator[Program]:
    """A machine with Emacs and nothing else: a home of its own, all daemons ended at the end."""
    # Sockets have short names: the temporary directories of the test run are too deep.
    home = Path(tempfile.mkdtemp(prefix="efrit-home-"))
    HOMES.append(home)
    config = home / "config.json"
    config.write_text(json.dumps({"instances": instances, "polling_interval_ms": 100}))
    whole = {name: os.environ[name] for name in WORLD if name in os.environ}
    whole |= {"HOME": str(home), "TMPDIR": str(home), "EFRIT_CONFIG": str(config), **env}
    # Work begins where the program is run.
    made = Program("local", whole, workspace=lambda name: home, cwd=home)
    try:
        yield made
    finally:
        end_daemons(home)
        shutil.rmtree(home, ignore_errors=True)


def model_environment(model: Model, directory: Path) -> dict[str, str]:
    """What a daemon must find in its environment to have the test's model."""
    (directory / "key").write_text(f"{KEY}\n")
    return {
        "EFRIT_MODEL_NAME": "m",
        "EFRIT_MODEL_BASE_URL": model.url,
        "EFRIT_MODEL_API_KEY_FILE": str(directory / "key"),
    }


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
        whole = {name: os.environ[name] for name in WORLD if name in os.environ}
        whole |= {"HOME": str(site.directory), "KUBECONFIG": str(plane.kubeconfig)}
        yield Program(
            "cluster", whole, ("--namespace", site.namespace), workspace=lambda name: site.node.pod(name).workspace
        )
    finally:
        site.close()


@pytest.fixture(params=["local", "cluster"], scope="session")
def efrit(request: pytest.FixtureRequest) -> Program:
    """The program in each of the two places, with the instance `one`."""
    found: Program = request.getfixturevalue("on_this_machine" if request.param == "local" else "in_a_cluster")
    return found
