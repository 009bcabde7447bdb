"""Keys of the configuration file that nothing reads, for `efrit doctor`. Most are slips of the pen."""

from __future__ import annotations

import difflib
from pathlib import Path

from efrit.client.local.settings import INSTANCE_KEYS, KEYS, read_document, written_entries


def unknown_keys(path: Path) -> list[tuple[str, str | None]]:
    """Return each key of the file that nothing reads, and the key that was probably meant. Raises `WrongSettings`."""
    pairs = [(key, _closest(key, KEYS)) for key in read_document(path) if key not in KEYS]
    for name, entry in written_entries(path).items():
        unknown = [key for key in entry if key not in INSTANCE_KEYS] if isinstance(entry, dict) else []
        pairs += [(f"instances.{name}.{key}", _closest(key, INSTANCE_KEYS)) for key in unknown]
    return pairs


def _closest(key: str, names: tuple[str, ...]) -> str | None:
    return next(iter(difflib.get_close_matches(key[:100], names, 1, 0.6)), None)
