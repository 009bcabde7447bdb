"""A message as the API sends it, taken apart into server-sent events and put together again. Pure.

The order of events: https://docs.claude.com/en/docs/build-with-claude/streaming
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]


@dataclass(frozen=True)
class Event:
    """One server-sent event; PACED ones wait before they are sent."""

    data: Json
    paced: bool = False

    def encoded(self) -> bytes:
        """Return the event as it goes over the wire."""
        return f"event: {self.data['type']}\ndata: {json.dumps(self.data, separators=(',', ':'))}\n\n".encode()


def error_event(kind: str, message: str) -> Event:
    """Return the event of an error inside a stream."""
    return Event({"type": "error", "error": {"type": kind, "message": message}})


def events(message: Json, chunk: int) -> Iterator[Event]:
    """Yield the events that make up MESSAGE, texts in pieces of CHUNK characters."""
    usage = message["usage"]
    yield Event(
        {
            "type": "message_start",
            "message": {
                **message,
                "content": [],
                "stop_reason": None,
                "stop_sequence": None,
                "usage": {**usage, "output_tokens": 1},
            },
        }
    )
    for index, block in enumerate(message["content"]):
        empty, deltas = _taken_apart(block, chunk)
        yield Event({"type": "content_block_start", "index": index, "content_block": empty})
        if index == 0:
            yield Event({"type": "ping"})
        for delta in deltas:
            yield Event({"type": "content_block_delta", "index": index, "delta": delta}, paced=True)
        yield Event({"type": "content_block_stop", "index": index})
    yield Event(
        {
            "type": "message_delta",
            "delta": {"stop_reason": message["stop_reason"], "stop_sequence": message["stop_sequence"]},
            "usage": usage,
        }
    )
    yield Event({"type": "message_stop"})


def read_events(text: str) -> list[Json]:
    """Return the data of the events in TEXT; an event that has not come to its end is none."""
    events = []
    for part in text.replace("\r\n", "\n").split("\n\n")[:-1]:
        lines = [line.removeprefix("data:") for line in part.split("\n") if line.startswith("data:")]
        if lines:
            events.append(json.loads("\n".join(lines)))
    return events


def put_together(parts: list[Json]) -> Json:
    """Return the message that the data of events add up to; a stream that breaks off gives what came."""
    message: Json = {"content": []}
    partial: dict[int, str] = {}
    for event in copy.deepcopy(parts):
        match event["type"]:
            case "message_start":
                message = event["message"]
            case "content_block_start":
                message["content"].append(event["content_block"])
            case "content_block_delta":
                _add(message["content"][event["index"]], event["delta"], event["index"], partial)
            case "content_block_stop":
                if event["index"] in partial:
                    message["content"][event["index"]]["input"] = json.loads(partial[event["index"]] or "{}")
            case "message_delta":
                message |= event["delta"]
                message["usage"] |= event["usage"]
    return message


def _add(block: Json, delta: Json, index: int, partial: dict[int, str]) -> None:
    match delta["type"]:
        case "text_delta":
            block["text"] += delta["text"]
        case "thinking_delta":
            block["thinking"] += delta["thinking"]
        case "signature_delta":
            block["signature"] += delta["signature"]
        case "input_json_delta":
            partial[index] = partial.get(index, "") + delta["partial_json"]


def _taken_apart(block: Json, chunk: int) -> tuple[Json, list[Json]]:
    if block["type"] == "text":
        return {**block, "text": ""}, [
            {"type": "text_delta", "text": piece} for piece in _pieces(block["text"], chunk)
        ]
    if block["type"] == "thinking":
        deltas = [{"type": "thinking_delta", "thinking": piece} for piece in _pieces(block["thinking"], chunk)]
        return {**block, "thinking": "", "signature": ""}, [
            *deltas,
            {"type": "signature_delta", "signature": block["signature"]},
        ]
    written = json.dumps(block["input"], ensure_ascii=False)
    # The API begins with an empty piece, and sends nothing more for an input without a field.
    pieces = ["", *(_pieces(written, chunk) if block["input"] else ())]
    return {**block, "input": {}}, [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]


def _pieces(text: str, size: int) -> Iterator[str]:
    for start in range(0, len(text), size):
        yield text[start : start + size]
