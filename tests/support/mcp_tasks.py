"""A client of the tasks extension: it declares the extension, and sends what it defines."""

from collections.abc import Sequence
from typing import Any, ClassVar, Literal

import anyio
from mcp import Client
from mcp.client.extension import ClaimContext, ClientExtension, ResultClaim
from mcp.types import CallToolResult, Request, RequestParams, Result

from efrit.mcp.tasks import EXTENSION, Task
from tests.support.timeout import TIMEOUT


class Params(RequestParams):
    task_id: str
    input_responses: dict[str, Any] | None = None


class TaskRequest(Request[Params, str]):
    name_param: ClassVar[str | None] = "taskId"


class Created(Result):
    """What a client sees of a call that became a task."""

    result_type: Literal["task"]
    task_id: str
    status: str
    ttl_ms: int
    poll_interval_ms: int


class Tasks(ClientExtension):
    """Declares the extension; a call that becomes a task is left as it is."""

    identifier = EXTENSION

    def claims(self) -> Sequence[ResultClaim[Any]]:
        async def unresolved(created: Created, _: ClaimContext) -> CallToolResult:
            raise AssertionError(created)

        return [ResultClaim(result_type="task", model=Created, resolve=unresolved)]


async def begin(client: Client, arguments: dict[str, Any]) -> Created:
    """Call efrit_execute, whose result is to be a task."""
    result = await client.session.call_tool("efrit_execute", arguments, allow_claimed=True)
    assert isinstance(result, Created)
    return result


async def ask(client: Client, method: str, task_id: str, responses: dict[str, Any] | None = None) -> dict[str, Any]:
    """Send a request about a task; return its result by the names of Python."""
    request = TaskRequest(method=method, params=Params(task_id=task_id, input_responses=responses))
    result = await client.session.send_request(request, Task if method == "tasks/get" else Result)
    return result.model_dump(exclude_none=True)


async def ended(client: Client, task_id: str) -> dict[str, Any]:
    """Return the task once it is no longer at work."""
    with anyio.fail_after(TIMEOUT):
        while True:
            task = await ask(client, "tasks/get", task_id)
            if task["status"] != "working":
                return task
