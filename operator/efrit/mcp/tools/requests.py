"""Tools for requests that outlive the call: submit, get, wait, cancel."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Literal

from mcp.types import InputRequiredResult
from pydantic import Field

from efrit.backend.interface import Budget, Handle, RequestType, Work
from efrit.mcp.access import Effect
from efrit.mcp.outputs.requests import RequestOutput, request_output
from efrit.mcp.schema_models import Arguments, PoolName, RequestId, Seconds, Target, WaitSeconds, WorkType
from efrit.mcp.tools.call import ToolCall
from efrit.mcp.tools.execute import CHATS_ONLY, WORK_TYPES
from efrit.mcp.tools.tool import HandlerResult, Tool
from efrit.struct_field import StructField, all_fields

_SUBMIT = (
    "Submit an eval, chat or command and return immediately. request_id is a durable handle for efrit_wait, "
    "efrit_get_request and efrit_cancel, in this session or any later one. {types}"
)


BudgetArgument = Annotated[Budget, StructField(all_fields, forbid_extra=True)]


class SubmitArguments(Arguments):
    """Arguments of efrit_submit."""

    type: WorkType = Field(
        description="eval runs Emacs Lisp, chat asks the model, command lets the model work in Emacs until done."
    )
    content: str = Field(min_length=1, description="Lisp forms for an eval, text for a chat or command.")
    instance_id: Target | None = Field(
        default=None,
        description="Target instance: * is the least loaded one. If omitted: default, or the only instance.",
    )
    selector: dict[str, str] | None = Field(
        default=None,
        description="Instead of an instance: labels; the least loaded instance that has them all is used.",
    )
    pool: PoolName | None = Field(
        default=None, description="Instead of an instance: a pool; instance_id is then the member that is chosen."
    )
    timeout: Seconds | None = Field(
        default=None,
        description="Maximum running time in seconds, without the time in the queue; default: the instance's.",
    )
    queue_timeout: Seconds | None = Field(
        default=None,
        description="Maximum time in the queue in seconds; after it the request ends without having run.",
    )
    return_context: bool = Field(default=False, description="Return the Emacs context after the work as well.")
    budget: BudgetArgument | None = Field(default=None, description="Limits; for a command only.")
    session_id: str | None = Field(
        default=None,
        pattern=r"^[A-Za-z0-9._-]{1,128}$",
        description="Session to continue (session.id of an earlier request); content is then the answer to its "
        "question, or what to do next.",
    )
    priority: int = Field(
        default=0,
        ge=-100,
        le=100,
        description="Higher priorities run first; one point counts as one minute of waiting.",
    )
    retry_if_interrupted: bool = Field(
        default=False,
        description="Run the work again if Emacs dies during it. Only for work that is safe to run twice.",
    )
    idempotency_key: str | None = Field(
        default=None,
        min_length=1,
        max_length=256,
        description="Submitting again with the same key returns the same request. Choose a new key for each piece "
        "of work, so that a call repeated after a broken connection does not run it twice.",
    )


class SubmitChatArguments(SubmitArguments):
    """Arguments of efrit_submit on a server without destructive tools."""

    type: Literal["chat"] = Field(description="chat asks the model, which has no tools.")


async def _submit(call: ToolCall, arguments: SubmitArguments) -> RequestOutput:
    work = Work(
        type=RequestType(arguments.type),
        content=arguments.content,
        instance=arguments.instance_id,
        pool=arguments.pool,
        selector=arguments.selector,
        timeout=arguments.timeout,
        queue_timeout=arguments.queue_timeout,
        return_context=arguments.return_context,
        budget=arguments.budget,
        session=arguments.session_id,
        priority=arguments.priority,
        retry=arguments.retry_if_interrupted,
        key=arguments.idempotency_key or call.idempotency_key,
    )
    handle = await call.uninterrupted(call.backend.submit(work))
    return await request_output(call.backend, await call.backend.get(handle))


SUBMIT = Tool(
    name="efrit_submit",
    title="Submit work",
    description=_SUBMIT.format(types=WORK_TYPES),
    arguments=SubmitArguments,
    output=RequestOutput,
    effect=Effect.DESTROYS,
    permissions=frozenset({"create efritrequests", "get efritrequests", "get efritinstances"}),
    handler=_submit,
    open_world=True,
    only_in={"selector": "cluster", "pool": "cluster", "queue_timeout": "cluster"},
)


class GetRequestArguments(Arguments):
    """Arguments of efrit_get_request."""

    request_id: RequestId


async def _get_request(call: ToolCall, arguments: GetRequestArguments) -> RequestOutput:
    return await request_output(call.backend, await call.backend.get(Handle(arguments.request_id)))


GET_REQUEST = Tool(
    name="efrit_get_request",
    title="Get a request",
    description="Return the current state of a request, with its answer once it is final.",
    arguments=GetRequestArguments,
    output=RequestOutput,
    effect=Effect.READS,
    permissions=frozenset({"get efritrequests"}),
    handler=_get_request,
    idempotent=True,
)


class WaitArguments(Arguments):
    """Arguments of efrit_wait."""

    request_id: RequestId
    timeout: WaitSeconds = Field(
        default=60,
        description="Maximum wait in seconds. If it elapses, final is false and the work continues; call again.",
    )


async def _wait(call: ToolCall, arguments: WaitArguments) -> HandlerResult:
    state = await call.wait_for(Handle(arguments.request_id), arguments.timeout)
    return state if isinstance(state, InputRequiredResult) else await request_output(call.backend, state)


WAIT = Tool(
    name="efrit_wait",
    title="Wait for a request",
    description="Wait until a request is final, reporting progress, and return it. If timeout elapses first, final "
    "is false and the work continues.",
    arguments=WaitArguments,
    output=RequestOutput,
    # A question it passes on, once answered, continues the session: that is more than reading.
    effect=Effect.ADDS,
    permissions=frozenset({"get efritrequests", "watch efritrequests"}),
    handler=_wait,
    idempotent=True,
)


class CancelArguments(Arguments):
    """Arguments of efrit_cancel."""

    request_id: RequestId


async def _cancel(call: ToolCall, arguments: CancelArguments) -> RequestOutput:
    return await request_output(call.backend, await call.backend.cancel(Handle(arguments.request_id)))


CANCEL = Tool(
    name="efrit_cancel",
    title="Cancel a request",
    description="Cancel a request. Completed work is not undone; a request still in the queue never runs.",
    arguments=CancelArguments,
    output=RequestOutput,
    effect=Effect.DESTROYS,
    permissions=frozenset({"get efritrequests", "patch efritrequests"}),
    handler=_cancel,
    idempotent=True,
)

TOOLS = (
    replace(
        SUBMIT,
        reduced=replace(
            SUBMIT,
            description=_SUBMIT.format(types=CHATS_ONLY),
            arguments=SubmitChatArguments,
            effect=Effect.ADDS,
        ),
    ),
    GET_REQUEST,
    replace(WAIT, reduced=replace(WAIT, effect=Effect.READS)),
    CANCEL,
)
