"""The base of every wire model, and how one becomes JSON text."""

import json
from collections.abc import Callable
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from efrit.errors import ProtocolError


def explain(error: ValidationError) -> str:
    """One line a person understands: `options.timeout: Input should be greater than 0; …`."""
    parts = []
    for item in error.errors(include_url=False, include_input=False, include_context=False):
        where = ".".join(str(step) for step in item["loc"])
        parts.append(f"{where}: {item['msg']}" if where else item["msg"])
    return "; ".join(parts)


def canonical_json(value: Any) -> bytes:
    """JSON with sorted keys and no spaces, UTF-8; equal values give equal bytes."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


class WireModel(BaseModel):
    """Immutable; unknown keys are ignored, so that an older reader understands a newer writer."""

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)

    def to_json(self) -> str:
        """Compact JSON, nulls written out."""
        return self.model_dump_json()

    @classmethod
    def parse(cls, data: bytes | str) -> Self:
        """The model in `data` (JSON). Raises the `ProtocolError` this kind of model names."""
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
