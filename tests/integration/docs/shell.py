"""One shell for the commands of a page, one after the other: what is exported or defined stays for the next."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.integration.docs.pages import Block, matches, write_file

SECONDS = 300


@dataclass(frozen=True)
class Ran:
    """How a command ended."""

    block: Block
    command: str
    shows: str | None
    code: int
    printed: str

    @property
    def problem(self) -> str:
        """Why this is not what the page says; empty if it is."""
        where = f"{self.block.page}:{self.block.line}: $ {self.command}\n{self.printed}"
        if self.shows is not None:
            return "" if matches(self.shows, self.printed) else f"{where}but the page shows\n{self.shows}"
        return "" if self.code == 0 else f"{where}and ended with {self.code}"


def play(blocks: list[Block], env: dict[str, str], cwd: Path, scratch: Path, replace: dict[str, str]) -> list[Ran]:
    """Play the blocks of one page in `cwd`; `replace` puts what exists in place of names that the page invents."""
    for block in blocks:
        if block.file is not None:
            write_file(block, cwd)
    todo = [(block, command) for block in blocks if block.file is None for command in block.commands]
    script = []
    for number, (_, command) in enumerate(todo):
        text = command.text
        for old, new in replace.items():
            text = text.replace(old, new)
        output = scratch / f"{number}.out"
        script.append(f"{{ {text}\n}} >{output} 2>&1 </dev/null\necho $? >{scratch / f'{number}.code'}\n")
    subprocess.run(
        ["bash", "-c", "".join(script)],
        env={**env, "PATH": env.get("PATH", os.defpath)},
        cwd=cwd,
        timeout=SECONDS,
        check=False,
    )
    return [
        Ran(
            block,
            command.text,
            command.shows,
            int((scratch / f"{number}.code").read_text()) if (scratch / f"{number}.code").exists() else -1,
            (scratch / f"{number}.out").read_text(errors="replace") if (scratch / f"{number}.out").exists() else "",
        )
        for number, (block, command) in enumerate(todo)
    ]
