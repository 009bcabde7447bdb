"""Text that others wrote, on a terminal: made harmless, measured in columns, cut to them. Pure."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping

_WIDE = frozenset("WF")


def sanitized_line(text: str) -> str:
    """Return one line of `text` that moves no cursor: a model's text may hold anything."""
    return " ".join(without_controls(text).split())


def sanitized_lines(text: str) -> str:
    """Return `text` with its lines and their indentation, and nothing else that moves the cursor."""
    return "\n".join(map(without_controls, text.split("\n")))


def without_controls(text: str) -> str:
    """Return `text` with a space for everything that is not a printable character."""
    return "".join(character if character.isprintable() else " " for character in text)


def display_width(text: str) -> int:
    """Return how many columns of a terminal the text takes."""
    return sum(map(_character_width, text))


def _character_width(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in _WIDE else 1


def cut(text: str, limit: int | None, mark: str = "…") -> str:
    """Return `text` in at most `limit` columns, with `mark` where something is left out; None: all of it."""
    if limit is None or display_width(text) <= limit:
        return text
    available, used = limit - display_width(mark), 0
    for index, character in enumerate(text):
        used += _character_width(character)
        if used > available:
            return text[:index] + mark if available >= 0 else ""
    return text


def draws_unicode(environment: Mapping[str, str], encoding: str | None) -> bool:
    """Return whether the locale itself names more than ASCII: Python takes an unset one for UTF-8."""
    kind = environment.get("LC_CTYPE")
    named = environment.get("LC_ALL") or (kind if kind != "C.UTF-8" else None) or environment.get("LANG") or ""
    return all("utf8" in text.lower().replace("-", "") for text in (named, encoding or ""))
