"""What the tools take and what they return: the models whose JSON schemas clients are told.

`Execute…`, `…Instances`, `QueueStats`, `Start…` and `Stop…` are the published shapes of the Efrit MCP server and stay
as they are, but for optional fields that are added; the rest is ours, for work that takes long. No I/O, no protocol.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from efrit.client.interface import Outcome, Phase, Reason, RequestType, SessionStatus

InstanceName = Annotated[str, Field(min_length=1, max_length=253, pattern=r"^[A-Za-z0-9_-][A-Za-z0-9._-]*$")]
Target = Annotated[str, Field(min_length=1, max_length=253, pattern=r"^(\*|[A-Za-z0-9_-][A-Za-z0-9._-]*)$")]
RequestName = Annotated[
    str,
    Field(min_length=1, max_length=253, pattern=r"^[A-Za-z0-9_-][A-Za-z0-9._-]*$", description="Id of the request."),
]
Seconds = Annotated[float, Field(gt=0, le=604_800)]
Kind = Literal["command", "eval", "chat"]


class Arguments(BaseModel):
    """What a tool is called with. Unknown names are refused: a misspelt one would do something else."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Answer(BaseModel):
    """What a tool returns; what is not known is left out."""

    model_config = ConfigDict(frozen=True)


# The published shapes


class NoArguments(Arguments):
    """Nothing."""


class ExecuteArguments(Arguments):
    """Of efrit_execute."""

    instance_id: Target = Field(description="Target Efrit instance identifier; * is the least loaded one.")
    type: Kind = Field(
        description="Request type: eval runs Emacs Lisp, chat asks the model, command lets the model work in Emacs."
    )
    content: str = Field(min_length=1, description="The command, code, or message content.")
    timeout: Seconds = Field(default=30, description="Execution timeout in seconds.")
    return_context: bool = Field(default=False, description="Include Emacs context in response.")


class ChatArguments(ExecuteArguments):
    """Of efrit_execute where nothing destructive is allowed: a chat has no tools."""

    type: Literal["chat"] = Field(description="Request type: chat asks the model, which has no tools.")


class Context(Answer):
    """What Emacs looked like after the work."""

    model_config = ConfigDict(extra="allow")

    buffers: list[str] | None = None
    current_buffer: str | None = None
    cursor_position: int | None = None


class ExecuteAnswer(Answer):
    """Of efrit_execute. `status` is success only where all of the work was done."""

    request_id: str
    status: Literal["success", "error", "timeout"]
    result: str | None = Field(default=None, description="Execution output or response.")
    error: str | None = Field(default=None, description="Error message if failed, and what to do.")
    execution_time: float | None = Field(default=None, description="In seconds.")
    context: Context | None = None
    truncated: bool | None = Field(default=None, description="True where result is only the beginning.")


class InstanceAnswer(Answer):
    """One instance of the list."""

    id: str
    status: Literal["active", "inactive", "error"]
    queue_dir: str | None = None
    uptime_seconds: float | None = None
    last_activity: datetime | None = None


class InstancesAnswer(Answer):
    """Of efrit_list_instances."""

    instances: list[InstanceAnswer]


class InstanceArguments(Arguments):
    """Of efrit_get_queue_stats."""

    instance_id: InstanceName = Field(description="Target Efrit instance.")


class QueueStatsAnswer(Answer):
    """Of efrit_get_queue_stats. Times in seconds."""

    requests_processed: int
    requests_succeeded: int
    requests_failed: int
    currently_processing: int
    average_processing_time: float
    uptime_seconds: float


class StartArguments(Arguments):
    """Of efrit_start_instance."""

    instance_id: InstanceName = Field(description="Instance identifier.")
    queue_dir: str | None = Field(default=None, description="Custom queue directory path.")
    daemon_name: str | None = Field(default=None, description="Emacs daemon name.")
    workspace_dir: str | None = Field(default=None, description="Workspace directory path.")


class StartAnswer(Answer):
    """Of efrit_start_instance."""

    status: Literal["started", "already_running", "error"]
    message: str
    queue_dir: str
    daemon_name: str


class StopArguments(Arguments):
    """Of efrit_stop_instance."""

    instance_id: InstanceName = Field(description="Target instance to stop.")


class StopAnswer(Answer):
    """Of efrit_stop_instance."""

    status: Literal["stopped", "not_running", "error"]
    message: str


# Ours, for long work


class BudgetArgument(Arguments):
    """Upper bounds of a command."""

    max_tool_calls: int | None = Field(default=None, ge=1)
    max_iterations: int | None = Field(default=None, ge=1, description="Turns of the model.")
    max_tokens: int | None = Field(default=None, ge=1, description="Tokens in and out, together.")
    iteration_timeout: Seconds | None = Field(default=None, description="Longest time of one turn, in seconds.")


class SubmitArguments(Arguments):
    """Of efrit_submit."""

    type: Kind = Field(
        description="eval runs Emacs Lisp, chat asks the model, command lets the model work in Emacs till it is done."
    )
    content: str = Field(min_length=1, description="Lisp forms for an eval, text for a chat or command.")
    instance_id: Target | None = Field(
        default=None,
        description="Target instance: * is the least loaded one, left out is default (or the only one).",
    )
    selector: dict[str, str] | None = Field(
        default=None, description="Instead of an instance: labels it must have; the least loaded one of them."
    )
    pool: str | None = Field(default=None, description="Instead of an instance: a pool of them.")
    timeout: Seconds | None = Field(
        default=None, description="Longest running time in seconds, waiting not counted; default: the instance's."
    )
    queue_timeout: Seconds | None = Field(
        default=None, description="Longest time to wait for its turn, in seconds; it then ends without having run."
    )
    return_context: bool = Field(default=False, description="Also return Emacs' context after the work.")
    budget: BudgetArgument | None = Field(default=None, description="Upper bounds; for a command only.")
    session_id: str | None = Field(
        default=None,
        pattern=r"^[A-Za-z0-9._-]{1,128}$",
        description="Continue this session (session.id of an earlier request): the content is the answer to its "
        "question, or what to do next.",
    )
    priority: int = Field(
        default=0, ge=-100, le=100, description="Higher ones go first; each point is a minute of waiting."
    )
    retry_if_interrupted: bool = Field(
        default=False,
        description="Run it again if Emacs dies in the middle. Only for work that is safe to run twice.",
    )
    idempotency_key: str | None = Field(
        default=None,
        min_length=1,
        max_length=256,
        description="The same key is the same request, however often it is submitted: choose one for each piece of "
        "work, and a call that is repeated after a broken connection does not run it twice.",
    )


class SubmitChatArguments(SubmitArguments):
    """Of efrit_submit where nothing destructive is allowed."""

    type: Literal["chat"] = Field(description="chat asks the model, which has no tools.")


class GetArguments(Arguments):
    """Of efrit_get_request."""

    request_id: RequestName


class WaitArguments(Arguments):
    """Of efrit_wait."""

    request_id: RequestName
    timeout: Annotated[float, Field(ge=0, le=604_800)] = Field(
        default=60,
        description="Longest wait in seconds; the work goes on after it (final is false): call again to wait on.",
    )


class CancelArguments(Arguments):
    """Of efrit_cancel."""

    request_id: RequestName


class ErrorAnswer(Answer):
    """What went wrong."""

    code: str
    message: str


class SessionAnswer(Answer):
    """Where the session of a chat or command stands."""

    id: str | None = None
    status: SessionStatus | None = None
    question: str | None = Field(default=None, description="What the model asks: answer with efrit_submit.")


class ProgressAnswer(Answer):
    """How far a chat or command has come."""

    step: int | None = None
    message: str | None = None
    tool_calls: int | None = None
    tokens: int | None = None


class UsageAnswer(Answer):
    """What was used of the model."""

    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    cache_write_tokens: int
    model_calls: int


class RequestAnswer(Answer):
    """A request as it is now: of efrit_submit, efrit_get_request, efrit_wait and efrit_cancel."""

    request_id: str
    instance_id: str | None = None
    type: RequestType | None = None
    phase: Phase
    reason: Reason = Field(description="Why it stands where it stands.")
    final: bool = Field(description="Whether it is over: it never changes again.")
    outcome: Outcome | None = Field(default=None, description="How much of the work was done, once it is final.")
    message: str = Field(default="", description="Where it stands, in a sentence.")
    result: str | None = None
    truncated: bool = Field(default=False, description="Whether result is only the beginning of result_bytes.")
    result_bytes: int = 0
    output: str = Field(default="", description="What was printed.")
    messages: str = Field(default="", description="What Emacs said.")
    error: ErrorAnswer | None = None
    context: Context | None = None
    session: SessionAnswer | None = None
    progress: ProgressAnswer | None = None
    usage: UsageAnswer | None = None
    attempt: int = Field(default=0, description="How often it was begun.")
    created: datetime | None = None
    queued: datetime | None = None
    started: datetime | None = None
    completed: datetime | None = None
    execution_time: float | None = Field(default=None, description="In seconds.")


class InstanceDescription(Answer):
    """One instance, of the resource efrit://instances/ID."""

    id: str
    status: str
    reason: str
    message: str
    can_start: bool
    queue_dir: str | None
    daemon_name: str | None
    workspace_dir: str | None
    namespace: str | None
    labels: dict[str, str]
    emacs_version: str | None
    pending: int
    processing: int
    processed: int
    started: datetime | None
    uptime_seconds: float | None
    last_activity: datetime | None
