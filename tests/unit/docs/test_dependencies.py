"""docs/dev/dependencies.md has a row for each dependency of the package, which imports these and no others."""

from __future__ import annotations

import re
import sys
import tomllib
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/dev/dependencies.md").read_text(encoding="utf-8")

MODULES = {"prometheus-client": "prometheus_client", "PyYAML": "yaml"}
"""Distributions that are imported under another name."""

PARTS = {"pydantic_core"}
"""What pydantic is made of, with types of its own interface."""


def required() -> set[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return {re.split(r"[<>=!~;\[ ]", dependency)[0] for dependency in project["dependencies"]}


@cache
def imported() -> set[str]:
    sources = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "operator/efrit").rglob("*.py"))
    found = re.findall(r"^ *(?:from (\w+)[\w.]* import |import (\w+)[\w., ]*$)", sources, re.MULTILINE)
    return {name for names in found for name in names if name}


def test_the_first_table_lists_what_the_package_requires() -> None:
    table = PAGE.split("\n## ")[1]
    rows = re.findall(r"^\| ([\w, -]+) \| .+ \| .+ \|$", table, re.MULTILINE)
    assert {name for row in rows for name in row.split(", ")} - {"library"} == required()


def test_what_the_package_requires_it_imports() -> None:
    assert {name for name in required() if MODULES.get(name, name) not in imported()} == set()


def test_what_the_package_imports_it_requires() -> None:
    modules = {MODULES.get(name, name) for name in required()} | PARTS
    assert imported() - sys.stdlib_module_names - {"efrit"} - modules == set()
