"""The Lisp files are sorted into rooms by their names, and each room requires those before it alone."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

LISP = Path(__file__).parents[2] / "images/emacs/lisp"
FILES = sorted(LISP.glob("*.el"))

BASE = ("settings", "files", "json", "print", "secret", "text")
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
