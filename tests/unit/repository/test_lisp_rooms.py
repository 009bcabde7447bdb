"""The Lisp files are sorted into rooms by their names, and each room requires those before it alone."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

LISP = Path(__file__).parents[3] / "images/emacs/lisp"
FILES = sorted(LISP.glob("*.el"))

BASE = ("fast-start", "settings", "clock", "files", "json", "print", "secret", "text")
"""What every room stands on has no room in its name."""

ROOMS: dict[str, tuple[str, ...]] = {
    "base": (),
    "efrit": ("base",),
    "eval": ("base",),
    "queue": ("base", "eval"),
    "model": ("base", "eval"),
    "tools": ("base", "eval"),
    "session": ("base", "eval", "queue", "model", "tools"),
    "plan": ("base", "eval", "tools"),
    "server": ("base", "efrit", "eval", "queue", "model", "tools", "session"),
    "do": ("base", "queue", "session"),
}
"""A room -> the rooms whose files it may require."""


def room(feature: str) -> str:
    """Return the room of a feature; `efrit-tool` and what is beside it belongs to the tools."""
    name = feature.removeprefix("efrit").removeprefix("-") or "efrit"
    if name in BASE:
        return "base"
    first = name.split("-")[0]
    return "tools" if first == "tool" else first


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_file_is_in_a_room(path: Path) -> None:
    assert room(path.stem) in ROOMS, f"{path.name} has no room: name it efrit-ROOM-…, one of {', '.join(ROOMS)}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_file_requires_only_rooms_before_its_own(path: Path) -> None:
    own = room(path.stem)
    required = re.findall(r"\(require '(efrit[\w-]*)", path.read_text())
    wrong = [feature for feature in required if room(feature) not in (own, *ROOMS[own])]
    assert wrong == [], f"{path.name}, of the room {own}, requires {', '.join(wrong)}"


DEFINITION = re.compile(
    r"^\((?:cl-def(?:un|macro|struct)|def(?:un|macro|subst|var|const|custom|alias)|define-error)\s+[(']*([\w-]+)",
    re.MULTILINE,
)
STRUCTURE = re.compile(r"^\(cl-defstruct \(?([\w-]+)", re.MULTILINE)
NO_CODE = re.compile(r'"(?:\\.|[^"\\])*"|;[^\n]*|\((?:require|provide|declare-function) [^\n]*', re.DOTALL)


def owners() -> tuple[dict[str, str], dict[str, str]]:
    """Return the file of each definition, and of each structure by the beginning of the names that it makes."""
    definitions: dict[str, str] = {}
    structures: dict[str, str] = {}
    for path in FILES:
        text = path.read_text()
        for name in STRUCTURE.findall(text):
            structures |= {f"{name}-": path.stem, f"make-{name}": path.stem}
        for name in DEFINITION.findall(text):
            # A variable may be declared in other files, without a value.
            definitions.setdefault(name, path.stem)
    return definitions, structures


def used_files(path: Path) -> set[str]:
    """Return the other files that define what the code of one names."""
    definitions, structures = owners()
    used = set()
    for name in re.findall(r"(?:make-)?efrit[\w-]*\w", NO_CODE.sub("", path.read_text())):
        made = max((begin for begin in structures if name.startswith(begin)), key=len, default=None)
        used.add(definitions.get(name) or (structures[made] if made else path.stem))
    return used - {path.stem}


@pytest.mark.parametrize("path", [path for path in FILES if room(path.stem) == "server"], ids=lambda path: path.stem)
def test_a_file_of_the_server_requires_what_it_uses_and_nothing_else(path: Path) -> None:
    text = path.read_text()
    required = set(re.findall(r"\(require '(efrit[\w-]*)", text))
    declared = set(re.findall(r"\(declare-function \S+ \"(efrit[\w-]*)\"", text))
    # The first is required for its autoloads; the second joins the others, which name what it defines.
    assert required - {"efrit"} == used_files(path) - declared - {"efrit-server"}


def test_the_rooms_have_an_order() -> None:
    before: list[str] = []
    for name, stands_on in ROOMS.items():
        assert set(stands_on) <= set(before), name
        before.append(name)


def test_the_page_about_the_house_names_every_room() -> None:
    page = (LISP.parents[2] / "docs/dev/architecture.md").read_text()
    assert re.findall(r"^\| `efrit-(\w+)` \|", page, re.MULTILINE) == [
        name for name in ROOMS if name not in ("base", "efrit")
    ]
