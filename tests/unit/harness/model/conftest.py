"""One server for a test module, and a client that asks it as the product does."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.model.running import KEY, Model, running
from tests.model.stream import read_events
from tests.support.plain_http import NO_TLS
from tests.support.timeout import TIMEOUT

Json = dict[str, Any]
HEADERS = {"x-api-key": KEY, "anthropic-version": "2023-06-01", "content-type": "application/json"}


def tool(name: str, **properties: str) -> Json:
    """Return a tool whose input has these PROPERTIES, name to type, all of them required."""
    return {
        "name": name,
        "description": f"The tool {name}",
        "input_schema": {
            "type": "object",
            "properties": {name: {"type": kind} for name, kind in properties.items()},
            "required": list(properties),
        },
    }


def conversation(*texts: str) -> list[Json]:
    """Messages of the user and the model in turn, the user first."""
    return [{"role": ("user", "assistant")[number % 2], "content": text} for number, text in enumerate(texts)]


def body(messages: list[Json], **more: Any) -> Json:
    return {"model": "claude-test", "max_tokens": 1000, "messages": messages, **more}


class Client:
    """Asks a model server over a connection."""

    def __init__(self, model: Model, http: httpx.Client) -> None:
        self.model = model
        self.http = http

    def post(self, content: Json | bytes, **headers: str | None) -> httpx.Response:
        """Send CONTENT; a header that is None is left out."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        sent = {name: value for name, value in (HEADERS | named).items() if value is not None}
        raw = content if isinstance(content, bytes) else json.dumps(content).encode()
        return self.http.post("/v1/messages", content=raw, headers=sent)

    def events(self, messages: list[Json], **more: Any) -> list[Json]:
        """Ask for a stream and return the data of its events."""
        answer = self.post(body(messages, stream=True, **more))
        assert answer.status_code == 200, answer.text
        assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
        return named_events(answer.text)

    def message(self, messages: list[Json], **more: Any) -> Json:
        """Ask for a whole answer."""
        answer = self.post(body(messages, **more))
        assert answer.status_code == 200, answer.text
        return dict(answer.json())


def named_events(text: str) -> list[Json]:
    """Read server-sent events; each has its name twice, in `event:` and as the type of its data."""
    events = read_events(text)
    assert [line.removeprefix("event: ") for line in text.split("\n") if line.startswith("event: ")] == [
        event["type"] for event in events
    ]
    return events


@pytest.fixture(scope="module")
def server() -> Iterator[Model]:
    with running() as model:
        yield model


@pytest.fixture
def client(server: Model) -> Iterator[Client]:
    server.reset()
    with httpx.Client(base_url=server.url, timeout=TIMEOUT, verify=NO_TLS) as http:
        yield Client(server, http)
