"""The engine runs on laptops too: what it says to a user names no kind of resource."""

from __future__ import annotations

import ast
from pathlib import Path

PARTS = sorted((Path(__file__).parents[3] / "operator/efrit/plan").glob("*.py"))


def said_by(part: Path) -> list[str]:
    nodes = list(ast.walk(ast.parse(part.read_text())))
    documentation = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    return [
        node.value
        for node in nodes
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documentation
    ]


def test_a_message_names_no_kind_of_resource() -> None:
    passages = [(part.name, words) for part in PARTS for words in said_by(part)]
    assert any("create a new plan" in words for _, words in passages)
    assert [
        passage
        for passage in passages
        if any(f"Efrit{kind}" in passage[1] for kind in ("Instance", "Request", "Plan"))
    ] == []
