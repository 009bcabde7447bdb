"""resources.py: the one table of resources, and that nothing is spelled beside it."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest

import efrit
from efrit import resources
from efrit.api import EfritClaim, EfritInstance, EfritPlan, EfritPool, EfritRequest
from efrit.controller.model.actions import ResourceKind
from efrit.resources import RESOURCES, Resource, resource_named, resource_of

SOURCES = Path(efrit.__file__).parent
TESTS = Path(__file__).parents[1]
TREES = (SOURCES, TESTS, TESTS.parent / "samples")
OUR_VERSION = re.compile(r"(?<!kubeproxy\.config\.k8s\.io/)(?<!keda\.sh/)v1alpha1")
"""The version, unless another project's group stands before it."""


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
        assert resource_named(model.kind) is model.resource
        assert model.resource.plural == model.plural == f"{model.singular}s"
    assert get_args(ResourceKind) == tuple(
        resource.kind for resource in RESOURCES if resource.group == resources.INSTANCES.group
    )


def test_the_version_of_the_custom_resources_is_spelled_once_in_python() -> None:
    spelled = [
        f"{path.name}: {line.strip()}"
        for path in _files(SOURCES, TESTS)
        for line in path.read_text(encoding="utf-8").splitlines()
        if OUR_VERSION.search(line)
    ]
    assert spelled == ['api_group.py: VERSION = "v1alpha1"']


def _files(*trees: Path) -> list[Path]:
    return [path for tree in trees for path in sorted(tree.rglob("*.py")) if path != Path(__file__)]


def by_hand(source: str) -> Iterator[tuple[int, str]]:
    """Yield line and text of each path, and of each kind of the table beside an apiVersion, written by hand."""
    if "/api" not in source and "apiVersion" not in source:
        return
    known = {resource.kind for resource in RESOURCES} | set(vars(resources))
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Constant(value=str(text)) if text.startswith(("/apis/", "/api/v1")):
                yield node.lineno, text
            case ast.Dict():
                pairs = zip(node.keys, node.values, strict=True)
                fields = {key.value: value for key, value in pairs if isinstance(key, ast.Constant)}
                kind = _fixed_kind(fields.get("kind"))
                if kind in known and "apiVersion" in fields:
                    yield node.lineno, str(kind)


def _fixed_kind(value: ast.expr | None) -> str | None:
    """Return the kind that a text is, or the model or resource whose `kind` is taken."""
    match value:
        case ast.Constant(value=str(kind)) | ast.Attribute(value=ast.Name(id=kind), attr="kind"):
            return kind
    return None


@pytest.mark.parametrize(
    ("source", "line"),
    [
        ('a = 1\nPATH = "/apis/apps/v1/deployments"', 2),
        ('path = f"/apis/{GROUP}/{VERSION}/efritpools"', 1),
        ('path = f"/api/v1/namespaces/{namespace}/pods"', 1),
        ('owner = {"apiVersion": API_VERSION, "kind": "EfritPool", "name": "crew"}', 1),
        ('pod = {"apiVersion": "v1", "kind": "Pod", **rest}', 1),
        ('plan = {"apiVersion": version, "kind": EfritPlan.kind}', 1),
        ('pod = {"apiVersion": PODS.api_version, "kind": PODS.kind}', 1),
        ('body = {"apiVersion": resource.api_version, "kind": resource.kind}', None),
        ('options = {"apiVersion": "v1", "kind": "DeleteOptions"}', None),
        ('owner = {"kind": "EfritPool", "name": "crew"}', None),
        ("pod = PODS.manifest({}, spec=spec)", None),
    ],
)
def test_what_is_written_beside_the_table_is_found(source: str, line: int | None) -> None:
    assert [number for number, _ in by_hand(source)] == ([line] if line else [])


def test_paths_and_manifests_come_from_the_table() -> None:
    written = [
        f"{path.relative_to(tree.parent)}:{line}: {text}: take it from efrit/resources.py"
        for tree in TREES
        for path in _files(tree)
        # The test cluster starts before the package of the product is installed.
        if path.parent != TESTS / "cluster" and path != SOURCES / "resources.py"
        for line, text in by_hand(path.read_text(encoding="utf-8"))
    ]
    assert written == []


def test_the_table_loads_nothing_heavy() -> None:
    heavy = ("pydantic", "asyncio", "kubernetes", "aiohttp", "yaml", "httpx", "json", "dataclasses")
    script = f"import sys, efrit.resources; print([name for name in {heavy} if name in sys.modules])"
    environment = {"PYTHONPATH": str(SOURCES.parent)}
    done = subprocess.run([sys.executable, "-S", "-c", script], capture_output=True, text=True, env=environment)
    assert (done.stdout, done.stderr) == ("[]\n", "")
