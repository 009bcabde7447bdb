"""The protocol's side: requests of the Model Context Protocol in, the answers of tools and resources out.

It stands on the SDK's low-level server, which leaves schemas, order and results to us. What a call does is defined by
its tool (`tools`); how it waits, and whom it asks meanwhile, by `tools.call`.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager, suppress
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from mcp import types
from mcp.server import Server
from mcp.server.caching import CacheHint
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.shared.exceptions import MCPError
from pydantic import ValidationError

from efrit.backend.interface import Backend
from efrit.errors import EfritError
from efrit.mcp import resources
from efrit.mcp.access import Access
from efrit.mcp.call_result import call_result, error_result
from efrit.mcp.error_text import argument_error_text, error_text
from efrit.mcp.request_tasks import RequestTasks
from efrit.mcp.subscriptions import Subscriptions
from efrit.mcp.tasks import Task, serve_tasks
from efrit.mcp.tools.call import GRACE_SECONDS, TASK_SECONDS, Context, ToolCall
from efrit.mcp.tools.registry import offered_tools

log = logging.getLogger(__name__)

NAME = "efrit"
STATE_SECONDS = 86_400.0
"""How long a client may take to answer a question that a result asked."""

_WORK = {
    Access.FULL: (
        "Efrit instances are resident Emacs daemons that do work: eval (Emacs Lisp as written), chat (the instance's "
        "model answers) and command (the model works in Emacs with tools). Call efrit_list_instances first, then "
        "efrit_execute for work of a few seconds. For longer work call efrit_submit with an idempotency_key, then "
        "efrit_wait; the request_id stays valid if the connection breaks. You can stop waiting at any time without "
        "stopping the work; only efrit_cancel stops it. Work runs at most once: with reason Interrupted, it is not "
        "known what the work did."
    ),
    Access.NOT_DESTRUCTIVE: (
        "Efrit instances are resident Emacs daemons. This server allows chats only: the instance's model "
        "answers, without tools. Call efrit_list_instances first, then efrit_execute. For long chats call "
        "efrit_submit with an idempotency_key, then efrit_wait; the request_id stays valid if the connection breaks."
    ),
    Access.READ_ONLY: (
        "Efrit instances are resident Emacs daemons. This server changes nothing: efrit_list_instances and "
        "efrit_get_queue_stats show instances, efrit_get_request and efrit_wait the requests of others by their "
        "request_id."
    ),
}
_PLANS = {
    Access.FULL: (
        "Work of many steps towards a goal is a plan: efrit_run_plan starts one (give it an idempotency_key, "
        "criteria, and shell commands that check the work), efrit_wait_plan reports each step. The intent never "
        "changes; add to it with efrit_amend_plan. A plan continues without you; only efrit_change_plan stops it. "
        "efrit_list_pools shows pools of instances, which efrit_submit takes in place of an instance."
    ),
    Access.NOT_DESTRUCTIVE: "efrit_list_plans, efrit_get_plan and efrit_wait_plan show plans, which others run.",
    Access.READ_ONLY: "efrit_list_plans, efrit_get_plan and efrit_wait_plan show plans, which others run.",
}


def instructions(access: Access, *, plans: bool) -> str:
    """Return the instructions for a model about a server with `access`: it names no tool that is not offered."""
    return f"{_WORK[access]}\n{_PLANS[access]}" if plans else _WORK[access]


BackendOf = Callable[[Context], AbstractAsyncContextManager[Backend]]
"""Gives the backend of a call, for as long as it is used."""


def our_version() -> str:
    """Return the version of this package, or the empty string if it is not installed."""
    with suppress(PackageNotFoundError):
        return version("efrit-operator")
    return ""


def make_server(
    backend_of: BackendOf,
    access: Access = Access.FULL,
    *,
    plans: bool = False,
    grace_seconds: float = GRACE_SECONDS,
    task_seconds: float = TASK_SECONDS,
    state_keys: list[bytes] | None = None,
    principal: Callable[[Context], str | None] | None = None,
    one_client: bool = False,
) -> Server[Any]:
    """Return a server whose calls go to `backend_of(call)`; `plans`: its backends have plans.

    `state_keys`, 32 bytes or more each, are the same in all replicas. `principal` names the caller: only the caller
    who was asked a question can answer it. `one_client`: all calls come on one connection, as over stdio; only there
    can a client be notified of a change between its calls.
    """
    handlers = _Handlers(backend_of, access, grace_seconds, task_seconds, plans)
    server: Server[Any] = Server(
        NAME,
        lifespan=handlers.subscriptions.run,
        version=our_version(),
        title="Efrit",
        description="Work for resident Emacs daemons: evals, chats and commands.",
        instructions=instructions(access, plans=plans),
        cache_hints={
            "tools/list": CacheHint(ttl_ms=3_600_000, scope="public"),
            "resources/templates/list": CacheHint(ttl_ms=3_600_000, scope="public"),
        },
        get_tool_input_schema=handlers.input_schema,
        on_list_tools=handlers.list_tools,
        on_list_resources=handlers.list_resources,
        on_list_resource_templates=handlers.list_templates,
        on_read_resource=handlers.read_resource,
        on_completion=handlers.complete,
    )
    # Not of the constructor: its type knows no other results than the protocol's own.
    server.add_request_handler("tools/call", types.CallToolRequestParams, handlers.call_tool)
    if handlers.input_schema("efrit_execute") is not None:
        serve_tasks(server, RequestTasks(backend_of, access))
    if one_client:
        server.add_request_handler("resources/subscribe", types.SubscribeRequestParams, handlers.subscribe)
        server.add_request_handler("resources/unsubscribe", types.UnsubscribeRequestParams, handlers.unsubscribe)
    seal_questions(server, state_keys, principal)
    return server


def seal_questions(
    server: Server[Any],
    state_keys: list[bytes] | None = None,
    principal: Callable[[Context], str | None] | None = None,
) -> None:
    """Have the state of a question encrypted for its way to the client and back, bound to who was asked."""
    keys = state_keys or [os.urandom(32)]
    security = RequestStateSecurity(keys=keys, ttl=STATE_SECONDS, bind_principal=principal)
    server.middleware.append(RequestStateBoundary(security, default_audience=NAME))


class _Handlers:
    def __init__(
        self, backend_of: BackendOf, access: Access, grace_seconds: float, task_seconds: float, plans: bool
    ) -> None:
        self._backend_of = backend_of
        self._access = access
        self._seconds = (grace_seconds, task_seconds)
        self._plans = plans
        self._tools = {tool.name: tool for tool in offered_tools(access, plans=plans)}
        self._listed = [tool.to_protocol() for tool in self._tools.values()]
        self.subscriptions = Subscriptions()

    def input_schema(self, name: str) -> dict[str, Any] | None:
        tool = self._tools.get(name)
        return tool.input_schema() if tool is not None else None

    async def list_tools(self, _: Context, __: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        return types.ListToolsResult(tools=self._listed)

    async def call_tool(
        self, context: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult | Task:
        tool = self._tools.get(params.name)
        if tool is None:
            raise MCPError(types.INVALID_PARAMS, f"Unknown tool: {params.name[:100]}")
        try:
            handle = tool.bind(params.arguments or {})
        except ValidationError as error:
            return error_result("InvalidArguments", argument_error_text(error))
        except EfritError as error:
            return error_result(error.code, error_text(error))
        try:
            async with self._backend_of(context) as backend:
                output = await handle(ToolCall(backend, context, params, self._access, *self._seconds))
        except EfritError as error:
            return error_result(error.code, error_text(error))
        except MCPError:
            raise
        except Exception:
            log.exception("%s failed", tool.name)
            return error_result(
                "Internal", "Internal error; see the log of the MCP server. It is not known whether the work runs."
            )
        return output if isinstance(output, types.InputRequiredResult | Task) else call_result(output)

    async def list_resources(
        self, context: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        with as_protocol_errors():
            cursor = params.cursor if params is not None else None
            async with self._backend_of(context) as backend:
                page = await resources.page(backend, cursor, plans=self._plans)
        return types.ListResourcesResult(resources=list(page.resources), next_cursor=page.cursor)

    async def list_templates(
        self, _: Context, __: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        return types.ListResourceTemplatesResult(resource_templates=list(resources.templates(self._plans)))

    async def read_resource(
        self, context: Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        with as_protocol_errors():
            async with self._backend_of(context) as backend:
                contents = await resources.read(backend, str(params.uri))
        return types.ReadResourceResult(contents=[contents])

    async def subscribe(self, context: Context, params: types.SubscribeRequestParams) -> types.EmptyResult:
        with as_protocol_errors():
            opened = self._backend_of(context)
            await self.subscriptions.begin(opened, str(params.uri), context.session.send_resource_updated)
        return types.EmptyResult()

    async def unsubscribe(self, _: Context, params: types.UnsubscribeRequestParams) -> types.EmptyResult:
        self.subscriptions.end(str(params.uri))
        return types.EmptyResult()

    async def complete(self, context: Context, params: types.CompleteRequestParams) -> types.CompleteResult:
        with as_protocol_errors():
            async with self._backend_of(context) as backend:
                names = await resources.complete(backend, params.argument.name, params.argument.value)
        values = names[: resources.MAX_COMPLETIONS]
        return types.CompleteResult(
            completion=types.Completion(values=values, total=len(names), has_more=len(names) > len(values))
        )


@contextmanager
def as_protocol_errors() -> Iterator[None]:
    """Raise the errors of a backend as errors of the protocol: these results have no other place for them."""
    try:
        yield
    except EfritError as error:
        raise MCPError(types.INTERNAL_ERROR, f"{error.code}: {error_text(error)}") from None
