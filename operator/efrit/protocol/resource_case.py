"""How a resource spells what is defined here: words and names of fields in the case of Kubernetes. Pure.

A struct is an object there with its fields in camelCase, but for the place for keys of later versions.
"""

import re
from collections.abc import Mapping
from enum import StrEnum
from functools import cache
from types import UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

from msgspec import Meta, Struct
from msgspec.structs import fields

S = TypeVar("S", bound=Struct)

IN_SECONDS = {"unit": "seconds"}
"""`extra` of the `Meta` of a time whose name says no unit: in a resource it does."""


def resource_word(word: StrEnum) -> str:
    """Return a word of the wire in the case of a resource: `if-interrupted` is `IfInterrupted`."""
    return word.value.title().replace("-", "")


@cache
def resource_names(kind: type[Struct]) -> Mapping[str, str]:
    """Return the fields of a struct, each with its name in a resource."""
    return {field.name: _camel(field.name + _unit(field.type)) for field in fields(kind) if field.name != "extra"}


def from_resource(kind: type[S], value: Mapping[str, Any]) -> S:
    """Return the `kind` that an object of a resource is. Raises `ValueError` for a word that is none of its words.

    Bounds are not checked, which the API server has done: those of a later version may be wider.
    """
    names = resource_names(kind)
    known = {field.name: field.type for field in fields(kind) if value.get(names.get(field.name, "")) is not None}
    return kind(**{name: _member(type_, value[names[name]]) for name, type_ in known.items()})


def to_resource(value: Struct) -> dict[str, Any]:
    """Return the object of a resource that a struct of plain values is, without what is None."""
    members = {name: getattr(value, own_name) for own_name, name in resource_names(type(value)).items()}
    return {name: member for name, member in members.items() if member is not None}


def _member(annotation: Any, value: Any) -> Any:
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _member(parts[0], value)
    if origin in (Union, UnionType):
        (part,) = (part for part in parts if part is not type(None))
        return _member(part, value)
    if origin is tuple:
        return tuple(_member(parts[0], item) for item in value)
    if isinstance(annotation, type) and issubclass(annotation, Struct):
        return from_resource(annotation, value)
    if isinstance(annotation, type) and issubclass(annotation, StrEnum | float):
        return annotation(value)
    return value


def _unit(annotation: Any) -> str:
    metadata = get_args(annotation)[1:] if get_origin(annotation) is Annotated else ()
    units = [f"_{part.extra['unit']}" for part in metadata if isinstance(part, Meta) and part.extra]
    return "".join(units)


def _camel(name: str) -> str:
    return re.sub("_(.)", lambda match: match[1].upper(), name)
