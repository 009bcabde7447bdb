"""The tools of the model, as the files efrit-tools-*.el define them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

EMACS = Path(__file__).parents[3] / "images/emacs"


@dataclass(frozen=True)
class Definition:
    """An `efrit-define-tool`: the name and kind of the tool, and the file it is in."""

    name: str
    kind: str
    path: Path


def definitions() -> list[Definition]:
    """Return all definitions, file by file."""
    return [
        Definition(name, kind, path)
        for path in sorted((EMACS / "lisp").glob("efrit-tools-*.el"))
        for name, kind in re.findall(
            r"^\(efrit-define-tool (\w+) .*?^  :kind (\w+)$", path.read_text(), re.MULTILINE | re.DOTALL
        )
    ]
