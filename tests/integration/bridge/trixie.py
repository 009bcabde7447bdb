"""Debian trixie's Emacs 30 in the place of the installed one: a program called emacs that runs it in its own root."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
ROOT = CACHE / "efrit-operator/emacs30-git-rootfs"
FETCH = Path(__file__).parents[3] / "images/emacs/test/run"
"""Makes it, which takes a minute, once."""

PROGRAM = """#!/bin/sh
# A mount namespace of its own, which goes with the process: what is made here is seen at the same path inside.
root={root} base={base}
export root base directory="$PWD"
exec unshare --mount sh -ec '
  mount --bind /proc "$root/proc"
  mount -t tmpfs tmpfs "$root/tmp"
  mkdir -p "$root$base"
  mount --bind "$base" "$root$base"
  exec chroot "$root" sh -ec "cd \\"\\$directory\\" 2> /dev/null || cd /; exec /usr/bin/emacs \\"\\$@\\"" sh "$@"
' sh "$@"
"""


def fetch() -> None:
    """Make ROOT, unless it is there."""
    subprocess.run([FETCH, "--trixie", "--fetch"], check=True)


def path_with_emacs_30(directory: Path, base: Path) -> str:
    """Return a PATH on which emacs is Emacs 30, a program put into DIRECTORY. It sees what is below BASE."""
    fetch()
    program = directory / "emacs"
    program.write_text(PROGRAM.format(root=shlex.quote(str(ROOT)), base=shlex.quote(str(base))))
    program.chmod(0o755)
    return f"{directory}:{os.environ['PATH']}"
