"""Where the product's markers are: a comment at the end of a line, `# gate: NAME`, in Lisp `; gate: NAME`.

Where the line has no room for it, it is on a line of its own above.
"""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath

from tests.cluster.paths import REPOSITORY
from tests.mutation.operation import Misplaced, Operation
from tests.mutation.sources import lines, lisp, python

MARKER = re.compile(r"(?P<code>.*?)\s*(?:#|;+) gate: (?P<name>[a-z0-9-]+)")
PRODUCT = ("operator", "images", "charts")
LANGUAGES = {".py": python.mutate, ".el": lisp.mutate, ".sh": lines.mutate_shell, ".yaml": lines.mutate_yaml}


@dataclass(frozen=True)
class Marker:
    """A name, and the place it marks: a file from the root of the repository, and a line from 1."""

    name: str
    file: str
    line: int

    def mutate(self, text: str, operation: Operation) -> str:
        """Return the file's text after `operation`. Raises Misplaced."""
        try:
            return LANGUAGES[PurePosixPath(self.file).suffix](text, self.line, operation)
        except Misplaced as error:
            raise Misplaced(f"{self.file}:{self.line}: gate {self.name}: {error}") from None


def markers_of(file: str, text: str) -> list[Marker]:
    """Return the markers in one file's text."""
    lines = ((number, line) for number, line in enumerate(text.splitlines(), 1) if " gate: " in line)
    matches = ((number, MARKER.fullmatch(line)) for number, line in lines)
    return [Marker(match["name"], file, number + (not match["code"])) for number, match in matches if match]


@cache
def markers() -> tuple[Marker, ...]:
    """Return all of the product, in the order of files and lines."""
    listed = ["git", "-C", str(REPOSITORY), "ls-files", "-z", "--cached", "--others", "--exclude-standard", *PRODUCT]
    names = subprocess.run(listed, check=True, capture_output=True, text=True).stdout.split("\0")
    paths = [Path(REPOSITORY, name) for name in sorted(names) if PurePosixPath(name).suffix in LANGUAGES]
    return tuple(
        marker
        for path in paths
        if path.is_file()
        for marker in markers_of(path.relative_to(REPOSITORY).as_posix(), path.read_text())
    )


def marker_of(name: str) -> Marker:
    """Return the marker of that name. Raises Misplaced where there is none, or more than one."""
    named = [marker for marker in markers() if marker.name == name]
    if len(named) != 1:
        places = ", ".join(f"{marker.file}:{marker.line}" for marker in named) or "nowhere"
        raise Misplaced(f"the marker `gate: {name}` is wanted once in {', '.join(PRODUCT)}, and is {places}")
    return named[0]
