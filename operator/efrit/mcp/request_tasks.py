"""Requests as tasks: the id of a task is that of its request, and nothing else is kept.

So any replica knows a task, and a server that was started again. An answer to a question is a request with a key
that follows from the one which asked: the task goes on there.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Any

import anyio
from mcp import types
from mcp.shared.exceptions import MCPError

from efrit.backend.errors import Conflict, RequestNotFound
from efrit.backend.interface import Backend, Handle, RequestReason, RequestState
from efrit.errors import EfritError
from efrit.mcp import elicitation
from efrit.mcp.access import Access, allows_reply
from efrit.mcp.call_result import call_result
from efrit.mcp.elicitation import question_of
from efrit.mcp.error_text import error_text
from efrit.mcp.outputs.task import task_of
from efrit.mcp.tasks import Context, Task, unknown_task
from efrit.mcp.tools.call import MAX_QUESTIONS
from efrit.mcp.tools.execute import execute_output

NO_ANSWER = "(The person did not answer the question. Go on without an answer.)"
"""What the model gets: a task that nobody answers would ask for ever."""


class RequestTasks:
    """The tasks of a server whose calls go to `backend_of(call)`."""

    def __init__(self, backend_of: Callable[[Context], AbstractAsyncContextManager[Backend]], access: Access) -> None:
        self._backend_of = backend_of
        self._access = access

    async def get(self, context: Context, task_id: str) -> Task:
        """Return the task of the request `task_id`."""
        async with self._opened(context, task_id) as backend:
            return await self._task(context, backend, await _chain(backend, task_id))

    async def update(self, context: Context, task_id: str, responses: Mapping[str, Any]) -> None:
        """Continue the session of the request that asks with the answer."""
        async with self._opened(context, task_id) as backend:
            chain = await _chain(backend, task_id)
            last = chain[-1]
            if last.handle.id not in responses or not self._takes_answer(chain):
                return
            result = types.ElicitResult.model_validate(responses[last.handle.id])
            answer = elicitation.answer_in(result) or NO_ANSWER
            # Whether work is submitted must not depend on the moment at which its client disconnects. Where the
            # question was answered before, the first answer counts.
            with suppress(Conflict), anyio.CancelScope(shield=True):
                await backend.submit(elicitation.reply_to(last, answer, _reply_key(last)))

    async def cancel(self, context: Context, task_id: str) -> None:
        """Cancel the request with which the task goes on, if this server may."""
        async with self._opened(context, task_id) as backend:
            last = (await _chain(backend, task_id))[-1]
            if not last.final and self._access is Access.FULL:  # gate: task-cancel
                await backend.cancel(last.handle)

    @asynccontextmanager
    async def _opened(self, context: Context, task_id: str) -> AsyncIterator[Backend]:
        try:
            async with self._backend_of(context) as backend:
                yield backend
        except RequestNotFound:
            raise unknown_task(task_id) from None
        except EfritError as error:
            raise MCPError(types.INTERNAL_ERROR, f"{error.code}: {error_text(error)}") from None

    def _takes_answer(self, chain: list[RequestState]) -> bool:
        last = chain[-1]
        return question_of(last) is not None and allows_reply(self._access, last.type) and len(chain) <= MAX_QUESTIONS

    async def _task(self, context: Context, backend: Backend, chain: list[RequestState]) -> Task:
        last = chain[-1]
        task = task_of(chain[0], last)
        if not last.final:
            return task
        question = question_of(last)
        if (
            question is not None
            and self._takes_answer(chain)
            and elicitation.mode_of(context) is elicitation.Mode.RESULT
        ):
            requests = {last.handle.id: elicitation.request_for(question)}
            return task.model_copy(update={"status": "input_required", "input_requests": requests})
        if last.reason is RequestReason.CANCELLED:
            return task.model_copy(update={"status": "cancelled"})
        result = call_result(await execute_output(backend, last))
        dumped = result.model_dump(by_alias=True, mode="json", exclude_none=True)
        return task.model_copy(update={"status": "completed", "result": dumped})


async def _chain(backend: Backend, task_id: str) -> list[RequestState]:
    """Return the request of a task, then those that answer a question. Raises `RequestNotFound` without the first."""
    chain = [await backend.get(Handle(task_id))]
    while question_of(chain[-1]) is not None and len(chain) <= MAX_QUESTIONS:
        try:
            state = chain[-1]
            chain.append(await backend.get(backend.handle_of(_reply_key(state), state.handle.instance)))
        except RequestNotFound:
            break
    return chain


def _reply_key(state: RequestState) -> str:
    return f"reply to {state.handle.id}"
