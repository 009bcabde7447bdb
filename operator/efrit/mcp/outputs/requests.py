"""Structured output about a request: where it stands, and as much of its result as fits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, NamedTuple, Self

from msgspec import Meta
from pydantic import ConfigDict, Field, PrivateAttr

from efrit.backend.errors import ClientError, Forbidden, ResultGone, ResultTruncated
from efrit.backend.interface import (
    Backend,
    Outcome,
    Phase,
    Progress,
    RequestReason,
    RequestState,
    RequestType,
    Session,
    Usage,
)
from efrit.mcp.answer_size import ANSWER_BYTES, fits
from efrit.mcp.error_text import error_text, for_model
from efrit.mcp.schema_models import Output
from efrit.struct_field import StructField, fields_named

# Of each the published fields: a session is beside its progress.
SessionOutput = Annotated[
    Session,
    StructField(
        fields_named("id", "status", "question"),
        overrides={
            "id": str,
            "question": Annotated[
                str | None, Meta(description="Question of the model; answer it with efrit_submit.")
            ],
        },
    ),
]
ProgressOutput = Annotated[Progress, StructField(fields_named("step", "message", "tool_calls", "tokens"))]
UsageOutput = Annotated[
    Usage,
    StructField(
        fields_named("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "model_calls")
    ),
]


class Rest(NamedTuple):
    """The whole result of a request, as a resource: how many bytes it is, where the output says so."""

    request_id: str
    size: int | None


class ResultOutput(Output):
    """Output that contains a result, or the beginning of one."""

    _has_rest: bool = PrivateAttr(default=True)

    @property
    def rest(self) -> Rest | None:
        """The resource with the whole of a truncated result; None where there is none."""
        return None

    def without_rest(self) -> Self:
        """Return the same output, marked as having no resource with the rest."""
        self._has_rest = False
        return self


class Context(Output):
    """State of Emacs after the work."""

    model_config = ConfigDict(extra="allow")

    buffers: list[str] | None = None
    current_buffer: str | None = None
    cursor_position: int | None = None


class Error(Output):
    """What went wrong: `code` for programs, `message` for people."""

    code: str
    message: str


class RequestOutput(ResultOutput):
    """Current state of a request: output of efrit_submit, efrit_get_request, efrit_wait and efrit_cancel."""

    listed = ("request_id", "reason", "final", "outcome", "result", "truncated", "output", "error", "session")

    request_id: str
    instance_id: str | None = None
    type: RequestType | None = None
    phase: Phase
    reason: str = Field(description="Reason for the phase.")
    final: bool = Field(description="Whether the request has ended and never changes again.")
    outcome: Outcome | None = Field(default=None, description="How much of the work was done; set once final.")
    message: str = Field(default="", description="The state in one sentence.")
    result: str | None = None
    truncated: bool = Field(default=False, description="Whether result is only the beginning.")
    result_bytes: int = Field(
        default=0, description="Size of the result in bytes; of one that Emacs cut, of what it kept."
    )
    output: str = Field(default="", description="Printed output.")
    messages: str = Field(default="", description="Messages of Emacs.")
    error: Error | None = Field(default=None, description="What went wrong.")
    context: Context | None = None
    session: SessionOutput | None = None
    progress: ProgressOutput | None = Field(default=None, description="Progress of a chat or command.")
    usage: UsageOutput | None = None
    attempt: int = Field(default=0, description="Number of attempts so far.")
    created: datetime | None = None
    queued: datetime | None = None
    started: datetime | None = None
    completed: datetime | None = None
    execution_time: float | None = Field(default=None, description="Execution time in seconds.")

    @property
    def rest(self) -> Rest | None:
        """As in `ResultOutput`."""
        return Rest(self.request_id, self.result_bytes) if self.truncated and self._has_rest else None


@dataclass(frozen=True)
class AvailableResult:
    """What can be returned of a result; `problem` is why the rest cannot be read, if it cannot."""

    text: str | None
    truncated: bool = False
    problem: ClientError | None = None


async def available_result(backend: Backend, state: RequestState) -> AvailableResult:
    """Return the whole result if it is small enough and readable, else its beginning."""
    if not state.truncated or state.result_bytes > ANSWER_BYTES:
        return AvailableResult(state.result, state.truncated)
    try:
        whole = await backend.result(state.handle)
    except ResultTruncated as error:
        return AvailableResult(error.kept if _fits(error.kept, state) else state.result, True, error)
    except (Forbidden, ResultGone) as error:
        return AvailableResult(state.result, True, error)
    return AvailableResult(whole) if _fits(whole, state) else AvailableResult(state.result, True)


def _fits(result: str, state: RequestState) -> bool:
    return fits([result, state.output, state.messages])


async def request_output(backend: Backend, state: RequestState) -> RequestOutput:
    """Return everything known about a request."""
    result = await available_result(backend, state)
    message = state.message if state.reason is RequestReason.EVAL_ERROR else for_model(state.message)
    if result.problem is not None and state.outcome is Outcome.SUCCESS:
        message = unreadable_text(result.problem)
    output = RequestOutput(
        request_id=state.handle.id,
        instance_id=state.handle.instance,
        type=state.type,
        phase=state.phase,
        reason=state.reason,
        final=state.final,
        outcome=state.outcome,
        message=message,
        result=result.text,
        truncated=result.truncated,
        result_bytes=state.result_bytes,
        output=state.output,
        messages=state.messages,
        error=error_of(state),
        context=context_output(state.context),
        session=state.session,
        progress=state.progress,
        usage=state.usage,
        attempt=state.attempt,
        created=state.created,
        queued=state.queued,
        started=state.started,
        completed=state.completed,
        execution_time=state.execution_seconds,
    )
    return output.without_rest() if result.problem is not None else output


def error_of(state: RequestState) -> Error | None:
    """Return what went wrong, with remedies a model has. What Lisp signals is reported as it is."""
    if state.error is None:
        return None
    message = state.error.message
    return Error(
        code=state.error.code, message=message if state.reason is RequestReason.EVAL_ERROR else for_model(message)
    )


def context_output(context: Mapping[str, Any] | None) -> Context | None:
    """Return the context of Emacs, with every key it has."""
    return Context.model_validate(dict(context)) if context is not None else None


def unreadable_text(error: ClientError) -> str:
    """Return the message for work that is done but whose whole result cannot be read."""
    return f"The work is done, but only the beginning of its result is available: {error_text(error)}"
