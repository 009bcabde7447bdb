"""From a schema node to values on both sides of each of its bounds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tests.support.kube import Json
from tests.support.manifest_schema import PATTERNS, Node, judged, minimal, text


@dataclass(frozen=True)
class Bound:
    """One value of one field: accepted, or refused with this text."""

    node: Node
    title: str
    value: Any
    refused: str | None

    def __str__(self) -> str:
        return f"{self.node.plural}:{self.node.dotted}:{self.title}"


LONGEST = {"efritpools:spec.fairness.flowLabel": f"{'p' * 253}/{'n' * 63}"}
"""Of fields whose texts a rule judges, too."""


def bounds(part: str) -> list[Bound]:
    """Return both sides of every bound below `spec` or `status`."""
    return [_bound(node, *side) for node in judged(part) for side in _sides(node.schema)]


def _bound(node: Node, title: str, value: Any, refused: str | None) -> Bound:
    if title == "longest":
        value = LONGEST.get(f"{node.plural}:{node.dotted}", value)
    return Bound(node, title, value, refused)


Side = tuple[str, Any, str | None]


def _sides(schema: Json) -> Iterator[Side]:
    if schema.get("x-kubernetes-int-or-string"):
        yield from _share(schema) if "maximum" in schema else _quantity(schema)
        return
    match schema.get("type"):
        case "string":
            yield from _string(schema)
        case "integer" | "number":
            yield from _number(schema)
        case "boolean":
            yield "false", False, None
            yield "no boolean", "yes", "must be of type boolean"
        case "array":
            yield from _array(schema)
        case "object":
            yield from _object(schema)


def _quantity(schema: Json) -> Iterator[Side]:
    most = schema["maxLength"]
    yield "longest", "1".rjust(most, "0"), None
    yield "too long", "1".rjust(most + 1, "0"), "Too long"
    yield "no quantity", [], "must be of type"
    for good in ("500m", "2", "1.5Gi", "1e3", 3):
        yield f"quantity {good!r}", good, None
    for bad in ("", "1 Gi", "lots", "1GiB"):
        yield f"quantity {bad!r}", bad, "should match"


def _share(schema: Json) -> Iterator[Side]:
    """Yield numbers and percentages."""
    low, high = schema["minimum"], schema["maximum"]
    for good in (low, high, str(high), "0%", f"{high}%"):
        yield f"share {good!r}", good, None
    yield "below", low - 1, "should be greater than or equal to"
    yield "above", high + 1, "should be less than or equal to"
    yield "no share", [], "must be of type"
    for bad in ("", "1.5", "-1", "%", f"{high + 1}", f"{high + 1}%"):
        yield f"share {bad!r}", bad, "should match"


def _string(schema: Json) -> Iterator[Side]:
    if schema.get("format") == "date-time":
        yield "time", "2026-01-01T00:00:00.123456Z", None
        for bad in ("yesterday", 1):
            yield f"no time {bad!r}", bad, "must be of type date-time"
        return
    yield "no string", 1, "must be of type string"
    if "enum" in schema:
        for value in schema["enum"]:
            yield f"enum {value}", value, None
        yield "not in enum", "Surprise", "Unsupported value"
        return
    if "maxLength" in schema:
        most = schema["maxLength"]
        yield "longest", text(schema, most), None
        yield "too long", text(schema, most + 1), "Too long"
    if schema.get("minLength"):
        yield "shortest", minimal(schema), None
        yield "too short", "", f"should be at least {schema['minLength']} chars long"
    if "pattern" in schema:
        yield "no match", PATTERNS[schema["pattern"]].unfitting, "should match"


def _number(schema: Json) -> Iterator[Side]:
    yield "no number", "1", f"must be of type {schema['type']}"
    if "minimum" in schema:
        least = schema["minimum"]
        yield "least", least, None
        yield "too small", least - 1, f"should be greater than or equal to {least}"
    if "maximum" in schema:
        most = schema["maximum"]
        yield "most", most, None
        yield "too large", most + 1, f"should be less than or equal to {most}"


def _array(schema: Json) -> Iterator[Side]:
    yield "no list", {}, "must be of type array"
    if "maxItems" in schema:
        most = schema["maxItems"]
        yield "most items", _items(schema, most), None
        yield "too many items", _items(schema, most + 1), f"must have at most {most} items"
    if schema.get("minItems"):
        yield "too few items", [], f"should have at least {schema['minItems']} items"


def _items(schema: Json, count: int) -> list[Any]:
    items = [minimal(schema["items"]) for _ in range(count)]
    for key in schema.get("x-kubernetes-list-map-keys", ()):
        for number, item in enumerate(items):
            item[key] = f"Key{number}"
    return items


def _object(schema: Json) -> Iterator[Side]:
    yield "no object", "text", "must be of type object"
    if "maxProperties" in schema:
        most = schema["maxProperties"]
        value = minimal(schema["additionalProperties"])
        yield "most keys", {f"k{number}": value for number in range(most)}, None
        yield "too many keys", {f"k{number}": value for number in range(most + 1)}, f"must have at most {most} "
    if schema.get("minProperties"):
        yield "too few keys", {}, f"should have at least {schema['minProperties']} properties"
    for name in schema.get("required", ()):
        yield f"without {name}", {**minimal(schema), name: None}, "Required value"
    open_ended = schema.get("x-kubernetes-preserve-unknown-fields") or "additionalProperties" in schema
    if open_ended:
        yield "any key", {**minimal(schema), "key": _any(schema)}, None
    else:
        yield "unknown field", {**minimal(schema), "surprise": 1}, "unknown field"


def _any(schema: Json) -> Any:
    inner = schema.get("additionalProperties")
    return minimal(inner) if isinstance(inner, dict) else {"deep": [1, "two"]}
