"""The word that was probably meant. Loaded where one is wrong: difflib takes long to import."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

SIMILARITY = 0.6
MAX_CHARS = 100
"""Of a word that somebody has written: to compare a longer one takes long."""


def closest_word(written: str, words: Iterable[str]) -> str | None:
    """Return the one of `words` that is most like what was written, None where none is."""
    return next(iter(difflib.get_close_matches(written[:MAX_CHARS], list(words), 1, SIMILARITY)), None)
