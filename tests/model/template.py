"""Fills in what a model takes from the conversation: `{{last_result =~ REGEX | number}}`. Pure.

An expression is SOURCE, then optionally `=~ REGEX` (its first group, else the whole match), then optionally `| FORM`.
SOURCE: `last_result`, `result TOOL` (the last one of that tool), `user`, `first_user`, `everything`, `turn` (from 1),
`open` (two braces, for a text that has them).
FORM: `lisp` (a printed Lisp string), `number` and `json` (a value, where the expression is all of the string).
"""

from __future__ import annotations

import json
import re
from typing import Any

from .conversation import Conversation

EXPRESSION = re.compile(r"\{\{(.+?)\}\}(?!\})", re.DOTALL)
PARTS = re.compile(
    r"\s*(?P<source>\w+(?: \w+)?)\s*(?:=~\s*(?P<regex>.+?))?\s*(?:\|\s*(?P<form>lisp|number|json))?\s*", re.S
)


class TemplateError(Exception):
    """What a scenario wants to take from the conversation is not there."""


def fill(value: Any, conversation: Conversation) -> Any:
    """Return VALUE with the expressions in its strings replaced, at any depth."""
    if isinstance(value, dict):
        return {name: fill(member, conversation) for name, member in value.items()}
    if isinstance(value, list):
        return [fill(item, conversation) for item in value]
    if not isinstance(value, str):
        return value
    alone = EXPRESSION.fullmatch(value)
    if alone and "}}" not in alone.group(1):
        return _value(alone.group(1), conversation)
    return EXPRESSION.sub(lambda match: str(_value(match.group(1), conversation)), value)


def _value(expression: str, conversation: Conversation) -> Any:
    parts = PARTS.fullmatch(expression)
    if not parts:
        raise TemplateError(f"{{{{{expression}}}}} is no expression")
    text = _source(parts["source"], conversation)
    if parts["regex"]:
        match = re.search(parts["regex"], text, re.MULTILINE)
        if not match:
            raise TemplateError(f"{parts['regex']!r} is not in {parts['source']}: {text[:2000]!r}")
        text = match.group(1) if match.re.groups else match.group()
    if parts["form"] == "lisp":
        escaped = text.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    if parts["form"]:
        try:
            return json.loads(text)
        except ValueError:
            raise TemplateError(f"{text[:200]!r} is no {parts['form']}") from None
    return text


def _source(source: str, conversation: Conversation) -> str:
    if source == "open":
        return "{{"
    if source == "turn":
        return str(conversation.turn + 1)
    if source == "user":
        return conversation.last_user
    if source == "first_user":
        return conversation.first_user
    if source == "everything":
        return conversation.everything
    word, _, tool = source.partition(" ")
    results = [result for result in conversation.results if word == "last_result" or result.tool == tool]
    if word not in ("last_result", "result") or not results:
        raise TemplateError(f"there is no {source}")
    return results[-1].text
