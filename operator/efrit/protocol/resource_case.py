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
    return re.sub("[-_]", "", word.value.title())


@cache
def resource_names(kind: type[Struct]) -> Mapping[str, str]:
    """Return the fields of a struct, each with its name in a resource."""
    return {field.name: _camel(field.name + _unit(field.type)) for field in fields(kind) if field.name != "extra"}


def from_resource(kind: type[S], value: Mapping[str, Any]) -> S:
    """Return the `kind` that an object of a resource is. Raises `ValueError` for one that is none.

    Its words are those of the wire, as `to_resource` leaves them. Bounds are not checked, which the API server has
    done: those of a later version may be wider.
    """
    types = {field.name: field.type for field in fields(kind)}
    names = resource_names(kind).items()
    try:
        if not isinstance(value, Mapping):
            raise TypeError(f"{kind.__name__} is an object, not {type(value).__name__}")
        known = {own_name: value[name] for own_name, name in names if value.get(name) is not None}
        return kind(**{own_name: _member(types[own_name], member) for own_name, member in known.items()})
    except TypeError as error:
        raise ValueError(str(error)) from error


def to_resource(value: Struct) -> dict[str, Any]:
    """Return the object of a resource that a struct is, without what is None; words are as they are on the wire.

    A struct in it, alone or in a tuple, becomes an object as well.
    """
    members = {name: getattr(value, own_name) for own_name, name in resource_names(type(value)).items()}
    return {name: _plain(member) for name, member in members.items() if member is not None}


def _plain(member: Any) -> Any:
    if isinstance(member, tuple):
        return [_plain(item) for item in member]
    return to_resource(member) if isinstance(member, Struct) else member


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
    """Return what the name of a field has after it: said of its type, or of a part of a union."""
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        metas = [part for part in parts[1:] if isinstance(part, Meta)]
        units = [f"_{meta.extra['unit']}" for meta in metas if meta.extra and "unit" in meta.extra]
        return units[0] if units else _unit(parts[0])
    return max(map(_unit, parts)) if origin in (Union, UnionType) else ""


def _camel(name: str) -> str:
    return re.sub("_(.)", lambda match: match[1].upper(), name)
