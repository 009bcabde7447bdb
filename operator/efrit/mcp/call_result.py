"""Output of a tool as the result of its call: structured for programs, and the same as text for models. Pure."""

from __future__ import annotations

import json

from mcp import types

from efrit.mcp import resources
from efrit.mcp.outputs.requests import Rest, ResultOutput
from efrit.mcp.schema_models import Output


def call_result(output: Output) -> types.CallToolResult:
    """Return the result of a call, with a link to the rest of a truncated result that can be read."""
    structured = output.model_dump(mode="json", exclude_none=True)
    content: list[types.ContentBlock] = [types.TextContent(text=json.dumps(structured, ensure_ascii=False))]
    rest = output.rest if isinstance(output, ResultOutput) else None
    if rest is not None:
        content.append(_whole_result_link(rest))
    return types.CallToolResult(content=content, structured_content=structured, is_error=output.is_error)


def error_result(code: str, text: str) -> types.CallToolResult:
    """Return an error for programs (`code`) and for models (`error`, and the same as text)."""
    structured = {"status": "error", "code": code, "error": text}
    content: list[types.ContentBlock] = [types.TextContent(text=f"{code}: {text}")]
    return types.CallToolResult(content=content, structured_content=structured, is_error=True)


def _whole_result_link(rest: Rest) -> types.ResourceLink:
    return types.ResourceLink(
        uri=resources.request_uri(rest.request_id, "result"),
        name="result",
        title="Whole result",
        description="The result above is only the beginning.",
        mime_type="text/plain",
        size=rest.size,
    )
