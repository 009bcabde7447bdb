"""What a test has as a client: its calls, the progress it gets, the person who answers its questions."""

from typing import Any

import anyio
from mcp.client import ClientRequestContext
from mcp.types import CallToolResult, ElicitRequestFormParams, ElicitRequestParams, ElicitResult, TextContent

from tests.support.timeout import TIMEOUT

COMMAND = {"instance_id": "default", "type": "command", "content": "paint it"}


def text_of(result: CallToolResult) -> str:
    first = result.content[0]
    assert isinstance(first, TextContent)
    return first.text


def run(content: str, **more: Any) -> dict[str, Any]:
    return {"instance_id": "default", "type": "eval", "content": content} | more


class ProgressLog:
    """The lines of progress a client got."""

    def __init__(self) -> None:
        self.lines: list[tuple[float, str]] = []
        self.changed = anyio.Condition()

    async def __call__(self, progress: float, total: float | None, message: str | None) -> None:
        async with self.changed:
            self.lines.append((progress, message or ""))
            self.changed.notify_all()

    async def until(self, message: str) -> None:
        with anyio.fail_after(TIMEOUT):
            async with self.changed:
                while message not in self.messages:
                    await self.changed.wait()

    @property
    def messages(self) -> list[str]:
        return [message for _, message in self.lines]


class Person:
    """Answers what the client is asked."""

    def __init__(self, *answers: str | None) -> None:
        self.answers = list(answers)
        self.questions: list[str] = []

    async def __call__(self, context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
        assert isinstance(params, ElicitRequestFormParams)
        self.questions.append(params.message)
        answer = self.answers.pop(0)
        if answer is None:
            return ElicitResult(action="decline")
        return ElicitResult(action="accept", content={"answer": answer})
