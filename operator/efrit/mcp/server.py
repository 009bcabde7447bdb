"""The protocol's side: requests of the Model Context Protocol in, the tools' and resources' answers out.

The SDK's low-level server, so that schemas, order and results are exactly ours. What a call does is in `calls`; how
long it is waited for, and who is asked meanwhile, is here.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import anyio
from mcp import types
from mcp.server import Server, ServerRequestContext
from mcp.server.caching import CacheHint
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.shared.exceptions import MCPError
from pydantic import ValidationError

from efrit.client.interface import Backend, Handle, RequestState
from efrit.errors import EfritError
from efrit.mcp import asking, plan_shapes, resources, shapes
from efrit.mcp.calls import Calls, question_of
from efrit.mcp.catalogue import Access, Effect, Tool, catalogue, may_reply
from efrit.mcp.failures import in_words, wrong_arguments
from efrit.mcp.plan_calls import PlanCalls, described
from efrit.mcp.plan_waiting import follow_plan
from efrit.mcp.schemas import schema_of
from efrit.mcp.subscriptions import Subscriptions
from efrit.mcp.waiting import Report, follow, kept_alive

log = logging.getLogger(__name__)

NAME = "efrit"
KEY_META = "efrit.dev/idempotency-key"
"""In a call's `_meta`: makes efrit_execute, whose arguments are fixed, idempotent as well."""

PATIENCE = 60.0
"""Seconds efrit_execute waits beyond the timeout of the work: for its turn, for an instance to start."""

MOST_QUESTIONS = 20
"""Questions one call passes on: a model that asks for ever does not keep it for ever."""

STATE_SECONDS = 86_400.0

INSTRUCTIONS = """\
Efrit instances are resident Emacs daemons that do work: eval (Emacs Lisp as written), chat (the instance's model \
answers) and command (the model works in Emacs with tools).
Call efrit_list_instances first, then efrit_execute for what takes seconds. For longer work call efrit_submit with \
an idempotency_key and then efrit_wait; the request_id stays good when the connection does not. Waiting can be given \
up at any time without stopping the work; only efrit_cancel stops it. Work runs at most once: reason Interrupted \
means that nobody knows what it did.\
"""

PLAN_INSTRUCTIONS = """
Work of many steps towards a goal is a plan: efrit_run_plan begins one (give it an idempotency_key, criteria, and \
shell commands that tell whether the work is good), efrit_wait_plan tells each of its steps. Its intent never \
changes: say what you learn with efrit_amend_plan. It goes on without you; only efrit_change_plan stops it.\
"""

Context = ServerRequestContext[Any, Any]
BackendOf = Callable[[Context], Awaitable[Backend]]
Shape = Callable[[RequestState], Awaitable[shapes.Answer]]


def our_version() -> str:
    """The version of this package; empty where it is not installed."""
    with suppress(PackageNotFoundError):
        return version("efrit-operator")
    return ""


def make_server(
    backend_of: BackendOf,
    access: Access = Access.FULL,
    *,
    plans: bool = False,
    patience: float = PATIENCE,
    state_keys: list[bytes] | None = None,
    principal: Callable[[Context], str | None] | None = None,
    one_client: bool = False,
) -> Server[Any]:
    """A server whose calls go to `backend_of(call)`; `plans`: its backends have plans.

    `state_keys`, 32 bytes or more each, are the same in all replicas. `principal` names who calls: a question is
    answered by whoever was asked it. `one_client`: all calls come on one connection, as over stdio; only there can a
    client be told of a change between its calls.
    """
    handlers = _Handlers(backend_of, access, patience, plans)
    server: Server[Any] = Server(
        NAME,
        lifespan=handlers.subscriptions.running,
        version=our_version(),
        title="Efrit",
        description="Work for resident Emacs daemons: evals, chats and commands.",
        instructions=INSTRUCTIONS + PLAN_INSTRUCTIONS if plans else INSTRUCTIONS,
        cache_hints={
            "tools/list": CacheHint(ttl_ms=3_600_000, scope="public"),
            "resources/templates/list": CacheHint(ttl_ms=3_600_000, scope="public"),
        },
        get_tool_input_schema=handlers.input_schema,
        on_list_tools=handlers.list_tools,
        on_call_tool=handlers.call_tool,
        on_list_resources=handlers.list_resources,
        on_list_resource_templates=handlers.list_templates,
        on_read_resource=handlers.read_resource,
        on_completion=handlers.complete,
    )
    if one_client:
        server.add_request_handler("resources/subscribe", types.SubscribeRequestParams, handlers.subscribe)
        server.add_request_handler("resources/unsubscribe", types.UnsubscribeRequestParams, handlers.unsubscribe)
    keys = state_keys or [os.urandom(32)]
    security = RequestStateSecurity(keys=keys, ttl=STATE_SECONDS, bind_principal=principal)
    server.middleware.append(RequestStateBoundary(security, default_audience=NAME))
    return server


def as_protocol(tool: Tool) -> types.Tool:
    """The tool as clients are told of it."""
    reads = tool.effect is Effect.READS
    return types.Tool(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=schema_of(tool.takes),
        output_schema=schema_of(tool.returns),
        annotations=types.ToolAnnotations(
            title=tool.title,
            read_only_hint=reads,
            destructive_hint=tool.effect is Effect.DESTROYS,
            idempotent_hint=tool.idempotent or reads,
            open_world_hint=tool.open_world,
        ),
    )


class _Handlers:
    def __init__(self, backend_of: BackendOf, access: Access, patience: float, plans: bool) -> None:
        self._backend_of = backend_of
        self._access = access
        self._plans = plans
        tools = catalogue(access, plans=plans)
        self._tools = {tool.name: tool for tool in tools}
        self._told = [as_protocol(tool) for tool in tools]
        self._patience = patience
        self.subscriptions = Subscriptions()

    def input_schema(self, name: str) -> dict[str, Any] | None:
        tool = self._tools.get(name)
        return schema_of(tool.takes) if tool is not None else None

    async def list_tools(self, _: Context, __: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        return types.ListToolsResult(tools=self._told)

    async def call_tool(
        self, ctx: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        tool = self._tools.get(params.name)
        if tool is None:
            raise MCPError(types.INVALID_PARAMS, f"Unknown tool: {params.name[:100]}")
        try:
            arguments = tool.takes.model_validate(params.arguments or {})
        except ValidationError as error:
            return _failed(wrong_arguments(error))
        try:
            return await _Call(await self._backend_of(ctx), ctx, params, self._access, self._patience).run(
                tool, arguments
            )
        except EfritError as error:
            return _failed(f"{error.code}: {in_words(error)}")
        except MCPError:
            raise
        except Exception:
            log.exception("%s failed", tool.name)
            return _failed(
                "Internal: the MCP server has failed at this; its log says how. Nothing is known of the work."
            )

    async def list_resources(
        self, ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        with _told_as_errors():
            cursor = params.cursor if params is not None else None
            page = await resources.page(await self._backend_of(ctx), cursor, plans=self._plans)
        return types.ListResourcesResult(resources=list(page.resources), next_cursor=page.cursor)

    async def list_templates(
        self, _: Context, __: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        return types.ListResourceTemplatesResult(resource_templates=list(resources.templates(self._plans)))

    async def read_resource(self, ctx: Context, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        with _told_as_errors():
            backend = await self._backend_of(ctx)
            contents = await resources.read(backend, Calls(backend), str(params.uri))
        return types.ReadResourceResult(contents=[contents])

    async def subscribe(self, ctx: Context, params: types.SubscribeRequestParams) -> types.EmptyResult:
        with _told_as_errors():
            backend = await self._backend_of(ctx)
            await self.subscriptions.begin(backend, str(params.uri), ctx.session.send_resource_updated)
        return types.EmptyResult()

    async def unsubscribe(self, _: Context, params: types.UnsubscribeRequestParams) -> types.EmptyResult:
        self.subscriptions.end(str(params.uri))
        return types.EmptyResult()

    async def complete(self, ctx: Context, params: types.CompleteRequestParams) -> types.CompleteResult:
        with _told_as_errors():
            names = await resources.complete(await self._backend_of(ctx), params.argument.name, params.argument.value)
        most = resources.MOST_COMPLETIONS
        return types.CompleteResult(
            completion=types.Completion(values=names[:most], total=len(names), has_more=len(names) > most)
        )


class _Call:
    """One call of a tool: its backend, its client, and what it said."""

    def __init__(
        self, backend: Backend, ctx: Context, params: types.CallToolRequestParams, access: Access, patience: float
    ) -> None:
        self._backend = backend
        self._calls = Calls(backend)
        self._ctx = ctx
        self._params = params
        self._access = access
        self._patience = patience
        self._told = 0

    async def run(self, tool: Tool, arguments: shapes.Arguments) -> types.CallToolResult | types.InputRequiredResult:
        calls = self._calls
        match arguments:
            case shapes.ExecuteArguments():
                seconds = arguments.timeout + self._patience
                return await self._awaited(lambda: calls.execute(arguments, self._key()), seconds, calls.executed)
            case shapes.WaitArguments(request_id=request):
                return await self._awaited(lambda: _named(request), arguments.timeout, calls.described)
            case shapes.SubmitArguments():
                handle = await self._handed_over(lambda: calls.submit(arguments, self._key()))
                return _answered(await calls.described(await self._backend.get(handle)))
            case shapes.GetArguments():
                return _answered(await calls.described(await calls.get(arguments.request_id)))
            case shapes.CancelArguments():
                return _answered(await calls.described(await calls.cancel(arguments.request_id)))
            case shapes.InstanceArguments():
                return _answered(await calls.queue_stats(arguments))
            case shapes.StartArguments():
                async with kept_alive(self._report, f"{arguments.instance_id} is being started"):
                    started = await calls.start(arguments)
                return _answered(started)
            case shapes.StopArguments():
                async with kept_alive(self._report, f"{arguments.instance_id} ends what it runs"):
                    stopped = await calls.stop(arguments)
                return _answered(stopped)
            case _:
                return _answered(await self._on_plans(arguments) or await calls.list_instances())

    async def _on_plans(self, arguments: shapes.Arguments) -> shapes.Answer | None:
        """The answer of a tool for plans; None where it is none."""
        match arguments:
            case plan_shapes.RunPlanArguments():
                with anyio.CancelScope(shield=True):
                    begun = await PlanCalls(self._backend).run(arguments, self._key())
                return described(begun)
            case plan_shapes.ListPlansArguments():
                return await PlanCalls(self._backend).list_plans()
            case plan_shapes.PlanArguments():
                return described(await PlanCalls(self._backend).get(arguments.plan_id))
            case plan_shapes.WaitPlanArguments():
                plans = self._backend.planning()
                return described(await follow_plan(plans, arguments.plan_id, arguments.timeout, self._report))
            case plan_shapes.AmendPlanArguments():
                with anyio.CancelScope(shield=True):
                    amended = await PlanCalls(self._backend).amend(arguments)
                return described(amended)
            case plan_shapes.ChangePlanArguments():
                with anyio.CancelScope(shield=True):
                    changed = await PlanCalls(self._backend).change(arguments)
                return described(changed)
            case plan_shapes.PlanLogArguments():
                async with kept_alive(self._report, f"{arguments.plan_id} is asked for its history"):
                    log = await PlanCalls(self._backend).log(arguments)
                return log  # noqa: RET504 - a scope may swallow what is raised in it, says its type
        return None

    async def _awaited(
        self, begin: Callable[[], Awaitable[Handle]], seconds: float, shape: Shape
    ) -> types.CallToolResult | types.InputRequiredResult:
        handle: Handle
        if self._params.request_state is None:
            handle = await self._handed_over(begin)
        else:
            asked = await self._backend.get(asking.asked_before(self._params.request_state))
            answer = asking.answer_among(self._params.input_responses)
            if answer is None or not may_reply(self._access, asked.type):
                return _answered(await shape(asked))
            handle = await self._replied(asked, answer)
        manner = asking.manner_of(self._ctx)
        for _ in range(MOST_QUESTIONS):
            state = await follow(self._backend, handle, seconds, self._report)
            question = question_of(state)
            if question is None or manner is asking.Manner.NOT_AT_ALL or not may_reply(self._access, state.type):
                break
            if manner is asking.Manner.BY_THE_RESULT:
                return asking.question_as_result(state.handle, question)
            answer = await asking.ask(self._ctx, question, self._report)
            if answer is None:
                break
            handle = await self._replied(state, answer)
        return _answered(await shape(state))

    async def _replied(self, asked: RequestState, answer: str) -> Handle:
        return await self._handed_over(lambda: self._calls.reply(asked, answer))

    async def _handed_over(self, begin: Callable[[], Awaitable[Handle]]) -> Handle:
        # A client that goes away has still asked: whether its work runs is not to depend on the moment it went.
        with anyio.CancelScope(shield=True):
            handle = await begin()
        return handle  # noqa: RET504 - a scope may swallow what is raised in it, says its type

    @property
    def _report(self) -> Report:
        async def report(text: str) -> None:
            self._told += 1
            await self._ctx.session.report_progress(self._told, None, text)

        return report

    def _key(self) -> str | None:
        key = (self._ctx.meta or {}).get(KEY_META)
        return key if isinstance(key, str) and key else None


async def _named(request_id: str) -> Handle:
    return Handle(request_id)


@contextmanager
def _told_as_errors() -> Iterator[None]:
    """What a backend cannot do, as the protocol's error: there is no other place for it in these results."""
    try:
        yield
    except EfritError as error:
        raise MCPError(types.INTERNAL_ERROR, f"{error.code}: {in_words(error)}") from None


def _answered(answer: shapes.Answer) -> types.CallToolResult:
    structured = answer.model_dump(mode="json", exclude_none=True)
    content: list[types.ContentBlock] = [types.TextContent(text=json.dumps(structured, ensure_ascii=False))]
    if isinstance(answer, shapes.RequestAnswer | shapes.ExecuteAnswer) and answer.truncated:
        content.append(_whole_result(answer.request_id, getattr(answer, "result_bytes", None)))
    wrong = getattr(answer, "status", None) in ("error", "timeout")
    return types.CallToolResult(content=content, structured_content=structured, is_error=wrong)


def _whole_result(request_id: str, size: int | None) -> types.ResourceLink:
    return types.ResourceLink(
        uri=resources.request_uri(request_id, "result"),
        name="result",
        title="Whole result",
        description="The result above is only the beginning.",
        mime_type="text/plain",
        size=size,
    )


def _failed(text: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(text=text)], is_error=True)
