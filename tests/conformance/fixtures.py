"""`python -m tests.conformance.fixtures OPTIONS`: a server with what the suite asks for, served as `efrit-mcp` is.

Options, door, HTTP application, listener and stdio are the product's own; only what is behind them is made for the
suite, so that every kind of message goes through them. What it says is in `contents`.
"""

from __future__ import annotations

import json
import sys
from typing import Any, get_args

import anyio
from mcp import types
from mcp.server import Server, ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata

from efrit.mcp import settings as options
from efrit.mcp.app import speak
from efrit.mcp.http import app_for, listen, transport_security
from tests.conformance import contents

Context = ServerRequestContext[Any, Any]
LEVELS = get_args(types.LoggingLevel)
SECONDS_BETWEEN = 0.05
"""What the suite wants between two notifications of a call."""


def main() -> None:
    """Serves until it is told to stop, or stdin ends."""
    anyio.run(_serve, options.read(sys.argv[1:]))


async def _serve(settings: options.Settings) -> None:
    if settings.http is None:
        await speak(make_fixtures(remembers=True))
        return
    app = app_for(make_fixtures(remembers=False), None, transport_security(settings.http), _nothing)
    await listen(app, settings.http)


async def _nothing() -> None:
    pass


def make_fixtures(*, remembers: bool) -> Server[Any]:
    """The server. `remembers`: it serves one client alone, and so knows at one call what an earlier one has set."""
    handlers = _Handlers()
    server: Server[Any] = Server(
        "efrit-conformance",
        on_list_tools=handlers.list_tools,
        on_call_tool=handlers.call_tool,
        on_list_resources=handlers.list_resources,
        on_list_resource_templates=handlers.list_templates,
        on_read_resource=handlers.read_resource,
        on_list_prompts=handlers.list_prompts,
        on_get_prompt=handlers.get_prompt,
        on_completion=handlers.complete,
    )
    if remembers:
        server.add_request_handler("resources/subscribe", types.SubscribeRequestParams, handlers.subscribe)
        server.add_request_handler("resources/unsubscribe", types.UnsubscribeRequestParams, handlers.unsubscribe)
        server.add_request_handler("logging/setLevel", types.SetLevelRequestParams, handlers.set_level)
    return server


class _Handlers:
    def __init__(self) -> None:
        self._level: types.LoggingLevel = "info"
        self._watched: set[str] = set()

    async def list_tools(self, _: Context, __: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        return types.ListToolsResult(tools=contents.TOOLS)

    async def call_tool(self, ctx: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        given = params.arguments or {}
        if params.name in contents.TOOL_CONTENTS:
            return types.CallToolResult(content=contents.TOOL_CONTENTS[params.name])
        if params.name in contents.FORMS:
            asked = await ctx.session.elicit_form(
                str(given.get("message", "Please choose.")), contents.FORMS[params.name], ctx.request_id
            )
            return _said(f"Elicitation completed: action={asked.action}, content={json.dumps(asked.content)}")
        match params.name:
            case "test_error_handling":
                return types.CallToolResult(content=[types.TextContent(text=contents.ERROR)], is_error=True)
            case "test_sampling":
                return _said(f"LLM response: {await _sampled(ctx, str(given['prompt']))}")
            case "test_tool_with_logging":
                for text in contents.LOGGED:
                    await self._log(ctx, text)
                    await anyio.sleep(SECONDS_BETWEEN)
            case "test_tool_with_progress":
                for progress in contents.PROGRESS:
                    await ctx.session.report_progress(progress, contents.PROGRESS[-1])
                    await anyio.sleep(SECONDS_BETWEEN)
            case "json_schema_2020_12_tool":
                pass
            case _:
                raise MCPError(types.INVALID_PARAMS, f"Unknown tool: {params.name}")
        return _said(f"{params.name} is done")

    async def _log(self, ctx: Context, text: str) -> None:
        if LEVELS.index("info") < LEVELS.index(self._level):
            return
        told = types.LoggingMessageNotificationParams(level="info", data=text)
        await ctx.session.send_notification(types.LoggingMessageNotification(params=told), ctx.request_id)

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
        found = contents.resource_at(str(params.uri))
        if found is None:
            raise MCPError(types.INVALID_PARAMS, f"no resource {params.uri}")
        return types.ReadResourceResult(contents=[found])

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

    async def get_prompt(self, _: Context, params: types.GetPromptRequestParams) -> types.GetPromptResult:
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


def _said(text: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(text=text)])


if __name__ == "__main__":
    main()
