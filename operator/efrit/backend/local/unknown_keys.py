"""Keys of the configuration file that nothing here reads: slips of the pen, and those of another program."""

from __future__ import annotations

from pathlib import Path

from efrit.backend.errors import WrongSettings
from efrit.backend.local.settings import FOREIGN_INSTANCE_KEYS, FOREIGN_KEYS, read_document, written_entries
from efrit.closest_word import closest_word


def unknown_key(path: Path, at: str, key: str, names: tuple[str, ...]) -> WrongSettings:
    """Return the error for a key below `at` that is none of `names`, with the one that was probably meant."""
    shown = f"{at}.{key[:200]}" if at else key[:200]
    close = closest_word(key, names)
    advice = f"did you mean {close!r}?" if close else f"remove it, or use one of {', '.join(names)}"
    return WrongSettings(f"{path}: unknown key {shown!r}", advice)


def foreign_keys(path: Path) -> list[str]:
    """Return the keys of the file that another program reads, and nothing here. Raises `WrongSettings`."""
    keys = [key for key in read_document(path) if key in FOREIGN_KEYS]
    for name, entry in written_entries(path).items():
        own = [key for key in entry if key in FOREIGN_INSTANCE_KEYS] if isinstance(entry, dict) else []
        keys += [f"instances.{name}.{key}" for key in own]
    return keys
