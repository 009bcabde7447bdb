"""kube/resources.py: the one table of resources, and that nothing is spelled beside it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import efrit
from efrit.api import EfritClaim, EfritInstance, EfritPlan, EfritPool, EfritRequest
from efrit.kube import resources
from efrit.kube.resources import RESOURCES, Resource, resource_named, resource_of

SOURCES = Path(efrit.__file__).parent


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (
            resources.REQUESTS.path("team", "work", "status"),
            "/apis/efrit.dev/v1alpha1/namespaces/team/efritrequests/work/status",
        ),
        (resources.INSTANCES.path(), "/apis/efrit.dev/v1alpha1/efritinstances"),
        (resources.SECRETS.path("team", "s"), "/api/v1/namespaces/team/secrets/s"),
        (resources.STATEFULSETS.path("team"), "/apis/apps/v1/namespaces/team/statefulsets"),
        (resources.NAMESPACES.path(name="team"), "/api/v1/namespaces/team"),
    ],
)
def test_paths_are_spelled_as_the_api_server_spells_them(path: str, expected: str) -> None:
    assert path == expected


def test_a_resource_is_found_by_kind_and_by_plural() -> None:
    for resource in RESOURCES:
        assert resource_named(resource.kind) is resource_named(resource.plural) is resource
    assert resource_named("pods").manifest({"name": "p"}, spec={}) == {
        **{"apiVersion": "v1", "kind": "Pod"},
        **{"metadata": {"name": "p"}, "spec": {}},
    }


def test_every_constant_of_the_table_is_in_it() -> None:
    named = {value for value in vars(resources).values() if isinstance(value, Resource)}
    assert named == set(RESOURCES)
    assert len(RESOURCES) == len(named)


def test_an_object_of_another_api_version_is_not_of_the_table() -> None:
    assert resource_of({"apiVersion": "v1", "kind": "Event"}) is resources.EVENTS
    with pytest.raises(KeyError, match=r"events\.k8s\.io/v1"):
        resource_of({"apiVersion": "events.k8s.io/v1", "kind": "Event"})


def test_the_custom_resources_are_those_of_the_models() -> None:
    for model in (EfritInstance, EfritRequest, EfritPlan, EfritPool, EfritClaim):
        assert resource_named(model.kind).plural == model.plural


def test_the_version_of_the_custom_resources_is_spelled_once_in_python() -> None:
    tests = Path(__file__).parents[2]
    spelled = [
        f"{path.name}: {line.strip()}"
        for path in (*sorted(SOURCES.rglob("*.py")), *sorted(tests.rglob("*.py")))
        if path != Path(__file__)
        for line in path.read_text(encoding="utf-8").splitlines()
        if "v1alpha1" in line and "kubeproxy" not in line
    ]
    assert spelled == ['api_group.py: VERSION = "v1alpha1"']


def test_the_table_loads_nothing_heavy() -> None:
    heavy = ("pydantic", "asyncio", "kubernetes", "aiohttp", "yaml", "httpx", "json", "dataclasses")
    script = f"import sys, efrit.kube.resources; print([name for name in {heavy} if name in sys.modules])"
    environment = {"PYTHONPATH": str(SOURCES.parent)}
    done = subprocess.run([sys.executable, "-S", "-c", script], capture_output=True, text=True, env=environment)
    assert (done.stdout, done.stderr) == ("[]\n", "")
