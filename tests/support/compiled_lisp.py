"""The Lisp files of the product, byte-compiled."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from tests.cluster.paths import REPOSITORY

LISP = REPOSITORY / "images" / "emacs" / "lisp"


def compiled_lisp(target: Path, path: str | None = None, source: Path = LISP) -> Path:
    """Return the Lisp files as the operator's image has them: sources, and files compiled by the Emacs on `path`."""
    target.mkdir()
    names = [shutil.copy2(file, target) for file in sorted(source.glob("*.el"))]
    # As in images/emacs/test/run: else the collector takes most of the time.
    batch = ["emacs", "-Q", "--batch", "--eval", "(setq gc-cons-threshold (* 100 1024 1024))"]
    command = [*batch, "-L", str(target), "-f", "batch-byte-compile", *names]
    env = None if path is None else {**os.environ, "PATH": path}
    subprocess.run(command, check=True, capture_output=True, timeout=300, env=env)
    return target
