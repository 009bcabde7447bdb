"""The base of every wire model: how JSON text becomes one, and one becomes JSON text."""

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from functools import cache
from types import UnionType
from typing import Annotated, Any, NamedTuple, NewType, Self, TypeVar, Union, get_args, get_origin

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import asdict, force_setattr, replace

from efrit.errors import ProtocolError
from efrit.protocol.fields import ID_PATTERN, ID_RULE
from efrit.protocol.json_limits import MAX_PARTS, exceeds_part_limit
from efrit.protocol.times import rfc3339, rounded_to_wire

_LONGEST_PROBLEM = 300
_ERROR_PATH = re.compile(r"(?P<problem>.*?)(?: - at (?:`key` in )?`\$\.?(?P<where>.*)`)?", re.DOTALL)
_MAX_DEPTH = 64

T = TypeVar("T")


def error_line(error: Exception) -> str:
    """Return one line a person understands: `options.timeout: Expected float > 0.0`."""
    if isinstance(error, UnicodeDecodeError):
        return "it is not UTF-8"
    if isinstance(error, RecursionError):
        return "it is nested too deep"
    match = _ERROR_PATH.fullmatch(str(error))
    if match is None:
        return str(error)[:_LONGEST_PROBLEM]
    problem = match["problem"].replace(f"Expected `str` matching regex {ID_PATTERN!r}", ID_RULE)
    problem = problem.replace(" | ", " or ").replace("`", "")
    if len(problem) > _LONGEST_PROBLEM:
        problem = problem[:_LONGEST_PROBLEM] + "…"
    path = (match["where"] or "").removeprefix("extra")
    return f"{path}: {problem}" if path else problem


def read(kind: type[T], value: Any) -> T:
    """Return the `kind` that `value`, parsed JSON, stands for. Raises `ValueError`.

    A number in a string is a number, 3.0 is 3: other writers of JSON are not as strict as ours.
    """
    return msgspec.convert(value, kind, strict=False)


def canonical_json(value: Any) -> bytes:
    """Return JSON with sorted keys and no spaces, UTF-8; equal values give equal bytes."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def check_round_trip(values: Iterable[Any]) -> None:
    """Raise `ValueError` for JSON values that are not the same after they were carried on, written and read again."""
    remaining = [(value, 1) for value in values if type(value) is not str]
    while remaining:
        value, depth = remaining.pop()
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError("a number must be finite")
        # What carries it is itself carried: no reader on the way may find it too deep.
        if depth > _MAX_DEPTH:
            raise ValueError(f"it must not be nested deeper than {_MAX_DEPTH}")
        inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        remaining += [(member, depth + 1) for member in inner]


Count = Annotated[int, Meta(ge=0, le=2**53)]
"""A number of things or bytes that every JSON reader holds exactly."""

Attempt = Annotated[int, Meta(ge=0, le=2**31 - 1)]
"""How often a request was begun; 0 before its first run."""

Seconds = Annotated[float, Meta(ge=0, le=1e12)]
"""A duration; bounded, so that no sum of them becomes infinite."""


class WireModel(Struct, frozen=True, kw_only=True):
    """Immutable; unknown keys are ignored, so that an older reader understands a newer writer.

    Bounds of fields are checked where a model is read; what `__post_init__` checks, where it is made, too.
    """

    def __post_init__(self) -> None:
        """Convert times to UTC, to the millisecond. Raises `ValueError` for values that cannot be encoded."""
        fields = _fields_of(type(self))
        for name in fields.times:
            value = getattr(self, name)
            if value is not None and (rounded := rounded_to_wire(value)) is not value:
                force_setattr(self, name, rounded)
        for name in fields.objects:
            value = getattr(self, name)
            if value:
                check_round_trip(value.values())

    def to_json(self) -> str:
        """Return compact JSON, nulls written out."""
        return msgspec.json.encode(self.to_dict()).decode()

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object that this is on the wire."""
        values = asdict(self)
        for name in _fields_of(type(self)).converted:
            value = values[name]
            if value is not None:
                values[name] = _plain(value)
        return values

    @classmethod
    def parse(cls, data: bytes | str) -> Self:
        """Return the model in `data` (JSON). Raises the `ProtocolError` this kind of model names."""
        raw = data if isinstance(data, bytes) else data.encode("utf-8", "surrogatepass")
        if exceeds_part_limit(raw):
            raise cls._error()(f"it has more than {MAX_PARTS} parts")
        try:
            return cls.from_dict(msgspec.json.decode(raw))
        except (ValueError, RecursionError) as error:
            raise cls._error()(error_line(error)) from None

    @classmethod
    def from_dict(cls, value: Any) -> Self:
        """Return the model in `value`, parsed JSON. Raises `ValueError`."""
        return read(cls, _prepared(cls, value))

    @classmethod
    def complete(cls, value: dict[str, Any]) -> dict[str, Any]:
        """Return `value`, a JSON object, with what its writer has left to be concluded."""
        return value

    @classmethod
    def _error(cls) -> Callable[[str], ProtocolError]:
        return ProtocolError


class PassThroughModel(WireModel, frozen=True, kw_only=True):
    """Immutable; unknown keys are kept in `extra` and written again: what we carry is not ours to shorten."""

    extra: dict[str, Any] = {}

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object that this is on the wire, unknown keys last."""
        fields = super().to_dict()
        unknown: dict[str, Any] = fields.pop("extra")
        return fields | unknown

    def with_unknown(self, **values: Any) -> Self:
        """Return this with `values` among its unknown keys."""
        return replace(self, extra={**self.extra, **values})


def _plain(value: Any) -> Any:
    if isinstance(value, WireModel):
        return value.to_dict()
    if isinstance(value, datetime):
        return rfc3339(value)
    return [_plain(member) for member in value] if isinstance(value, tuple) else value


def _prepared(kind: type[WireModel], value: Any) -> Any:
    """Return parsed JSON as `kind` takes it: completed, unknown keys that are kept put under `extra`."""
    if isinstance(value, list):
        return [_prepared(kind, member) for member in value]
    if not isinstance(value, dict):
        return value
    models = _models_of(kind)
    values, unknown = {}, {}
    for key, member in kind.complete(value).items():
        if key in models and key != "extra":
            model = models[key]
            values[key] = member if model is None else _prepared(model, member)
        else:
            unknown[key] = member
    return {**values, "extra": unknown} if "extra" in models else values


class _Fields(NamedTuple):
    """Fields of a model by what is to be done about them. One that may hold anything is among all of them."""

    times: tuple[str, ...]
    objects: tuple[str, ...]
    converted: tuple[str, ...]
    """What is not on the wire as it is here."""


@cache
def _fields_of(kind: type[WireModel]) -> _Fields:
    times, objects, converted = [], [], []
    for field in msgspec.structs.fields(kind):
        held = set(_held_by(field.type))
        if datetime in held:
            times.append(field.name)
        if dict in held:
            objects.append(field.name)
        if datetime in held or tuple in held or any(issubclass(type_, WireModel) for type_ in held):
            converted.append(field.name)
    return _Fields(tuple(times), tuple(objects), tuple(converted))


def _held_by(annotation: Any) -> Iterator[type]:
    """Yield the classes that a field of this type may hold. Raises `TypeError` for a type that is not looked into."""
    origin = get_origin(annotation)
    if origin in (Annotated, Union, UnionType):
        for part in get_args(annotation)[: 1 if origin is Annotated else None]:
            yield from _held_by(part)
    elif isinstance(origin or annotation, type):
        yield origin or annotation
    elif not isinstance(annotation, NewType):
        raise TypeError(f"what a field of type {annotation} may hold is not known")
    else:
        yield from _held_by(annotation.__supertype__)


@cache
def _models_of(kind: type[WireModel]) -> dict[str, type[WireModel] | None]:
    """Return the fields of `kind` with the model that each holds, alone, as an option, or many of."""
    models_by_field: dict[str, type[WireModel] | None] = {}
    for field in msgspec.structs.fields(kind):
        types = (field.type, *get_args(field.type))
        models = [type_ for type_ in types if isinstance(type_, type) and issubclass(type_, WireModel)]
        models_by_field[field.name] = models[0] if models else None
    return models_by_field
