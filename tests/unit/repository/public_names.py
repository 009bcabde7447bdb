"""Names that users meet: fields of resources, commands and options, MCP tools, values of the chart, metrics.

`python -m tests.unit.repository.public_names` writes those there are: at a release, whose changelog then is complete.
"""

from __future__ import annotations

import re
from argparse import ArgumentParser
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from tests.cluster.paths import REPOSITORY

RELEASED = Path(__file__).with_name("released_names.txt")
"""What the last release had; before the first one, what there was when this list was begun."""


def names() -> set[str]:
    """Return all names, each with what it belongs to."""
    pages = REPOSITORY / "docs"
    chart = yaml.safe_load((REPOSITORY / "charts/efrit-operator/values.yaml").read_text())
    return {
        *fields((pages / "api.md").read_text()),
        *commands((pages / "cli.md").read_text()),
        *(f"tool {name}" for name in re.findall(r"^\| `(efrit_\w+)` \|", (pages / "mcp.md").read_text(), re.M)),
        *(f"value {name}" for name in values(chart)),
        *(f"metric {name}" for path in (REPOSITORY / "operator").rglob("*.py") for name in metrics(path.read_text())),
    }


def fields(page: str) -> Iterator[str]:
    """Yield the fields of the page of the resources."""
    part = ""
    for line in page.split("\n"):
        if heading := re.match(r"#+ (?:(spec|status) of )?(\w+)", line):
            part = f"{heading[2]}.{heading[1]}" if heading[1] else ""
        # The template of a pool has the fields of an instance.
        elif part and (row := re.match(r"\| `(?!template\.spec\.)([\w.\[\]]+)` \|", line)):
            yield f"field {part}.{row[1]}"


def commands(page: str) -> Iterator[str]:
    """Yield the commands of the page of the command line, and their options."""
    command = ""
    for line in page.split("\n"):
        if heading := re.match(r"#+ (.+)", line):
            command = heading[1] if heading[1].startswith("efrit") else ""
            yield from [f"command {command}"] if command else []
        elif command and line.startswith("| `"):
            cell = line.split(" | ")[0]
            yield from (
                f"option {command} {option}".replace("  ", " ") for option in re.findall(r"--[a-z][\w-]*", cell)
            )


def values(tree: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """Yield the paths of the values of a chart; what is an empty object is one."""
    for key, value in tree.items():
        if isinstance(value, Mapping) and value:
            yield from values(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}"


def metrics(source: str) -> Iterator[str]:
    """Yield the metrics that a module defines."""
    kinds = r"\b(?:Gauge|Counter|Histogram|Summary|Info)(?:MetricFamily)?"
    yield from re.findall(rf'{kinds}\(\s*"(efrit_\w+)"', source)


if __name__ == "__main__":
    ArgumentParser(description=__doc__).parse_args()
    RELEASED.write_text("\n".join(sorted(names())) + "\n")
