#!/usr/bin/env python3
"""Prints a values.schema.json with each value described; fails when the schema knows other values than values.yaml.

Usage: schema_descriptions.py SCHEMA <DESCRIPTIONS. Standard input is a JSON object: path of a value -> its comment in
values.yaml, as helm-docs reads it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

SET_BY_HELM = {"global"}
"""Known to the schema alone."""


class DriftError(Exception):
    """The files say different things; the message says which and what to do."""


def describe(schema: dict[str, Any], descriptions: Mapping[str, str]) -> None:
    """Put the descriptions into the schema; DriftError when a value has none, or only one of the two knows it."""
    known: set[str] = set()
    for path, description in descriptions.items():
        if not description:
            raise DriftError(f"values.yaml: {path} needs a comment that begins with `# -- `.")
        keys = path.split(".")
        node = schema
        for depth, key in enumerate(keys, 1):
            properties = _definition(schema, node).get("properties")
            if properties is None:
                break  # an open map: its keys are the user's
            above = ".".join(keys[:depth])
            if key not in properties:
                raise DriftError(f"values.schema.json does not know {above}.")
            known.add(above)
            node = properties[key]
        else:
            node["description"] = description
    if unknown := sorted(set(_paths(schema, schema)) - known - SET_BY_HELM):
        raise DriftError(f"values.yaml does not have {', '.join(unknown)}, which values.schema.json knows.")


def _definition(schema: dict[str, Any], node: dict[str, Any]) -> dict[str, Any]:
    reference = node.get("$ref")
    definition: dict[str, Any] = schema["definitions"][reference.rsplit("/", 1)[-1]] if reference else node
    return definition


def _paths(schema: dict[str, Any], node: dict[str, Any], above: str = "") -> Iterator[str]:
    for key, child in _definition(schema, node).get("properties", {}).items():
        yield f"{above}{key}"
        yield from _paths(schema, child, f"{above}{key}.")


def main(path: str) -> int:
    """Print the described schema."""
    schema = json.loads(Path(path).read_text())
    try:
        describe(schema, json.load(sys.stdin))
    except DriftError as error:
        print(f"schema_descriptions: {error}", file=sys.stderr)
        return 1
    print(json.dumps(schema, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
