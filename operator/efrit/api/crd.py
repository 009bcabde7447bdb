"""Writes the chart's CRDs from the models: `python -m efrit.api.crd DIR` (one YAML file per resource).

Turns pydantic's JSON schema into the structural OpenAPI schema that a CustomResourceDefinition takes: references
are put in place, optional fields lose their null, unsupported keywords go, CEL rules of the models come in.
"""

from __future__ import annotations

import inspect
import sys
from pathlib import Path
from typing import Any, TypeGuard

import yaml
from pydantic import BaseModel

from efrit.api.claim import EfritClaim
from efrit.api.instance import EfritInstance
from efrit.api.kubernetes import kubernetes_schema
from efrit.api.meta import ApiModel, Resource
from efrit.api.plan import EfritPlan
from efrit.api.pod_template import KUBERNETES_TYPE
from efrit.api.pool import EfritPool
from efrit.api.request import EfritRequest
from efrit.api_group import GROUP, VERSION
from efrit.resources import DEFINITIONS

RESOURCES: tuple[type[Resource], ...] = (EfritInstance, EfritRequest, EfritPlan, EfritPool, EfritClaim)
DROPPED_KEYWORDS = ("title", "const", "discriminator", "exclusiveMinimum", "exclusiveMaximum", "propertyNames")


def definition(resource: type[Resource]) -> dict[str, Any]:
    """Return the CustomResourceDefinition of a resource as JSON data."""
    version: dict[str, Any] = {
        "name": VERSION,
        "served": True,
        "storage": True,
        "subresources": _subresources(resource),
        "additionalPrinterColumns": [
            {
                "name": column.name,
                "type": column.type,
                "jsonPath": column.json_path,
                **({"description": column.description} if column.description else {}),
                **({"priority": column.priority} if column.priority else {}),
            }
            for column in resource.printer_columns
        ],
        "selectableFields": [{"jsonPath": path} for path in resource.selectable_fields],
        "schema": {"openAPIV3Schema": _root_schema(resource)},
    }
    return DEFINITIONS.manifest(
        {"name": f"{resource.plural}.{GROUP}"},
        spec={
            "group": GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": resource.kind,
                "listKind": f"{resource.kind}List",
                "plural": resource.plural,
                "singular": resource.singular,
                "shortNames": list(resource.short_names),
                "categories": ["efrit"],
            },
            "versions": [version],
        },
    )


def _subresources(resource: type[Resource]) -> dict[str, Any]:
    scale = resource.scale
    if scale is None:
        return {"status": {}}
    paths = {
        "specReplicasPath": scale.spec_replicas,
        "statusReplicasPath": scale.status_replicas,
        "labelSelectorPath": scale.label_selector,
    }
    return {"status": {}, "scale": paths}


def _root_schema(resource: type[Resource]) -> dict[str, Any]:
    spec = resource.model_fields["spec"].annotation
    status = resource.model_fields["status"].annotation
    if not (_is_model(spec) and _is_model(status)):
        raise TypeError(f"{resource.kind}: spec and status must be models")
    required = ["spec"] if resource.model_fields["spec"].is_required() else []
    return {
        "type": "object",
        "description": inspect.getdoc(resource),
        **({"required": required} if required else {}),
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": {
                **structural(spec),
                # An absent spec takes every default; a default on `spec` lets the API server fill the rest in.
                **({} if required else {"default": {}}),
            },
            "status": structural(status, defaults=False),
        },
        **({"x-kubernetes-validations": [rule.as_schema() for rule in resource.rules]} if resource.rules else {}),
    }


def _is_model(annotation: object) -> TypeGuard[type[BaseModel]]:
    return inspect.isclass(annotation) and issubclass(annotation, BaseModel)


def structural(model: type[BaseModel], *, defaults: bool = True) -> dict[str, Any]:
    """Return the structural schema of a model, references in place."""
    schema = model.model_json_schema(by_alias=True, mode="validation")
    definitions = schema.pop("$defs", {})
    models = {item.__name__: item for item in _models_below(model)}
    converted = _convert(schema, definitions, models, defaults)
    _add_rules(converted, model)
    return converted


def _models_below(model: type[BaseModel]) -> set[type[ApiModel]]:
    models: set[type[ApiModel]] = set()
    queue: list[Any] = [field.annotation for field in model.model_fields.values()]
    while queue:
        annotation = queue.pop()
        if inspect.isclass(annotation) and issubclass(annotation, ApiModel) and annotation not in models:
            models.add(annotation)
            queue.extend(field.annotation for field in annotation.model_fields.values())
        queue.extend(getattr(annotation, "__args__", ()))
    return models


def _add_rules(schema: dict[str, Any], model: type[BaseModel]) -> None:
    rules = getattr(model, "rules", ())
    if rules:
        schema["x-kubernetes-validations"] = [rule.as_schema() for rule in rules]


def _without_transitions(schema: Any) -> Any:
    """Return a schema without the rules that compare an object with what it was before."""
    if isinstance(schema, list):
        return [_without_transitions(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    result = {key: _without_transitions(value) for key, value in schema.items()}
    rules = result.pop("x-kubernetes-validations", None)
    kept = [rule for rule in rules or () if "oldSelf" not in rule["rule"]]
    return {**result, "x-kubernetes-validations": kept} if kept else result


def _convert(
    node: dict[str, Any], definitions: dict[str, Any], models: dict[str, type[ApiModel]], defaults: bool
) -> dict[str, Any]:
    if "$ref" in node:
        name = node["$ref"].rsplit("/", 1)[-1]
        target = _convert(definitions[name], definitions, models, defaults)
        if name in models:
            _add_rules(target, models[name])
            if models[name].may_change:
                target = _without_transitions(target)
        siblings = {key: value for key, value in node.items() if key != "$ref"}
        return _finish({**target, **_convert(siblings, definitions, models, defaults)}, defaults)
    if "anyOf" in node:
        branches = [branch for branch in node["anyOf"] if branch.get("type") != "null"]
        if len(branches) != 1:
            raise ValueError(f"a CRD schema needs one type per field, not {node}")
        siblings = {key: value for key, value in node.items() if key != "anyOf"}
        merged = {**branches[0], **siblings}
        return _convert(merged, definitions, models, defaults)
    result = {key: value for key, value in node.items() if key not in DROPPED_KEYWORDS}
    if "properties" in result:
        result["properties"] = {
            name: _convert(value, definitions, models, defaults) for name, value in result["properties"].items()
        }
    for key in ("items", "additionalProperties"):
        if isinstance(result.get(key), dict):
            result[key] = _convert(result[key], definitions, models, defaults)
    return _finish(result, defaults)


def _finish(node: dict[str, Any], defaults: bool) -> dict[str, Any]:
    result = dict(node)
    kubernetes_type = result.pop(KUBERNETES_TYPE, None)
    if kubernetes_type is not None:
        result = {
            **{key: result[key] for key in ("description",) if key in result},
            **kubernetes_schema(kubernetes_type),
        }
    if "default" in result:
        result["default"] = _minimal(result["default"])
        if not defaults or result["default"] in (None, [], {}):
            del result["default"]
    if result.get("x-kubernetes-int-or-string"):
        result.pop("type", None)
    if result.get("additionalProperties") is True:
        raise ValueError(f"what is of any shape is of any depth, and more than a JSON reader takes: {node}")
    if result.get("format") == "date-time":
        result["maxLength"] = 64
    if "description" in result:
        result["description"] = " ".join(result["description"].split())
    return result


def _minimal(default: Any) -> Any:
    """Leave out what an absent field means anyway, so that defaulting adds no empty fields to users' objects."""
    if isinstance(default, dict):
        pruned = {key: _minimal(value) for key, value in default.items()}
        return {key: value for key, value in pruned.items() if value not in (None, [], {})}
    return default


def render(resource: type[Resource]) -> str:
    """Return the CRD of a resource as YAML text with a note on where it comes from."""
    text = yaml.safe_dump(definition(resource), sort_keys=False, width=110, allow_unicode=True)
    return f"# Generated from operator/efrit/api by `make crds`: change the models, not this file.\n{text}"


def main() -> None:
    """Write every CRD into the directory named on the command line."""
    directory = Path(sys.argv[1])
    directory.mkdir(parents=True, exist_ok=True)
    for resource in RESOURCES:
        (directory / f"{GROUP}_{resource.plural}.yaml").write_text(render(resource))


if __name__ == "__main__":
    main()
