#!/usr/bin/env python3
"""Carries the `# --` comments of values.yaml into the chart's README table and values.schema.json.

values.yaml is the one source of what a value means; `values_docs.py` writes the other two, `values_docs.py --check`
fails when they differ. Reads YAML by line, as values.yaml is kept simple enough for that: maps, one value per line.
"""

from __future__ import annotations

import json
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CHART = Path(__file__).resolve().parent / "efrit-operator"
BEGIN, END = "<!-- values: begin (written by charts/values_docs.py) -->", "<!-- values: end -->"
KEY = re.compile(r"^(?P<indent> *)(?P<key>[A-Za-z]\w*):(?: (?P<value>.+))?$")


class DriftError(Exception):
    """The files say different things; the message says which and what to do."""


@dataclass(frozen=True)
class Value:
    """One value a user may set: its path, its default as written, and its comment."""

    path: tuple[str, ...]
    default: str
    description: str


def parse(text: str) -> list[Value]:
    """Return the values in the order of the file; DriftError for one that has no comment."""
    values: list[Value] = []
    parents: list[tuple[int, str]] = []
    comment: list[str] | None = None
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if stripped.startswith("# -- "):
            comment = [stripped.removeprefix("# -- ")]
        elif stripped.startswith("#"):
            if comment is not None:
                comment.append(stripped.removeprefix("#").strip())
        elif match := KEY.match(line):
            indent = len(match["indent"])
            parents = [(depth, key) for depth, key in parents if depth < indent]
            path = (*(key for _, key in parents), match["key"])
            if match["value"] is None:
                parents.append((indent, match["key"]))
            elif comment is None:
                raise DriftError(f"values.yaml:{number}: {'.'.join(path)} needs a comment that begins with `# -- `.")
            else:
                values.append(Value(path, match["value"], " ".join(comment)))
            comment = None
        elif stripped:
            raise DriftError(f"values.yaml:{number}: not a `key: value` line, which is all this file may hold.")
    return values


def table(values: list[Value]) -> str:
    """Return the values as a Markdown table."""
    rows = [f"| `{'.'.join(v.path)}` | `{v.default}` | {v.description.replace('|', chr(92) + '|')} |" for v in values]
    return "\n".join(["| Value | Default | What it is |", "|---|---|---|", *rows])


def with_table(readme: str, values: list[Value]) -> str:
    """Return the README with its table written again."""
    before, begin, rest = readme.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise DriftError(f"README.md needs the lines {BEGIN} and {END} around its table.")
    return f"{before}{BEGIN}\n{table(values)}\n{END}{after}"


def with_descriptions(schema: dict[str, Any], values: list[Value]) -> dict[str, Any]:
    """Return the schema with each value described; DriftError when it knows other values than values.yaml."""
    described: dict[str, Any] = json.loads(json.dumps(schema))
    known: set[tuple[str, ...]] = set()
    for value in values:
        node: dict[str, Any] = described
        for depth, key in enumerate(value.path, 1):
            target = _definition(described, node)
            if "properties" not in target:
                break  # an open map: its keys are the user's
            if key not in target["properties"]:
                raise DriftError(f"values.schema.json does not know {'.'.join(value.path[:depth])}.")
            known.add(value.path[:depth])
            node = target["properties"][key]
            if depth == len(value.path):
                node["description"] = value.description
    for path in _paths(described, described, ()):
        if path not in known and path != ("global",):
            raise DriftError(f"values.yaml does not have {'.'.join(path)}, which values.schema.json knows.")
    return described


def _definition(schema: dict[str, Any], node: dict[str, Any]) -> dict[str, Any]:
    reference = node.get("$ref")
    found: dict[str, Any] = schema["definitions"][reference.rsplit("/", 1)[-1]] if reference else node
    return found


def _paths(schema: dict[str, Any], node: dict[str, Any], above: tuple[str, ...]) -> list[tuple[str, ...]]:
    paths: list[tuple[str, ...]] = []
    for key, child in _definition(schema, node).get("properties", {}).items():
        paths += [(*above, key), *_paths(schema, child, (*above, key))]
    return paths


def outputs(chart: Path) -> dict[Path, str]:
    """Return what each written file should hold."""
    values = parse((chart / "values.yaml").read_text())
    readme, schema = chart / "README.md", chart / "values.schema.json"
    described = with_descriptions(json.loads(schema.read_text()), values)
    return {
        readme: with_table(readme.read_text(), values),
        schema: json.dumps(described, indent=2) + "\n",
    }


def main(arguments: list[str]) -> int:
    """Write the files, or with --check only say which of them differ."""
    try:
        wanted = outputs(CHART)
    except DriftError as error:
        print(f"values_docs: {error}", file=sys.stderr)
        return 1
    different = [path for path, text in wanted.items() if path.read_text() != text]
    if "--check" in arguments:
        for path in different:
            print(f"values_docs: {path.name} differs from values.yaml: run charts/values_docs.py.", file=sys.stderr)
        return 1 if different else 0
    for path in different:
        path.write_text(wanted[path])
        print(f"values_docs: wrote {path.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
