"""The extension `io.modelcontextprotocol/tasks` of revision 2026-07-28: its messages, and who may send them.

A client that declares the extension may get a task instead of the result of a call, and asks for it with `tasks/get`.
What a task is, a `TaskStore` knows (`request_tasks`). Source: SEP-2663.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from typing import Any, Literal, Protocol, TypeVar

from mcp import types
from mcp.server import Server, ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import MCP_NAME_HEADER, decode_header_value
from mcp.types.jsonrpc import HEADER_MISMATCH, METHOD_NOT_FOUND, MISSING_REQUIRED_CLIENT_CAPABILITY
from mcp.types.version import MODERN_PROTOCOL_VERSIONS
from starlette.requests import Request

from efrit.mcp.schema_models import RequestId

Context = ServerRequestContext[Any, Any]
EXTENSION = "io.modelcontextprotocol/tasks"
POLL_MS = 1000

Status = Literal["working", "input_required", "completed", "cancelled", "failed"]


class TaskParams(types.RequestParams):
    """Parameters of tasks/get and tasks/cancel."""

    task_id: RequestId


class TaskUpdateParams(TaskParams):
    """Parameters of tasks/update."""

    input_responses: dict[str, Any]
    """By the key of what was asked. Only what answers something is looked at: other keys are ignored."""


class Task(types.Result):
    """A task as it is now, with `result_type` task where it stands for the result of a call.

    `ttl_ms`: how long it is certain to be known, from `created_at`. `result`: that of the call, once it is completed.
    """

    result_type: Literal["complete", "task"] = "complete"
    task_id: str
    status: Status
    status_message: str | None = None
    created_at: datetime
    last_updated_at: datetime
    ttl_ms: int
    poll_interval_ms: int = POLL_MS
    input_requests: types.InputRequests | None = None
    result: dict[str, Any] | None = None
    error: dict[str, Any] | None = None

    def created(self) -> Task:
        """Return the task as the result of the call that made it: without what tasks/get says of its end."""
        keep = {"input_requests": None, "result": None, "error": None, "status": "working"}
        return self.model_copy(update={"result_type": "task", **keep})


class TaskStore(Protocol):
    """The tasks of a server. Each method raises an MCPError for a task that it does not know."""

    async def get(self, context: Context, task_id: str) -> Task:
        """Return the task as it is now."""

    async def update(self, context: Context, task_id: str, responses: Mapping[str, Any]) -> None:
        """Take answers to what the task asks; ignore others. Raises `ValidationError` for what is not an answer."""

    async def cancel(self, context: Context, task_id: str) -> None:
        """Stop the work of the task if it still can be stopped."""


def declares_tasks(context: Context) -> bool:
    """Return whether the client of this call may get a task instead of a result."""
    capabilities = context.session.client_capabilities
    extensions = capabilities.extensions if capabilities is not None else None
    return context.protocol_version in MODERN_PROTOCOL_VERSIONS and EXTENSION in (extensions or {})


def unknown_task(task_id: str) -> MCPError:
    """Return the error for an id of no task."""
    return MCPError(types.INVALID_PARAMS, f"Unknown task: {task_id[:100]}")


def require_tasks(context: Context) -> None:
    """Raise the error for a client that did not declare the extension."""
    if not declares_tasks(context):
        needed = types.ClientCapabilities(extensions={EXTENSION: {}})
        data = types.MissingRequiredClientCapabilityErrorData(required_capabilities=needed)
        raise MCPError(
            MISSING_REQUIRED_CLIENT_CAPABILITY,
            f"Declare the extension {EXTENSION} in the capabilities of the request",
            data.model_dump(by_alias=True, mode="json", exclude_none=True),
        )


P = TypeVar("P", bound=TaskParams)


def serve_tasks(server: Server[Any], store: TaskStore) -> None:
    """Serve the tasks of `store`, and declare the extension to clients whose revision has it."""

    async def get(context: Context, params: TaskParams) -> Task:
        return await store.get(context, params.task_id)

    async def update(context: Context, params: TaskUpdateParams) -> types.EmptyResult:
        await store.update(context, params.task_id, params.input_responses)
        return types.EmptyResult(result_type="complete")

    async def cancel(context: Context, params: TaskParams) -> types.EmptyResult:
        await store.cancel(context, params.task_id)
        return types.EmptyResult(result_type="complete")

    async def discover(context: Context, _: types.RequestParams) -> types.DiscoverResult:
        return types.DiscoverResult(
            supported_versions=list(MODERN_PROTOCOL_VERSIONS),
            capabilities=server.get_capabilities(
                protocol_version=context.protocol_version, extensions={EXTENSION: {}}
            ),
            instructions=server.instructions,
        )

    server.add_request_handler("tasks/get", TaskParams, _checked(get))
    server.add_request_handler("tasks/update", TaskUpdateParams, _checked(update))
    server.add_request_handler("tasks/cancel", TaskParams, _checked(cancel))
    # The extensions of a server are those of each revision; the handshake of an earlier one would declare it too.
    server.add_request_handler("server/discover", types.RequestParams, discover)


def _checked(
    handler: Callable[[Context, P], Awaitable[types.Result]],
) -> Callable[[Context, P], Awaitable[types.Result]]:
    async def checked(context: Context, params: P) -> types.Result:
        if context.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            raise MCPError(METHOD_NOT_FOUND, "Method not found", context.method)
        require_tasks(context)
        # The transport compares the header only for the methods of the protocol itself.
        if isinstance(context.request, Request):
            name = decode_header_value(context.request.headers.get(MCP_NAME_HEADER))
            if name != params.task_id:
                raise MCPError(HEADER_MISMATCH, f"{MCP_NAME_HEADER} header does not match the request's taskId")
        return await handler(context, params)

    return checked
