"""Base models of tool arguments and structured output, and the field types they share. No I/O, no protocol.

Clients see the JSON schemas of these models (`json_schema`). The arguments and output of efrit_execute and of the
tools in `tools.instances` are published and keep their names; only optional fields may be added.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, TypeVar

from msgspec import Struct, to_builtins
from pydantic import BaseModel, ConfigDict, Field, GetPydanticSchema, WithJsonSchema
from pydantic_core import CoreSchema, core_schema

_ID = r"^[A-Za-z0-9_-][A-Za-z0-9._-]*$"

InstanceName = Annotated[str, Field(min_length=1, max_length=253, pattern=_ID)]
Target = Annotated[str, Field(min_length=1, max_length=253, pattern=r"^(\*|[A-Za-z0-9_-][A-Za-z0-9._-]*)$")]
PoolName = Annotated[str, Field(min_length=1, max_length=63, pattern=_ID)]
ClaimName = Annotated[str, Field(min_length=1, max_length=63, pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")]
RequestId = Annotated[str, Field(min_length=1, max_length=253, pattern=_ID, description="Id of the request.")]
WorkType = Literal["command", "eval", "chat"]
Seconds = Annotated[float, Field(gt=0, le=604_800)]
WaitSeconds = Annotated[float, Field(ge=0, le=604_800)]


def _value_schema(kind: type[Struct], _handler: object) -> CoreSchema:
    serialization = core_schema.plain_serializer_function_ser_schema(lambda value: _known(to_builtins(value)))
    return core_schema.is_instance_schema(kind, serialization=serialization)


def _known(value: Any) -> Any:
    if isinstance(value, list):
        return [_known(item) for item in value]
    if isinstance(value, dict):
        return {name: _known(item) for name, item in value.items() if item is not None}
    return value


_Client = TypeVar("_Client", bound=Struct)
Value = Annotated[_Client, GetPydanticSchema(_value_schema), WithJsonSchema({"type": "object"})]
"""A value of the client as a part of an output, field by field. The list of tools has only its type."""


class Arguments(BaseModel):
    """Arguments of a tool. Unknown names are refused, so that a misspelt option is not ignored."""

    model_config = ConfigDict(frozen=True, extra="forbid")


LISTED = 200
"""Entries of a list, where nobody asks for another number."""


class ListArguments(Arguments):
    """Arguments of a tool that lists: none has to be given."""

    limit: Annotated[int, Field(ge=1, le=1000)] = Field(default=LISTED, description="Maximum number.")


class Output(BaseModel):
    """Structured output of a tool; unknown values are left out. Made of a client's value by name."""

    model_config = ConfigDict(frozen=True, from_attributes=True)

    listed: ClassVar[tuple[str, ...]] = ()
    """What clients see of a large output in the list of tools, which each model reads whole; empty: all of it."""

    @property
    def is_error(self) -> bool:
        """Whether the result of the call is marked as an error."""
        return False


class ListOutput(Output):
    """Output of a tool that lists, within the limit of its arguments and of an answer."""

    left_out: int | None = Field(default=None, description="Number left out.")


def left_out(listed: int, found: int) -> int | None:
    """Return how many of those that were found are not listed, None for none."""
    return found - listed or None
