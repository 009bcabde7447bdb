"""Writes docs/api.md from the CRDs: `python -m efrit.api.docs docs/api.md`. A check fails when it is out of date."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from efrit.api.crd import RESOURCES, definition
from efrit.api.meta import Resource
from efrit.api_group import GROUP, VERSION

INTRODUCTION = f"""# The resources

Group `{GROUP}`, version `{VERSION}`. Written from the models in `operator/efrit/api` by `make crds`; the same text is
what `kubectl explain` shows. Bounds and rules are enforced by the API server: what breaks one is refused with the
message given here, and never reaches an instance.
"""


def render() -> str:
    """Return the whole page."""
    return "\n".join([INTRODUCTION, *(section for resource in RESOURCES for section in _resource(resource))])


def _resource(resource: type[Resource]) -> Iterator[str]:
    crd = definition(resource)
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    names = ", ".join(f"`{name}`" for name in resource.short_names)
    yield f"## {resource.kind}\n\n{schema['description']} Short name {names}.\n"
    for part in ("spec", "status"):
        node = schema["properties"][part]
        yield f"### {part} of {resource.kind}\n\n{node.get('description', '')}\n"
        yield "| field | type | default | meaning |\n|---|---|---|---|"
        yield from (_row(*field) for field in _fields(node, ""))
        yield ""
    rules = list(_rules(schema, ""))
    if rules:
        yield f"### Rules of {resource.kind}\n\n| where | what the API server says |\n|---|---|"
        yield from (f"| `{field_path or 'the object'}` | {_cell(message)} |" for field_path, message in rules)
        yield ""
    columns = ", ".join(column.name for column in resource.printer_columns if not column.priority)
    wide = ", ".join(column.name for column in resource.printer_columns if column.priority)
    yield f"`kubectl get` shows {columns}{f'; with `-o wide` also {wide}' if wide else ''}.\n"
    selectable = ", ".join(f"`{path.removeprefix('.')}`" for path in resource.selectable_fields)
    yield f"Field selectors: {selectable or 'none'}.\n"


def _fields(node: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Mapping[str, Any], bool]]:
    required = node.get("required", ())
    for name, field in node.get("properties", {}).items():
        path = f"{prefix}{name}"
        yield path, field, name in required
        inner, mark = field, ""
        if field.get("type") == "array":
            inner, mark = field["items"], "[]"
        # Kubernetes' own objects are described by Kubernetes.
        if any("description" in property_ for property_ in inner.get("properties", {}).values()):
            yield from _fields(inner, f"{path}{mark}.")


def _row(path: str, field: Mapping[str, Any], required: bool) -> str:
    default = field.get("default")
    shown = "required" if required else "" if default is None or isinstance(default, dict) else f"`{default}`"
    return f"| `{path}` | {_type(field)} | {shown} | {_cell(field.get('description', ''))} |"


def _type(field: Mapping[str, Any]) -> str:
    if "enum" in field:
        return " \\| ".join(f"`{value}`" for value in field["enum"])
    if field.get("x-kubernetes-int-or-string"):
        return f"{field['minimum']} to {field['maximum']}, or a percentage" if "maximum" in field else "quantity"
    kind = str(field.get("type", "object"))
    if kind == "array":
        return f"list of {_type(field['items'])}"
    if isinstance(field.get("additionalProperties"), dict):
        return f"map of {_type(field['additionalProperties'])}"
    low, high = field.get("minimum"), field.get("maximum")
    if low is not None and high is not None:
        return f"{kind}, {low} to {high}"
    if low is not None:
        return f"{kind}, at least {low}"
    if "maxLength" in field:
        return f"{kind}, at most {field['maxLength']} characters"
    return kind


def _rules(node: Mapping[str, Any], path: str) -> Iterator[tuple[str, str]]:
    for rule in node.get("x-kubernetes-validations", ()):
        yield path, rule["message"]
    for name, field in node.get("properties", {}).items():
        inner = field["items"] if field.get("type") == "array" else field
        mark = "[]" if field.get("type") == "array" else ""
        yield from _rules(inner, f"{path}.{name}{mark}".removeprefix("."))


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def main() -> None:
    """Write the page to the path named on the command line."""
    Path(sys.argv[1]).write_text(render())


if __name__ == "__main__":
    main()
