"""efrit_execute: run work and wait for its answer. The names of its arguments and output are published."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from mcp.types import InputRequiredResult
from pydantic import Field

from efrit.backend.interface import Backend, Outcome, RequestReason, RequestState, RequestType, Work
from efrit.mcp.access import Effect
from efrit.mcp.elicitation import question_of
from efrit.mcp.error_text import for_model, sentence
from efrit.mcp.outputs.requests import (
    AvailableResult,
    Context,
    Rest,
    ResultOutput,
    available_result,
    context_output,
    error_of,
    unreadable_text,
)
from efrit.mcp.outputs.task import task_of
from efrit.mcp.schema_models import Arguments, Seconds, Target, WorkType
from efrit.mcp.tools.call import ToolCall
from efrit.mcp.tools.tool import HandlerResult, Tool

WORK_TYPES = (
    "eval runs Emacs Lisp as written and returns the value of the last form, chat asks the instance's model, command "
    "lets the model work in Emacs with tools."
)
CHATS_ONLY = "This server allows chats only: the instance's model answers, without tools."

_DESCRIPTION = (
    "Run an eval, chat or command in an Efrit instance (a resident Emacs) and wait for its answer. {types} The "
    "work runs once: if the connection breaks, it continues, and efrit_get_request returns the answer. For work of "
    "more than a minute, use efrit_submit."
)


UNTIMED_SECONDS = 600.0
"""How long a call without a timeout waits at least: the usual time of a command. The instance bounds the work."""


class ExecuteArguments(Arguments):
    """Arguments of efrit_execute."""

    instance_id: Target = Field(description="Target Efrit instance identifier; * is the least loaded one.")
    type: WorkType = Field(
        description="Request type: eval runs Emacs Lisp, chat asks the model, command lets the model work in Emacs."
    )
    content: str = Field(min_length=1, description="The command, code, or message content.")
    timeout: Seconds | None = Field(
        default=None,
        description="Execution timeout in seconds; default: the instance's, usually 30 for an eval, 600 otherwise.",
    )
    return_context: bool = Field(default=False, description="Include Emacs context in response.")


class ExecuteChatArguments(ExecuteArguments):
    """Arguments of efrit_execute on a server without destructive tools: a chat has no tools."""

    type: Literal["chat"] = Field(description="Request type: chat asks the model, which has no tools.")


class ExecuteOutput(ResultOutput):
    """Output of efrit_execute. `status` is success only if all of the work was done."""

    request_id: str
    status: Literal["success", "error", "timeout"]
    result: str | None = Field(default=None, description="Execution output or response.")
    error: str | None = Field(default=None, description="Error message if failed, and what to do.")
    execution_time: float | None = Field(default=None, description="Execution time in seconds.")
    context: Context | None = None
    truncated: bool | None = Field(default=None, description="True if result is only the beginning.")
    output: str | None = Field(default=None, description="What the work printed; a last line says what is cut.")
    messages: str | None = Field(default=None, description="What the work said with `message`.")

    @property
    def rest(self) -> Rest | None:
        """As in `ResultOutput`."""
        return Rest(self.request_id, None) if self.truncated and self._has_rest else None

    @property
    def is_error(self) -> bool:
        """Whether not all of the work was done."""
        return self.status != "success"


async def _execute(call: ToolCall, arguments: ExecuteArguments) -> HandlerResult:
    work = Work(
        type=RequestType(arguments.type),
        content=arguments.content,
        instance=arguments.instance_id,
        timeout=arguments.timeout,
        return_context=arguments.return_context,
        key=call.idempotency_key,
    )
    limit = (arguments.timeout or UNTIMED_SECONDS) + call.grace_seconds
    state = await call.wait_for(work, limit if call.task_seconds is None else min(limit, call.task_seconds))
    if isinstance(state, InputRequiredResult):
        return state
    if call.task_seconds is not None and not state.final:
        return task_of(state, state).created()
    return await execute_output(call.backend, state)


async def execute_output(backend: Backend, state: RequestState) -> ExecuteOutput:
    """Return the output for a request that is final, or for which nobody waits any longer."""
    return _output(state, await available_result(backend, state))


def _output(state: RequestState, result: AvailableResult) -> ExecuteOutput:
    status, error = _status(state), None
    if status != "success":
        error = _error_text(state)
    elif result.problem is not None:
        error = unreadable_text(result.problem)
    elif result.truncated:
        error = _truncated_text(state, result)
    output = ExecuteOutput(
        request_id=state.handle.id,
        status=status,
        result=result.text,
        error=error,
        truncated=result.truncated or None,
        execution_time=state.execution_seconds,
        context=context_output(state.context),
        output=state.output or None,
        messages=state.messages or None,
    )
    return output.without_rest() if result.problem is not None else output


def _status(state: RequestState) -> Literal["success", "error", "timeout"]:
    if state.final and state.outcome is Outcome.SUCCESS:
        return "success"
    return "timeout" if not state.final or state.reason is RequestReason.TIMED_OUT else "error"


def _truncated_text(state: RequestState, result: AvailableResult) -> str:
    return (
        f"The work is done, but result is truncated: these are the first {len((result.text or '').encode())} bytes "
        f"of {state.result_bytes}. Read the resource efrit://requests/{state.handle.id}/result, or have the work "
        "write its result to a file."
    )


def _error_text(state: RequestState) -> str:
    request = f"request_id {state.handle.id}"
    if not state.final:
        return (
            f"The work is not finished ({for_model(state.message) or state.reason}) and continues: efrit_wait with "
            f"{request} waits for it, efrit_cancel stops it."
        )
    problem = error_of(state)
    message = problem.message if problem is not None else for_model(state.message) or str(state.reason)
    if (question := question_of(state)) is not None and state.session is not None:
        return (
            f"The model asks: {question} Answer with efrit_submit: session_id {state.session.id}, the answer as "
            "content."
        )
    if state.reason is RequestReason.INTERRUPTED:
        return f"{sentence(message)} It is not known what the work did: check before you run it again."
    if state.outcome is Outcome.PARTIAL:
        return (
            f"{state.reason}: {sentence(message)} The work is only partly done: efrit_get_request with {request} "
            "returns the session to continue."
        )
    return message if state.reason is RequestReason.EVAL_ERROR else f"{state.reason}: {message}"


EXECUTE = Tool(
    name="efrit_execute",
    title="Run in Emacs",
    description=_DESCRIPTION.format(types=WORK_TYPES),
    arguments=ExecuteArguments,
    output=ExecuteOutput,
    effect=Effect.DESTROYS,
    permissions=frozenset({"create efritrequests", "get efritrequests", "watch efritrequests", "get efritinstances"}),
    handler=_execute,
    open_world=True,
)

TOOLS = (
    replace(
        EXECUTE,
        reduced=replace(
            EXECUTE,
            description=_DESCRIPTION.format(types=CHATS_ONLY),
            arguments=ExecuteChatArguments,
            effect=Effect.ADDS,
        ),
    ),
)
