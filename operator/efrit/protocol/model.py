"""The base of every wire model, and how one becomes JSON text."""

import json
import math
from collections.abc import Callable
from typing import Annotated, Any, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, JsonValue, ValidationError

from efrit.errors import ProtocolError
from efrit.protocol.weight import MOST_PARTS, too_heavy

_MOST_PROBLEMS = 5
_LONGEST_PROBLEM = 300


def explain(error: ValidationError) -> str:
    """One line a person understands: `options.timeout: Input should be greater than 0; …`.

    Names of keys are the sender's: of them, and of the problems, only so many are repeated.
    """
    parts = []
    problems = error.errors(include_url=False, include_input=False, include_context=False)
    for item in problems[:_MOST_PROBLEMS]:
        where = ".".join(str(step) for step in item["loc"])
        part = f"{where}: {item['msg']}" if where else item["msg"]
        parts.append(part if len(part) <= _LONGEST_PROBLEM else part[:_LONGEST_PROBLEM] + "…")
    if len(problems) > _MOST_PROBLEMS:
        parts.append(f"and {len(problems) - _MOST_PROBLEMS} problems more")
    return "; ".join(parts)


def canonical_json(value: Any) -> bytes:
    """JSON with sorted keys and no spaces, UTF-8; equal values give equal bytes."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


_DEEPEST = 64


def _plain(value: JsonValue) -> JsonValue:
    waiting = [(value, 1)]
    while waiting:
        each, depth = waiting.pop()
        # The parser takes NaN and 1e999; both would be written as null, which is another value.
        if isinstance(each, float) and not math.isfinite(each):
            raise ValueError("a number must be finite")
        # What carries it is itself carried: no reader on the way may find it too deep.
        if depth > _DEEPEST:
            raise ValueError(f"it must not be nested deeper than {_DEEPEST}")
        inner = each.values() if isinstance(each, dict) else each if isinstance(each, list) else ()
        waiting += [(member, depth + 1) for member in inner]
    return value


PlainJson = Annotated[JsonValue, AfterValidator(_plain)]
"""Any JSON value that is still the same after it was carried on, written and read again."""

Count = Annotated[int, Field(ge=0, le=2**53)]
"""A number of things or bytes that every JSON reader holds exactly."""

Attempt = Annotated[int, Field(ge=0, le=2**31 - 1)]
"""How often a request was begun; 0 before its first run."""

Seconds = Annotated[float, Field(ge=0, le=1e12)]
"""A duration; bounded, so that no sum of them becomes infinite."""


class WireModel(BaseModel):
    """Immutable; unknown keys are ignored, so that an older reader understands a newer writer."""

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)

    def to_json(self) -> str:
        """Compact JSON, nulls written out."""
        return self.model_dump_json()

    @classmethod
    def parse(cls, data: bytes | str) -> Self:
        """The model in `data` (JSON). Raises the `ProtocolError` this kind of model names."""
        if too_heavy(data if isinstance(data, bytes) else data.encode("utf-8", "surrogatepass")):
            raise cls._error()(f"it has more than {MOST_PARTS} parts")
        try:
            return cls.model_validate_json(data)
        except ValidationError as error:
            raise cls._error()(explain(error)) from None

    @classmethod
    def _error(cls) -> Callable[[str], ProtocolError]:
        return ProtocolError


class PassThroughModel(WireModel):
    """Immutable; unknown keys are kept and written again: what we carry is not ours to shorten."""

    model_config = ConfigDict(extra="allow")

    __pydantic_extra__: dict[str, PlainJson]
