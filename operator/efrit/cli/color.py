"""Colours of a terminal: none in a pipe, with NO_COLOR (https://no-color.org), or where TERM says it has none."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from typing import TextIO

from efrit.backend.interface import BROKEN_REASONS

GREEN, YELLOW, RED, DIM = "32", "33", "31", "2"

_COLORS = {
    **dict.fromkeys(("active", "Ready", "Succeeded", "ok", "success", "Success"), GREEN),
    **dict.fromkeys(("Running", "Queued", "Pending", "Partial", "InputRequired", "Backpressure"), YELLOW),
    **dict.fromkeys(("Preempting", "Preempted"), YELLOW),
    **dict.fromkeys(("inactive", "Stopped", "Suspended", "SuspendedIdle"), DIM),
    **dict.fromkeys(
        (
            "error",
            "BAD",
            "Failed",
            "EvalError",
            "ModelError",
            "ModelNotConfigured",
            "TimedOut",
            "Cancelled",
            "Interrupted",
            "Rejected",
            "BudgetExhausted",
            "CircuitBroken",
            *BROKEN_REASONS,
        ),
        RED,
    ),
}


def color_enabled(stream: TextIO, environment: Mapping[str, str] | None = None) -> bool:
    """Return whether colours are to be written to `stream`."""
    environment = os.environ if environment is None else environment
    if environment.get("NO_COLOR") or environment.get("TERM", "dumb") in ("", "dumb"):
        return False
    return stream.isatty()


def paint(text: str, color: str) -> str:
    """Return `text` in `color`."""
    return f"\x1b[{color}m{text}\x1b[0m"


def painted_cell(cell: str) -> str:
    """Return a cell of a table, padding included, in the colour of the word in it; most words have none."""
    word = cell.strip()
    color = _COLORS.get(word)
    return cell if color is None else cell.replace(word, paint(word, color))


def painted_line(line: str) -> str:
    """Return a line of a table, of which two spaces or more separate the cells, in the colours of its words."""
    return "".join(map(painted_cell, re.split(r"(\s{2,})", line)))


def error_prefix() -> str:
    """Return what a message on standard error begins with."""
    return paint("efrit:", RED) if color_enabled(sys.stderr) else "efrit:"
