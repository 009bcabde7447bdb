"""A struct of msgspec as a field of a model of pydantic: one definition for both.

What the wire and the clients have must not load pydantic, which the resources and the tools of the MCP server are
made of. Their models take a struct over by `Annotated[Usage, StructField(names)]`: with its bounds, its defaults and
its descriptions, in what pydantic accepts, writes and describes.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import reduce
from operator import or_
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from msgspec import NODEFAULT, Meta, Struct, structs
from pydantic import Field, GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

Names = Callable[[type[Struct]], Mapping[str, str]]
"""Fields of a kind of struct, each with its name in the object."""

_NOT_TAKEN_OVER = ("title", "examples", "extra_json_schema", "tz")


def all_fields(kind: type[Struct]) -> Mapping[str, str]:
    """Return all fields by their own names, without the place for keys of later versions."""
    return {name: name for name in kind.__struct_fields__ if name != "extra"}


def fields_named(*names: str) -> Names:
    """Return the choice of these fields, by their own names."""
    return lambda _kind: {name: name for name in names}


# Compared and hashed as the one that it is: pydantic does so with what annotates a type.
@dataclass(frozen=True, eq=False)
class StructField:
    """Annotation of a field that holds a struct, or an object of JSON that becomes one.

    `names`: those of the struct's fields that the object has; the others are left out.
    `overrides`: types that are bounded otherwise here, by the name of the field. Where one of them has no
    description, that of the struct is taken. `required`: fields that an object must have although the struct has a
    default. `forbid_extra`: other names are refused instead of ignored.

    An object is checked. A struct that is passed in is taken and written as it is: whoever makes it keeps the bounds,
    those of `overrides` included.
    """

    names: Names
    overrides: Mapping[str, Any] = field(default_factory=dict)
    required: Collection[str] = ()
    forbid_extra: bool = False

    def __get_pydantic_core_schema__(self, kind: type[Struct], handler: GetCoreSchemaHandler) -> CoreSchema:
        """Return the schema of the object, and what makes the struct of it. Raises `TypeError` for wrong names."""
        names = self.names(kind)
        members = {member.name: member for member in structs.fields(kind)}
        if unknown := sorted({*names, *self.overrides, *self.required} - members.keys()):
            raise TypeError(f"{kind.__name__} has no field {unknown[0]}")
        description = {"description": inspect.cleandoc(kind.__doc__)} if kind.__doc__ else {}
        shape = core_schema.typed_dict_schema(
            {name: self._member(members[own_name], handler) for own_name, name in names.items()},
            extra_behavior="forbid" if self.forbid_extra else "ignore",
            metadata={"pydantic_js_updates": description},
        )

        def read(value: object, inner: Callable[[object], Mapping[str, Any]]) -> Struct:
            if isinstance(value, kind):
                return value
            values = inner(value)
            return kind(**{own_name: values[name] for own_name, name in names.items()})

        def written(value: Struct) -> dict[str, Any]:
            return {name: getattr(value, own_name) for own_name, name in names.items()}

        return core_schema.no_info_wrap_validator_function(
            read,
            shape,
            serialization=core_schema.plain_serializer_function_ser_schema(written, return_schema=shape),
        )

    def _member(self, member: structs.FieldInfo, handler: GetCoreSchemaHandler) -> core_schema.TypedDictField:
        annotation = self._for_pydantic(self.overrides.get(member.name, member.type))
        if not _description(annotation):
            annotation = Annotated[annotation, Field(description=_description(member.type))]
        schema = handler.generate_schema(annotation)
        if member.required or member.name in self.required:
            return core_schema.typed_dict_field(schema)
        if member.default is not NODEFAULT:
            schema = core_schema.with_default_schema(schema, default=member.default)
        else:
            schema = core_schema.with_default_schema(schema, default_factory=member.default_factory)
        return core_schema.typed_dict_field(schema, required=False)

    def _for_pydantic(self, annotation: Any) -> Any:
        """Return the type of a field in the words of pydantic, structs in it included."""
        origin, parts = get_origin(annotation), get_args(annotation)
        if isinstance(annotation, type) and issubclass(annotation, Struct):
            return Annotated[annotation, StructField(self.names, forbid_extra=self.forbid_extra)]
        if origin is None:
            return annotation
        if origin is Annotated:
            return Annotated[self._for_pydantic(parts[0]), *map(_bounds, parts[1:])]
        inner = tuple(self._for_pydantic(part) for part in parts)
        return reduce(or_, inner) if origin in (Union, UnionType) else origin[inner]


def _bounds(meta: Any) -> Any:
    """Return the bounds and the description of a field in the words of pydantic; `extra` is for others."""
    if not isinstance(meta, Meta):
        return meta
    if others := [name for name in _NOT_TAKEN_OVER if getattr(meta, name) is not None]:
        raise TypeError(f"Meta has {', '.join(others)}, which the field of a model does not take over")
    return Field(
        ge=meta.ge,
        gt=meta.gt,
        le=meta.le,
        lt=meta.lt,
        multiple_of=meta.multiple_of,
        min_length=meta.min_length,
        max_length=meta.max_length,
        pattern=meta.pattern,
        description=meta.description,
    )


def _description(annotation: Any) -> str | None:
    metadata = get_args(annotation)[1:] if get_origin(annotation) is Annotated else ()
    return next((text for part in metadata if (text := getattr(part, "description", None))), None)
