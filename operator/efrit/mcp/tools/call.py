"""One call of a tool, as its handler sees it: backend, progress, idempotency key, waiting with questions.

Leaving a wait, however it happens, never touches the work.
"""

from __future__ import annotations

from collections.abc import Awaitable
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeVar

import anyio
from mcp.server import ServerRequestContext
from mcp.types import CallToolRequestParams, InputRequiredResult

from efrit.api_group import GROUP
from efrit.backend.interface import Backend, Handle, RequestState, Work
from efrit.mcp import elicitation
from efrit.mcp.access import Access, allows_reply
from efrit.mcp.elicitation import question_of
from efrit.mcp.progress import follow, heartbeat
from efrit.mcp.tasks import declares_tasks

KEY_META = f"{GROUP}/idempotency-key"
"""In a call's `_meta`: makes efrit_execute, whose arguments are fixed, idempotent as well."""

GRACE_SECONDS = 60.0
"""How long efrit_execute waits beyond the timeout of the work: for its turn, for an instance to start."""

TASK_SECONDS = 2.0
"""How long a client that takes tasks waits for the answer itself: a task costs it another call at least."""

MAX_QUESTIONS = 20
"""Questions one call passes on, so that a model that never stops asking does not keep it open."""

Context = ServerRequestContext[Any, Any]
T = TypeVar("T")


class ToolCall:
    """What a handler needs to know about its call, and what it can do with it.

    `task_seconds`: after how long its result may be a task; None: never.
    """

    def __init__(
        self,
        backend: Backend,
        context: Context,
        params: CallToolRequestParams,
        access: Access,
        grace_seconds: float = GRACE_SECONDS,
        task_seconds: float = TASK_SECONDS,
    ) -> None:
        self.backend = backend
        self.grace_seconds = grace_seconds
        self.task_seconds = task_seconds if declares_tasks(context) else None
        self._context = context
        self._params = params
        self._access = access
        self._reports = 0

    @property
    def idempotency_key(self) -> str | None:
        """The key in the `_meta` of the call, if there is one."""
        key = (self._context.meta or {}).get(KEY_META)
        return key if isinstance(key, str) and key else None

    async def report(self, text: str) -> None:
        """Send one line of progress to the client."""
        self._reports += 1
        await self._context.session.report_progress(self._reports, None, text)

    def keep_alive(self, text: str) -> AbstractAsyncContextManager[None]:
        """Report `text` every few seconds while the body runs."""
        return heartbeat(self.report, text)

    async def uninterrupted(self, operation: Awaitable[T]) -> T:
        """Return the result of `operation`, which finishes even if the client goes away meanwhile."""
        # Whether work is submitted must not depend on the moment at which its client disconnects.
        with anyio.CancelScope(shield=True):  # gate: submission-shield
            result = await operation
        return result  # noqa: RET504 - a scope may swallow what is raised in it, says its type

    async def wait_for(self, request: Work | Handle, seconds: float) -> RequestState | InputRequiredResult:
        """Return the request once it is final, or as it is after `seconds`; new work is submitted first.

        Questions of the model are passed on to the client; one that is asked by the result is returned as such.
        """
        if self._params.request_state is not None:
            questioner = await self.backend.get(elicitation.request_that_asked(self._params.request_state))
            answer = elicitation.answer_in_responses(self._params.input_responses)
            if answer is None or not allows_reply(self._access, questioner.type):
                return questioner
            handle = await self._reply(questioner, answer)
        elif isinstance(request, Work):
            handle = await self.uninterrupted(self.backend.submit(request))
        else:
            handle = request
        return await self._follow(handle, seconds)

    async def _follow(self, handle: Handle, seconds: float) -> RequestState | InputRequiredResult:
        mode = elicitation.mode_of(self._context)
        state = await follow(self.backend, handle, seconds, self.report)
        for _ in range(MAX_QUESTIONS):
            question = question_of(state)
            if question is None or mode is elicitation.Mode.NONE or not allows_reply(self._access, state.type):
                break
            if mode is elicitation.Mode.RESULT:
                return elicitation.question_as_result(state.handle, question)
            answer = await elicitation.elicit_answer(self._context, question, self.report)
            if answer is None:
                break
            state = await follow(self.backend, await self._reply(state, answer), seconds, self.report)
        return state

    async def _reply(self, state: RequestState, answer: str) -> Handle:
        """Submit the answer to the question `state` ended with; the same answer again is the same request."""
        work = elicitation.reply_to(state, answer, f"reply to {state.handle.id}: {answer}")
        return await self.uninterrupted(self.backend.submit(work))
