"""How much text goes into the status of a request, and how it is cut to that."""

from __future__ import annotations

from typing import NamedTuple

from efrit.api.request import MAX_INLINE_RESULT_CHARS
from efrit.api.wire_types import MAX_PROGRESS_CHARS

MAX_TEXT_CHARS = 8_192


class StatusLimits(NamedTuple):
    """How many bytes of each text go into a status, and whether the context does."""

    result: int
    printed: int
    error: int
    message: int
    context: bool


FULL = StatusLimits(MAX_INLINE_RESULT_CHARS, MAX_TEXT_CHARS + 256, MAX_TEXT_CHARS, MAX_PROGRESS_CHARS, context=True)
# The content may take up nearly all that an object may have, and in etcd a byte may take six: see MAX_CONTENT_CHARS.
REDUCED = StatusLimits(256, 256, 512, 256, context=False)
REDUCED_NOTE = " (Status truncated: spec.content leaves too little space in the object.)"


def cut(text: str, limit: int) -> str:
    """Return the longest beginning of `text` that is at most `limit` bytes of UTF-8."""
    data = text.encode("utf-8", "replace")
    return text if len(data) <= limit else data[:limit].decode("utf-8", "ignore")


def with_stop(sentence: str) -> str:
    """Return a sentence of somebody else's with a full stop at its end."""
    return sentence if sentence.endswith(".") else f"{sentence}."
