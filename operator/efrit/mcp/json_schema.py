"""JSON schemas of the models, in a form every client reads: no references, no null unions, no titles.

Pure. Optional fields are left out of `required`; null is accepted for them all the same.
"""

from __future__ import annotations

from functools import cache
from typing import Any, cast

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema


class _Flat(GenerateJsonSchema):
    def nullable_schema(self, schema: core_schema.NullableSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        result = super().default_schema(schema)
        if result.get("default", ...) is None:
            del result["default"]
        return result


@cache
def json_schema_of(model: type[BaseModel]) -> dict[str, Any]:
    """Return the schema of `model`, cached."""
    schema = model.model_json_schema(schema_generator=_Flat)
    return cast("dict[str, Any]", _inlined(schema, schema.get("$defs", {})))


def listed_schema(model: type[BaseModel], names: tuple[str, ...]) -> dict[str, Any]:
    """Return the schema of an output as the list of tools has it: no prose; with `names`, these fields alone.

    What is not in it is returned all the same: a schema without `additionalProperties` allows it.
    """
    schema = json_schema_of(model)
    if not names:
        return cast("dict[str, Any]", _without_prose(schema))
    properties = {name: {"type": schema["properties"][name]["type"]} for name in names}
    required = [name for name in schema.get("required", ()) if name in names]
    return {"type": "object", "properties": properties, "required": required}


def _without_prose(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_prose(item) for item in value]
    if not isinstance(value, dict):
        return value
    members = {key: item for key, item in value.items() if not (key == "description" and isinstance(item, str))}
    return {key: _without_prose(item) for key, item in members.items() if key != "default"}


def _inlined(value: Any, definitions: dict[str, Any]) -> Any:
    if isinstance(value, list):
        return [_inlined(item, definitions) for item in value]
    if not isinstance(value, dict):
        return value
    if "$ref" in value:
        siblings = {key: sibling for key, sibling in value.items() if key != "$ref"}
        return _inlined({**definitions[value["$ref"].rsplit("/", 1)[1]], **siblings}, definitions)
    return {
        # Below `properties` the keys are names of fields, and one may be called title.
        key: {name: _inlined(field, definitions) for name, field in inner.items()}
        if key == "properties"
        else _inlined(inner, definitions)
        for key, inner in value.items()
        if key != "$defs" and not (key == "title" and isinstance(inner, str))
    }
