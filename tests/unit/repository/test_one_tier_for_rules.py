"""What the definitions refuse is shown in tests/integration/api alone: an API server is enough for it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

from efrit.api.crd import RESOURCES, definition
from tests.cluster.paths import REPOSITORY

TIERS = ("chaos", "e2e", "integration", "tenancy", "version_skew")
"""Those with an API server."""
SHOWN_IN = "tests/integration/api/"
REFUSED = ("ApiError", "Refused")
"""What our clients raise: that of the API server, and that of users."""
OTHERS = {
    "test_what_a_request_says_cannot_be_changed_and_its_answer_is_final": "the chart installs the rules",
    "test_a_program_in_python_sees_and_scales_them": "what our client makes of a refusal",
}
"""Tests elsewhere that a rule refuses something in, and what they show beyond it."""
OF_SCHEMAS = (
    "Too long",
    "Unsupported value",
    "should be at least 1 chars long",
    "should be less than or equal to 1",
    "should be greater than or equal to 1",
    "must have at most 1 items",
)


@cache
def messages() -> set[str]:
    """Return what an API server says where one of our rules or bounds refuses an object."""
    return {*OF_SCHEMAS, *(message for resource in RESOURCES for message in _rules(definition(resource)))}


def _rules(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        yield from (rule["message"] for rule in node.get("x-kubernetes-validations", ()))
    for below in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from _rules(below)


def expected_refusals(source: str) -> Iterator[tuple[str, str]]:
    """Yield each function and the text of a refusal by the API server that it expects."""
    if not any(name in source for name in REFUSED):
        return
    for function in ast.walk(ast.parse(source)):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            for call in ast.walk(function):
                if isinstance(call, ast.Call) and any(isinstance(a, ast.Name) and a.id in REFUSED for a in call.args):
                    yield from ((function.name, _text(word.value)) for word in call.keywords if word.arg == "match")


def _text(match: ast.expr) -> str:
    """Return a pattern; of what is not written there, anything."""
    match match:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(_text(part) if isinstance(part, ast.Constant) else ".*" for part in parts)
        case ast.Call(args=[inner]):
            return re.escape(_text(inner)).replace(re.escape(".*"), ".*")
    return "nothing that is known here"


def test_a_rule_of_the_definitions_is_shown_in_one_tier() -> None:
    known = messages()
    elsewhere = {
        function: f"{path.relative_to(REPOSITORY)}: {function} expects {pattern!r}"
        for tier in TIERS
        for path in sorted((REPOSITORY / "tests" / tier).rglob("*.py"))
        if not str(path.relative_to(REPOSITORY)).startswith(SHOWN_IN)
        for function, pattern in expected_refusals(path.read_text())
        if any(re.search(pattern, message) for message in known)
    }
    assert {name: text for name, text in elsewhere.items() if name not in OTHERS} == {}, (
        f"an example in {SHOWN_IN} shows it"
    )
    assert elsewhere.keys() >= OTHERS.keys(), "take out of OTHERS what is gone"


@pytest.mark.parametrize(
    "match", ['"both 0"', 'r"spec\\.content is imm"', 'f"spec.{x} is"', 're.escape(f"spec.{x} i")']
)
def test_a_refusal_is_found_however_it_is_written(match: str) -> None:
    source = f"def test_it():\n    with pytest.raises(ApiError, match={match}):\n        pass\n"
    ((function, pattern),) = expected_refusals(source)
    assert function == "test_it"
    assert any(re.search(pattern, message) for message in messages())
