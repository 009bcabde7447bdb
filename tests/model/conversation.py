"""What a request of the Messages API says: its turn, its texts, the results of the tools. Pure, no judgement.

The body has passed `rules.check_body` before: its form may be taken for granted here.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from functools import cached_property
from typing import Any

Json = dict[str, Any]
PROBE = "Reply with OK."
INTERRUPTED = "It was interrupted; what it did is unknown."
"""The result that an Emacs gives a call which another one had begun, see `efrit-session-leave-call`."""
SCENARIO_NAME = re.compile(r"\bscenario=([A-Za-z0-9_.-]*[A-Za-z0-9_])")


def blocks(content: str | list[Json]) -> list[Json]:
    """Return the content of a message as blocks."""
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def text_of(content: str | list[Json] | None) -> str:
    """Return the text blocks of CONTENT, one after the other."""
    return "\n".join(block["text"] for block in blocks(content or []) if block["type"] == "text")


@dataclass(frozen=True)
class Result:
    """What a tool gave back to the model."""

    call: str
    tool: str
    text: str
    failed: bool


@dataclass(frozen=True)
class Conversation:
    """One request's body, read."""

    body: Json

    @cached_property
    def messages(self) -> list[Json]:
        """The messages as they came."""
        return list(self.body["messages"])

    @cached_property
    def turn(self) -> int:
        """How often the model has spoken: the number of the turn that is asked for, from 0."""
        return sum(1 for message in self.messages if message["role"] == "assistant")

    @cached_property
    def system(self) -> str:
        """The text of the system prompt."""
        return text_of(self.body.get("system"))

    @cached_property
    def first_user(self) -> str:
        """The text of the first message of the user."""
        return next((text_of(message["content"]) for message in self.messages if message["role"] == "user"), "")

    @cached_property
    def last_user(self) -> str:
        """The text of the last message, less the results of tools in it."""
        last = self.messages[-1]
        return text_of(last["content"]) if last["role"] == "user" else ""

    @cached_property
    def everything(self) -> str:
        """All text of the messages, also of calls and results."""
        parts = []
        for message in self.messages:
            for block in blocks(message["content"]):
                if block["type"] == "text":
                    parts.append(block["text"])
                elif block["type"] == "thinking":
                    parts.append(block["thinking"])
                elif block["type"] == "tool_use":
                    parts.append(json.dumps(block["input"], ensure_ascii=False))
                elif block["type"] == "tool_result":
                    parts.append(text_of(block.get("content")))
        return "\n".join(parts)

    @cached_property
    def scenario(self) -> str | None:
        """The name after `scenario=` in the first message of the user; `probe` for what `efrit doctor` asks."""
        match = SCENARIO_NAME.search(self.first_user)
        if match is None:
            return "probe" if self.first_user == PROBE else None
        return match.group(1)

    @cached_property
    def key(self) -> str:
        """What tells this conversation from others, in every turn of it."""
        return hashlib.sha256(self.first_user.encode()).hexdigest()[:16]

    @cached_property
    def results(self) -> list[Result]:
        """All results of tools, in their order."""
        tools = {
            block["id"]: block["name"]
            for message in self.messages
            for block in blocks(message["content"])
            if block["type"] == "tool_use"
        }
        return [
            Result(
                block["tool_use_id"],
                tools[block["tool_use_id"]],
                text_of(block.get("content")),
                bool(block.get("is_error")),
            )
            for message in self.messages
            for block in blocks(message["content"])
            if block["type"] == "tool_result"
        ]

    @cached_property
    def interrupted(self) -> int:
        """How many calls were interrupted by the end of Emacs: nobody knows what they did."""
        return sum(INTERRUPTED in result.text for result in self.results)

    @cached_property
    def last_results(self) -> list[Result]:
        """The results in the last message."""
        calls = {
            block["tool_use_id"] for block in blocks(self.messages[-1]["content"]) if block["type"] == "tool_result"
        }
        return [result for result in self.results if result.call in calls]

    @cached_property
    def offered(self) -> dict[str, Json]:
        """The schema of each tool on offer."""
        return {tool["name"]: tool["input_schema"] for tool in self.body.get("tools") or []}

    @cached_property
    def callable(self) -> dict[str, Json]:
        """The tools that may be called in the answer."""
        return {} if (self.body.get("tool_choice") or {}).get("type") == "none" else self.offered

    @cached_property
    def breakpoints(self) -> list[str]:
        """Where the prompt is marked for the cache: tools, system, messages."""
        return [
            place
            for place, marked in (
                *(("tools", tool) for tool in self.body.get("tools") or []),
                *(("system", block) for block in blocks(self.body.get("system") or [])),
                *(("messages", block) for message in self.messages for block in blocks(message["content"])),
            )
            if marked.get("cache_control")
        ]
