"""Lines of a work log as a client reads them: JSON objects, one a line. Pure; where they come from is elsewhere."""

from __future__ import annotations

import json
from typing import Any


def entry(line: str) -> dict[str, Any]:
    """Return the JSON object in a line; empty for anything else."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def model_text(entry: dict[str, Any]) -> str:
    """Return the model's text in an entry; empty if it has none."""
    text = entry.get("text") if entry.get("type") == "text" else None
    return text if isinstance(text, str) else ""
