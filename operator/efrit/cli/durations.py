"""Durations as people write them: `30s`, `5m`, `1h30m`, or a bare number of seconds. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_NUMBER = r"\d{1,12}(?:\.\d{1,12})?"
# Compiled when they are needed: most command lines name no duration.
_PARTS = rf"(?:{_NUMBER}(?:ms|s|m|h|d))+"
_PART = rf"({_NUMBER})(ms|s|m|h|d)"

WEEK = 7 * 86_400.0
MONTH = 30 * 86_400.0
YEAR = 365 * 86_400.0


def parse(text: str) -> float:
    """Return the seconds of `text`. Raises ValueError."""
    if re.fullmatch(_NUMBER, text, re.ASCII):
        return float(text)
    if not re.fullmatch(_PARTS, text, re.ASCII):
        raise ValueError(f"{text!r} is not a duration: write 30s, 5m or 1h30m, or a number of seconds")
    return sum(float(number) * _UNITS[unit] for number, unit in re.findall(_PART, text, re.ASCII))


def up_to(longest: float) -> Callable[[str], float]:
    """Return a reader of durations above 0 and at most `longest` seconds."""

    def read(text: str) -> float:
        seconds = parse(text)
        if not 0 < seconds <= longest:
            raise ValueError(f"{text!r} is out of range: above 0, and at most {longest / 86_400:g}d")
        return seconds

    return read
