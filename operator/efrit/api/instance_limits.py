"""EfritInstance: bounds of one request, and the tools that a command may use."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from efrit.api.meta import ApiModel
from efrit.api.wire_types import MAX_TIMEOUT_SECONDS


class Limits(ApiModel):
    """Upper bounds of every request on this instance. A budget or timeout that asks for more is Rejected.

    What a session may use is counted over all its requests: continuing it does not reset the counts.
    """

    max_tool_calls: int = Field(
        default=30,
        ge=1,
        le=10_000,
        description="Tool calls of one session, all its commands together; one more breaks the circuit.",
    )
    max_repeated_calls: int = Field(
        default=3,
        ge=1,
        le=1000,
        description="Identical tool calls in a row in one session before the circuit breaks.",
    )
    max_iterations: int | None = Field(
        default=None,
        ge=1,
        le=10_000,
        description="Turns of the model in one session, all its requests together; one more breaks the circuit. "
        "Default: no bound.",
    )
    max_tokens: int | None = Field(
        default=None,
        ge=1,
        le=100_000_000,
        description="Tokens in and out of one session, all its requests together; no turn begins beyond them. "
        "Default: no bound.",
    )
    iteration_timeout_seconds: int | None = Field(
        default=None,
        ge=1,
        le=MAX_TIMEOUT_SECONDS,
        description="Longest time in seconds of one turn of a command or chat. Default: no bound.",
    )
    max_timeout_seconds: int = Field(
        default=MAX_TIMEOUT_SECONDS,
        ge=1,
        le=MAX_TIMEOUT_SECONDS,
        description="Longest spec.timeoutSeconds of a request in seconds; a longer one is Rejected. It "
        "bounds the two defaults below as well.",
    )
    max_request_bytes: int = Field(
        default=65_536,
        ge=1,
        le=1_048_576,
        description="Largest spec.content in bytes; a larger one is Rejected.",
    )
    max_result_bytes: int = Field(
        default=1_048_576,
        ge=1024,
        le=104_857_600,
        description="Largest result in bytes; a larger one is cut and says so.",
    )
    request_timeout_seconds: int = Field(
        default=30,
        ge=1,
        le=MAX_TIMEOUT_SECONDS,
        description="Longest running time in seconds of an eval that sets none.",
    )
    command_timeout_seconds: int = Field(
        default=600,
        ge=1,
        le=MAX_TIMEOUT_SECONDS,
        description="Longest running time in seconds of a chat or command that sets none.",
    )

    drain_seconds: int = Field(
        default=300,
        ge=10,
        le=MAX_TIMEOUT_SECONDS,
        description="Longest time in seconds that running work may go on when the pod is stopped (suspension, "
        "eviction, deletion). The pod gets the longest default timeout above and 10 s, at most this.",
    )


TOOL_NAMES = (
    "todo_add",
    "todo_update",
    "todo_status",
    "todo_next",
    "todo_get_instructions",
    "eval_sexp",
    "shell_exec",
    "file_read",
    "file_write",
    "file_edit",
    "file_search",
    "glob_files",
    "directory_files",
    "buffer_contents",
    "buffer_create",
    "buffer_edit",
    "warnings_buffer",
    "current_context",
    "function_at_point",
    "recent_changes",
)
"""The tools of the model, in the order in which they are offered; those that end a request cannot be denied."""

# Not a type of its own: an object that was stored with a name that a later version has not must still be read.
ToolName = Annotated[str, Field(max_length=128, json_schema_extra={"enum": list(TOOL_NAMES)})]


class Tools(ApiModel):
    """Which tools a command may use.

    Denying shell_exec while eval_sexp stays is not a barrier: Lisp starts programs as well.
    """

    allow: tuple[ToolName, ...] = Field(default=(), max_length=100, description="Only these tools; empty: all.")
    deny: tuple[ToolName, ...] = Field(default=(), max_length=100, description="Never these tools.")
