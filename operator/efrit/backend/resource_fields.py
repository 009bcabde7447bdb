"""Fields that custom resources have in common, as JSON: those of a cluster, and the plans of a laptop."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, TypeVar

from efrit.api_group import GROUP

Json = Mapping[str, Any]

DIGEST = f"{GROUP}/content-digest"
"""Annotation of a request or plan with a key or name: what that stands for."""

MAX_REASON_CHARACTERS = 64

E = TypeVar("E", bound=StrEnum)


class EnumReader:
    """Reads the enums of one resource. Values of a later operator are kept, to be named in its message."""

    def __init__(self) -> None:
        self._unknown: list[str] = []

    def read(self, kind: type[E], text: str | None, what: str) -> E | None:
        """Return the member of `kind`; None where there is no value, or one that is not known here."""
        member = known_word(kind, text)
        if text and member is None:
            self._unknown.append(f"{what} {text}")
        return member

    def named_in(self, message: str) -> str:
        """Return `message`, with the values that are not known here."""
        if not self._unknown:
            return message
        note = f"({', '.join(self._unknown)}: this efrit is older than the operator; update it)"
        return f"{message} {note}".strip()


def reason_of(kind: type[E], text: str | None, default: E) -> E | str:
    """Return a reason: a member of `kind`, or as it is where a later operator has it; `default` where it is none."""
    if not text:
        return default
    # It is printed among words of our own.
    is_word = text.isascii() and text.isalnum() and len(text) <= MAX_REASON_CHARACTERS
    return known_word(kind, text) or (text if is_word else default)


def known_word(kind: type[E], text: str | None) -> E | None:
    """Return the member of `kind` that `text` is; None where it is none, or empty."""
    return next((member for member in kind if member.value == text), None)


def likely_phase(kind: type[E], status: Json, *, succeeded: bool) -> E:
    """Return where a request or plan stands that has no phase, or one of a later operator."""
    if status.get("completionTime"):
        return kind("Succeeded" if succeeded else "Failed")
    return kind("Running" if status.get("startTime") else "Pending")


def condition(obj: Json, kind: str) -> Json:
    """Return the condition of this type of an object; empty if it has none."""
    conditions = obj.get("status", {}).get("conditions", ())
    return next((entry for entry in conditions if entry.get("type") == kind), {})
