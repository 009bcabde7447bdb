"""Runs the code cells of a notebook as Jupyter would: in a loop that runs, the value of the last line is the output.

`python play_notebook.py NOTEBOOK [TAG …]` leaves out the cells with one of the tags, and prints a JSON list with the
output of each code cell, null for those left out. An exception in a cell ends it.
"""

from __future__ import annotations

import ast
import asyncio
import contextlib
import inspect
import io
import json
import sys
from pathlib import Path
from typing import Any


async def run(source: str, names: dict[str, Any]) -> str:
    """Return what a cell prints, and what its last expression is."""
    tree = ast.parse(source)
    last = tree.body[-1] if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    body = ast.Module(tree.body[: -1 if last else None], type_ignores=[])
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        done = eval(compile(body, "<cell>", "exec", flags=flags), names)  # noqa: S307 - a cell is code
        if inspect.isawaitable(done):
            await done
        if last is not None:
            value = eval(compile(ast.Expression(last.value), "<cell>", "eval", flags=flags), names)  # noqa: S307
            value = await value if inspect.isawaitable(value) else value
            if value is not None:
                print(repr(value))
    return printed.getvalue()


async def play(cells: list[dict[str, Any]], left_out: set[str]) -> list[str | None]:
    """Return the outputs of the code cells."""
    names: dict[str, Any] = {"__name__": "__main__"}
    outputs: list[str | None] = []
    for cell in cells:
        if cell["cell_type"] != "code":
            continue
        skipped = left_out & set(cell["metadata"].get("tags", ()))
        outputs.append(None if skipped else await run("".join(cell["source"]), names))
    return outputs


if __name__ == "__main__":
    notebook = json.loads(Path(sys.argv[1]).read_text())
    json.dump(asyncio.run(play(notebook["cells"], set(sys.argv[2:]))), sys.stdout)
