"""Holds a request against what a turn expects, and a reply against what was on offer. Pure: sentences come out."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from .conversation import Conversation, Result
from .scenario import Expect, ExpectedResult

Json = dict[str, Any]
SHOWN = 600
PYTHON_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
}


def unmet(expect: Expect, conversation: Conversation) -> Iterator[str]:
    """Yield what EXPECT names and the request lacks."""
    offered = sorted(conversation.offered)
    listed = ", ".join(offered) or "none"
    if expect.tools is not None and expect.tools != bool(offered):
        yield f"{'tools' if expect.tools else 'no tools'} should be on offer; there are: {listed}"
    for name in expect.offers:
        if name not in offered:
            yield f"the tool {name} should be on offer; there are: {listed}"
    for name in expect.offers_not:
        if name in offered:
            yield f"the tool {name} should not be on offer"
    if expect.stream is not None and expect.stream != bool(conversation.body.get("stream")):
        yield f"stream should be {expect.stream}"
    for place in expect.cached:
        if place not in conversation.breakpoints:
            marked = ", ".join(conversation.breakpoints) or "none"
            yield f"the {place} should carry a cache_control; carried by: {marked}"
    yield from _texts("the system prompt", expect.system, conversation.system)
    yield from _texts("the last message", expect.user, conversation.last_user)
    yield from _texts("the conversation", expect.anywhere, conversation.everything)
    for pattern in expect.nowhere:
        if re.search(pattern, conversation.everything + "\n" + conversation.system, re.MULTILINE):
            yield f"{pattern!r} should be nowhere in the request"
    if expect.results is not None:
        yield from _results(expect.results, conversation.last_results)


def _texts(where: str, patterns: tuple[str, ...], text: str) -> Iterator[str]:
    for pattern in patterns:
        if not re.search(pattern, text, re.MULTILINE):
            yield f"{pattern!r} should be in {where}, which is: {text[-SHOWN:]!r}"


def _results(expected: tuple[ExpectedResult, ...], results: list[Result]) -> Iterator[str]:
    if len(expected) != len(results):
        yield f"the last message should have {len(expected)} results of tools; it has {len(results)}"
        return
    for number, (expectation, result) in enumerate(zip(expected, results, strict=True), 1):
        where = f"result {number}, of {result.tool}"
        if expectation.tool is not None and expectation.tool != result.tool:
            yield f"{where} should be one of {expectation.tool}"
        if expectation.failed is not None and expectation.failed != result.failed:
            should = "should" if expectation.failed else "should not"
            yield f"{where} {should} have is_error; it is: {result.text[:SHOWN]!r}"
        yield from _texts(where, expectation.contains, result.text)
        for pattern in expectation.lacks:
            if re.search(pattern, result.text, re.MULTILINE):
                yield f"{pattern!r} should not be in {where}, which is: {result.text[:SHOWN]!r}"


def not_called_so(tool: str, value: Json, offered: dict[str, Json]) -> Iterator[str]:
    """Yield why a model would not call TOOL with the input VALUE, going by the schemas OFFERED."""
    schema = offered.get(tool)
    if schema is None:
        yield f"the reply calls {tool}, which is not on offer; there are: {', '.join(sorted(offered)) or 'none'}"
        return
    yield from _misfit(f"the input of {tool}", value, schema)


def _misfit(where: str, value: Any, schema: Json) -> Iterator[str]:
    kinds = schema.get("type", [])
    names = [kinds] if isinstance(kinds, str) else kinds
    types = tuple(kind for name in names for kind in PYTHON_TYPES.get(name, ()))
    if types and (not isinstance(value, types) or (isinstance(value, bool) and bool not in types)):
        yield f"{where} should be {' or '.join(names)}; it is {value!r}"
        return
    if "enum" in schema and value not in schema["enum"]:
        yield f"{where} should be one of {schema['enum']}; it is {value!r}"
    if isinstance(value, dict):
        properties: Json = schema.get("properties", {})
        for name in schema.get("required", []):
            if name not in value:
                yield f"{where} lacks {name}"
        for name, member in value.items():
            if name in properties:
                yield from _misfit(f"{where}: {name}", member, properties[name])
            else:
                yield f"{where} has {name}, which its schema does not know"
    if isinstance(value, list) and isinstance(schema.get("items"), dict):
        for number, member in enumerate(value):
            yield from _misfit(f"{where}: item {number}", member, schema["items"])
