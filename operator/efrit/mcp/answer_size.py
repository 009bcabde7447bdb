"""How much of an answer its parts take, and how many entries of a list it has room for. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

ANSWER_BYTES = 1_048_576
"""A result, or a list with a limit, makes no larger answer: clients lose a larger one over HTTP.

It is `max_sse_event_size` of the Python SDK."""
OTHER_BYTES = 65_536
"""Of an answer, for what is neither an entry of a list nor a result and what its work printed and said."""
_SEPARATORS = 4

E = TypeVar("E")


def size_of(value: Any) -> int:
    """Return the bytes of a JSON value in an answer, which has it twice: structured, and as JSON in a text."""
    structured = json.dumps(value, ensure_ascii=False)
    text = json.dumps(structured, ensure_ascii=False)
    return len(structured.encode()) + len(text.encode())


def fits(value: Any) -> bool:
    """Return whether an answer has room for a JSON value beside the rest."""
    return size_of(value) <= ANSWER_BYTES - OTHER_BYTES  # gate: answer-bytes


def _dumped(entry: Any) -> Any:
    return entry.model_dump(mode="json", exclude_none=True)


def first_that_fit(entries: Iterable[E], dump: Callable[[E], Any] = _dumped) -> list[E]:
    """Return as many of the first entries of a list as an answer has room for; `dump` makes JSON of one."""
    left, kept = ANSWER_BYTES - OTHER_BYTES, list[E]()
    for entry in entries:
        left -= size_of(dump(entry)) + _SEPARATORS
        if left < 0:  # gate: list-bytes
            break
        kept.append(entry)
    return kept
