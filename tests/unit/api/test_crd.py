"""api/crd.py: the schemas an API server takes, made from the models."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from pydantic import Field

from efrit.api import EfritInstance
from efrit.api.crd import RESOURCES, definition, main, render, structural
from efrit.api.meta import ApiModel, Resource
from efrit.api.pod_template import BOUND_SOURCES
from tests.support import yaml_documents

Schema = dict[str, Any]

# Made once: no test changes them.
definition_of = cache(definition)
text_of = cache(render)


def schema_of(resource: type[Resource]) -> Schema:
    (version,) = definition_of(resource)["spec"]["versions"]
    root: Schema = version["schema"]["openAPIV3Schema"]
    return root


def nodes(schema: Schema, path: str = "") -> Iterator[tuple[str, Schema]]:
    """Every schema below this one with its path."""
    yield path, schema
    for name, below in schema.get("properties", {}).items():
        yield from nodes(below, f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield from nodes(schema[key], f"{path}[]")


@pytest.mark.parametrize("resource", RESOURCES)
def test_every_node_is_structural(resource: type[Resource]) -> None:
    for path, node in nodes(schema_of(resource)):
        assert not {"$ref", "$defs", "anyOf", "allOf", "oneOf", "const", "title", "nullable"} & node.keys(), path
        assert "type" in node or "x-kubernetes-int-or-string" in node, path
        assert node.get("type") in {None, "object", "array", "string", "integer", "number", "boolean"}, path
        if node.get("type") == "array":
            assert isinstance(node["items"], dict), path
        assert not ("properties" in node and "additionalProperties" in node), path
        assert None not in node.values(), path


@pytest.mark.parametrize("resource", RESOURCES)
def test_every_default_says_something_an_absent_field_does_not(resource: type[Resource]) -> None:
    def empty(value: Any) -> bool:
        return value in (None, [], {}) or (
            isinstance(value, dict) and any(empty(member) for member in value.values())
        )

    for path, node in nodes(schema_of(resource)):
        default = node.get("default", "absent")
        # An empty object lets the API server fill in the defaults below it.
        assert default == {} or not empty(default), path


POD = ".spec.podTemplate"
KUBERNETES_OWN = (
    ".spec.network.egress[].",
    ".spec.network.allowIngressFrom[].",
    f"{POD}.affinity.",
    f"{POD}.env[].valueFrom.",
    f"{POD}.envFrom[].configMapRef.",
    f"{POD}.envFrom[].secretRef.",
    *(f"{POD}.volumes[].{source}." for source in BOUND_SOURCES),
)
"""Below these Kubernetes has the word."""


@pytest.mark.parametrize("resource", RESOURCES)
def test_nothing_is_of_any_shape_and_so_of_any_depth(resource: type[Resource]) -> None:
    for path, node in nodes(schema_of(resource)):
        assert "x-kubernetes-preserve-unknown-fields" not in node, path
        assert (
            node.get("type") != "object"
            or path == ".metadata"
            or {"properties", "additionalProperties"} & node.keys()
        )


@pytest.mark.parametrize("place", KUBERNETES_OWN)
def test_what_is_kubernetes_own_is_known_field_by_field(place: str) -> None:
    below = [path for path, _ in nodes(schema_of(EfritInstance)) if path.startswith(place)]
    assert below, place


@pytest.mark.parametrize("resource", RESOURCES)
def test_every_field_of_ours_is_described_in_one_line(resource: type[Resource]) -> None:
    for path, node in nodes(schema_of(resource)):
        if path.replace(".spec.template.spec", ".spec").startswith(KUBERNETES_OWN):
            continue
        if path and not path.endswith("[]") and path not in (".apiVersion", ".kind", ".metadata"):
            assert node.get("description"), path
            assert "\n" not in node["description"]


@pytest.mark.parametrize("resource", RESOURCES)
def test_every_list_map_and_text_of_a_spec_is_bounded_so_that_rules_stay_affordable(resource: type[Resource]) -> None:
    for path, node in nodes(schema_of(resource)["properties"]["spec"]):
        if node.get("type") == "array":
            assert "maxItems" in node, path
        if node.get("x-kubernetes-validations"):
            assert all(rule["message"] for rule in node["x-kubernetes-validations"]), path


@pytest.mark.parametrize("resource", RESOURCES)
def test_a_status_has_no_defaults_for_nobody_but_the_controller_writes_it(resource: type[Resource]) -> None:
    assert all("default" not in node for _, node in nodes(schema_of(resource)["properties"]["status"]))


@pytest.mark.parametrize("resource", RESOURCES)
def test_status_is_a_subresource_and_conditions_are_a_map_by_type(resource: type[Resource]) -> None:
    (version,) = definition_of(resource)["spec"]["versions"]

    assert version["subresources"]["status"] == {}
    conditions = schema_of(resource)["properties"]["status"]["properties"]["conditions"]
    assert conditions["x-kubernetes-list-type"] == "map"
    assert conditions["x-kubernetes-list-map-keys"] == ["type"]


@pytest.mark.parametrize("resource", RESOURCES)
def test_columns_and_selectable_fields_point_at_fields_that_exist(resource: type[Resource]) -> None:
    known_paths = {path for path, _ in nodes(schema_of(resource))} | {".metadata.creationTimestamp"}
    paths = [column.json_path for column in resource.printer_columns] + list(resource.selectable_fields)

    assert [path for path in paths if path.split("[")[0] not in known_paths] == []


@pytest.mark.parametrize("resource", RESOURCES)
def test_the_names_of_a_resource_fit_together(resource: type[Resource]) -> None:
    crd = definition_of(resource)

    assert crd["metadata"]["name"] == f"{resource.plural}.efrit.dev"
    assert crd["spec"]["names"]["kind"] == resource.kind
    assert crd["spec"]["names"]["plural"] == resource.kind.lower() + "s"
    assert crd["spec"]["scope"] == "Namespaced"


@pytest.mark.parametrize("resource", RESOURCES)
def test_every_definition_is_plain_json_and_survives_yaml(resource: type[Resource]) -> None:
    crd = definition_of(resource)

    assert json.loads(json.dumps(crd)) == crd
    assert yaml_documents.load(text_of(resource)) == crd


@pytest.mark.parametrize("resource", RESOURCES)
def test_the_checked_in_definitions_are_those_of_the_models(resource: type[Resource]) -> None:
    root = Path(__file__).parents[3]

    checked_in = root / "charts/efrit-operator/crd-files" / f"efrit.dev_{resource.plural}.yaml"
    assert checked_in.read_text() == text_of(resource)


def test_the_command_writes_every_definition(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["crd", str(tmp_path / "new")])

    main()

    names = sorted(f"efrit.dev_{resource.plural}.yaml" for resource in RESOURCES)
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == names


# The conversion by itself.


class Inner(ApiModel):
    """Inside."""

    size: int = Field(default=1, description="Size.")


class Outer(ApiModel):
    """Outside."""

    inner: Inner | None = Field(default=None, description="Perhaps one.")
    several: tuple[Inner, ...] = Field(default=(), description="Some.")
    bare: dict[str, str] = Field(default_factory=dict, description="Labels.")
    flag: bool = Field(default=False, description="A flag.")


def test_references_are_put_in_place_and_keep_the_fields_own_words() -> None:
    schema = structural(Outer)

    assert schema["properties"]["inner"] == {
        "type": "object",
        "description": "Perhaps one.",
        "properties": {"size": {"type": "integer", "default": 1, "description": "Size."}},
    }


def test_optional_fields_lose_their_null_and_their_empty_default() -> None:
    properties = structural(Outer)["properties"]

    assert "default" not in properties["inner"]
    assert "default" not in properties["several"]
    assert "default" not in properties["bare"]
    assert properties["flag"]["default"] is False


def test_a_field_of_two_types_is_refused() -> None:
    class Torn(ApiModel):
        either: int | str

    with pytest.raises(ValueError, match="one type per field"):
        structural(Torn)
