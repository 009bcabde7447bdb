"""Types of the wire as fields of a resource: defined in `efrit.protocol`, spelled as Kubernetes spells them."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import msgspec
from pydantic import BeforeValidator, GetPydanticSchema, PlainSerializer, WithJsonSchema
from pydantic.alias_generators import to_camel
from pydantic_core import core_schema

from efrit.protocol.enums import RetryPolicy
from efrit.protocol.session import Usage


def resource_word(word: StrEnum) -> str:
    """Return a word of the wire in the case of a resource: `if-interrupted` is `IfInterrupted`."""
    return word.value.title().replace("-", "")


def _word(kind: type[StrEnum]) -> list[Any]:
    """Return the annotations of a field that has a word of `kind` in the case of a resource."""
    words = {resource_word(word): word for word in kind}

    def read(value: object) -> object:
        if isinstance(value, kind):
            return value
        if value not in words:
            raise ValueError(f"Input should be {' or '.join(words)}")
        return words[str(value)]

    return [
        BeforeValidator(read),
        PlainSerializer(resource_word, return_type=str),
        WithJsonSchema({"enum": list(words), "type": "string"}),
    ]


def _struct(kind: type[Usage]) -> list[Any]:
    """Return the annotations of a field that holds a `kind`, in camelCase and without fields of later versions."""
    names = {to_camel(name): name for name in kind.__struct_fields__ if name != "extra"}

    def read(value: object) -> Usage:
        if isinstance(value, kind):
            return value
        if not isinstance(value, dict):
            raise ValueError(f"Input should be an object, not {value!r:.80}")
        return kind.from_dict({names[key]: member for key, member in value.items() if key in names})

    def written(value: Usage) -> dict[str, Any]:
        return {key: getattr(value, name) for key, name in names.items()}

    return [
        GetPydanticSchema(lambda _kind, _handler: core_schema.no_info_plain_validator_function(read)),
        PlainSerializer(written, return_type=dict[str, Any]),
        WithJsonSchema(_json_schema(kind, names)),
    ]


def _json_schema(kind: type[Usage], names: dict[str, str]) -> dict[str, Any]:
    """Return the schema of `kind` for a CRD, which may not bound the names of members."""
    fields = msgspec.json.schema(kind)["$defs"][kind.__name__]["properties"]

    def kept(schema: dict[str, Any]) -> dict[str, Any]:
        values = {key: value for key, value in schema.items() if key not in ("default", "propertyNames")}
        return {key: kept(value) if isinstance(value, dict) else value for key, value in values.items()}

    properties = {key: kept(fields[name]) for key, name in names.items()}
    return {"type": "object", "description": kind.__doc__, "properties": properties}


RetryPolicyField = Annotated[RetryPolicy, *_word(RetryPolicy)]
UsageField = Annotated[Usage, *_struct(Usage)]
