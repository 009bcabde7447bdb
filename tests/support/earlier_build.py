"""The product of an earlier commit, for a run of tests in which one part is of that commit (tests/version_skew).

Its Python runs on the libraries of today. A bridge brings its Lisp and its run-emacs along, as its image does.
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tarfile
import tomllib
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from tests.cluster.paths import REPOSITORY
from tests.support.compiled_lisp import compiled_lisp

VARIABLE = "EFRIT_TEST_EARLIER"
"""Which part is an earlier build, and its directory: `bridge=/tmp/build`. Unset, all is of this commit."""

_PROGRAM = """#!{python}
import sys

sys.path.insert(0, {operator!r})
from {module} import {function}

sys.exit({function}())
"""


class Part(StrEnum):
    """What may be of another commit than the tests."""

    BRIDGE = "bridge"
    CONTROLLER = "controller"


@dataclass(frozen=True)
class EarlierBuild:
    """A directory in which `make` has put the build of a commit."""

    directory: Path

    @property
    def programs(self) -> Path:
        """A directory for PATH."""
        return self.directory / "bin"

    @property
    def lisp(self) -> Path:
        """The Lisp of its bridge, compiled."""
        return self.directory / "lisp"


def earlier_build(part: Part) -> EarlierBuild | None:
    """Return the build that this part is to run, None where it is of this commit."""
    name, _, directory = os.environ.get(VARIABLE, "").partition("=")
    return EarlierBuild(Path(directory)) if name == part else None


def make(commit: str, directory: Path) -> EarlierBuild:
    """Put the build of a commit into an empty directory. Raises CalledProcessError where git does not have it."""
    archive = ["git", "-C", str(REPOSITORY), "archive", commit, "pyproject.toml", "operator", "images/emacs/lisp"]
    content = subprocess.run(archive, check=True, stdout=subprocess.PIPE).stdout
    with tarfile.open(fileobj=io.BytesIO(content)) as tar:
        tar.extractall(directory / "source", filter="data")
    build = EarlierBuild(directory)
    compiled_lisp(build.lisp, source=directory / "source/images/emacs/lisp")
    build.programs.mkdir()
    for name, entry in tomllib.loads((directory / "source/pyproject.toml").read_text())["project"]["scripts"].items():
        module, _, function = entry.partition(":")
        program = build.programs / name
        operator = str(directory / "source/operator")
        program.write_text(
            _PROGRAM.format(python=sys.executable, operator=operator, module=module, function=function)
        )
        program.chmod(0o755)
    return build
