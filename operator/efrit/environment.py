"""Settings read from environment variables, checked by pydantic.

In place of pydantic-settings, whose import costs every bridge 10 MB of memory for sources nobody uses here.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from efrit.errors import ConfigurationError

PREFIX = "EFRIT_"


class FromEnvironment(BaseModel):
    """A frozen model whose field `some_name` is the variable `EFRIT_SOME_NAME`; an empty variable is an unset one."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @classmethod
    def load(cls, environment: Mapping[str, str] | None = None) -> Self:
        """Return the settings. Raises ConfigurationError that names the variables and what is wrong with them."""
        given = os.environ if environment is None else environment
        values: dict[str, Any] = {
            name: value for name in cls.model_fields if (value := given.get(PREFIX + name.upper()))
        }
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            problems = "; ".join(
                f"{PREFIX}{'_'.join(str(part) for part in each['loc']).upper()}: {each['msg']}"
                for each in error.errors()
            )
            raise ConfigurationError(f"wrong settings: {problems}") from None
