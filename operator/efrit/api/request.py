"""EfritRequest: run this eval, chat or command there, once, and put the answer in status."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, ClassVar, Literal

from pydantic import Field, JsonValue

from efrit.api.conditions import Condition
from efrit.api.meta import ApiModel, MicroTime, PrinterColumn, Resource, Rule, field_rules
from efrit.api.reasons import RequestPhase
from efrit.api.wire_types import (
    MAX_TIMEOUT_SECONDS,
    BudgetField,
    ProgressField,
    RetryPolicyField,
    UsageField,
)
from efrit.api_group import MAX_CONTENT_CHARS as MAX_CONTENT_CHARS
from efrit.api_group import POOL_LABEL
from efrit.protocol.enums import Outcome, RequestType, RetryPolicy, SessionStatus
from efrit.protocol.ids import run_id
from efrit.protocol.resource_case import resource_word
from efrit.resources import REQUESTS

MAX_INLINE_RESULT_CHARS = 32_768
MAX_PREEMPTIONS = 5
"""A request that was interrupted so often for others runs to its end: it loses the time of so many runs at most."""

COMPLETE = "Complete"
SUCCEEDED = "Succeeded"

ObjectName = Annotated[
    str,
    Field(min_length=1, max_length=253, pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"),
]


class LocalReference(ApiModel):
    """An object in the same namespace, by name."""

    name: ObjectName = Field(description="Name of the object, in the same namespace.")


class InstanceSelector(ApiModel):
    """Instances of the same namespace, by label."""

    match_labels: Annotated[dict[str, Annotated[str, Field(max_length=63)]], Field(min_length=1, max_length=16)] = (
        Field(description="Labels an instance must have, all of them.")
    )


class SessionRef(ApiModel):
    """The session a chat or command continues."""

    id: str = Field(
        min_length=1,
        max_length=128,
        pattern=r"^[A-Za-z0-9._-]+$",
        description="Id of the session to continue, as an earlier request's status.session.id gave it. Without "
        "spec.instanceRef the request goes to the instance that has the session.",
    )


def _kept(field: str) -> dict[str, JsonValue]:
    """Return what the schema of a field says that may not become another one."""
    return field_rules(Rule("self == oldSelf", _is_immutable(field)))


def _neither_added_nor_removed(field: str) -> Rule:
    """Return the rule of the spec for a field that it may do without, for which `_kept` is not asked then."""
    return Rule(f"has(self.{field}) == has(oldSelf.{field})", _is_immutable(field))


def _is_immutable(field: str) -> str:
    return f"spec.{field} is immutable: create a new EfritRequest instead."


class RequestSpec(ApiModel):
    """The work to do. Immutable, except that `cancel` can be set to true."""

    instance_ref: LocalReference | None = Field(
        default=None,
        description="The EfritInstance that does the work.",
        json_schema_extra=_kept("instanceRef"),
    )
    pool_ref: LocalReference | None = Field(
        default=None,
        description="A member of the EfritPool of this name does the work, once one has room. Without such a pool: "
        f"the least loaded ready instance whose label {POOL_LABEL} has this name.",
        json_schema_extra=_kept("poolRef"),
    )
    selector: InstanceSelector | None = Field(
        default=None,
        description="The least loaded ready instance with these labels does the work.",
        json_schema_extra=_kept("selector"),
    )
    type: Literal[RequestType.EVAL, RequestType.CHAT, RequestType.COMMAND] = Field(
        description="eval runs Lisp, chat asks the model, command lets the model work with tools until it is done.",
        json_schema_extra=_kept("type"),
    )
    content: str = Field(
        min_length=1,
        max_length=MAX_CONTENT_CHARS,
        description="Lisp forms for an eval (the value of the last is the result), text for a chat or command.",
    )
    return_context: bool = Field(
        default=False,
        description="Also return Emacs' context after the work: buffers, current buffer, point, mode, directory.",
        json_schema_extra=_kept("returnContext"),
    )
    timeout_seconds: int | None = Field(
        default=None,
        ge=1,
        le=MAX_TIMEOUT_SECONDS,
        description="Longest running time in seconds, queueing excluded; default: the instance's "
        "limits.requestTimeoutSeconds for an eval, limits.commandTimeoutSeconds for a chat or command. More than "
        "limits.maxTimeoutSeconds is Rejected.",
        json_schema_extra=_kept("timeoutSeconds"),
    )
    queue_timeout_seconds: int | None = Field(
        default=None,
        ge=1,
        le=30 * MAX_TIMEOUT_SECONDS,
        description="Longest wait in seconds before the work starts; it then ends TimedOut without having run. "
        "Default: that of the installation, a week if its administrator sets no other.",
        json_schema_extra=_kept("queueTimeoutSeconds"),
    )
    budget: BudgetField | None = Field(
        default=None,
        description="Upper bounds of a command.",
        json_schema_extra=_kept("budget"),
    )
    session: SessionRef | None = Field(
        default=None,
        description="The session to continue.",
        json_schema_extra=_kept("session"),
    )
    priority: int = Field(
        default=0,
        ge=-1000,
        le=1000,
        description="Higher runs earlier. Each point is worth 60 seconds of waiting, so that none starves. A pool "
        "may interrupt running work for a request of higher priority (spec.preemption of the EfritPool).",
        json_schema_extra=_kept("priority"),
    )
    retry_policy: RetryPolicyField = Field(
        default=RetryPolicy.NEVER,
        json_schema_extra={"default": resource_word(RetryPolicy.NEVER), **_kept("retryPolicy")},
        description="IfInterrupted runs the work again when Emacs died in the middle of it, or when a pool "
        "interrupted it for a request of higher priority: only for work that is safe to run twice.",
    )
    max_attempts: int = Field(
        default=3,
        ge=1,
        le=10,
        description="Upper bound of runs with retryPolicy IfInterrupted; one that a pool interrupted for a request "
        "of higher priority does not count. On an ephemeral queue the last one is kept for the case that the queue "
        "is lost with its pod.",
        json_schema_extra=_kept("maxAttempts"),
    )
    cancel: bool = Field(
        default=False,
        description="Set to true to stop the work. What it has done by then is not undone.",
        json_schema_extra=field_rules(
            Rule(
                "self || !oldSelf",  # gate: cancel-kept
                "spec.cancel cannot be taken back: create a new EfritRequest instead.",
            )
        ),
    )
    ttl_seconds_after_finished: int | None = Field(
        default=None,
        ge=0,
        le=10 * 365 * 86_400,
        description="Delete the request this many seconds after it is final. Default: that of the installation, 30 "
        "days if its administrator sets no other.",
        json_schema_extra=_kept("ttlSecondsAfterFinished"),
    )

    rules: ClassVar = (
        Rule(
            "has(self.instanceRef) ? !has(self.poolRef) && !has(self.selector) "
            ": has(self.poolRef) != has(self.selector)",
            "name exactly one target: spec.instanceRef, spec.poolRef or spec.selector.",
        ),
        Rule(
            r"!self.content.contains('\u0000')",
            "spec.content holds a NUL character, which not every Emacs reads: write it as \\0 in a Lisp string.",
        ),
        Rule(
            "!has(self.budget) || self.type == 'command'",
            "spec.budget bounds a command: leave it out of an eval or a chat, or set spec.type to command.",
        ),
        Rule(
            "!has(self.session) || self.type != 'eval'",
            "spec.session continues a chat or a command: an eval has no session, leave it out.",
        ),
        # Not beside the field, as that refuses with the whole value.
        Rule("self.content == oldSelf.content", _is_immutable("content")),  # gate: content-immutable
        *(
            _neither_added_nor_removed(name)
            for name in (
                "instanceRef",
                "poolRef",
                "selector",
                "timeoutSeconds",
                "queueTimeoutSeconds",
                "budget",
                "session",
                "ttlSecondsAfterFinished",
            )
        ),
    )


class ResultRef(ApiModel):
    """Where a result that is too large for the status is stored, whole."""

    secret_name: str | None = Field(default=None, max_length=253, description="Secret in the same namespace.")
    key: str | None = Field(default=None, max_length=253, description="Key in that Secret.")
    workspace_path: str | None = Field(
        default=None,
        max_length=1024,
        description="Absolute path of a file on the instance's workspace volume.",
    )
    bytes: int = Field(
        ge=0, description="Size in bytes (UTF-8) of what is stored there: all of it, unless Emacs has cut it."
    )
    sha256: str = Field(
        max_length=64,
        description="SHA-256 of the whole result, in hexadecimal; empty where only its beginning is stored.",
    )


class RequestError(ApiModel):
    """What went wrong."""

    code: str = Field(max_length=256, description="The Lisp error symbol, or the reason, for programs.")
    message: str = Field(max_length=8192, description="What happened and what to change, for people.")


class EmacsContext(ApiModel):
    """What Emacs looked like after the work."""

    current_buffer: str | None = Field(default=None, max_length=1024, description="Name of the current buffer.")
    buffers: tuple[Annotated[str, Field(max_length=1024)], ...] = Field(
        default=(), max_length=200, description="Names of buffers, at most 200."
    )
    buffer_count: int | None = Field(default=None, description="How many buffers there are.")
    cursor_position: int | None = Field(default=None, description="Point in the current buffer.")
    major_mode: str | None = Field(default=None, max_length=256, description="Major mode of the current buffer.")
    default_directory: str | None = Field(default=None, max_length=4096, description="Its directory.")
    emacs_version: str | None = Field(default=None, max_length=64, description="Version of Emacs.")


class SessionState(ApiModel):
    """The state of the session after this request."""

    id: str | None = Field(default=None, max_length=128, description="Id to continue the session with.")
    status: SessionStatus | None = Field(default=None, description="continue, complete or need-input.")
    question: str | None = Field(default=None, max_length=8192, description="Question of the model, with need-input.")


class RequestHandover(StrEnum):
    """What is known of the hand-over of an open request whose instance is away."""

    POSSIBLE = "Possible"


class RequestPreemption(ApiModel):
    """That a pool interrupted the work for a request of higher priority, or is about to (spec.preemption)."""

    count: int = Field(
        default=0,
        ge=0,
        le=MAX_PREEMPTIONS,
        description=f"How often it was interrupted and put back in line: {MAX_PREEMPTIONS} times at most.",
    )
    in_progress: bool | None = Field(
        default=None, description="True while its instance is being asked to stop it; the work may end before that."
    )
    time: MicroTime | None = Field(default=None, description="When it was decided on last.")
    instance_name: str | None = Field(default=None, max_length=253, description="The instance that ran it then.")
    by_name: str | None = Field(
        default=None, max_length=253, description="The EfritRequest for which it was interrupted last."
    )
    by_uid: str | None = Field(default=None, max_length=64, alias="byUID", description="UID of that EfritRequest.")
    attempts: int | None = Field(
        default=None, ge=0, description="Runs before the present one that count for spec.maxAttempts."
    )


class RequestStatus(ApiModel):
    """Observed state. Final once phase is Succeeded or Failed: the API server refuses any later change."""

    phase: RequestPhase | None = Field(default=None, description="Pending, Queued, Running, Succeeded or Failed.")
    conditions: tuple[Condition, ...] = Field(
        default=(),
        max_length=8,
        description="Complete (True once final, however it ended) and Succeeded, with the same reason.",
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
    )
    reason: str | None = Field(default=None, max_length=128, description="Reason of the conditions, for the column.")
    outcome: Outcome | None = Field(default=None, description="Success, Partial or Failure.")
    result: str | None = Field(
        default=None,
        max_length=MAX_INLINE_RESULT_CHARS,
        description="The answer: an eval's value as prin1 writes it. At most 32 KiB; see resultRef.",
    )
    truncated: bool | None = Field(default=None, description="Whether result is only the beginning.")
    result_ref: ResultRef | None = Field(
        default=None, description="Where the whole result is stored when it is larger."
    )
    output: str | None = Field(default=None, max_length=16_384, description="What the work printed (first 8 KiB).")
    messages: str | None = Field(
        default=None, max_length=16_384, description="What the work said with `message` (first 8 KiB)."
    )
    error: RequestError | None = Field(default=None, description="What went wrong, if anything.")
    context: EmacsContext | None = Field(default=None, description="Emacs' context, with spec.returnContext.")
    session: SessionState | None = Field(default=None, description="The session of a chat or command.")
    progress: ProgressField | None = None
    usage: UsageField | None = Field(default=None, description="What a chat or command used of the model.")
    session_left: str | None = Field(
        default=None,
        max_length=128,
        description="Id of the session that spec.session names and the work does not continue, because the pool's "
        "member that has it was away (placement.sessionAffinity: Preferred): a new session is begun instead.",
    )
    instance_name: str | None = Field(default=None, max_length=253, description="The instance that does the work.")
    pod_uid: str | None = Field(
        default=None, max_length=64, alias="podUID", description="UID of the pod that did the work."
    )
    queue_id: str | None = Field(
        default=None,
        max_length=64,
        alias="queueID",
        description="The queue the request was handed to; recorded beforehand where the queue is ephemeral.",
    )
    handover: RequestHandover | None = Field(
        default=None,
        description="Possible while the instance is away and its queue may have the request: a cancel or a queue "
        "time-out then takes effect when the instance runs again.",
    )
    attempt: int | None = Field(
        default=None,
        ge=0,
        description="How many times it was started, preempted runs excluded; a queue that was lost counts as if it "
        "had used up its attempts.",
    )
    preemption: RequestPreemption | None = Field(default=None, description=RequestPreemption.__doc__)
    queued_time: MicroTime | None = Field(default=None, description="When the instance accepted it.")
    start_time: MicroTime | None = Field(default=None, description="When it started to run.")
    completion_time: MicroTime | None = Field(default=None, description="When its end was recorded.")
    execution_seconds: float | None = Field(default=None, ge=0, description="How long it ran, in seconds.")


class EfritRequest(Resource):
    """Work for an Efrit instance: one eval, chat or command, answered once in its status."""

    resource: ClassVar = REQUESTS
    short_names: ClassVar = ("efr",)
    printer_columns: ClassVar = (
        PrinterColumn("Instance", ".status.instanceName"),
        PrinterColumn("Pool", ".spec.poolRef.name"),
        PrinterColumn("Type", ".spec.type"),
        PrinterColumn("Phase", ".status.phase"),
        PrinterColumn("Reason", ".status.reason"),
        PrinterColumn("Duration", ".status.executionSeconds", "number", "How long it ran, in seconds."),
        PrinterColumn("Age", ".metadata.creationTimestamp", "date"),
        PrinterColumn("Result", ".status.result", "string", "The answer.", 1),
        PrinterColumn("Error", ".status.error.message", "string", "What went wrong.", 1),
    )
    selectable_fields: ClassVar = (
        ".status.phase",
        ".status.instanceName",
        ".spec.type",
        ".spec.instanceRef.name",
        ".spec.poolRef.name",
        ".status.session.id",
    )
    rules: ClassVar = (
        Rule(
            "!has(oldSelf.status) || !has(oldSelf.status.phase) || "
            "!(oldSelf.status.phase in ['Succeeded', 'Failed']) || "
            "(has(self.status) && self.status == oldSelf.status)",  # gate: final-status
            "the status of a finished EfritRequest is final: it cannot be changed.",
        ),
    )

    spec: RequestSpec = Field(description=RequestSpec.__doc__)
    status: RequestStatus = Field(default_factory=RequestStatus, description=RequestStatus.__doc__)

    @property
    def final(self) -> bool:
        """Whether its status never changes again."""
        return self.status.phase is not None and self.status.phase.final

    @property
    def run_id(self) -> str:
        """Id of the work on the queue of an instance; another one after each preemption.

        What an earlier queue still says of an ended run can then not be taken for a report of the present one.
        """
        preemption = self.status.preemption
        return run_id(self.metadata.uid, preemption.count if preemption is not None else 0)

    @property
    def attempts_before(self) -> int:
        """How many runs count for spec.maxAttempts that a queue had which the work was taken from again."""
        preemption = self.status.preemption
        return (preemption.attempts or 0) if preemption is not None else 0

    def attempt(self, of_queue: int) -> int:
        """Return which attempt it is that a queue counts as `of_queue`.

        A queue knows nothing of one that was lost before it; the status counts that one's attempts, too.
        """
        return max(self.attempts_before + of_queue, self.status.attempt or 0)
