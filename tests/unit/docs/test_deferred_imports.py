"""docs/dev/performance.md lists every import that is not at the top of its module."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
SOURCES = ROOT / "operator"
PAGE = ROOT / "docs/dev/performance.md"


def test_every_import_inside_a_function_is_listed_with_its_reason() -> None:
    assert listed() == in_functions()


def listed() -> set[tuple[str, str]]:
    rows = re.findall(r"^\| `(efrit[\w.]*)` \| ([^|]+) \| [^|]+ \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    names = {(module, name) for module, cell in rows for name in re.findall(r"`([\w.]+)`", cell)}
    # It loads by name, so that no import statement shows it.
    return names - {("efrit.client", "__getattr__")}


def in_functions() -> set[tuple[str, str]]:
    return {
        (".".join(path.relative_to(SOURCES).with_suffix("").parts).removesuffix(".__init__"), name)
        for path in (SOURCES / "efrit").rglob("*.py")
        for function in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for node in ast.walk(function)
        for name in imported(node)
    }


def imported(node: ast.AST) -> list[str]:
    match node:
        case ast.Import(names):
            return [name.name for name in names]
        case ast.ImportFrom(module):
            return [str(module)]
        case _:
            return []
