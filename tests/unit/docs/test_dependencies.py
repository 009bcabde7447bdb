"""docs/dev/dependencies.md has a row for each dependency of the package, and the package uses each."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/dev/dependencies.md").read_text(encoding="utf-8")

MODULES = {"httpx-sse": "httpx_sse", "prometheus-client": "prometheus_client", "PyYAML": "yaml"}
"""Distributions that are imported under another name."""

UNUSED = {"sniffio"}
"""What a library looks for and nothing of ours imports; the page says so."""


def required() -> set[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return {re.split(r"[<>=!~;\[ ]", dependency)[0] for dependency in project["dependencies"]}


def imported() -> set[str]:
    sources = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "operator/efrit").rglob("*.py"))
    return set(re.findall(r"^\s*(?:import|from) (\w+)", sources, re.MULTILINE))


def test_the_first_table_lists_what_the_package_requires() -> None:
    table = PAGE.split("\n## ")[1]
    rows = re.findall(r"^\| ([\w, -]+) \| .+ \| .+ \|$", table, re.MULTILINE)
    assert {name for row in rows for name in row.split(", ")} - {"library"} == required()


def test_what_the_package_requires_it_imports() -> None:
    assert {name for name in required() if MODULES.get(name, name) not in imported()} == UNUSED
