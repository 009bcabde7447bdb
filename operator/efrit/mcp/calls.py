"""What each tool does with a backend: arguments in, answers out. Nothing of the protocol belongs here.

A tool that waits has two halves: handing the work over (or naming it), and shaping what it has become; `conversation`
waits in between.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from efrit.client.errors import ClientError, Forbidden, ResultGone, ResultTruncated
from efrit.client.interface import Backend, Budget, Handle, Outcome, Reason, RequestState, RequestType, Setup, Work
from efrit.mcp import shapes
from efrit.mcp.failures import in_words

WHOLE_RESULT_BYTES = 1_048_576
"""A result up to this size is returned whole; of a larger one the beginning, and the resource that has all of it."""


class Calls:
    """The tools over one backend."""

    def __init__(self, backend: Backend, whole_result_bytes: int = WHOLE_RESULT_BYTES) -> None:
        self._backend = backend
        self._whole = whole_result_bytes

    async def list_instances(self) -> shapes.InstancesAnswer:
        """All of them, by id."""
        found = await self._backend.instances()
        return shapes.InstancesAnswer(
            instances=[
                shapes.InstanceAnswer(
                    id=each.id,
                    status=each.status.value,
                    queue_dir=each.queue_dir,
                    uptime_seconds=each.uptime_seconds,
                    last_activity=each.last_activity,
                )
                for each in sorted(found, key=lambda each: each.id)
            ]
        )

    async def describe_instance(self, name: str) -> shapes.InstanceDescription:
        """All that is known of one."""
        each = await self._backend.instance(name)
        known = {field: getattr(each, field) for field in shapes.InstanceDescription.model_fields}
        return shapes.InstanceDescription.model_validate(known)

    async def queue_stats(self, asked: shapes.InstanceArguments) -> shapes.QueueStatsAnswer:
        """Figures of one queue."""
        stats = await self._backend.stats(asked.instance_id)
        return shapes.QueueStatsAnswer(
            requests_processed=stats.processed,
            requests_succeeded=stats.succeeded,
            requests_failed=stats.failed,
            currently_processing=stats.processing,
            average_processing_time=stats.average_processing_seconds,
            uptime_seconds=stats.uptime_seconds,
        )

    async def start(self, asked: shapes.StartArguments) -> shapes.StartAnswer:
        """A failure is an answer too."""
        setup = Setup(queue_dir=asked.queue_dir, daemon_name=asked.daemon_name, workspace_dir=asked.workspace_dir)
        try:
            started = await self._backend.start(asked.instance_id, setup)
        except ClientError as error:
            return shapes.StartAnswer(
                status="error",
                message=in_words(error),
                queue_dir=asked.queue_dir or "",
                daemon_name=asked.daemon_name or "",
            )
        return shapes.StartAnswer(
            status=started.status.value,
            message=started.message,
            queue_dir=started.queue_dir,
            daemon_name=started.daemon_name,
        )

    async def stop(self, asked: shapes.StopArguments) -> shapes.StopAnswer:
        """A failure is an answer too."""
        try:
            stopped = await self._backend.stop(asked.instance_id)
        except ClientError as error:
            return shapes.StopAnswer(status="error", message=in_words(error))
        return shapes.StopAnswer(status=stopped.status.value, message=stopped.message)

    async def execute(self, asked: shapes.ExecuteArguments, key: str | None) -> Handle:
        """Hands it over."""
        return await self._backend.submit(
            Work(
                type=RequestType(asked.type),
                content=asked.content,
                instance=asked.instance_id,
                timeout=asked.timeout,
                return_context=asked.return_context,
                key=key,
            )
        )

    async def submit(self, asked: shapes.SubmitArguments, key: str | None) -> Handle:
        """Hands it over."""
        return await self._backend.submit(
            Work(
                type=RequestType(asked.type),
                content=asked.content,
                instance=asked.instance_id,
                pool=asked.pool,
                selector=asked.selector,
                timeout=asked.timeout,
                queue_timeout=asked.queue_timeout,
                return_context=asked.return_context,
                budget=Budget(**asked.budget.model_dump()) if asked.budget is not None else None,
                session=asked.session_id,
                priority=asked.priority,
                retry=asked.retry_if_interrupted,
                key=asked.idempotency_key or key,
            )
        )

    async def reply(self, state: RequestState, text: str) -> Handle:
        """Hands over the answer to the question `state` ended with; the same answer again is the same request."""
        session = state.session.id if state.session is not None else None
        return await self._backend.submit(
            Work(
                type=state.type or RequestType.COMMAND,
                content=text,
                instance=state.handle.instance,
                session=session,
                key=f"reply to {state.handle.id}: {text}",
            )
        )

    async def get(self, request_id: str) -> RequestState:
        """As it is now."""
        return await self._backend.get(Handle(request_id))

    async def cancel(self, request_id: str) -> RequestState:
        """As it is after it was asked to stop."""
        return await self._backend.cancel(Handle(request_id))

    async def executed(self, state: RequestState) -> shapes.ExecuteAnswer:
        """The published shape of what has become of it."""
        good = state.final and state.outcome is Outcome.SUCCESS
        late = not state.final or state.reason is Reason.TIMED_OUT
        result, truncated = await self._result(state)
        return shapes.ExecuteAnswer(
            request_id=state.handle.id,
            status="success" if good else "timeout" if late else "error",
            result=result,
            error=_what_to_do(state) if not good else _only_the_beginning(state, result) if truncated else None,
            truncated=truncated or None,
            execution_time=state.execution_seconds,
            context=_context(state.context),
        )

    async def described(self, state: RequestState) -> shapes.RequestAnswer:
        """All that is known of it."""
        result, truncated = await self._result(state)
        return shapes.RequestAnswer(
            request_id=state.handle.id,
            instance_id=state.handle.instance,
            type=state.type,
            phase=state.phase,
            reason=state.reason,
            final=state.final,
            outcome=state.outcome,
            message=state.message,
            result=result,
            truncated=truncated,
            result_bytes=state.result_bytes,
            output=state.output,
            messages=state.messages,
            error=shapes.ErrorAnswer(**vars(state.error)) if state.error is not None else None,
            context=_context(state.context),
            session=shapes.SessionAnswer(**vars(state.session)) if state.session is not None else None,
            progress=shapes.ProgressAnswer(**vars(state.progress)) if state.progress is not None else None,
            usage=shapes.UsageAnswer(**vars(state.usage)) if state.usage is not None else None,
            attempt=state.attempt,
            created=state.created,
            queued=state.queued,
            started=state.started,
            completed=state.completed,
            execution_time=state.execution_seconds,
        )

    async def _result(self, state: RequestState) -> tuple[str | None, bool]:
        if not state.truncated or state.result_bytes > self._whole:
            return state.result, state.truncated
        try:
            return await self._backend.result(state.handle), False
        except ResultTruncated as error:
            kept = error.kept
            return (kept if len(kept.encode()) <= self._whole else state.result), True
        except (Forbidden, ResultGone):
            return state.result, True


def question_of(state: RequestState) -> str | None:
    """What the model asks, if that is how it ended."""
    if state.reason is not Reason.INPUT_REQUIRED or state.session is None or state.session.id is None:
        return None
    return state.session.question


def _context(context: Mapping[str, Any] | None) -> shapes.Context | None:
    return shapes.Context.model_validate(dict(context)) if context is not None else None


def _only_the_beginning(state: RequestState, result: str | None) -> str:
    return (
        f"The work is done, but result is truncated: these are the first {len((result or '').encode())} bytes of "
        f"{state.result_bytes}. Read the resource efrit://requests/{state.handle.id}/result, or have the work write "
        "its result to a file."
    )


def _what_to_do(state: RequestState) -> str:
    request = f"request_id {state.handle.id}"
    if not state.final:
        return (
            f"It has not ended yet ({state.message or state.reason}) and goes on: efrit_wait with {request} waits "
            "for it, efrit_cancel stops it."
        )
    said = state.error.message if state.error is not None else state.message or state.reason.value
    if (question := question_of(state)) is not None and state.session is not None:
        return (
            f"It asks: {question} Answer with efrit_submit, session_id {state.session.id}, and the answer as content."
        )
    if state.reason is Reason.INTERRUPTED:
        return f"{said} What it did is unknown: look before you run it again."
    if state.outcome is Outcome.PARTIAL:
        session = f"efrit_get_request with {request} says which session to go on with"
        return f"{state.reason}: {said} A part of the work is done: {session}."
    return said if state.reason is Reason.EVAL_ERROR else f"{state.reason}: {said}"
