"""Upstream's repository at one commit: from a clone the user has made, or fetched from GitHub once.

`python -m tests.upstream.source` only makes sure that it is there.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from io import BytesIO
from pathlib import Path

from tests.cluster.paths import cache
from tests.support.command_line import parser

URL = "https://github.com/steveyegge/efrit"
COMMIT = "a4d900147f4183135a4de7ca6d6d12e15d612011"
SECONDS = 600


class NotAvailableError(Exception):
    """There is no such commit to be had; the message says what to do."""


def unpack(target: Path) -> None:
    """Write upstream's mcp/ and lisp/ at `COMMIT` into `target`. Raises `NotAvailableError`."""
    archive = _git(clone(), "archive", COMMIT, "mcp", "lisp")
    with tarfile.open(fileobj=BytesIO(archive)) as tar:
        tar.extractall(target, filter="data")


def clone() -> Path:
    """Return a clone that has `COMMIT`. Raises `NotAvailableError`."""
    named = os.environ.get("UPSTREAM")
    directory = Path(named) if named else cache() / "upstream.git"
    if named and not directory.is_dir():
        raise NotAvailableError(f"UPSTREAM={named} is not a directory: name a clone of {URL}")
    if named and not _has_commit(directory):
        raise NotAvailableError(f"{named} does not have {COMMIT}: run `git -C {named} fetch {URL}`")
    if not _has_commit(directory):
        directory.mkdir(parents=True, exist_ok=True)
        _git(directory, "init", "--quiet", "--bare")
        _git(directory, "fetch", "--quiet", "--depth=1", URL, COMMIT)
    return directory


def _has_commit(directory: Path) -> bool:
    words = ["git", "-C", str(directory), "cat-file", "-e", f"{COMMIT}^{{commit}}"]
    return (
        directory.is_dir()
        and subprocess.run(words, capture_output=True, timeout=SECONDS, check=False).returncode == 0
    )


def _git(directory: Path, *words: str) -> bytes:
    # Nobody is there to be asked for a password.
    env = {**os.environ, "GIT_TERMINAL_PROMPT": "0"}
    done = subprocess.run(
        ["git", "-C", str(directory), *words], env=env, capture_output=True, timeout=SECONDS, check=False
    )
    if done.returncode != 0:
        message = done.stderr.decode(errors="replace").strip()
        raise NotAvailableError(
            f"`git {words[0]}` in {directory} failed: {message}\n"
            f"Without a network, name a clone of {URL} that has {COMMIT}: make upstream UPSTREAM=DIR"
        )
    return done.stdout


if __name__ == "__main__":
    parser(__doc__).parse_args()
    try:
        clone()
    except NotAvailableError as error:
        sys.exit(str(error))
