"""What the model server refuses, and that it refuses as the API does."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.model.running import running
from tests.support.plain_http import NO_TLS
from tests.unit.harness.model.conftest import Client, body, conversation, tool

Json = dict[str, Any]
HELLO = conversation("Good day scenario=chat")
CALL = {"type": "tool_use", "id": "toolu_1", "name": "t", "input": {}}
RESULT = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "done"}
MARK = {"cache_control": {"type": "ephemeral"}}
UNANSWERED = (
    "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: toolu_1. "
    "Each `tool_use` block must have a corresponding `tool_result` block in the next message."
)


def user(*content: Json) -> Json:
    return {"role": "user", "content": list(content)}


def assistant(*content: Json) -> Json:
    return {"role": "assistant", "content": list(content)}


def text(words: str) -> Json:
    return {"type": "text", "text": words}


def without(name: str) -> Json:
    return {key: value for key, value in body(HELLO).items() if key != name}


def called(*last: Json) -> Json:
    """Return a body whose last message follows a call of a tool."""
    return body([*HELLO, assistant(CALL), *last], tools=[tool("t")])


BAD: dict[str, tuple[Any, str]] = {
    "not an object": ([], "Input should be a valid dictionary"),
    "no model": (without("model"), "model: Field required"),
    "no messages": (without("messages"), "messages: Field required"),
    "no max_tokens": (without("max_tokens"), "max_tokens: Field required"),
    "no tokens at all": (body(HELLO, max_tokens=0), "max_tokens: Input should be greater than or equal to 1"),
    "a broken number": (body(HELLO, max_tokens=1.5), "max_tokens: Input should be a valid integer"),
    "stream no boolean": (body(HELLO, stream="yes"), "stream: Input should be a valid boolean"),
    "an unknown field": (body(HELLO, session="s"), "session: Extra inputs are not permitted"),
    "no message": (body([]), "messages: at least one message is required"),
    "the model first": (body([assistant(text("hi"))]), 'messages: first message must use the "user" role'),
    "a system message": (
        body([{"role": "system", "content": "x"}]),
        "messages.0.role: Input should be 'user' or 'assistant'",
    ),
    "a field in a message": (
        body([{"role": "user", "content": "x", "id": 1}]),
        "messages.0.id: Extra inputs are not permitted",
    ),
    "empty content": (
        body([user()]),
        "messages.0: all messages must have non-empty content except for the optional final assistant message",
    ),
    "an empty text": (body([user(text(""))]), "messages: text content blocks must be non-empty"),
    "a blank text": (body([user(text(" \n"))]), "messages: text content blocks must contain non-whitespace text"),
    "content null": (body([{"role": "user", "content": None}]), "messages.0.content: Input should be a valid list"),
    "an unknown block": (
        body([user({"type": "sound"})]),
        "messages.0.content.0: Input tag 'sound' found using 'type' does not match any of the expected tags: ",
    ),
    "a call of the user": (
        body([user(CALL)]),
        "messages.0.content.0: Input tag 'tool_use' found using 'type' does not match any of the expected tags: ",
    ),
    "white space at the end": (
        body([*HELLO, assistant(text("So "))]),
        "messages: final assistant content cannot end with trailing whitespace",
    ),
    "a call without its result": (called(user(text("go on"))), UNANSWERED),
    "a call at the end": (called(), UNANSWERED),
    "text before the result": (called(user(text("look:"), RESULT)), UNANSWERED),
    "a result of no call": (
        called(user(RESULT, RESULT | {"tool_use_id": "toolu_2"})),
        "messages.2.content.1: unexpected `tool_use_id` found in `tool_result` blocks: toolu_2. Each "
        "`tool_result` block must have a corresponding `tool_use` block in the previous message.",
    ),
    "two results of a call": (called(user(RESULT, RESULT)), "each tool_use must have a single result"),
    "a result that is a number": (
        called(user(RESULT | {"content": 3})),
        "messages.2.content.0.tool_result.content: Input should be a valid list",
    ),
    "a blank result": (
        called(user(RESULT | {"content": [text("\n")]})),
        "messages: text content blocks must contain non-whitespace text",
    ),
    "is_error no boolean": (
        called(user(RESULT | {"is_error": None})),
        "messages.2.content.0.tool_result.is_error: Input should be a valid boolean",
    ),
    "a status of a result": (
        called(user(RESULT | {"status": "success"})),
        "messages.2.content.0.tool_result.status: Extra inputs are not permitted",
    ),
    "an id used twice": (
        body([*HELLO, assistant(CALL), user(RESULT), assistant(CALL), user(RESULT)], tools=[tool("t")]),
        "messages: `tool_use` ids must be unique",
    ),
    "an input that is null": (
        body([*HELLO, assistant(CALL | {"input": None}), user(RESULT)]),
        "messages.1.content.0.tool_use.input: Input should be a valid dictionary",
    ),
    "an input that is a list": (
        body([*HELLO, assistant(CALL | {"input": []}), user(RESULT)]),
        "messages.1.content.0.tool_use.input: Input should be a valid dictionary",
    ),
    "two tools of one name": (body(HELLO, tools=[tool("t"), tool("t")]), "tools: Tool names must be unique."),
    "a tool with a space": (
        body(HELLO, tools=[tool("a tool")]),
        "tools.0.custom.name: String should match pattern '^[a-zA-Z0-9_-]{1,128}$'",
    ),
    "a tool without a schema": (
        body(HELLO, tools=[{"name": "t"}]),
        "tools.0.custom.input_schema: Field required",
    ),
    "a schema that is a string": (
        body(HELLO, tools=[{"name": "t", "input_schema": {"type": "string"}}]),
        "tools.0.custom.input_schema.type: Input should be 'object'",
    ),
    "properties that are a list": (
        body(HELLO, tools=[{"name": "t", "input_schema": {"type": "object", "properties": []}}]),
        "tools.0.custom.input_schema.properties: Input should be a valid dictionary",
    ),
    "properties that are null": (
        body(HELLO, tools=[{"name": "t", "input_schema": {"type": "object", "properties": None}}]),
        "tools.0.custom.input_schema.properties: Input should be a valid dictionary",
    ),
    "a handler in a tool": (
        body(HELLO, tools=[tool("t") | {"handler": "f"}]),
        "tools.0.custom.handler: Extra inputs are not permitted",
    ),
    "a choice without tools": (
        body(HELLO, tool_choice={"type": "auto"}),
        "tool_choice: may only be specified while providing tools",
    ),
    "five marks for the cache": (
        body(
            [user(text("Good day scenario=chat") | MARK, text("and so on") | MARK)],
            system=[text("You are") | MARK],
            tools=[tool("t") | MARK, tool("u") | MARK],
        ),
        "A maximum of 4 blocks with cache_control may be provided. Found 5.",
    ),
    "a mark that is none": (
        body([user(text("x") | {"cache_control": {"type": "forever"}})]),
        "messages.0.content.0.text.cache_control: Input should be a valid cache control",
    ),
}


@pytest.mark.parametrize(("bad", "message"), BAD.values(), ids=BAD.keys())
def test_a_bad_body_is_refused_in_the_words_of_the_api(client: Client, bad: Json, message: str) -> None:
    answer = client.post(bad)
    assert answer.status_code == 400
    refused = answer.json()
    assert refused["type"] == "error"
    assert refused["error"]["type"] == "invalid_request_error"
    assert message in refused["error"]["message"]
    assert refused["request_id"] == answer.headers["request-id"]


def test_what_is_good_beside_it_is_taken(client: Client) -> None:
    client.model.play("plain", "[[turn]]\nturns = 0\n[[turn.reply]]\ntext = 'yes'")
    start = user(text("scenario=plain") | MARK, text("more"))
    more: Json = {"system": [text("You are") | MARK], "tools": [tool("t") | MARK]}
    for messages in (
        [start],
        [start, start],
        [start, assistant(text("a"), CALL), user(RESULT, text("and on") | MARK)],
        [start, assistant(CALL), user(RESULT | {"content": [text("a"), text("b")], "is_error": True})],
        [start, assistant(CALL), user({"type": "tool_result", "tool_use_id": "toolu_1"})],
        [start, assistant({"type": "thinking", "thinking": "x", "signature": "y"}, text("a")), user(text("b"))],
        [start, assistant(text("So"))],
    ):
        assert client.message(messages, **more)["content"] == [text("yes")]


def test_a_body_that_is_no_json_is_refused(client: Client) -> None:
    answer = client.post(b'{"model": ')
    assert (answer.status_code, answer.json()["error"]["type"]) == (400, "invalid_request_error")


@pytest.mark.parametrize(
    ("headers", "status", "kind", "message"),
    [
        ({"x_api_key": None}, 401, "authentication_error", "x-api-key header is required"),
        ({"x_api_key": ""}, 401, "authentication_error", "x-api-key header is required"),
        ({"x_api_key": "another"}, 401, "authentication_error", "invalid x-api-key"),
        ({"anthropic_version": None}, 400, "invalid_request_error", "anthropic-version: header is required"),
        ({"anthropic_version": "1"}, 400, "invalid_request_error", 'anthropic-version: "1" is not a valid version'),
        ({"content_type": "text/plain"}, 400, "invalid_request_error", "content-type: must be application/json"),
    ],
)
def test_wrong_headers_are_refused(
    client: Client, headers: dict[str, str | None], status: int, kind: str, message: str
) -> None:
    answer = client.post(body(HELLO), **headers)
    assert answer.status_code == status
    assert answer.json()["error"] == {"type": kind, "message": message}


def test_no_key_is_in_the_log(client: Client) -> None:
    client.post(body(HELLO), x_api_key="very-secret")
    client.post(body(HELLO), x_api_key=None, authorization="Bearer very-secret")
    log = client.model.log()
    assert [entry["status"] for entry in log] == [401, 401]
    assert "very-secret" not in str(log)


def test_an_unknown_model_is_not_found(client: Client) -> None:
    answer = client.post(body(HELLO) | {"model": "no-such-model"})
    assert answer.status_code == 404
    assert answer.json()["error"] == {"type": "not_found_error", "message": "model: no-such-model"}


def test_a_request_that_is_too_large_is_refused_with_the_whole_of_it_read() -> None:
    with running("--max-request-bytes", "1000") as model, httpx.Client(base_url=model.url, verify=NO_TLS) as http:
        client = Client(model, http)
        answer = client.post(body(conversation("x" * 3_000_000)))
        assert answer.status_code == 413
        assert answer.json()["error"]["type"] == "request_too_large"
        assert client.post(body(HELLO)).status_code == 200
