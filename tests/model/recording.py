"""Real traffic as a scenario: exchanges in, TOML out. Pure. No header comes here; keys in texts are taken out."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from .conversation import Conversation, text_of

Json = dict[str, Any]
HIDDEN = "[API key]"
USAGE = ("input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")


@dataclass(frozen=True)
class Exchange:
    """One request and what came back: the MESSAGE if it came whole, else the STATUS and how many EVENTS came."""

    body: Json
    message: Json | None
    status: int = 200
    error: Json | None = None
    retry_after: str | None = None
    events: int = 0


def scenario(name: str, exchanges: list[Exchange], keys: frozenset[str]) -> str:
    """Return the scenario NAME that plays what these EXCHANGES of one conversation were."""
    turns: dict[int, list[Exchange]] = {}
    for exchange in exchanges:
        turns.setdefault(Conversation(exchange.body).turn, []).append(exchange)
    first = Conversation(exchanges[0].body)
    kind = "command" if first.offered else "chat"
    # What is behind the first block is what Emacs tells about itself.
    prompt = text_of(first.messages[0]["content"][:1]) if isinstance(first.messages[0]["content"], list) else ""
    lines = [
        f"description = {_value('Recorded from ' + str(exchanges[0].body['model']))}",
        "",
        "[[request]]",
        f"type = {_value(kind)}",
        f"content = {_value((prompt or first.first_user) + f' (scenario={name})')}",
        "result = ''",
    ]
    for number in range(min(turns), max(turns) + 1):
        lines += ["", *_turn(turns.get(number, []))]
    text = "\n".join(lines) + "\n"
    for key in keys:
        text = text.replace(_value(key)[1:-1], HIDDEN)
    return text


def _turn(exchanges: list[Exchange]) -> list[str]:
    lines = ["[[turn]]"]
    if not exchanges:
        return [*lines, "# This turn was not recorded.", 'stop_reason = "end_turn"']
    whole = [exchange for exchange in exchanges if exchange.message is not None]
    message = whole[-1].message if whole else None
    if message is not None:
        usage = {name: message["usage"][name] for name in USAGE if message["usage"].get(name) is not None}
        lines += [f"stop_reason = {_value(message['stop_reason'])}", f"usage = {_value(usage)}"]
    conversation = Conversation(exchanges[-1].body)
    if conversation.offered:
        lines.append(f"expect.offers = {_value(sorted(conversation.offered))}")
    lines += [
        line
        for result in conversation.last_results
        for line in ("[[turn.expect.results]]", f"tool = {_value(result.tool)}", f"failed = {_value(result.failed)}")
    ]
    for block in message["content"] if message is not None else []:
        lines += _reply(block)
    for exchange in exchanges:
        if exchange.message is None:
            lines += _fault(exchange, for_ever=message is None)
    return lines


def _reply(block: Json) -> list[str]:
    match block["type"]:
        case "text":
            return ["[[turn.reply]]", f"text = {_value(_plain(block['text']))}"]
        case "thinking":
            return ["[[turn.reply]]", f"thinking = {_value(block['thinking'])}"]
        case "tool_use":
            return [
                "[[turn.reply]]",
                f"tool = {_value(block['name'])}",
                f"input = {_value(_plain(block['input']))}",
            ]
        case kind:
            return [f"# Left out: a block of type {kind}."]


def _fault(exchange: Exchange, *, for_ever: bool) -> list[str]:
    lines = ["[[turn.fault]]", *(["times = 0"] if for_ever else [])]
    if exchange.status == 200 and exchange.error is None:
        return [*lines, f"cut_after_events = {exchange.events}"]
    error = exchange.error or {}
    if exchange.status == 200:
        lines += [f"error_event = {_value(error.get('type', 'api_error'))}", f"after_events = {exchange.events}"]
    else:
        lines += [f"status = {exchange.status}", f"type = {_value(error.get('type', ''))}"]
    lines.append(f"message = {_value(error.get('message', ''))}")
    if exchange.retry_after is not None:
        lines.append(f"retry_after = {_value(exchange.retry_after)}")
    return lines


def _plain(value: Any) -> Any:
    """Return VALUE so that nothing in it is taken for an expression: a brace in the way is one of its own."""
    if isinstance(value, dict):
        return {name: _plain(member) for name, member in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value.replace("{{", "{{open}}") if isinstance(value, str) else value


def _value(value: Any) -> str:
    """Return VALUE in TOML; what is null is left out, for TOML has no word for it."""
    if isinstance(value, dict):
        fields = [f"{json.dumps(name)} = {_value(member)}" for name, member in value.items() if member is not None]
        return "{" + ", ".join(fields) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_value(item) for item in value if item is not None) + "]"
    # A JSON string is one of TOML, but for the one control character JSON lets pass.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
