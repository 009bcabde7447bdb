"""The key of the user that seals the state of questions: a server that is started later can read it, too."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path

from efrit.backend.local.settings import state_directory

KEY_BYTES = 32

_FILE = "mcp-state-key"


def own_key() -> bytes | None:
    """Return the key of the user who runs this server; None for one without a home, as in some containers."""
    try:
        return user_key(state_directory() / _FILE)
    except RuntimeError:
        return None


def user_key(file: Path) -> bytes | None:
    """Return the key in `file`, which is written on first use; None where it cannot be kept there."""
    try:
        if not file.exists():
            _write(file)
        key = file.read_bytes()
    except OSError:
        return None
    return key if len(key) >= KEY_BYTES else None


def _write(file: Path) -> None:
    """Write a new key; where another process is faster, its key stays."""
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    new = file.with_name(f".{file.name}-{secrets.token_hex(8)}")
    new.touch(mode=0o600, exist_ok=False)
    try:
        new.write_bytes(os.urandom(KEY_BYTES))
        with suppress(FileExistsError):
            os.link(new, file)
    finally:
        new.unlink()
