"""What a call of an MCP tool returned."""

from typing import Any

from mcp.types import CallToolResult


def structured_content(result: CallToolResult) -> dict[str, Any]:
    """Return the structured content of a result; fail where it has none."""
    assert result.structured_content is not None, result.content
    return dict(result.structured_content)
