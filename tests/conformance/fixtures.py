"""`python -m tests.conformance.fixtures OPTIONS`: a server with what the suite asks for, served as `efrit-mcp` is.

Options, endpoint, HTTP application, listener and stdio are the product's own; only what is behind them is made for
the suite, so that every kind of message goes through them. What it says is in `contents`.
"""

from __future__ import annotations

import json
import sys
import warnings
from typing import Any, get_args

import anyio
from mcp import types
from mcp.server import Server, ServerRequestContext
from mcp.shared.exceptions import MCPDeprecationWarning, MCPError
from mcp.shared.message import ServerMessageMetadata
from mcp.types.jsonrpc import MISSING_REQUIRED_CLIENT_CAPABILITY

from efrit.mcp import settings as options
from efrit.mcp.app import serve_stdio
from efrit.mcp.http import app_for, listen, transport_security
from efrit.mcp.server import seal_questions
from efrit.mcp.tasks import Task, declares_tasks, require_tasks, serve_tasks
from tests.conformance import contents, task_tools
from tests.conformance.rounds import PROMPT, ROUNDS, question
from tests.conformance.task_tools import MemoryTasks

Context = ServerRequestContext[Any, Any]
LEVELS = get_args(types.LoggingLevel)
SECONDS_BETWEEN = 0.05
"""What the suite wants between two notifications of a call."""


def main() -> None:
    """Serve until it is asked to stop, or stdin ends."""
    anyio.run(_serve, options.read(sys.argv[1:]))


async def _serve(settings: options.Settings) -> None:
    if settings.http is None:
        await serve_stdio(make_fixtures(remembers=True))
        return
    app = app_for(make_fixtures(remembers=False), None, transport_security(settings.http), _nothing)
    await listen(app, settings.http)


async def _nothing() -> None:
    pass


def make_fixtures(*, remembers: bool) -> Server[Any]:
    """Make the server. `remembers`: it serves one client alone, and so knows what an earlier call has set."""
    handlers = _Handlers()
    server: Server[Any] = Server(
        "efrit-conformance",
        version="1",
        get_tool_input_schema=contents.SCHEMA_OF.get,
        on_list_tools=handlers.list_tools,
        on_list_resources=handlers.list_resources,
        on_list_resource_templates=handlers.list_templates,
        on_read_resource=handlers.read_resource,
        on_list_prompts=handlers.list_prompts,
        on_get_prompt=handlers.get_prompt,
        on_completion=handlers.complete,
    )
    server.add_request_handler("tools/call", types.CallToolRequestParams, handlers.call_tool)
    serve_tasks(server, handlers.tasks)
    seal_questions(server)
    if remembers:
        server.add_request_handler("resources/subscribe", types.SubscribeRequestParams, handlers.subscribe)
        server.add_request_handler("resources/unsubscribe", types.UnsubscribeRequestParams, handlers.unsubscribe)
        server.add_request_handler("logging/setLevel", types.SetLevelRequestParams, handlers.set_level)
    return server


class _Handlers:
    def __init__(self) -> None:
        self._level: types.LoggingLevel = "info"
        self._watched: set[str] = set()
        self.tasks = MemoryTasks()

    async def list_tools(self, _: Context, __: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        return types.ListToolsResult(tools=contents.TOOLS)

    async def call_tool(
        self, ctx: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult | Task:
        arguments = params.arguments or {}
        if params.name in task_tools.REQUIRED:
            require_tasks(ctx)
        if (needed := _question(ctx, ROUNDS.get(params.name), params)) is not None:
            return needed
        if params.name in (*task_tools.NAMES, *task_tools.REQUIRED):
            result = _said(f"{params.name} is done, {_name_in(params.input_responses)}", params.name == "failing_job")
            at_once = not declares_tasks(ctx) or arguments.get("seconds") == 0
            return result if at_once else self.tasks.begin(params.name, arguments, result)
        if params.name in contents.TOOL_CONTENTS:
            return types.CallToolResult(content=contents.TOOL_CONTENTS[params.name])
        if params.name in contents.FORMS:
            elicited = await ctx.session.elicit_form(
                str(arguments.get("message", "Please choose.")), contents.FORMS[params.name], ctx.request_id
            )
            return _said(f"Elicitation completed: action={elicited.action}, content={json.dumps(elicited.content)}")
        match params.name:
            case "greet":
                return _said(f"Hello, {arguments['name']}!")
            case "test_missing_capability":
                _require_sampling(ctx)
            case "test_error_handling":
                return types.CallToolResult(content=[types.TextContent(text=contents.ERROR)], is_error=True)
            case "test_sampling":
                return _said(f"LLM response: {await _sampled(ctx, str(arguments['prompt']))}")
            case "test_tool_with_logging" | "test_logging_tool":
                for text in contents.LOGGED:
                    await self._log(ctx, text)
                    await anyio.sleep(SECONDS_BETWEEN)
            case "test_tool_with_progress":
                for progress in contents.PROGRESS:
                    await ctx.session.report_progress(progress, contents.PROGRESS[-1])
                    await anyio.sleep(SECONDS_BETWEEN)
            case "json_schema_2020_12_tool" | "test_custom_header":
                pass
            case name if name in ROUNDS:
                pass
            case _:
                raise MCPError(types.INVALID_PARAMS, f"Unknown tool: {params.name}")
        return _said(f"{params.name} is done")

    async def _log(self, ctx: Context, text: str) -> None:
        if LEVELS.index("info") < LEVELS.index(self._level):
            return
        with warnings.catch_warnings(action="ignore", category=MCPDeprecationWarning):
            await ctx.session.send_log_message("info", text, related_request_id=ctx.request_id)

    async def set_level(self, _: Context, params: types.SetLevelRequestParams) -> types.EmptyResult:
        self._level = params.level
        return types.EmptyResult()

    async def list_resources(self, _: Context, __: types.PaginatedRequestParams | None) -> types.ListResourcesResult:
        return types.ListResourcesResult(resources=contents.RESOURCES)

    async def list_templates(
        self, _: Context, __: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        return types.ListResourceTemplatesResult(resource_templates=contents.TEMPLATES)

    async def read_resource(self, _: Context, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        resource = contents.resource_at(str(params.uri))
        if resource is None:
            raise MCPError(types.INVALID_PARAMS, f"no resource {params.uri}", {"uri": str(params.uri)})
        return types.ReadResourceResult(contents=[resource])

    async def subscribe(self, _: Context, params: types.SubscribeRequestParams) -> types.EmptyResult:
        if contents.resource_at(str(params.uri)) is None:
            raise MCPError(types.INVALID_PARAMS, f"no resource {params.uri}")
        self._watched.add(str(params.uri))
        return types.EmptyResult()

    async def unsubscribe(self, _: Context, params: types.UnsubscribeRequestParams) -> types.EmptyResult:
        if str(params.uri) not in self._watched:
            raise MCPError(types.INVALID_PARAMS, f"{params.uri} is not subscribed to")
        self._watched.remove(str(params.uri))
        return types.EmptyResult()

    async def list_prompts(self, _: Context, __: types.PaginatedRequestParams | None) -> types.ListPromptsResult:
        return types.ListPromptsResult(prompts=contents.PROMPTS)

    async def get_prompt(
        self, ctx: Context, params: types.GetPromptRequestParams
    ) -> types.GetPromptResult | types.InputRequiredResult:
        if params.name == "test_input_required_result_prompt":
            question = _question(ctx, [PROMPT], params)
            if question is not None:
                return question
        blocks = contents.prompt_of(params.name, params.arguments or {})
        if blocks is None:
            raise MCPError(types.INVALID_PARAMS, f"no prompt {params.name}")
        return types.GetPromptResult(messages=[types.PromptMessage(role="user", content=block) for block in blocks])

    async def complete(self, _: Context, params: types.CompleteRequestParams) -> types.CompleteResult:
        words = [word for word in ("paris", "park", "party") if word.startswith(params.argument.value)]
        return types.CompleteResult(completion=types.Completion(values=words, total=len(words), has_more=False))


async def _sampled(ctx: Context, prompt: str) -> str:
    message = types.SamplingMessage(role="user", content=types.TextContent(text=prompt))
    request = types.CreateMessageRequest(params=types.CreateMessageRequestParams(messages=[message], max_tokens=100))
    result = await ctx.session.send_request(
        request, types.CreateMessageResult, metadata=ServerMessageMetadata(related_request_id=ctx.request_id)
    )
    return result.content.text if isinstance(result.content, types.TextContent) else repr(result.content)


def _said(text: str, is_error: bool = False) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(text=text)], is_error=is_error)


def _question(
    ctx: Context,
    rounds: list[types.InputRequests] | None,
    params: types.CallToolRequestParams | types.GetPromptRequestParams,
) -> types.InputRequiredResult | None:
    if rounds is None:
        return None
    return question(rounds, params.request_state, params.input_responses, ctx.session.client_capabilities)


def _name_in(responses: types.InputResponses | None) -> str:
    answer = (responses or {}).get("user_name")
    content = answer.content if isinstance(answer, types.ElicitResult) else None
    return str((content or {}).get("name", "unnamed"))


def _require_sampling(ctx: Context) -> None:
    capabilities = ctx.session.client_capabilities
    if capabilities is None or capabilities.sampling is None:
        raise MCPError(
            MISSING_REQUIRED_CLIENT_CAPABILITY, "It needs sampling.", {"requiredCapabilities": {"sampling": {}}}
        )


if __name__ == "__main__":
    main()
