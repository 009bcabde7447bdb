"""The limits that a daemon takes from its environment: what it would not understand is refused before it starts."""

from __future__ import annotations

import re
from collections.abc import Mapping

from efrit.backend.errors import Refused

NUMBERS = re.compile("EFRIT_MAX_[A-Z_]+|EFRIT_ITERATION_TIMEOUT")
"""By their names, so that a limit that is new is checked as well."""
PROTOCOL, PROTOCOLS = "EFRIT_MODEL_PROTOCOL", ("tools", "elisp")


def limit_in(environment: Mapping[str, str], name: str) -> int | None:
    """Return the limit, None where there is none. Raises `Refused` for what is not a whole number from 1."""
    value = environment.get(name, "")
    if not value:
        return None
    if not (value.isascii() and value.isdecimal() and int(value) > 0):
        raise Refused(
            f"{name} is {value!r}, which is not a valid limit", "set it to a whole number from 1, or unset it"
        )
    return int(value)


def check_limits(environment: Mapping[str, str]) -> None:
    """Raise `Refused` for a limit that would have no effect."""
    for name in filter(NUMBERS.fullmatch, environment):
        limit_in(environment, name)
    if (protocol := environment.get(PROTOCOL, "")) and protocol not in PROTOCOLS:
        raise Refused(f"{PROTOCOL} is {protocol!r}", f"set it to {' or '.join(PROTOCOLS)}, or unset it")
