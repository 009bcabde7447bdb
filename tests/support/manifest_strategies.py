"""From a schema to objects that nearly fit it: what people, templates and other clients send.

Most values fit their schema, so that most objects get past the API server and reach what stands behind it; some are
at its bounds, some are of another shape altogether. What the definitions gain is fuzzed without a change here.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from tests.support.kube import Json
from tests.support.manifest_schema import BASES, PATTERNS, holding, nodes, text

Values = st.SearchStrategy[Any]

# JSON has no lone surrogates: a client cannot send them.
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
ODD_TEXT = st.sampled_from(
    [
        "",
        " ",
        "\x00",
        "a\x00b",
        "\n",
        "\u2028",
        "\u00a0",
        "\ufeff",
        "\U0010ffff",
        "e\u0301",
        "null",
        "true",
        "1e3",
        "-",
        ".",
    ]
)
NUMBERS = st.one_of(
    st.integers(-3, 3),
    st.integers(-(2**63), 2**63 - 1),
    st.sampled_from([2**31, 2**53 + 1, 2**63 - 1, -(2**63), 10**30, 1e300, -0.0, 1.0, 1.5, 1e2]),
)
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXT | ODD_TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
QUANTITIES = st.one_of(
    st.from_regex(r"\A[+-]?[0-9]{1,20}(\.[0-9]{0,12})?([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]{1,3})?\Z"),
    st.sampled_from(
        ["0", "-0", "1Gi", "1e999", "1E-999", ".5", "5.", "9" * 64, "1" + "0" * 63, "0." + "0" * 60 + "1"]
    ),
    NUMBERS,
)

ODD_TIMES = st.sampled_from(
    [
        "0001-01-01T00:00:00Z",
        "9999-12-31T23:59:59.999999999Z",
        "2016-12-31T23:59:60Z",
        "2026-01-01t00:00:00z",
        "2026-01-01 00:00:00Z",
        "2026-01-01T00:00:00+14:00",
        "2026-01-01T24:00:00Z",
        "2026-02-30T00:00:00Z",
        "2026-01-01",
    ]
)


# Where two regular expression engines, or two ideas of a number, are known to differ.
ODD_CHARACTERS = (
    "\x00",
    "\n",
    "\t",
    "\x7f",
    "\x85",
    "\u00a0",
    "\u00e9",
    "\u0130",
    "\u2028",
    "\u212a",
    "\u3000",
    "\U0001f600",
)
ODD_NUMBERS = (
    1.0,
    1.5,
    1e2,
    1e30,
    10**30,
    -0.0,
    True,
    "1",
    " 1",
    "1 ",
    "+1",
    "1_0",
    "0x1",
    "\u0661",
    "NaN",
    "1".rjust(65, "0"),
)


def odd_values(schema: Json) -> list[Any]:
    """Return values of a leaf on which the API server and the models may differ; none for what is not a leaf."""
    if schema.get("x-kubernetes-int-or-string") or schema.get("type") in ("integer", "number", "boolean"):
        return [*ODD_NUMBERS, "1" + ODD_CHARACTERS[1], "true", []]
    if schema.get("type") != "string" or schema.get("format"):
        return []
    plain = schema["enum"][0] if "enum" in schema else text(schema, max(schema.get("minLength", 1), 12))
    inside = [f"{plain[:-2]}{character}{plain[-2:]}" for character in ODD_CHARACTERS]
    return [*inside, f"{plain}\n", f"{plain}\x00", f" {plain}", "", [], {}, 1, True]


def values(schema: Json) -> Values:
    """Return values that fit in three cases of four, at a guess."""
    fitting = _fitting(schema)
    if schema.get("format") == "date-time":
        # The API server takes an empty list for a time: a difference we leave, for only the controller writes any.
        return st.one_of(fitting, TEXT, ODD_TEXT, st.none(), NUMBERS)
    return st.one_of(fitting, fitting, fitting, _odd())


def _odd() -> Values:
    return st.one_of(st.none(), NUMBERS, TEXT, ODD_TEXT, JSON)


def _fitting(schema: Json) -> Values:
    if schema.get("x-kubernetes-int-or-string"):
        return QUANTITIES
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    shapes: dict[str, Callable[[Json], Values]] = {
        "string": _string,
        "integer": _number,
        "number": _number,
        "boolean": lambda _: st.booleans(),
        "array": _array,
        "object": _object,
    }
    return shapes[schema.get("type", "object")](schema)


def _string(schema: Json) -> Values:
    if schema.get("format") == "date-time":
        return st.one_of(st.datetimes().map(lambda moment: f"{moment.isoformat()}Z"), ODD_TIMES)
    least, most = schema.get("minLength", 0), schema.get("maxLength", 300)
    edges = st.sampled_from([length for length in (least, most) if length]).map(lambda length: text(schema, length))
    if "pattern" in schema:
        assert schema["pattern"] in PATTERNS
        free: Values = st.from_regex(schema["pattern"])
    else:
        free = st.one_of(TEXT, ODD_TEXT)
    inside = free.filter(lambda text: least <= len(text) <= most)
    return st.one_of(inside, inside, edges, st.builds(_with_inside, inside, ODD_TEXT))


def _with_inside(text: str, odd: str) -> str:
    middle = len(text) // 2
    return f"{text[:middle]}{odd}{text[middle:]}"


def _number(schema: Json) -> Values:
    least, most = schema.get("minimum"), schema.get("maximum")
    edges = [edge for edge in (least, most) if edge is not None]
    inside: Values
    if schema["type"] == "number":
        inside = st.floats(least, most, allow_nan=False, allow_infinity=False)
    else:
        inside = st.integers(least, most)
    # A client in a language with one kind of number writes 1.0.
    return st.one_of(inside, inside.map(float), *([st.sampled_from(edges)] if edges else []))


def _array(schema: Json) -> Values:
    return st.lists(values(schema["items"]), min_size=schema.get("minItems", 0), max_size=3)


def _object(schema: Json) -> Values:
    if isinstance(schema.get("additionalProperties"), dict):
        keys = st.one_of(st.from_regex(r"\A[a-z]([-a-z0-9./]{0,20}[a-z0-9])?\Z"), TEXT, ODD_TEXT)
        return st.dictionaries(keys, values(schema["additionalProperties"]), max_size=4)
    properties = schema.get("properties", {})
    required = {name: _fitting(properties[name]) for name in schema.get("required", ())}
    optional = {name: values(subschema) for name, subschema in properties.items() if name not in required}
    return st.fixed_dictionaries(required, optional=optional)


def manifests(plural: str, part: str) -> st.SearchStrategy[Json]:
    """Return objects of a kind with one to three places of `spec` or `status` filled."""
    places = [node for node in nodes(part) if node.plural == plural]

    # Made anew at each draw, strategies would take half of the time.
    @functools.cache
    def filled(number: int) -> st.SearchStrategy[Json]:
        node = places[number]
        return values(node.schema).map(lambda value: holding(node, value))

    one = st.integers(0, len(places) - 1).flatmap(filled)
    return st.lists(one, min_size=1, max_size=3).map(lambda manifests: _together(plural, manifests))


def _together(plural: str, manifests: list[Json]) -> Json:
    result = copy.deepcopy(dict(BASES[plural]))
    for manifest in manifests:
        result = _merged(result, manifest)
    return result


def _merged(first: Any, second: Any) -> Any:
    if not (isinstance(first, dict) and isinstance(second, dict)):
        return second
    return {key: _merged(first.get(key), second.get(key, first.get(key))) for key in first | second}
