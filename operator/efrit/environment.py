"""Settings read from environment variables and checked.

In place of pydantic-settings, whose import costs every bridge 10 MB of memory for sources nobody uses here.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Self, get_args, get_origin

import msgspec
from msgspec import NODEFAULT

from efrit.errors import ConfigurationError

PREFIX = "EFRIT_"


class FromEnvironment(msgspec.Struct, frozen=True, kw_only=True):
    """An immutable structure whose field `some_name` is the variable `EFRIT_SOME_NAME`; an empty variable is unset.

    A tuple is written with commas, an object as JSON.
    """

    @classmethod
    def load(cls, environment: Mapping[str, str] | None = None) -> Self:
        """Return the settings. Raises ConfigurationError that names the variables and what is wrong with them."""
        variables = os.environ if environment is None else environment
        values: dict[str, Any] = {}
        problems = []
        for field in msgspec.structs.fields(cls):
            variable = PREFIX + field.name.upper()
            if text := variables.get(variable):
                try:
                    values[field.name] = _value(field.type, text)
                except ValueError as error:
                    problems.append(f"{variable}: {str(error).replace('`', '')}")
            elif field.default is NODEFAULT and field.default_factory is NODEFAULT:
                problems.append(f"{variable}: it must be set")
        if problems:
            raise ConfigurationError(f"wrong settings: {'; '.join(problems)}")
        return cls(**values)


def _value(kind: Any, text: str) -> Any:
    origins = {get_origin(part) for part in (kind, *get_args(kind))}
    value: Any = text
    if tuple in origins:
        value = [part.strip() for part in text.split(",") if part.strip()]
    elif dict in origins:
        value = msgspec.json.decode(text)
    return msgspec.convert(value, kind, strict=False, dec_hook=lambda custom, raw_text: custom(raw_text))
