"""The pages for users: their examples, where each is played, and what it is to print.

A comment before a fenced block says what is done with it:
`<!-- play: laptop -->` (or `cluster`, `install`, `kind`) where its commands run, if not where the page does;
`<!-- file: NAME -->` the block is a file of this name for the commands after it;
`<!-- tested: PATH -->` the test that runs these commands, because they cannot be played on a page.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from tests.cluster.paths import REPOSITORY

PAGES = {
    "README.md": "laptop",
    "docs/chat.md": "cluster",
    "docs/cli.md": "laptop",
    "docs/comparison.md": "laptop",
    "docs/install.md": "install",
    "docs/kind.md": "install",
    "docs/laptop.md": "laptop",
    "docs/mcp.md": "laptop",
    "docs/plans.md": "cluster",
    "docs/pools.md": "cluster",
    "docs/sdk.md": "laptop",
    "docs/shared-cluster.md": "install",
    "docs/using.md": "cluster",
    "charts/efrit-operator/README.md": "install",
}
"""The pages with commands for users, and where these run."""

_BLOCK = re.compile(
    r"(?P<notes>(?:^<!-- (?:play|file|tested): [^\n]* -->\n)*)^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.M | re.S
)
_NOTE = re.compile(r"^<!-- (play|file|tested): (.*) -->$", re.M)
COMMANDS = ("console", "sh")


@dataclass(frozen=True)
class Command:
    """A command of a page, and what the page shows that it prints, None where it shows nothing."""

    text: str
    shows: str | None = None


@dataclass(frozen=True)
class Block:
    """A fenced block."""

    page: str
    line: int
    language: str
    text: str
    place: str
    file: str | None = None
    tested: str | None = None
    commands: tuple[Command, ...] = field(default=())


def blocks_of(page: str, place: str) -> list[Block]:
    """Return the blocks of a page, in their order."""
    text = (REPOSITORY / page).read_text()
    return [_block(page, place, text, match) for match in _BLOCK.finditer(text)]


def _block(page: str, place: str, text: str, match: re.Match[str]) -> Block:
    notes = dict(_NOTE.findall(match["notes"]))
    line = text.count("\n", 0, match.start("language")) + 1
    commands = _commands(match["language"], match["text"]) if match["language"] in COMMANDS else ()
    return Block(
        page,
        line,
        match["language"],
        match["text"],
        notes.get("play", place),
        notes.get("file"),
        notes.get("tested"),
        commands,
    )


def _commands(language: str, text: str) -> tuple[Command, ...]:
    if language == "sh":
        # Continued lines are one command; each other line is one.
        return tuple(Command(line) for line in re.sub(r"\\\n\s*", "", text).splitlines() if line.strip())
    commands: list[Command] = []
    for part in re.split(r"^\$ ", text, flags=re.M)[1:]:
        command, _, rest = re.sub(r"\\\n\s*", "", part).partition("\n")
        commands.append(Command(command, rest if rest.strip() else None))
    return tuple(commands)


def played_in(place: str) -> list[Block]:
    """Return the blocks whose commands, or files, belong to a place, page by page."""
    return [
        block
        for page, usual in PAGES.items()
        for block in blocks_of(page, usual)
        if block.place == place and block.tested is None and (block.commands or block.file)
    ]


def matches(shown: str, printed: str) -> bool:
    """Return whether what was printed is what a page shows; `…` stands for anything, in a line or of lines."""
    pattern = ".*".join(re.escape(part.strip()) for part in re.split("…", shown.strip()))
    return re.fullmatch(pattern, printed.strip(), re.S) is not None


def write_file(block: Block, directory: Path) -> None:
    """Write the file that a block is."""
    assert block.file is not None
    path = directory / block.file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(block.text)
