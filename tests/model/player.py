"""From a request to what is sent: finds the turn, holds it against its expectations, makes the message. No socket.

Everything wrong is an ApiError: what the API would refuse, and what the scenario did not expect.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import asdict, dataclass
from typing import Any

from .book import Book
from .conversation import Conversation
from .expectations import not_called_so, unmet
from .rules import ApiError, check_body, invalid
from .scenario import Block, Fault, Pace, Scenario, Turn
from .template import TemplateError, fill
from .usage import tokens

Json = dict[str, Any]
SESSION_ID = re.compile(r'"session":\s*\{"id":\s*"([^"]+)"')
UNKNOWN_MODEL = "no-such-model"


@dataclass(frozen=True)
class Play:
    """What to send, and what goes wrong meanwhile."""

    message: Json
    streamed: bool
    pace: Pace
    fault: Fault | None


def play(body: object, book: Book, entry: Json) -> Play:
    """Answer BODY by its scenario; what is found on the way goes into the log's ENTRY."""
    conversation = Conversation(check_body(body))
    if conversation.body["model"] == UNKNOWN_MODEL:
        raise ApiError(404, f"model: {UNKNOWN_MODEL}")
    name = conversation.scenario
    scenario = book.scenario(name) if name else book.begun_by(conversation.first_user)
    if scenario is None:
        raise invalid(
            f"scenario: {name or 'no scenario=NAME in the first user message'}; there is {', '.join(book.names())}"
        )
    elsewhere = scenario.route_of(conversation.first_user)
    if elsewhere is not None:
        led = book.scenario(elsewhere)
        if led is None:
            raise invalid(f"scenario {scenario.name} leads to {elsewhere}, which is none")
        scenario = led
    book.note(entry, scenario=scenario.name, turn=conversation.turn + 1)
    taken_again = conversation.interrupted if scenario.repeats_interrupted else 0
    turn = scenario.turn_of(conversation.turn - taken_again)
    where = f"scenario {scenario.name}, turn {conversation.turn + 1}"
    if turn is None:
        raise invalid(f"{where}: the scenario ends after {len(scenario.turn)} turns")
    content, wrong = _content(scenario, turn, conversation)
    wrong = [*unmet(scenario.expect, conversation), *unmet(turn.expect, conversation), *wrong]
    if wrong:
        book.note(entry, unmet=wrong)
        raise invalid(f"{where}: {'; '.join(wrong)}")
    attempt = book.attempt(scenario.name, conversation.key, conversation.turn)
    fault = turn.fault_of(attempt)
    book.note(entry, attempt=attempt + 1, fault=_said(fault) if fault else None)
    usage = {
        **book.usage(conversation.body),
        "output_tokens": sum(tokens(block) for block in content),
        "service_tier": "standard",
        **turn.usage,
    }
    book.note(entry, usage=usage)
    message = {
        "id": f"msg_{_digest(conversation.key, conversation.turn, attempt)}",
        "type": "message",
        "role": "assistant",
        "model": conversation.body["model"],
        "content": content,
        "stop_reason": turn.stop_reason,
        "stop_sequence": None,
        "usage": usage,
    }
    pace = fault.pace if fault and fault.pace else turn.pace
    return Play(message, bool(conversation.body.get("stream")), pace, fault)


def _content(scenario: Scenario, turn: Turn, conversation: Conversation) -> tuple[list[Json], list[str]]:
    content: list[Json] = []
    wrong: list[str] = []
    for index, block in enumerate(turn.reply):
        try:
            made = _made(block, conversation, index)
        except TemplateError as problem:
            wrong.append(str(problem))
            continue
        if made["type"] == "tool_use" and not block.loose:
            wrong += not_called_so(made["name"], made["input"], conversation.callable)
        content.append(made)
    return content, wrong


def _made(block: Block, conversation: Conversation, index: int) -> Json:
    digest = _digest(conversation.key, conversation.turn, index)
    if block.text is not None:
        return {"type": "text", "text": str(fill(block.text, conversation)) * block.times}
    if block.tool is not None:
        return {
            "type": "tool_use",
            "id": f"toolu_{digest}",
            "name": block.tool,
            "input": fill(block.input, conversation),
        }
    if block.thinking is not None:
        return {"type": "thinking", "thinking": block.thinking, "signature": f"sig{digest}"}
    match = SESSION_ID.search(conversation.everything)
    session: Json = {"id": match.group(1) if match else f"session-{conversation.key}", "status": block.status}
    if block.question is not None:
        session["question"] = fill(block.question, conversation)
    return {"type": "text", "text": json.dumps({"elisp": fill(block.elisp, conversation), "session": session})}


def _digest(key: str, turn: int, part: int) -> str:
    return hashlib.sha256(f"{key} {turn} {part}".encode()).hexdigest()[:24]


def _said(fault: Fault) -> Json:
    """Return the fields of FAULT that say something."""
    plain = asdict(Fault())
    return {name: value for name, value in asdict(fault).items() if value != plain[name]}
