"""One record is one line of a log, whatever others wrote that is in it; light, for every program of ours."""

from __future__ import annotations

import logging
from typing import Any

LAYOUT = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"


class OneLineFormatter(logging.Formatter):
    """Escapes what would begin a line or control a terminal; the lines of a traceback are indented."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the name of logging
        """Return the line without a traceback."""
        return escaped(super().formatMessage(record).rstrip())

    def formatException(self, ei: Any) -> str:  # noqa: N802 - the name of logging
        """Return a traceback, none of whose lines can be taken for a record."""
        return "\n".join(f"    {escaped(line)}" for line in super().formatException(ei).splitlines())


def escaped(text: str) -> str:
    """Return `text` on one line: a character that cannot be printed as Python writes it, such as \\n or \\x1b."""
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode() for character in text
    )
