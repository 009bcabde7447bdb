"""What the Messages API refuses, with the words it refuses it in. Pure: headers and body in, an ApiError out.

After https://docs.claude.com/en/api/errors, /en/api/messages and the messages that clients of the API report.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]
TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    405: "invalid_request_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    504: "timeout_error",
    529: "overloaded_error",
}
MESSAGES = {
    401: "invalid x-api-key",
    403: "Your API key does not have permission to use the specified resource",
    404: "Not found",
    405: "Method Not Allowed",
    413: "Request exceeds the maximum size",
    429: "This request would exceed your organization's rate limit. Please try again later.",
    500: "Internal server error",
    504: "Request timed out",
    529: "Overloaded",
}
TOP = {
    *("model", "messages", "max_tokens", "system", "tools", "tool_choice", "stream", "metadata", "temperature"),
    *("top_k", "top_p", "stop_sequences", "thinking", "service_tier", "container", "context_management"),
}
NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
CALL_ID = re.compile(r"[a-zA-Z0-9_-]+")
BLOCKS = {
    "user": {"text", "image", "document", "tool_result", "search_result"},
    "assistant": {"text", "tool_use", "thinking", "redacted_thinking"},
}
MAX_CACHE_MARKS = 4


@dataclass
class ApiError(Exception):
    """An answer that is an error of the API."""

    status: int
    message: str = ""
    kind: str = ""
    headers: dict[str, str] = field(default_factory=dict)

    def body(self, request_id: str) -> Json:
        """Return the JSON of the answer."""
        kind = self.kind or TYPES.get(self.status, "api_error")
        message = self.message or MESSAGES.get(self.status, "Internal server error")
        return {"type": "error", "error": {"type": kind, "message": message}, "request_id": request_id}


def invalid(message: str) -> ApiError:
    """Return the refusal of a request for its content."""
    return ApiError(400, message)


def check_headers(headers: Mapping[str, str], keys: frozenset[str]) -> None:
    """Refuse what the API refuses before it reads a body."""
    key = headers.get("x-api-key")
    bearer = headers.get("authorization", "")
    if key is None and bearer.startswith("Bearer "):
        key = bearer.removeprefix("Bearer ")
    if not key and "" not in keys:
        raise ApiError(401, "x-api-key header is required")
    if (key or "") not in keys:
        raise ApiError(401)
    version = headers.get("anthropic-version")
    if version is None:
        raise invalid("anthropic-version: header is required")
    if version != "2023-06-01":
        raise invalid(f'anthropic-version: "{version}" is not a valid version')
    if headers.get("content-type", "").split(";")[0].strip().lower() != "application/json":
        raise invalid("content-type: must be application/json")


def check_body(body: object) -> Json:
    """Return BODY, which is one the API takes, else say why it is not."""
    if not isinstance(body, dict):
        raise invalid("Input should be a valid dictionary")
    for name in sorted(body.keys() - TOP):
        raise invalid(f"{name}: Extra inputs are not permitted")
    _check_scalars(body)
    _check_system(body.get("system"))
    _check_tools(body)
    _check_messages(body["messages"])
    marks = _count_marks(body)
    if marks > MAX_CACHE_MARKS:
        raise invalid(f"A maximum of {MAX_CACHE_MARKS} blocks with cache_control may be provided. Found {marks}.")
    return body


def _check_scalars(body: Json) -> None:
    for name in ("model", "messages", "max_tokens"):
        if name not in body:
            raise invalid(f"{name}: Field required")
    if not isinstance(body["model"], str) or not body["model"]:
        raise invalid("model: Input should be a valid string")
    if not isinstance(body["max_tokens"], int) or isinstance(body["max_tokens"], bool):
        raise invalid("max_tokens: Input should be a valid integer")
    if body["max_tokens"] < 1:
        raise invalid("max_tokens: Input should be greater than or equal to 1")
    if not isinstance(body.get("stream", False), bool):
        raise invalid("stream: Input should be a valid boolean")


def _check_mark(where: str, block: Json) -> None:
    if "cache_control" not in block:
        return
    mark = block["cache_control"]
    if not isinstance(mark, dict) or mark.get("type") != "ephemeral" or mark.get("ttl", "5m") not in ("5m", "1h"):
        raise invalid(f"{where}.cache_control: Input should be a valid cache control")
    if block.get("type") == "text" and not block.get("text"):
        raise invalid(f"{where}.text: cache_control cannot be set for empty text blocks")


def _check_system(system: object) -> None:
    if system is None or isinstance(system, str):
        return
    if not isinstance(system, list):
        raise invalid("system: Input should be a valid list")
    for number, block in enumerate(system):
        if not isinstance(block, dict) or block.get("type") != "text" or not isinstance(block.get("text"), str):
            raise invalid(f"system.{number}: Input should be a valid text block")
        if not block["text"]:
            raise invalid("system: text content blocks must be non-empty")
        _check_mark(f"system.{number}", block)


def _check_tools(body: Json) -> None:
    tools = body.get("tools")
    if tools is None:
        if "tool_choice" in body:
            raise invalid("tool_choice: may only be specified while providing tools")
        return
    if not isinstance(tools, list):
        raise invalid("tools: Input should be a valid list")
    names = []
    for number, tool in enumerate(tools):
        where = f"tools.{number}.custom"
        if not isinstance(tool, dict):
            raise invalid(f"tools.{number}: Input should be a valid dictionary")
        for name in sorted(tool.keys() - {"name", "description", "input_schema", "type", "cache_control", "strict"}):
            raise invalid(f"{where}.{name}: Extra inputs are not permitted")
        if not isinstance(tool.get("name"), str) or not NAME.fullmatch(tool["name"]):
            raise invalid(f"{where}.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'")
        if not isinstance(tool.get("description", ""), str):
            raise invalid(f"{where}.description: Input should be a valid string")
        if "input_schema" not in tool:
            raise invalid(f"{where}.input_schema: Field required")
        _check_schema(f"{where}.input_schema", tool["input_schema"])
        _check_mark(where, tool)
        names.append(tool["name"])
    if len(set(names)) != len(names):
        raise invalid("tools: Tool names must be unique.")


def _check_schema(where: str, schema: object) -> None:
    if not isinstance(schema, dict):
        raise invalid(f"{where}: Input should be a valid dictionary")
    if "type" not in schema:
        raise invalid(f"{where}.type: Field required")
    if schema["type"] != "object":
        raise invalid(f"{where}.type: Input should be 'object'")
    if not isinstance(schema.get("properties", {}), dict):
        raise invalid(f"{where}.properties: Input should be a valid dictionary")
    required = schema.get("required", [])
    if not isinstance(required, list) or not all(isinstance(name, str) for name in required):
        raise invalid(f"{where}: JSON schema is invalid: required must be a list of strings")
    for name, part in schema.get("properties", {}).items():
        if not isinstance(part, dict):
            raise invalid(f"{where}: JSON schema is invalid: properties.{name} must be an object")


def _check_messages(messages: object) -> None:
    if not isinstance(messages, list):
        raise invalid("messages: Input should be a valid list")
    if not messages:
        raise invalid("messages: at least one message is required")
    calls: list[str] = []
    call_ids: set[str] = set()
    for number, message in enumerate(messages):
        where = f"messages.{number}"
        if not isinstance(message, dict):
            raise invalid(f"{where}: Input should be a valid dictionary")
        for name in sorted(message.keys() - {"role", "content"}):
            raise invalid(f"{where}.{name}: Extra inputs are not permitted")
        role = message.get("role")
        if role not in BLOCKS:
            raise invalid(f"{where}.role: Input should be 'user' or 'assistant'")
        if number == 0 and role != "user":
            raise invalid('messages: first message must use the "user" role')
        last = number == len(messages) - 1
        content = _check_content(where, role, message.get("content"), last=last)
        _check_results(where, content, calls, number)
        calls = [block["id"] for block in content if block["type"] == "tool_use"]
        for call in calls:
            if call in call_ids:
                raise invalid("messages: `tool_use` ids must be unique")
            call_ids.add(call)
    if calls:
        raise _unanswered(f"messages.{len(messages) - 1}", calls)


def _check_content(where: str, role: str, content: object, *, last: bool) -> list[Json]:
    if isinstance(content, str):
        content = [{"type": "text", "text": content}] if content else []
    if not isinstance(content, list):
        raise invalid(f"{where}.content: Input should be a valid list")
    if not content and not (last and role == "assistant"):
        raise invalid(
            f"{where}: all messages must have non-empty content except for the optional final assistant message"
        )
    for number, block in enumerate(content):
        _check_block(f"{where}.content.{number}", role, block)
    if last and role == "assistant" and content and content[-1]["type"] == "text":
        text = content[-1]["text"]
        if text != text.rstrip():
            raise invalid("messages: final assistant content cannot end with trailing whitespace")
    return content


def _check_block(where: str, role: str, block: object) -> None:
    kind = block.get("type") if isinstance(block, dict) else None
    if not isinstance(block, dict) or kind not in BLOCKS[role]:
        expected = ", ".join(f"'{kind}'" for kind in sorted(BLOCKS[role]))
        raise invalid(
            f"{where}: Input tag '{kind}' found using 'type' does not match any of the expected tags: {expected}"
        )
    _check_mark(f"{where}.{kind}", block)
    if kind == "text":
        _check_text(where, block)
    elif kind == "tool_use":
        if not isinstance(block.get("id"), str) or not CALL_ID.fullmatch(block["id"]):
            raise invalid(f"{where}.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'")
        if not isinstance(block.get("name"), str) or not block["name"]:
            raise invalid(f"{where}.tool_use.name: String should have at least 1 character")
        if not isinstance(block.get("input"), dict):
            raise invalid(f"{where}.tool_use.input: Input should be a valid dictionary")
    elif kind == "tool_result":
        _check_tool_result(where, block)


def _check_text(where: str, block: Json) -> None:
    if not isinstance(block.get("text"), str):
        raise invalid(f"{where}.text.text: Input should be a valid string")
    if not block["text"]:
        raise invalid("messages: text content blocks must be non-empty")
    if not block["text"].strip():
        raise invalid("messages: text content blocks must contain non-whitespace text")


def _check_tool_result(where: str, block: Json) -> None:
    if not isinstance(block.get("tool_use_id"), str):
        raise invalid(f"{where}.tool_result.tool_use_id: Field required")
    if not isinstance(block.get("is_error", False), bool):
        raise invalid(f"{where}.tool_result.is_error: Input should be a valid boolean")
    for name in sorted(block.keys() - {"type", "tool_use_id", "content", "is_error", "cache_control"}):
        raise invalid(f"{where}.tool_result.{name}: Extra inputs are not permitted")
    content = block.get("content", "")
    if isinstance(content, str):
        return
    if not isinstance(content, list):
        raise invalid(f"{where}.tool_result.content: Input should be a valid list")
    for number, part in enumerate(content):
        if not isinstance(part, dict) or part.get("type") not in ("text", "image", "document", "search_result"):
            raise invalid(f"{where}.tool_result.content.{number}: Input should be a valid content block")
        if part["type"] == "text":
            _check_text(f"{where}.tool_result.content.{number}", part)


def _check_results(where: str, content: list[Json], calls: list[str], number: int) -> None:
    answered: list[str] = []
    for place, block in enumerate(content):
        if block["type"] != "tool_result":
            continue
        call = block["tool_use_id"]
        if call not in calls:
            raise invalid(
                f"{where}.content.{place}: unexpected `tool_use_id` found in `tool_result` blocks: {call}. Each "
                "`tool_result` block must have a corresponding `tool_use` block in the previous message."
            )
        if call in answered:
            raise invalid(
                f"{where}.content.{place}: each tool_use must have a single result. Found multiple "
                f"`tool_result` blocks with id: {call}"
            )
        answered.append(call)
    missing = [call for call in calls if call not in answered]
    # Text before the results counts as no result: they have to come first.
    if missing or (calls and any(block["type"] != "tool_result" for block in content[: len(calls)])):
        raise _unanswered(f"messages.{number - 1}", missing or calls)


def _unanswered(where: str, calls: list[str]) -> ApiError:
    return invalid(
        f"{where}: `tool_use` ids were found without `tool_result` blocks immediately after: {', '.join(calls)}. "
        "Each `tool_use` block must have a corresponding `tool_result` block in the next message."
    )


def _count_marks(part: object) -> int:
    if isinstance(part, list):
        return sum(_count_marks(item) for item in part)
    if isinstance(part, dict):
        below = sum(_count_marks(part[name]) for name in ("system", "tools", "messages", "content") if name in part)
        return below + ("cache_control" in part)
    return 0
