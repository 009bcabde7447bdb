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
    return cast("dict[str, Any]", _plain(schema, schema.get("$defs", {})))


def _plain(value: Any, definitions: dict[str, Any]) -> Any:
    if isinstance(value, list):
        return [_plain(item, definitions) for item in value]
    if not isinstance(value, dict):
        return value
    if "$ref" in value:
        siblings = {key: sibling for key, sibling in value.items() if key != "$ref"}
        return _plain({**definitions[value["$ref"].rsplit("/", 1)[1]], **siblings}, definitions)
    return {
        # Below `properties` the keys are names of fields, and one may be called title.
        key: {name: _plain(field, definitions) for name, field in inner.items()}
        if key == "properties"
        else _plain(inner, definitions)
        for key, inner in value.items()
        if key != "$defs" and not (key == "title" and isinstance(inner, str))
    }
